# SPDX-License-Identifier: Apache-2.0
"""Nodes that wait for an event."""

from __future__ import annotations

from cudacore_graph._nodes.event import EventNode
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_handles import Event
from cudacore_handles._sdk import graph_native as _native


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
