# SPDX-License-Identifier: Apache-2.0
"""Objects of graphs in any order of dropping."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_dropped_in_any_order(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, order: tuple[int, ...]
) -> None:
    """A definition, a node, a body or an executable graph would need another one that is gone."""
    definition = cg.GraphDefinition()
    node = definition.if_then(definition.create_condition(1))
    body = node.then
    body.launch(ONE, add, numbers.buffer, 1)
    graph = definition.instantiate()
    uses: list[tuple[Any, Callable[[Any], object]]] = [
        (definition, lambda it: it.nodes()),
        (node, lambda it: it.then.nodes()),
        (body, lambda it: it.nodes()),
        (graph, lambda it: it.launch(stream)),
    ]
    del definition, node, body, graph
    left = dict(enumerate(uses))
    uses.clear()
    for number in order:
        for thing, use in left.values():
            use(thing)
        del left[number], thing, use
        gc.collect()
    stream.sync()
    assert numbers[0] == order.index(3) + 1
