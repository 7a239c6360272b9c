# SPDX-License-Identifier: Apache-2.0
"""Nodes that record an event."""

from __future__ import annotations

from cudacore_graph._nodes.event import EventNode, ExecutableEventNode


class ExecutableEventRecordNode(ExecutableEventNode):
    """A node of an executable graph that records an event; :meth:`update` calls cuGraphExecEventRecordNodeSetEvent."""

    __slots__ = ()


class EventRecordNode(EventNode):
    """A node that records an event; :meth:`update` calls cuGraphEventRecordNodeSetEvent."""

    __slots__ = ()
    _TITLE = "record"
    _METHOD = "record"
    _EXECUTABLE = ExecutableEventRecordNode
