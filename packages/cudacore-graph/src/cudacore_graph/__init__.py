# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: defined node by node or captured from a stream, inspected, drawn, changed, instantiated, launched.

Importing this package loads neither the driver nor ``cuda.bindings``: that happens at the first call that needs them.
"""

from __future__ import annotations

from cudacore_graph._version import __version__ as __version__  # before all else: it sees that what is installed fits

# isort: split
from cudacore_graph import _connect as _connect
from cudacore_graph import typing
from cudacore_graph._adjacency import AdjacencySetProxy
from cudacore_graph._builder import GraphBuilder
from cudacore_graph._condition import GraphCondition
from cudacore_graph._definition import GraphDefinition
from cudacore_graph._graph import Graph
from cudacore_graph._memory import GraphMemoryResource, GraphMemoryResourceAttributes
from cudacore_graph._nodes.alloc import AllocNode
from cudacore_graph._nodes.child_graph import ChildGraphNode, ExecutableChildGraphNode
from cudacore_graph._nodes.conditional import ConditionalNode, IfElseNode, IfNode, SwitchNode, WhileNode
from cudacore_graph._nodes.empty import EmptyNode
from cudacore_graph._nodes.event_record import EventRecordNode, ExecutableEventRecordNode
from cudacore_graph._nodes.event_wait import EventWaitNode, ExecutableEventWaitNode
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_graph._nodes.free import FreeNode
from cudacore_graph._nodes.host_callback import ExecutableHostCallbackNode, HostCallbackNode
from cudacore_graph._nodes.kernel import ExecutableKernelNode, KernelNode
from cudacore_graph._nodes.memcpy import ExecutableMemcpyNode, MemcpyNode
from cudacore_graph._nodes.memset import ExecutableMemsetNode, MemsetNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._options import GraphCompleteOptions, GraphDebugPrintOptions

__all__ = [
    "AdjacencySetProxy",
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
    "Graph",
    "GraphBuilder",
    "GraphCompleteOptions",
    "GraphCondition",
    "GraphDebugPrintOptions",
    "GraphDefinition",
    "GraphMemoryResource",
    "GraphMemoryResourceAttributes",
    "GraphNode",
    "HostCallbackNode",
    "IfElseNode",
    "IfNode",
    "KernelNode",
    "MemcpyNode",
    "MemsetNode",
    "SwitchNode",
    "WhileNode",
    "typing",
]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
