# SPDX-License-Identifier: Apache-2.0
"""Nodes that record an event."""

from __future__ import annotations

from cudacore_graph._nodes.event import EventNode
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_handles import Event
from cudacore_handles._sdk import graph_native as _native


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
