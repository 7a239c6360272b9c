# SPDX-License-Identifier: Apache-2.0
"""Objects of graphs can be dropped in any order."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch

TAKES_TENSOR_MAP = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry take(.param .align 64 .b8 map[128]) { ret; }
"""


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_dropped_in_any_order(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, order: tuple[int, ...]
) -> None:
    """A definition, node, body or executable graph could no longer be used after one of the others was released."""
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


@pytest.mark.parametrize("how", ["node", "capture"])
def test_tensor_map(device: ch.Device, stream: ch.Stream, how: str) -> None:
    """A kernel of a graph would copy from memory that was freed with the tensor of its tensor map."""
    if not device.properties.tensor_map_access_supported:
        pytest.skip("needs tensor maps: compute capability 9.0")
    before = ch.live_counts()["deviceptr"]
    kernel = ch.ObjectCode.from_ptx(TAKES_TENSOR_MAP).get_kernel("take")
    buffer = device.allocate(4096, stream=stream)
    tensor_map = ch.StridedMemoryView.from_buffer(buffer, (32, 32), dtype="float32").as_tensor_map((8, 8))
    if how == "node":
        definition = cg.GraphDefinition()
        definition.launch(ONE, kernel, tensor_map)
        graph = definition.instantiate()
        del definition
    else:
        builder = device.create_graph_builder().begin_building()
        ch.launch(builder, ONE, kernel, tensor_map)
        graph = builder.end_building().complete()
        del builder
    buffer.close()
    del tensor_map
    gc.collect()
    assert ch.live_counts()["deviceptr"] == before + 1
    graph.launch(stream)
    stream.sync()
    del graph
    gc.collect()
    ch.Device(0).sync()
    assert ch.live_counts()["deviceptr"] == before


@pytest.mark.parametrize("share", ["definition", "node"])
def test_handle(stream: ch.Stream, share: str) -> None:
    """Graphs that other code instantiates from a handle would use objects that are freed with our definition."""
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
