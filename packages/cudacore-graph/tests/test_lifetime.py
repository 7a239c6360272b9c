# SPDX-License-Identifier: Apache-2.0
"""Objects of graphs in any order of dropping; failures of the driver in the middle of everything."""

from __future__ import annotations

import gc
import itertools
import random
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


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, seed: int) -> None:
    """A graph that is built, edited and launched at random would do something else than a model says."""
    choose = random.Random(seed)
    definition = cg.GraphDefinition()
    model: dict[cg.GraphNode, tuple[int, set[cg.GraphNode]]] = {}
    for _ in range(120):
        action = choose.random()
        nodes = list(model)
        if action < 0.5 or not nodes:
            before = set(choose.sample(nodes, min(len(nodes), choose.randrange(3))))
            amount = choose.randrange(5)
            node = definition.launch(ONE, add, numbers.buffer, amount)
            node.pred = before
            # All are behind each other, lest two add at once.
            if nodes:
                before.add(nodes[-1])
                node.pred.add(nodes[-1])
            model[node] = (amount, before)
        elif action < 0.6:
            node = choose.choice(nodes)
            rest = model.pop(node)[1]
            for other, (_, those) in model.items():
                if node in those:
                    those.discard(node)
                    those |= rest
                    other.pred |= rest
            node.destroy()
        elif action < 0.8:
            node = choose.choice(nodes)
            amount = choose.randrange(5)
            node.update(args=(numbers.buffer, amount))  # type: ignore[attr-defined]
            model[node] = (amount, model[node][1])
        elif action < 0.9:
            assert definition.nodes() == set(model)
            assert definition.edges() == {(a, b) for b, (_, those) in model.items() for a in those}
        else:
            numbers[0] = 0
            copy = choose.choice([definition, definition.clone()[0]])
            with copy.instantiate() as graph:
                graph.launch(stream)
                stream.sync()
            assert numbers[0] == sum(amount for amount, _ in model.values())
