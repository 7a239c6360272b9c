# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: defined node by node or captured from a stream, inspected, drawn, changed, instantiated, launched.

Importing this package loads neither the driver nor ``cuda.bindings``: that happens at the first call that needs them.
"""

from __future__ import annotations

from cudacore_graph._version import __version__ as __version__  # first: checks the other installed packages

# isort: split
from cudacore_graph import _connect as _connect
from cudacore_graph import _nodes, typing
from cudacore_graph._adjacency import AdjacencySetProxy
from cudacore_graph._builder import GraphBuilder
from cudacore_graph._columns import KernelNodes
from cudacore_graph._condition import GraphCondition
from cudacore_graph._definition import GraphDefinition
from cudacore_graph._graph import Graph
from cudacore_graph._memory import GraphMemoryResource, GraphMemoryResourceAttributes
from cudacore_graph._nodes.graphs import *  # noqa: F403
from cudacore_graph._nodes.memory import *  # noqa: F403
from cudacore_graph._nodes.node import *  # noqa: F403
from cudacore_graph._nodes.work import *  # noqa: F403
from cudacore_graph._options import GraphCompleteOptions, GraphDebugPrintOptions
from cudacore_handles._sdk import finish_module as _finish_module
from cudacore_handles._sdk import publish as _publish

__all__ = [
    "AdjacencySetProxy",
    "Graph",
    "GraphBuilder",
    "GraphCompleteOptions",
    "GraphCondition",
    "GraphDebugPrintOptions",
    "GraphDefinition",
    "GraphMemoryResource",
    "GraphMemoryResourceAttributes",
    "KernelNodes",
    "typing",
]
__all__ += _nodes.__all__
_publish(__name__, __all__, globals())
_finish_module(globals())
