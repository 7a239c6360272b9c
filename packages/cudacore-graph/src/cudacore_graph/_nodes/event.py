# SPDX-License-Identifier: Apache-2.0
"""The common part of event nodes."""

from __future__ import annotations

from cudacore_graph._errors import NODE_WAS_INSTANTIATED
from cudacore_graph._nodes.description import Description, short
from cudacore_graph._nodes.node import GraphNode
from cudacore_handles import Event
from cudacore_handles._sdk import adopt, ffi


class EventNode(GraphNode):
    """A node that records an event or waits for one."""

    __slots__ = ()
    _COLOUR = "#ead1dc"
    _EXEC_HINT = NODE_WAS_INSTANTIATED

    @property
    def event(self) -> Event:
        """Event: The event."""
        params = self._read("event")
        return adopt(Event, ffi.addressof(params[0], "event"))

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (f"event {short(self.event._raw)}",), ())
