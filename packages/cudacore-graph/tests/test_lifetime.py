# SPDX-License-Identifier: Apache-2.0
"""Objects of graphs in any order of dropping; failures of the driver in the middle of everything."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
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


@pytest.mark.parametrize("share", ["definition", "node"])
def test_handle(stream: ch.Stream, share: str) -> None:
    """What others instantiate from a handle would use what our definition alone keeps."""
    from cuda.bindings import driver

    class Call:
        def __call__(self) -> None:
            seen.append(1)

    seen: list[int] = []
    calls = [Call(), Call()]
    alive = [weakref.ref(call) for call in calls]
    definition = cg.GraphDefinition()
    node = definition.callback(calls.pop())
    shared: Any = {"definition": definition, "node": node}[share]
    assert int(shared.handle) == shared._raw
    definition.callback(calls.pop())
    error, graph = driver.cuGraphInstantiate(driver.CUgraph(definition._raw), 0)
    assert not error
    del definition, node, shared
    gc.collect()
    assert all(call() is not None for call in alive)
    (error,) = driver.cuGraphLaunch(graph, driver.CUstream(int(stream.handle)))
    assert not error
    stream.sync()
    assert seen == [1, 1]
    assert not driver.cuGraphExecDestroy(graph)[0]


# Each makes what it needs, and returns the operation.
def operations(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> dict[str, Callable[[], object]]:
    stream = device.create_stream()
    definition, child = cg.GraphDefinition(), cg.GraphDefinition()
    first = definition.launch(ONE, add, numbers.buffer, 1)
    second = definition.empty()
    fill = definition.memset(numbers.buffer, 0, 4)
    copy = definition.memcpy(numbers.at(4), numbers.buffer, 4)
    call = definition.callback(int)
    child.empty()
    inner = definition.embed(child)
    event = device.create_event()
    record = definition.record(event)
    graph = definition.instantiate()
    built = stream.create_graph_builder().begin_building().end_building()

    def capture() -> None:
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
            _, fork = builder.split(2)
            numbers.buffer.fill(1, stream=fork)
            builder.join(builder, fork)
            builder.callback(int)
            builder.embed(built)
            with builder.if_then(builder.create_condition(0)) as body:
                ch.launch(body, ONE, add, numbers.buffer, 1)
        builder.complete().launch(stream)
        stream.sync()

    def conditional() -> None:
        node = definition.switch(definition.create_condition(), 2)
        node.branches[1].empty()
        node.destroy()

    def allocate() -> None:
        own = cg.GraphDefinition()  # from a graph that has been instantiated, memory nodes are not taken out any more
        memory = own.allocate(64)
        memory.deallocate(memory.dptr)

    return {
        "launch": lambda: first.launch(ONE, add, numbers.buffer, 1).destroy(),
        "memset": lambda: first.memset(numbers.buffer, 0, 4).destroy(),
        "memcpy": lambda: first.memcpy(numbers.buffer, numbers.at(4), 4).destroy(),
        "callback": lambda: first.callback(int).destroy(),
        "embed": lambda: first.embed(child).destroy(),
        "record": lambda: first.record(event).destroy(),
        "join": lambda: first.join(second).destroy(),
        "allocate": allocate,
        "conditional": conditional,
        "batch": lambda: [
            node.destroy() for node in definition.add_many([("launch", first, ONE, add, numbers.buffer, 1)] * 3)
        ],
        "edges": lambda: (second.pred.update({first, fill}), second.pred.clear()),
        "lists": lambda: (definition.nodes(), definition.edges(), list(first.succ)),
        "text": lambda: str(definition),
        "kernel update": lambda: first.update(args=(numbers.buffer, 2)),
        "kernel configuration": lambda: first.update(config=ONE),
        "memset update": lambda: fill.update(width=2),
        "memcpy update": lambda: copy.update(src=numbers.at(8)),
        "callback update": lambda: call.update(float),
        "event update": lambda: record.update(event),
        "child update": lambda: inner.update(child),
        "clone": definition.clone,
        "instantiate": definition.instantiate,
        "update": lambda: graph.update(definition),
        "view update": lambda: graph[first].update(config=ONE, kernel=add, args=(numbers.buffer, 3)),  # type: ignore[attr-defined]
        "disable": lambda: (graph[first].disable(), graph[first].enable()),  # type: ignore[attr-defined]
        "run": lambda: (graph.launch(stream), stream.sync()),
        "capture": capture,
    }


NAMES = (
    "launch", "memset", "memcpy", "callback", "embed", "record", "join", "allocate", "conditional", "batch", "edges",
    "lists", "text", "kernel update", "kernel configuration", "memset update", "memcpy update", "callback update",
    "event update", "child update", "clone", "instantiate", "update", "view update", "disable", "run", "capture",
)  # fmt: skip


@pytest.mark.sim
@pytest.mark.parametrize("name", NAMES)
def test_each_call_fails_in_turn(device: ch.Device, add: ch.Kernel, numbers: Numbers, sim: Any, name: str) -> None:
    """A failure of the driver would leak, leave a stream in capture, or objects that cannot be used any more."""
    known = operations(device, add, numbers)
    assert set(known) == set(NAMES)
    operation = known[name]
    operation()  # what is asked once is asked now
    with sim.logging() as made:
        operation()
    calls = [call.name for call in made]
    seen: dict[str, int] = {}
    for call in calls:
        seen[call] = seen.get(call, 0) + 1
        if call.startswith(("cuCtx", "cuGetProcAddress", "cuUserObjectRelease", "cuGraphRelease", "cuStreamDestroy",
                            "cuEventDestroy", "cuGraphDestroy", "cuGraphExecDestroy", "cuThreadExchange",
                            "cuStreamEndCapture", "cuStreamIsCapturing")):  # fmt: skip
            continue
        with sim.failing(call, nth=seen[call], error=2):
            try:
                operation()
            except (ch.CUDAError, MemoryError, ValueError, ch.ClosedError, TypeError):
                pass
        operation()


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
