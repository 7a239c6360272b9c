# SPDX-License-Identifier: Apache-2.0
"""Nodes that record an event or wait for one."""

from __future__ import annotations

from cudacore_graph._errors import NODE_WAS_INSTANTIATED
from cudacore_graph._nodes.description import Description, short
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_handles import Event
from cudacore_handles._sdk import adopt, ffi
from cudacore_handles._sdk import graph_native as _native


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


class ExecutableEventRecordNode(ExecutableGraphNode):
    """A node of an executable graph that records an event."""

    __slots__ = ()

    def update(self, event: Event) -> None:
        """Record another event from the next launch on (cuGraphExecEventRecordNodeSetEvent)."""
        _native.set_exec_node(self._graph, self._node, event)


class EventRecordNode(EventNode):
    """A node that records an event."""

    __slots__ = ()
    _TITLE = "record"
    _METHOD = "record"
    _EXECUTABLE = ExecutableEventRecordNode

    def update(self, event: Event) -> None:
        """Record another event from the next instantiation on (cuGraphEventRecordNodeSetEvent)."""
        _native.set_node(self, event)


class ExecutableEventWaitNode(ExecutableGraphNode):
    """A node of an executable graph that waits for an event."""

    __slots__ = ()

    def update(self, event: Event) -> None:
        """Wait for another event from the next launch on (cuGraphExecEventWaitNodeSetEvent)."""
        _native.set_exec_node(self._graph, self._node, event)


class EventWaitNode(EventNode):
    """A node that waits for an event."""

    __slots__ = ()
    _TITLE = "wait"
    _METHOD = "wait"
    _EXECUTABLE = ExecutableEventWaitNode

    def update(self, event: Event) -> None:
        """Wait for another event from the next instantiation on (cuGraphEventWaitNodeSetEvent)."""
        _native.set_node(self, event)
