# SPDX-License-Identifier: Apache-2.0
"""The common part of event nodes."""

from __future__ import annotations

from cudacore_graph._errors import THERE
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._nodes.shown import Shown, short
from cudacore_handles import Event
from cudacore_handles._sdk import adopt
from cudacore_handles._sdk import graph_native as _native


class ExecutableEventNode(ExecutableGraphNode):
    """A node of an executable graph with an event."""

    __slots__ = ()

    def update(self, event: Event) -> None:
        """Use another event from the next launch on."""
        _native.set_exec_node(self._graph, self._node, self._node._METHOD, event)


class EventNode(GraphNode):
    """A node with an event."""

    __slots__ = ()
    _COLOUR = "#ead1dc"
    _EXEC_HINT = THERE

    def update(self, event: Event) -> None:
        """Use another event from the next instantiation on."""
        _native.set_node(self, self._METHOD, event)

    @property
    def event(self) -> Event:
        """Event: The event."""
        return adopt(Event, self._read("event").event)

    def _show(self) -> Shown:
        """Return the description of the node for pictures."""
        return Shown(self._TITLE, (f"event {short(self.event._raw)}",), ())
