# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: defined node by node or captured from a stream, instantiated, launched; see ``cudacore_graph``."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from cudacore_handles._sdk import make_getattr as _make_getattr
from cudacore_handles._sdk import public_names as _public_names

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


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    __getattr__ = _make_getattr(__name__, {}, globals())

    def __dir__() -> list[str]:
        return _public_names(globals())
