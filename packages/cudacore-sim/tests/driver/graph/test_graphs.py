# SPDX-License-Identifier: Apache-2.0
"""Graphs: behaviour that the recorded sequences do not cover, such as checks, orders of work, and large graphs."""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from ctypes import c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import graph_tools as tools
import pytest
from ptx import CONDITIONS, KERNELS
from recorder import HOST_FUNCTION
from shuffled import run_shuffled

import cudacore_sim

INVALID_VALUE, ILLEGAL_ADDRESS, NOT_PERMITTED = 1, 700, 800
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED = 900, 901
NON_BLOCKING = 1


def words(calls: Any, address: int, count: int) -> list[int]:
    data = (c_uint32 * count)()
    calls.prepare("cuMemcpyDtoH_v2", data, address, 4 * count)
    return list(data)


def run(calls: Any, executable: int, stream: int) -> None:
    calls.prepare("cuGraphLaunch", executable, stream)
    calls.prepare("cuStreamSynchronize", stream)


def test_live_counts(calls: Any) -> None:
    """A graph that was not destroyed would not be counted as live, or child graphs in nodes would be counted."""
    function = HOST_FUNCTION(lambda _: None)
    graph, other = tools.graph(calls), tools.graph(calls)
    tools.child(calls, graph, other)
    tools.conditional(calls, graph, tools.condition(calls, graph, 0), tools.IF)
    executable = tools.instantiate(calls, graph)
    made = calls.prepare("cuUserObjectCreate", c_void_p, None, function, 1, 1)
    live = cudacore_sim.live()
    assert (live["graph"], live["graph_exec"], live["user_object"]) == (2, 1, 1)
    assert " of 2 nodes" in cudacore_sim.describe_live("graph")[0]
    assert " with 1 references" in cudacore_sim.describe_live("user_object")[0]
    calls.prepare("cuUserObjectRelease", made, 1)
    calls.prepare("cuGraphExecDestroy", executable)
    calls.prepare("cuGraphDestroy", graph)
    calls.prepare("cuGraphDestroy", other)
    live = cudacore_sim.live()
    assert (live["graph"], live["graph_exec"], live["user_object"]) == (0, 0, 0)


def test_leaks_are_listed(run_python: Any) -> None:
    """A leaked graph would not be reported at exit."""
    result = run_python(
        """
        graph, executable, context = c_void_p(), c_void_p(), c_void_p()
        cu.cuInit(0)
        cu.cuDevicePrimaryCtxRetain(byref(context), 0)
        cu.cuCtxSetCurrent(context)
        cu.cuGraphCreate(byref(graph), 0)
        cu.cuGraphInstantiateWithFlags(byref(executable), graph, c_uint64(0))
        """,
        LEAKS=1,
    )
    assert "3 objects are alive at exit:\ncontext 0x" in result.stderr
    assert "\ngraph 0x" in result.stderr
    assert "\nexecutable graph 0x" in result.stderr


@pytest.mark.parametrize("kind", ["graph", "graph node", "executable graph", "user object"])
def test_stale_handles(calls: Any, kind: str) -> None:
    """The use of a destroyed handle would not be reported."""
    graph = tools.graph(calls)
    node = tools.empty(calls, graph)
    if kind == "graph":
        name, handle, arguments = "cuGraphDestroy", graph, ()
    elif kind == "graph node":
        name, handle, arguments = "cuGraphDestroyNode", node, ()
    elif kind == "executable graph":
        name, handle, arguments = "cuGraphExecDestroy", tools.instantiate(calls, graph), ()
    else:
        function = tools.keep(HOST_FUNCTION(lambda _: None))
        handle = calls.prepare("cuUserObjectCreate", c_void_p, None, function, 1, 1)
        name, arguments = "cuUserObjectRelease", (1,)
    calls.prepare(name, handle, *arguments)
    assert calls.call(name, handle, *arguments) == INVALID_VALUE
    article = "an" if kind == "executable graph" else "a"
    (report,) = cudacore_sim.reports()
    assert report.startswith(f"{name} was given {article} {kind} that was destroyed: {handle:#x}: here the driver ")


def test_body_of_a_failed_capture(calls: Any) -> None:
    """Using the body of a conditional node of a failed capture, which crashes the driver, would not be reported."""
    graph, stream = tools.graph(calls), calls.stream(NON_BLOCKING)
    _, (body,) = tools.conditional(calls, graph, tools.condition(calls, graph, 1), tools.IF)
    calls.prepare("cuStreamBeginCaptureToGraph", stream, body, None, None, 0, tools.RELAXED)
    assert calls.call("cuStreamSynchronize", stream) == CAPTURE_UNSUPPORTED
    assert calls.call("cuStreamEndCapture", stream, c_void_p) == CAPTURE_INVALIDATED
    assert calls.call("cuGraphGetNodes", body, None, c_size_t) == INVALID_VALUE
    assert calls.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0) == INVALID_VALUE
    assert calls.call("cuGraphDestroy", graph) == 0
    assert [text.split(":")[1] for text in cudacore_sim.reports()[1:]] == [" here the driver crashes"] * 2


def test_calls_in_destructors(calls: Any) -> None:
    """A forbidden call of CUDA in the destructor of a user object would not be reported."""
    done, codes = threading.Event(), []
    event = calls.event()

    def inside(_: object) -> None:
        codes.append(calls._library.cuEventDestroy_v2(c_void_p(event)))
        codes.append(calls._library.cuCtxSynchronize())
        done.set()

    made = calls.prepare("cuUserObjectCreate", c_void_p, None, tools.keep(HOST_FUNCTION(inside)), 1, 1)
    calls.prepare("cuUserObjectRelease", made, 1)
    assert done.wait(10)
    assert codes == [0, NOT_PERMITTED]
    assert cudacore_sim.reports() == [
        "cuCtxSynchronize was called from the destructor of a user object, where CUDA calls are forbidden"
    ]


@pytest.mark.parametrize("seed", range(3))
def test_order_of_nodes(calls: Any, seed: int) -> None:
    """A node would run before its dependencies."""
    choose = random.Random(seed)
    graph, stream, seen = tools.graph(calls), calls.stream(NON_BLOCKING), []
    nodes: list[int] = []
    before: list[list[int]] = []
    for i in range(40):
        after = choose.sample(range(i), min(i, choose.randrange(4)))
        before.append(after)
        nodes.append(tools.host(calls, graph, lambda _, i=i: seen.append(i), *(nodes[j] for j in after)))
    executable = tools.instantiate(calls, graph)
    for _ in range(5):
        seen.clear()
        run(calls, executable, stream)
        assert sorted(seen) == list(range(40))
        places = {node: place for place, node in enumerate(seen)}
        assert all(places[j] < places[i] for i in range(40) for j in before[i])


def test_long_loops(calls: Any) -> None:
    """A loop of many iterations would overflow the stack, or lose iterations."""
    stream, counter, out = calls.stream(NON_BLOCKING), calls.memory(4, 0), calls.memory(4, 0)
    graph = tools.graph(calls)
    handle = tools.condition(calls, graph, 1)
    _, (body,) = tools.conditional(calls, graph, handle, tools.WHILE)
    first = tools.kernel(calls, body, calls.function(KERNELS, "increase"), c_uint64(out), c_uint32(1))
    down = calls.function(CONDITIONS, "count_down")
    tools.kernel(calls, body, down, c_uint64(handle), c_uint64(counter), after=(first,))
    executable = tools.instantiate(calls, graph)
    tools.put(calls, 32, counter, 2000, 1)
    run(calls, executable, stream)
    assert words(calls, out, 1) == [2000]


def test_a_launch_keeps_its_bodies(calls: Any) -> None:
    """Changes of an executable graph's parameters would affect a launch that has already begun."""
    stream, out = calls.stream(NON_BLOCKING), calls.memory(8, 0)
    graph = tools.graph(calls)
    node, (body,) = tools.conditional(calls, graph, tools.condition(calls, graph, 1), tools.IF)
    inner = tools.memset(calls, body, out, 5, 1)
    executable = tools.instantiate(calls, graph)
    with calls.gate(stream):
        calls.prepare("cuGraphLaunch", executable, stream)
        context = tools.context(calls)
        changed = tools.memset_params(out + 4, 6, 1)
        calls.prepare("cuGraphExecMemsetNodeSetParams", executable, inner, changed, context)
    calls.prepare("cuStreamSynchronize", stream)
    assert words(calls, out, 2) == [5, 0]
    run(calls, executable, stream)
    assert words(calls, out, 2) == [5, 6]
    assert node


def test_a_condition_that_there_is_not(calls: Any) -> None:
    """A kernel that sets a condition of a destroyed graph would not be reported."""
    out = calls.memory(4, 0)
    function = calls.function(CONDITIONS, "set_from")
    calls.launch(function, c_uint64(1234), c_uint64(out))
    assert calls.call("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "cudaGraphSetConditional() of what is no conditional handle" in cudacore_sim.reports()[0]
    cudacore_sim.clear_errors()


def test_memory_after_its_free(calls: Any) -> None:
    """A kernel that uses a graph's memory after the graph has freed it would not be reported."""
    graph, stream = tools.graph(calls), calls.stream(NON_BLOCKING)
    node, address = tools.alloc(calls, graph, 64)
    tools.free(calls, graph, address, node)
    run(calls, tools.instantiate(calls, graph), stream)
    function = calls.function(KERNELS, "store")
    calls.launch(function, c_uint64(address), c_uint32(1), stream=stream)
    assert calls.call("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS
    assert "64 bytes of memory of a graph" in cudacore_sim.reports()[0]
    cudacore_sim.clear_errors()


def test_memory_before_its_launch(calls: Any) -> None:
    """A node could read its graph's memory after another node has freed that memory."""
    graph, stream, out = tools.graph(calls), calls.stream(NON_BLOCKING), calls.memory(4, 0)
    node, address = tools.alloc(calls, graph, 64)
    read = tools.copy(calls, graph, out, address, 4, node)
    freed = tools.free(calls, graph, address, node)
    calls.prepare("cuGraphAddDependencies_v2", graph, tools.array(freed), tools.array(read), None, 1)
    calls.prepare("cuGraphLaunch", tools.instantiate(calls, graph), stream)
    assert calls.call("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS
    assert "which is not allocated at this point" in cudacore_sim.reports()[0]
    cudacore_sim.clear_errors()


def test_large_graphs(calls: Any) -> None:
    """Adding a node would take longer the larger the graph is, so that this test would take hours."""
    library, graph, stream = calls._library, tools.graph(calls), calls.stream(NON_BLOCKING)
    node, last = c_void_p(), (c_void_p * 1)()
    for i in range(40_000):
        library.cuGraphAddEmptyNode(ctypes.byref(node), c_void_p(graph), last, c_size_t(min(i, 1)))
        last[0] = node.value
    assert len(tools.nodes_of(calls, graph)) == 40_000
    assert len(tools.edges_of(calls, graph)) == 39_999
    executable = tools.instantiate(calls, graph)
    run(calls, executable, stream)
    calls.prepare("cuGraphExecDestroy", executable)
    calls.prepare("cuGraphDestroy", graph)


def test_nodes_of_a_hub(calls: Any) -> None:
    """Adding or removing an edge would take longer the more dependents its node has."""
    graph = tools.graph(calls)
    hub = tools.empty(calls, graph)
    for _ in range(5000):
        tools.empty(calls, graph, hub)
    assert calls.prepare("cuGraphGetEdges_v2", graph, None, None, None, c_size_t) == 5000
    calls.prepare("cuGraphDestroyNode", hub)
    assert calls.prepare("cuGraphGetRootNodes", graph, None, c_size_t) == 5000


def test_general_parameters(calls: Any) -> None:
    """cuGraphNodeGetParams would not return the parameters that the node was given."""
    graph, out, event = tools.graph(calls), calls.memory(64, 0), calls.event()
    kernel = calls.kernel(KERNELS, "store")
    node = tools.kernel(calls, graph, None, c_uint64(out), c_uint32(7), kern=kernel, grid=(2, 1, 1))
    params = tools.NodeParams()
    calls.prepare("cuGraphNodeGetParams", node, params)
    assert (params.type, list(params.of.kernel.grid), params.of.kernel.kern) == (0, [2, 1, 1], kernel)
    calls.prepare("cuGraphNodeGetParams", tools.memset(calls, graph, out, 3, 4), params)
    assert (params.type, params.of.memset.value, params.of.memset.ctx) == (2, 3, tools.context(calls))
    calls.prepare("cuGraphNodeGetParams", tools.copy(calls, graph, out, out + 16, 8), params)
    assert (params.type, params.of.memcpy.copy.WidthInBytes) == (1, 8)
    calls.prepare("cuGraphNodeGetParams", tools.host(calls, graph, lambda _: None, data=6), params)
    assert (params.type, params.of.host.userData) == (3, 6)
    calls.prepare("cuGraphNodeGetParams", tools.record(calls, graph, event), params)
    assert (params.type, params.of.event.event) == (7, event)
    calls.prepare("cuGraphNodeGetParams", tools.wait(calls, graph, event), params)
    assert (params.type, params.of.event.event) == (6, event)
    other = tools.graph(calls)
    child = tools.child(calls, graph, other)
    calls.prepare("cuGraphNodeGetParams", child, params)
    assert (params.type, params.of.graph.graph) == (4, tools.child_graph(calls, child))
    handle = tools.condition(calls, graph, 1)
    choice, bodies = tools.conditional(calls, graph, handle, tools.SWITCH, 3)
    calls.prepare("cuGraphNodeGetParams", choice, params)
    made = params.of.conditional
    assert (params.type, made.handle, made.type, made.size) == (13, handle, tools.SWITCH, 3)
    assert [made.graphs[i] for i in range(3)] == bodies
    allocation, address = tools.alloc(calls, graph, 100)
    calls.prepare("cuGraphNodeGetParams", allocation, params)
    assert (params.type, params.of.alloc.bytesize, params.of.alloc.dptr) == (10, 100, address)
    calls.prepare("cuGraphNodeGetParams", tools.free(calls, graph, address, allocation), params)
    assert (params.type, params.of.free.dptr) == (11, address)


def test_identifiers(calls: Any) -> None:
    """Nodes or graphs would have equal identifiers."""
    graph, other = tools.graph(calls), tools.graph(calls)
    nodes = [tools.empty(calls, graph), tools.empty(calls, graph), tools.empty(calls, other)]
    assert len({calls.prepare("cuGraphNodeGetToolsId", node, c_uint64) for node in nodes}) == 3
    assert [calls.prepare("cuGraphNodeGetLocalId", node, c_uint) for node in nodes] == [0, 1, 0]
    assert [calls.prepare("cuGraphNodeGetContainingGraph", node, c_void_p) for node in nodes] == [graph, graph, other]
    numbers = [calls.prepare("cuGraphGetId", made, c_uint) for made in (graph, other)]
    numbers.append(calls.prepare("cuGraphExecGetId", tools.instantiate(calls, graph), c_uint))
    assert len(set(numbers)) == 3


def test_reset_with_graphs(calls: Any) -> None:
    """Graphs would still exist after a reset of the device."""
    function = tools.keep(HOST_FUNCTION(lambda _: None))
    graph = tools.graph(calls)
    made = calls.prepare("cuUserObjectCreate", c_void_p, None, function, 1, 1)
    calls.prepare("cuGraphRetainUserObject", graph, made, 1, 1)
    tools.conditional(calls, graph, tools.condition(calls, graph, 1), tools.IF)
    tools.alloc(calls, graph, 64)
    tools.instantiate(calls, tools.graph(calls))
    cudacore_sim.reset_device()
    assert not any(cudacore_sim.live().values())


def test_injected_failures(calls: Any) -> None:
    """A call with an injected failure would have an effect although it fails."""
    graph = tools.graph(calls)
    with cudacore_sim.failing("cuGraphAddNode", error=2):
        assert calls.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.NodeParams(type=5)) == 2
    assert tools.nodes_of(calls, graph) == []


def test_dot_file(calls: Any, tmp_path: Path) -> None:
    """The DOT file would lack nodes, edges or the kernel's name."""
    graph, path = tools.graph(calls), tmp_path / "graph.dot"
    first = tools.empty(calls, graph)
    tools.kernel(calls, graph, calls.function(KERNELS, "nothing"), after=(first,))
    calls.prepare("cuGraphDebugDotPrint", graph, os.fsencode(path), 1)
    text = path.read_text()
    assert text.startswith("digraph dot {")
    assert text.count("->") == 1
    assert "nothing" in text


def test_events_of_a_graph_are_waited_for(calls: Any) -> None:
    """A stream would not wait for an event that a graph records, or a graph would not wait for a stream's event."""
    graph, one, two = tools.graph(calls), calls.stream(NON_BLOCKING), calls.stream(NON_BLOCKING)
    before, after, out = calls.event(), calls.event(), calls.memory(8, 0)
    waited = tools.wait(calls, graph, before)
    copied = tools.copy(calls, graph, out + 4, out, 4, waited)
    tools.record(calls, graph, after, copied)
    executable = tools.instantiate(calls, graph)
    with calls.gate(one):
        calls.prepare("cuMemsetD32Async", out, 9, 1, one)
        calls.prepare("cuEventRecord", before, one)
        calls.prepare("cuGraphLaunch", executable, two)
        time.sleep(0.02)
        assert words(calls, out, 2) == [0, 0] if calls.call("cuStreamQuery", two) else False
    calls.prepare("cuEventSynchronize", after)
    assert words(calls, out, 2) == [9, 9]


def test_everything_in_any_order() -> None:
    """The results of graphs would depend on the order in which the executor runs units that are ready."""
    run_shuffled(__file__, seeds=(1, 2))


def test_types_of_nodes(calls: Any) -> None:
    """A node would report a wrong type."""
    graph = tools.graph(calls)
    assert calls.prepare("cuGraphNodeGetType", tools.empty(calls, graph), c_int) == 5
