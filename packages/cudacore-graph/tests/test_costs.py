# SPDX-License-Identifier: Apache-2.0
"""How many calls of the driver an operation makes, and how many objects it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch

pytestmark = pytest.mark.cuda_sim
_EDGES = 50


@pytest.mark.parametrize(
    "change",
    [
        lambda join, nodes: join.pred.clear(),
        lambda join, nodes: setattr(join, "pred", ()),
        lambda join, nodes: join.pred.difference_update(nodes),
        lambda join, nodes: [join.pred.discard(node) for node in nodes],
        lambda join, nodes: [node.succ.discard(join) for node in nodes],
    ],
)
def test_removing_edges(
    definition: cg.GraphDefinition, cuda_sim: Any, change: Callable[[cg.GraphNode, list[cg.GraphNode]], object]
) -> None:
    """For each edge that is removed, all edges of the node would be listed."""
    nodes: list[cg.GraphNode] = [definition.empty() for _ in range(_EDGES)]
    join = definition.join(*nodes)
    before = cuda_sim.calls("cuGraphNodeGetDependencies") + cuda_sim.calls("cuGraphNodeGetDependentNodes")
    removed = cuda_sim.calls("cuGraphRemoveDependencies")
    change(join, nodes)
    listed = cuda_sim.calls("cuGraphNodeGetDependencies") + cuda_sim.calls("cuGraphNodeGetDependentNodes") - before
    assert cuda_sim.calls("cuGraphRemoveDependencies") - removed == _EDGES
    assert listed <= 2
    assert not join.pred


def test_adding_edges(definition: cg.GraphDefinition, cuda_sim: Any) -> None:
    """Each edge would cost a second call: whether the graph has nodes that allocate memory, which it cannot have."""
    nodes = [definition.empty() for _ in range(3)]
    before = cuda_sim.calls()
    nodes[1].pred.add(nodes[0])
    assert cuda_sim.calls() - before == 1


def test_discard_of_no_edge(definition: cg.GraphDefinition) -> None:
    """To discard what is not in the set would be an error."""
    node, other = definition.empty(), definition.empty()
    destroyed = definition.empty()
    destroyed.destroy()
    wrong: Any = 3
    for value in (other, node, destroyed, cg.GraphDefinition().empty(), wrong):
        node.pred.discard(value)
    assert not definition.edges()


def test_updates_in_flight(
    definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, stream: ch.Stream, cuda_sim: Any
) -> None:
    """Each node that is updated after a launch would have an event of its own, instead of one for the launch."""
    nodes = [definition.launch(ONE, add, numbers.buffer, 1) for _ in range(_EDGES)]
    graph = definition.instantiate()
    for node in nodes:
        graph[node].update(config=ONE, kernel=add, args=(numbers.buffer, 2))
    graph.launch(stream)
    before = cuda_sim.calls("cuEventCreate")
    for node in nodes:
        graph[node].update(config=ONE, kernel=add, args=(numbers.buffer, 3))
    assert cuda_sim.calls("cuEventCreate") - before <= 1
    stream.sync()  # makes an event, if it waits for long


def test_forks_one_after_another(device: ch.Device, add: ch.Kernel, numbers: Numbers, stream: ch.Stream) -> None:
    """Each fork would have an edge from every earlier one, as long as there is no work between them."""
    builder = device.create_graph_builder().begin_building()
    for _ in range(_EDGES):
        builder, fork = builder.split(2)
        ch.launch(fork, ONE, add, numbers.buffer, 1)
        builder = builder.join(builder, fork)
    ch.launch(builder, ONE, add, numbers.buffer, 1)
    definition = builder.end_building().graph_definition
    edges = definition.edges()
    assert len(edges) < 20 * _EDGES
    (last,) = definition.nodes() - {before for before, _ in edges}
    found = {last}
    while more := {before for before, after in edges if after in found} - found:
        found |= more
    assert found == definition.nodes()
    definition.instantiate().launch(stream)
    stream.sync()
    assert numbers[0] == _EDGES + 1


def test_forks_side_by_side(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
    """Forks that are joined once would be joined by more nodes than their own."""
    builder = device.create_graph_builder().begin_building()
    builders = builder.split(_EDGES)
    for fork in builders:
        ch.launch(fork, ONE, add, numbers.buffer, 1)
    builder = builder.join(*builders)
    ch.launch(builder, ONE, add, numbers.buffer, 1)
    definition = builder.end_building().graph_definition
    assert len(definition.nodes()) == _EDGES + 1
    assert len(definition.edges()) == _EDGES
