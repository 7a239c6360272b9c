# SPDX-License-Identifier: Apache-2.0
"""Nodes that free memory."""

from __future__ import annotations

from cudacore_graph._nodes.description import Description, short
from cudacore_graph._nodes.node import GraphNode


class FreeNode(GraphNode):
    """A node that frees the memory of an :class:`AllocNode`."""

    __slots__ = ()
    _TITLE = "free"
    _COLOUR = "#fff2cc"
    _METHOD = "deallocate"

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node frees."""
        return int(self._read("free").address)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (short(self.dptr),), ())
