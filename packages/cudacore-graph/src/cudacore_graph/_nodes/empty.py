# SPDX-License-Identifier: Apache-2.0
"""Nodes that do nothing."""

from __future__ import annotations

from cudacore_graph._nodes.node import GraphNode


class EmptyNode(GraphNode):
    """A node that does nothing. It joins branches of a graph."""

    __slots__ = ()
    _TITLE = "empty"
