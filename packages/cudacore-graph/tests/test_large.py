# SPDX-License-Identifier: Apache-2.0
"""Large graphs: the cost of a node does not grow with the graph."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch


def test_ten_thousand_nodes(
    definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, stream: ch.Stream
) -> None:
    """The time to build, list or destroy a large graph would grow with the square of its size."""
    count = 10_000
    begin = time.monotonic()
    items: list[tuple[Any, ...]] = [("launch", None, ONE, add, numbers.buffer, 1)]
    items += [("launch", index, ONE, add, numbers.buffer, 1) for index in range(count - 1)]
    nodes = definition.add_many(items)
    assert len(definition.nodes()) == count
    assert len(definition.edges()) == count - 1
    graph = definition.instantiate()
    del nodes, items
    assert len(definition.nodes()) == count
    graph.close()
    definition.close()
    # A quadratic algorithm takes minutes.
    assert time.monotonic() - begin < 60


def test_edges_of_a_long_chain(definition: cg.GraphDefinition) -> None:
    """The time to add an edge to a long chain of nodes would grow with the length of the chain."""
    nodes = definition.add_many([("empty", None)] * 20_000)

    def add(pairs: list[tuple[cg.GraphNode, cg.GraphNode]]) -> float:
        begin = time.perf_counter()
        for first, second in pairs:
            second.pred.add(first)
        return time.perf_counter() - begin

    pairs = list(itertools.pairwise(nodes))
    early = min(add(pairs[i : i + 100]) for i in range(0, 1000, 100))
    add(pairs[1000:-1000])
    late = min(add(pairs[i : i + 100]) for i in range(len(pairs) - 1000, len(pairs), 100))
    assert late < 10 * early  # if the cost grew with the chain, the ratio would be about 100
    hub = definition.empty()
    fan = [(node, hub) for node in nodes]
    add(fan[:-1000])
    assert min(add(fan[i : i + 100]) for i in range(len(fan) - 1000, len(fan), 100)) < 10 * early


def test_picture_of_a_large_graph(definition: cg.GraphDefinition) -> None:
    """A notebook would block while it draws a large graph."""
    chance = random.Random(1)
    items: list[tuple[Any, ...]] = [("empty", None)]
    items += [("empty", tuple({chance.randrange(max(0, i - 50), i) for _ in range(2)})) for i in range(1, 10_000)]
    definition.add_many(items)
    begin = time.monotonic()
    assert len(definition.to_svg()) < 100_000
    assert len(definition.to_mermaid()) < 50_000
    assert time.monotonic() - begin < 60
