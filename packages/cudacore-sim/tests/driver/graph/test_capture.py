# SPDX-License-Identifier: Apache-2.0
"""Stream capture: behaviour that the recorded sequences do not cover, such as random forks, and lost captures."""

from __future__ import annotations

import random
import threading
from ctypes import c_int, c_uint32, c_uint64, c_void_p
from typing import Any

import graph_tools as tools
import pytest
from ptx import KERNELS
from recorder import HOST_FUNCTION, pointers
from shuffled import run_shuffled

import cudacore_sim

SUCCESS, UNSUPPORTED, INVALIDATED, UNJOINED, WRONG_THREAD = 0, 900, 901, 904, 908
CONTEXT_IS_DESTROYED, INVALID_HANDLE = 709, 400
NON_BLOCKING, DISABLE_TIMING = 1, 2


def end(calls: Any, stream: int) -> tuple[int, int]:
    graph = c_void_p()
    code = calls.call("cuStreamEndCapture", stream, graph)
    return code, graph.value or 0


def wait_for(calls: Any, stream: int, other: int) -> None:
    event = calls.event(DISABLE_TIMING)
    calls.prepare("cuEventRecord", event, other)
    calls.prepare("cuStreamWaitEvent", stream, event, 0)
    calls.prepare("cuEventDestroy_v2", event)


@pytest.mark.parametrize("ends", ["destroyed", "lost"])
def test_user_objects_of_a_captured_graph(calls: Any, ends: str) -> None:
    """An event that was recorded in a capture would keep the captured graph's user objects alive, unlike on an H200."""
    stream, other, event = calls.stream(NON_BLOCKING), calls.stream(NON_BLOCKING), calls.event(DISABLE_TIMING)
    gone = threading.Event()
    function = tools.keep(HOST_FUNCTION(lambda _: gone.set()))
    made = calls.prepare("cuUserObjectCreate", c_void_p, None, function, 1, 1)
    tools.begin(calls, stream)
    status, number, graph, nodes, count = c_int(), c_uint64(), c_void_p(), c_void_p(), c_uint64()
    calls.prepare("cuStreamGetCaptureInfo_v2", stream, status, number, graph, nodes, count)
    calls.prepare("cuGraphRetainUserObject", graph.value, made, 1, 1)
    calls.prepare("cuEventRecord", event, stream)
    if ends == "lost":
        calls.prepare("cuStreamWaitEvent", other, event, 0)
        calls.prepare("cuLaunchHostFunc", other, tools.keep(HOST_FUNCTION(lambda _: None)), None)
        assert end(calls, stream) == (UNJOINED, 0)
    else:
        _, captured = end(calls, stream)
        assert not gone.is_set()
        calls.prepare("cuGraphDestroy", captured)
    assert gone.wait(10)
    assert cudacore_sim.live()["user_object"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_forks_and_joins(calls: Any, seed: int) -> None:
    """A captured node would lack a dependency that its stream has, or have one that its stream does not have."""
    choose = random.Random(seed)
    streams = [calls.stream(NON_BLOCKING) for _ in range(4)]
    seen: list[int] = []
    before: dict[int, set[int]] = {}  # for each node, the nodes that must run before it
    after: list[set[int]] = [set() for _ in streams]  # the nodes on which the next node of a stream depends
    taking_part = {0}
    tools.begin(calls, streams[0])
    for number in range(40):
        if choose.random() < 0.4:
            source, to = choose.choice(sorted(taking_part)), choose.randrange(len(streams))
            wait_for(calls, streams[to], streams[source])
            after[to] |= after[source]
            taking_part.add(to)
        where = choose.choice(sorted(taking_part))
        function = tools.keep(HOST_FUNCTION(lambda _, number=number: seen.append(number)))
        calls.prepare("cuLaunchHostFunc", streams[where], function, None)
        before[number] = set(after[where])
        after[where].add(number)
    for where in sorted(taking_part - {0}):
        wait_for(calls, streams[0], streams[where])
    code, graph = end(calls, streams[0])
    assert code == SUCCESS
    assert len(tools.nodes_of(calls, graph)) == 40
    executable = tools.instantiate(calls, graph)
    for _ in range(3):
        seen.clear()
        calls.prepare("cuGraphLaunch", executable, streams[0])
        calls.prepare("cuStreamSynchronize", streams[0])
        assert sorted(seen) == list(range(40))
        places = {number: place for place, number in enumerate(seen)}
        assert all(places[earlier] < places[number] for number in before for earlier in before[number])


def test_values_are_captured(calls: Any) -> None:
    """When a captured graph runs, its wait for a value would not wait, or its write of a value would not write."""
    stream, flag, out = calls.stream(NON_BLOCKING), calls.memory(8, 0), calls.memory(8, 0)
    tools.begin(calls, stream)
    calls.prepare("cuStreamWaitValue32_v2", stream, flag, 5, 1)
    calls.prepare("cuMemsetD32Async", out, 7, 1, stream)
    calls.prepare("cuStreamWriteValue32_v2", stream, flag + 4, 9, 0)
    _, graph = end(calls, stream)
    executable = tools.instantiate(calls, graph)
    calls.prepare("cuGraphLaunch", executable, stream)
    assert calls.call("cuStreamQuery", stream) != SUCCESS
    tools_stream = calls.stream(NON_BLOCKING)
    calls.prepare("cuMemsetD32Async", flag, 5, 1, tools_stream)
    calls.prepare("cuStreamSynchronize", stream)
    data = (c_uint32 * 2)()
    calls.prepare("cuMemcpyDtoH_v2", data, flag, 8)
    assert list(data) == [5, 9]


def test_nothing_runs_in_a_capture(calls: Any) -> None:
    """Captured work would be executed during the capture."""
    stream, out = calls.stream(NON_BLOCKING), calls.memory(4, 0)
    tools.begin(calls, stream)
    calls.launch(calls.function(KERNELS, "store"), c_uint64(out), c_uint32(5), stream=stream)
    calls.prepare("cuMemsetD32Async", out, 6, 1, stream)
    _, graph = end(calls, stream)
    calls.prepare("cuStreamSynchronize", stream)
    data = (c_uint32 * 1)()
    calls.prepare("cuMemcpyDtoH_v2", data, out, 4)
    assert list(data) == [0]
    calls.prepare("cuGraphDestroy", graph)


def test_per_thread_functions(calls: Any) -> None:
    """In a program for per-thread default streams, a capture of stream 0 would not capture the per-thread stream."""
    out = calls.memory(4, 0)
    library = calls._library
    assert library.cuStreamBeginCapture_v2_ptsz(None, 0) == SUCCESS
    assert library.cuMemsetD32Async_ptsz(c_uint64(out), c_uint32(5), c_uint64(1), None) == SUCCESS
    state = c_int()
    calls.prepare("cuStreamIsCapturing", 2, state)
    assert state.value == 1
    code, graph = end(calls, 2)
    assert (code, len(tools.nodes_of(calls, graph))) == (SUCCESS, 1)


def test_a_context_that_is_destroyed(calls: Any) -> None:
    """After its context is destroyed, a capture in global mode would still forbid calls such as cuMemAlloc."""
    primary = tools.context(calls)
    context = calls.prepare("cuCtxCreate_v2", c_void_p, 0, 0)
    stream = calls.stream(NON_BLOCKING)
    tools.begin(calls, stream, tools.GLOBAL)
    tools.begin(calls, 2, tools.GLOBAL)
    assert calls.call("cuMemAlloc_v2", c_uint64, 16) == UNSUPPORTED
    calls.prepare("cuCtxDestroy_v2", context)
    calls.prepare("cuCtxSetCurrent", primary)
    assert calls.call("cuMemAlloc_v2", c_uint64, 16) == SUCCESS
    assert end(calls, stream)[0] == INVALID_HANDLE
    assert cudacore_sim.live()["graph"] == 0


def test_a_reset_in_a_capture(calls: Any) -> None:
    """After a reset of the device, a capture would still be in progress."""
    stream = calls.stream(NON_BLOCKING)
    tools.begin(calls, stream, tools.GLOBAL)
    cudacore_sim.reset_device()
    assert not any(cudacore_sim.live().values())
    calls.use_primary_context()
    assert calls.call("cuMemAlloc_v2", c_uint64, 16) == SUCCESS


def test_lost_captures_leave_nothing(calls: Any) -> None:
    """A failed capture would leak its graph, or one of its streams would remain in the capture."""
    one, two, out = calls.stream(NON_BLOCKING), calls.stream(NON_BLOCKING), calls.memory(4, 0)
    tools.begin(calls, one)
    wait_for(calls, two, one)
    calls.prepare("cuMemsetD32Async", out, 1, 1, two)
    assert end(calls, one) == (UNJOINED, 0)
    tools.begin(calls, one)
    assert calls.call("cuStreamSynchronize", one) == UNSUPPORTED
    assert end(calls, one) == (INVALIDATED, 0)
    codes = []
    tools.begin(calls, one, tools.GLOBAL)
    context = tools.context(calls)

    def other() -> None:
        calls.prepare("cuCtxSetCurrent", context)
        codes.append(end(calls, one))

    calls.in_thread(other)
    assert codes == [(WRONG_THREAD, 0)]
    assert cudacore_sim.live()["graph"] == 0
    for stream in (one, two):
        state = c_int(9)
        calls.prepare("cuStreamIsCapturing", stream, state)
        assert state.value == 0
        calls.prepare("cuStreamSynchronize", stream)


def test_a_graph_that_is_captured_into(calls: Any) -> None:
    """A graph could be destroyed while a capture adds nodes to the graph."""
    stream, graph = calls.stream(NON_BLOCKING), tools.graph(calls)
    calls.prepare("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, tools.RELAXED)
    assert calls.call("cuGraphDestroy", graph) != SUCCESS
    assert cudacore_sim.reports() == ["cuGraphDestroy was given a graph that a capture goes into"]
    assert end(calls, stream) == (SUCCESS, graph)
    calls.prepare("cuGraphDestroy", graph)


def test_injected_failures(calls: Any) -> None:
    """A call with an injected failure would be captured, or would invalidate the capture."""
    stream, out = calls.stream(NON_BLOCKING), calls.memory(4, 0)
    tools.begin(calls, stream)
    with cudacore_sim.failing("cuMemsetD32Async", error=2):
        assert calls.call("cuMemsetD32Async", out, 1, 1, stream) == 2
    code, graph = end(calls, stream)
    assert (code, tools.nodes_of(calls, graph)) == (SUCCESS, [])


def test_many_threads(calls: Any) -> None:
    """Captures on several threads would disturb each other."""
    context, kernel = tools.context(calls), calls.function(KERNELS, "nothing")
    counts: list[int] = []

    def capture() -> None:
        calls.prepare("cuCtxSetCurrent", context)
        stream = calls.stream(NON_BLOCKING)
        for _ in range(20):
            tools.begin(calls, stream, tools.THREAD_LOCAL)
            for _ in range(5):
                calls.prepare("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, pointers(), None)
            _, graph = end(calls, stream)
            counts.append(len(tools.nodes_of(calls, graph)))
            executable = tools.instantiate(calls, graph)
            calls.prepare("cuGraphLaunch", executable, stream)
            calls.prepare("cuGraphExecDestroy", executable)
            calls.prepare("cuGraphDestroy", graph)
        calls.prepare("cuStreamSynchronize", stream)

    threads = [threading.Thread(target=capture) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [5] * 80


def test_everything_in_any_order() -> None:
    """The results of captured work would depend on the order in which the executor runs units that are ready."""
    run_shuffled(__file__, seeds=(3, 4))
