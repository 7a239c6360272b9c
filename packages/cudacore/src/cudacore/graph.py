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
)
from cudacore_graph._nodes import classes as _classes
from cudacore_graph._nodes.classes import *  # noqa: F403
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
__all__ += _classes.__all__

_finish_module(globals())
