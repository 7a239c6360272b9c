# SPDX-License-Identifier: Apache-2.0
"""The common part of event nodes."""

from __future__ import annotations

from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._nodes.shown import Shown, short
from cudacore_handles import Event
from cudacore_handles._sdk import adopt


class EventNode(GraphNode):
    """A node with an event."""

    __slots__ = ()
    _COLOUR = "#ead1dc"

    @property
    def event(self) -> Event:
        """Event: The event."""
        return adopt(Event, self._read("event").event)

    def _show(self) -> Shown:
        """Return the description of the node for pictures."""
        return Shown(self._TITLE, (f"event {short(self.event._raw)}",), ())
