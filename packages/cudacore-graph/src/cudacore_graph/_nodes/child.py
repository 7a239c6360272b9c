# SPDX-License-Identifier: Apache-2.0
"""Graphs that are contained in nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_graph._nodes.node import GraphNode
from cudacore_handles._sdk import adopt, check, ffi, hold, lib
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition


def child_of(node: GraphNode, index: int) -> GraphDefinition:
    """Return a graph in a node: the child graph or a body."""
    from cudacore_graph._definition import GraphDefinition
    from cudacore_graph._errors import gone

    if not node.is_valid:
        raise gone(node)
    out = ffi.new("cch_graph **")
    status = _native.locked_call(node, None, lib.cch_graph_node_child, out, hold(node), index)
    check(status)
    return adopt(GraphDefinition, out[0])
