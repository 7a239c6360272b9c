# SPDX-License-Identifier: Apache-2.0
"""The classes of nodes, by their numbers."""

from __future__ import annotations

from cudacore_graph._errors import EXEC_HINTS, HINTS
from cudacore_graph._nodes.alloc import AllocNode
from cudacore_graph._nodes.child_graph import ChildGraphNode
from cudacore_graph._nodes.conditional import ConditionalNode, IfElseNode, IfNode, SwitchNode, WhileNode
from cudacore_graph._nodes.empty import EmptyNode
from cudacore_graph._nodes.event_record import EventRecordNode
from cudacore_graph._nodes.event_wait import EventWaitNode
from cudacore_graph._nodes.free import FreeNode
from cudacore_graph._nodes.host_callback import HostCallbackNode
from cudacore_graph._nodes.kernel import KernelNode
from cudacore_graph._nodes.memcpy import MemcpyNode
from cudacore_graph._nodes.memset import MemsetNode
from cudacore_graph._nodes.node import GraphNode

# By the numbers of CUDA's types, then those of CLASS_* in src/native/graph/graph.h.
CLASSES = (
    KernelNode,
    MemcpyNode,
    MemsetNode,
    HostCallbackNode,
    ChildGraphNode,
    EmptyNode,
    EventWaitNode,
    EventRecordNode,
    GraphNode,  # external semaphores
    GraphNode,
    AllocNode,
    FreeNode,
    GraphNode,  # batches of operations on memory
    ConditionalNode,
    IfNode,
    IfElseNode,
    WhileNode,
    SwitchNode,
    GraphNode,
)

HINTS.update({cls._METHOD: cls._HINT for cls in CLASSES if cls._HINT})
EXEC_HINTS.update({cls._METHOD: cls._EXEC_HINT for cls in CLASSES if cls._EXEC_HINT})
