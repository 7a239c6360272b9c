# SPDX-License-Identifier: Apache-2.0
"""Races of threads for the objects of one graph; see test_races.py of cudacore-handles."""

from __future__ import annotations

from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from threads_at_once import in_threads


def test_nodes_that_threads_find_and_drop(definition: cg.GraphDefinition) -> None:
    """The object of a node would be given out again after its destruction has begun."""
    for _ in range(10):
        definition.empty()

    def find(_: int) -> list[cg.GraphNode]:
        for _ in range(200):
            definition.nodes()
        return sorted(definition.nodes(), key=id)

    first, *others = in_threads(find, range(4))
    assert len(first) == 10
    assert all([*map(id, other)] == [*map(id, first)] for other in others)


def test_a_node_that_threads_destroy(definition: cg.GraphDefinition) -> None:
    """Two threads would destroy the node, and the driver would give the second one another node's handle."""

    def destroy(node: cg.GraphNode) -> None:
        try:
            node.destroy()
        except ch.GoneError:
            pass

    for _ in range(50):
        kept = definition.empty()
        in_threads(destroy, [definition.empty()] * 4)
        assert definition.nodes() == {kept}
        kept.destroy()


def test_work_of_threads_for_one_builder(stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """Launches would run at once while another thread ends the capture, or use a stream that is gone."""
    for _ in range(50):
        builder = stream.create_graph_builder().begin_building()
        launched: list[int] = []

        def work(builder: cg.GraphBuilder = builder, launched: list[int] = launched) -> None:
            for _ in range(20):
                try:
                    ch.launch(builder, ONE, add, numbers.buffer, 1)
                except RuntimeError:
                    return  # another call is using the builder, or has ended the capture
                launched.append(1)

        def end(builder: cg.GraphBuilder = builder) -> None:
            while builder.is_building:
                try:
                    builder.end_building()
                except RuntimeError:
                    pass  # another call is using the builder

        in_threads(lambda function: function(), [end, work, work])
        stream.sync()
        assert numbers[0] == 0
        assert len(builder.graph_definition.nodes()) == len(launched)


def test_a_builder_that_begins_while_others_look(stream: ch.Stream) -> None:
    """Other threads would find the new capture before it is complete."""
    for _ in range(50):
        builder = stream.create_graph_builder()

        def look(builder: cg.GraphBuilder = builder) -> None:
            while not builder.is_building:
                capture = builder._capture
                assert capture is None or capture.mode == "relaxed"

        in_threads(lambda function: function(), [builder.begin_building, look, look])
        builder.close()
