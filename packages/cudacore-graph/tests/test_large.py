# SPDX-License-Identifier: Apache-2.0
"""Large graphs: what a node costs does not grow with the graph."""

from __future__ import annotations

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
