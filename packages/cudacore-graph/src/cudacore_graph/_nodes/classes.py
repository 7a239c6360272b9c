# SPDX-License-Identifier: Apache-2.0
"""All classes of nodes for the package's namespace, and the class of each node type in graph definitions."""

from __future__ import annotations

from cudacore_graph._errors import EXEC_HINTS, HINTS
from cudacore_graph._nodes.child_graph import ChildGraphNode, ExecutableChildGraphNode
from cudacore_graph._nodes.conditional import ConditionalNode, IfElseNode, IfNode, SwitchNode, WhileNode
from cudacore_graph._nodes.event import (
    EventRecordNode,
    EventWaitNode,
    ExecutableEventRecordNode,
    ExecutableEventWaitNode,
)
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_graph._nodes.host_callback import ExecutableHostCallbackNode, HostCallbackNode
from cudacore_graph._nodes.kernel import ExecutableKernelNode, KernelNode
from cudacore_graph._nodes.memcpy import ExecutableMemcpyNode, MemcpyNode
from cudacore_graph._nodes.memory import AllocNode, FreeNode
from cudacore_graph._nodes.memset import ExecutableMemsetNode, MemsetNode
from cudacore_graph._nodes.node import EmptyNode, GraphNode

__all__ = [
    "AllocNode",
    "ChildGraphNode",
    "ConditionalNode",
    "EmptyNode",
    "EventRecordNode",
    "EventWaitNode",
    "ExecutableChildGraphNode",
    "ExecutableEventRecordNode",
    "ExecutableEventWaitNode",
    "ExecutableGraphNode",
    "ExecutableHostCallbackNode",
    "ExecutableKernelNode",
    "ExecutableMemcpyNode",
    "ExecutableMemsetNode",
    "FreeNode",
    "GraphNode",
    "HostCallbackNode",
    "IfElseNode",
    "IfNode",
    "KernelNode",
    "MemcpyNode",
    "MemsetNode",
    "SwitchNode",
    "WhileNode",
]

# Indexed by the numbers of CUDA's node types, and after these by CLASS_* of src/native/graph/graph.h.
CLASSES = (
    KernelNode,
    MemcpyNode,
    MemsetNode,
    HostCallbackNode,
    ChildGraphNode,
    EmptyNode,
    EventWaitNode,
    EventRecordNode,
    GraphNode,  # nodes of external semaphores have no class of their own
    GraphNode,
    AllocNode,
    FreeNode,
    GraphNode,  # batches of memory operations have no class of their own
    ConditionalNode,
    IfNode,
    IfElseNode,
    WhileNode,
    SwitchNode,
    GraphNode,
)

HINTS.update({cls._METHOD: cls._HINT for cls in CLASSES if cls._HINT})
EXEC_HINTS.update({cls._METHOD: cls._EXEC_HINT for cls in CLASSES if cls._EXEC_HINT})
HINTS["update_many"] = KernelNode._EXEC_HINT
