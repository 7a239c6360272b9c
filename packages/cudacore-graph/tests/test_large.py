# SPDX-License-Identifier: Apache-2.0
"""Large graphs: what a node costs does not grow with the graph."""

from __future__ import annotations

import gc
import time
from typing import Any

from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch


def test_ten_thousand_nodes(
    definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, stream: ch.Stream
) -> None:
    """Building, listing or destroying a large graph would take time that grows with its square."""
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
    # A quadratic one takes minutes.
    assert time.monotonic() - begin < 60


def test_last_of_very_many_dies_while_one_is_made(definition: cg.GraphDefinition) -> None:
    """A collection within the making of a node's object would take the table of all of them away from it."""
    other = cg.GraphDefinition()
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        circle: list[Any] = other.add_many([("empty", None)] * 40_000)
        circle.append(circle)
        del circle
        gc.set_threshold(1, 1, 1)
        gc.enable()
        node = definition.empty()  # with the first object that a collection counts
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert definition.nodes() == {node}
