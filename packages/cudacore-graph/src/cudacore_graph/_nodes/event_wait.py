# SPDX-License-Identifier: Apache-2.0
"""Nodes that wait for an event."""

from __future__ import annotations

from cudacore_graph._nodes.event import EventNode, ExecutableEventNode


class ExecutableEventWaitNode(ExecutableEventNode):
    """A node of an executable graph that waits for an event; :meth:`update` calls cuGraphExecEventWaitNodeSetEvent."""

    __slots__ = ()


class EventWaitNode(EventNode):
    """A node that waits for an event; :meth:`update` calls cuGraphEventWaitNodeSetEvent."""

    __slots__ = ()
    _TITLE = "wait"
    _METHOD = "wait"
    _EXECUTABLE = ExecutableEventWaitNode
