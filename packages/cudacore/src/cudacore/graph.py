# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: defined node by node or captured from a stream, instantiated, launched; see ``cudacore_graph``."""

from __future__ import annotations

from cudacore_graph import (
    Graph,
    GraphBuilder,
    GraphCompleteOptions,
    GraphCondition,
    GraphDebugPrintOptions,
    GraphDefinition,
    KernelNodes,
    _nodes,
)
from cudacore_graph._nodes.graphs import *  # noqa: F403
from cudacore_graph._nodes.memory import *  # noqa: F403
from cudacore_graph._nodes.node import *  # noqa: F403
from cudacore_graph._nodes.work import *  # noqa: F403
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = [
    "Graph",
    "GraphBuilder",
    "GraphCompleteOptions",
    "GraphCondition",
    "GraphDebugPrintOptions",
    "GraphDefinition",
    "KernelNodes",
]
__all__ += _nodes.__all__

_finish_module(globals())
