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

    @pytest.mark.parametrize("how", ["node", "capture"])
    def test_keeps_its_event(
        self, definition: cg.GraphDefinition, device: ch.Device, stream: ch.Stream, run: Run, how: str
    ) -> None:
        """An event would be destroyed while a graph uses it."""
        event = device.create_event()
        if how == "node":
            definition.record(event).wait(event)
        else:
            with stream.create_graph_builder() as builder:
                builder.record(event)
                builder.wait(event)
            definition = builder.graph_definition
            builder.close()
        raw, live = event._raw, ch.live_counts()["event"]
        event.close()
        del event
        gc.collect()
        assert ch.live_counts()["event"] == live
        nodes: Any = definition.sorted_nodes()
        assert [node.event._raw for node in nodes] == [raw, raw]
        run(definition)


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
            (lambda: setattr(c, "pred", (a, stranger)), ValueError, "is a node of another graph"),
            (lambda: c.pred.update([wrong]), TypeError, "a GraphNode is needed, not str"),
            (lambda: c.pred.update(a), TypeError, "an iterable of GraphNode is needed"),
            (lambda: definition.join(stranger), ValueError, "is a node of another graph"),
            (lambda: a.join(stranger), ValueError, "is a node of another graph"),
            (lambda: definition.add_many([("empty", stranger)]), ValueError, "is a node of another graph"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert definition.edges() == {(a, b), (b, c)}
