# SPDX-License-Identifier: Apache-2.0
"""Nodes of events and of child graphs, and invalid edges."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from graph_tools import ONE, Numbers, Run

import cudacore_graph as cg
import cudacore_handles as ch


class TestEvents:
    def test_record_and_wait(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """A node would record a wrong event, or the event would lose its flags."""
        event = device.create_event(ch.EventOptions(timing_enabled=True))
        record = definition.record(event)
        wait = record.wait(event)
        assert record.event == event
        assert wait.event == event
        assert record.event.is_timing_enabled
        run(definition)
        assert event.is_done
        other = device.create_event()
        record.update(other)
        wait.update(other)
        assert record.event == wait.event == other

    def test_keeps_its_event(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """An event would be destroyed while a node uses it."""
        event = device.create_event()
        node = definition.record(event)
        raw = event._raw
        event.close()
        del event
        gc.collect()
        assert node.event._raw == raw
        run(definition)

    def test_bad_input(self, definition: cg.GraphDefinition, device: ch.Device) -> None:
        """An invalid or closed event would reach the driver."""
        event = device.create_event()
        event.close()
        wrong: Any = 3
        for add in (definition.record, definition.wait):
            with pytest.raises(TypeError, match="event must be an Event, not 'int'"):
                add(wrong)
            with pytest.raises(ch.ClosedError, match="Event has been closed"):
                add(event)
        assert not definition.nodes()


class TestChild:
    def test_keeps_what_it_uses(self, definition: cg.GraphDefinition, add: ch.Kernel, run: Run) -> None:
        """Memory of a child graph would be freed with the graph from which it was copied."""
        numbers = Numbers(1)
        view = numbers.view
        child = cg.GraphDefinition()
        child.launch(ONE, add, numbers.buffer, 1)
        definition.embed(child)
        child.close()
        numbers.buffer.close()
        gc.collect()
        run(definition)
        assert view[0] == 1

    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """A graph would be embedded in itself."""
        wrong: Any = 3
        with pytest.raises(TypeError, match="child must be a GraphDefinition, not 'int'"):
            definition.embed(wrong)
        node = definition.embed(cg.GraphDefinition())
        for graph in (definition, node.child_graph):
            with pytest.raises(ValueError, match="child is in the same graph as the node that is to run it"):
                definition.embed(graph)
            with pytest.raises(ValueError, match="child is in the same graph as the node that is to run it"):
                node.update(graph)


class TestEdges:
    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """An invalid edge would reach the driver, or a change would be made only in part."""
        a = definition.empty()
        b = a.join()
        c = b.join()
        stranger = cg.GraphDefinition().empty()
        wrong: Any = "x"
        for call, error, match in (
            (lambda: a.pred.add(a), ValueError, "cannot depend on itself"),
            (lambda: a.pred.add(stranger), ValueError, "is a node of another graph"),
            (lambda: c.pred.update([a, stranger]), ValueError, "is a node of another graph"),
            (lambda: c.pred.update([wrong]), TypeError, "a GraphNode is needed, not str"),
            (lambda: c.pred.update(a), TypeError, "an iterable of GraphNode is needed"),
            (lambda: definition.join(stranger), ValueError, "is a node of another graph"),
            (lambda: a.join(stranger), ValueError, "is a node of another graph"),
            (lambda: a.join(wrong), TypeError, "nodes must be a GraphNode, not 'str'"),
            (lambda: definition.add_many([("empty", stranger)]), ValueError, "is a node of another graph"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert definition.edges() == {(a, b), (b, c)}
