# SPDX-License-Identifier: Apache-2.0
"""Stream capture: its states, its threads and modes, captures to a graph, and its end."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_uint64, c_void_p

import graph_tools as tools
from capture_tools import NON_BLOCKING, SET, begun, fill, fork, forked, see_info, streams
from graph_tools import GLOBAL, RELAXED, THREAD_LOCAL, Edge, array
from recorder import Recorder, sequence


@sequence
def states(cu: Recorder) -> None:
    """The state of a stream before, during and after a capture."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(4, 0)
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        tools.status(cu, stream)
        see_info(cu, stream)
        cu.call("cuStreamBeginCapture_v2", stream, mode)
        tools.status(cu, stream)
        see_info(cu, stream)
        cu.call("cuMemsetD32Async", address, 5, 1, stream)
        see_info(cu, stream)
        graph = tools.see_capture(cu, stream)
        tools.status(cu, stream)
        executable = tools.instantiate(cu, graph)
        cu.see_words("before", address, 1)
        tools.see_run(cu, executable, stream, "after", address, 1)
        tools.put(cu, 32, address, 0, 1)


@sequence
def empty_capture(cu: Recorder) -> None:
    """A capture without work makes a graph without nodes."""
    stream = cu.stream(NON_BLOCKING)
    cu.call("cuStreamBeginCapture_v2", stream, GLOBAL)
    tools.see_capture(cu, stream)


@sequence
def begin_arguments(cu: Recorder) -> None:
    """Streams that cannot capture, and modes that do not exist."""
    stream = cu.stream(NON_BLOCKING)
    for which in (None, 1):
        cu.call("cuStreamBeginCapture_v2", which, RELAXED)
        cu.call("cuStreamIsCapturing", which, c_int)
    for mode in (3, 7, -1):
        cu.call("cuStreamBeginCapture_v2", stream, mode)
    cu.call("cuStreamBeginCapture_v2", 2, RELAXED)
    tools.status(cu, 2)
    cu.call("cuStreamEndCapture", 2, c_void_p)
    cu.call("cuStreamBeginCapture", stream)
    tools.status(cu, stream)
    cu.call("cuStreamBeginCapture_v2", stream, GLOBAL)
    tools.status(cu, stream)
    cu.call("cuStreamEndCapture", stream, c_void_p)
    cu.call("cuStreamIsCapturing", stream, None)
    cu.call("cuStreamGetCaptureInfo_v2", stream, None, c_uint64, c_void_p, None, None)


@sequence
def end_arguments(cu: Recorder) -> None:
    """Ending a capture in streams that do not capture, and with NULL for the resulting graph."""
    stream, other = streams(cu, 2)
    cu.call("cuStreamEndCapture", stream, c_void_p)
    cu.call("cuStreamEndCapture", None, c_void_p)
    cu.call("cuStreamEndCapture", 1, c_void_p)
    tools.begin(cu, stream)
    cu.call("cuStreamEndCapture", other, c_void_p)
    tools.status(cu, stream)
    cu.call("cuStreamEndCapture", stream, None)
    tools.status(cu, stream)
    cu.call("cuStreamEndCapture", stream, c_void_p)


@sequence
def wrong_thread(cu: Recorder) -> None:
    """A capture is ended by a thread that did not begin it."""
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        stream = cu.stream(NON_BLOCKING)
        tools.begin(cu, stream, mode)

        def end(stream: int = stream) -> None:
            tools.status(cu, stream)
            tools.end(cu, stream)

        cu.in_thread(end, tools.context(cu))
        end()


@sequence
def work_of_another_thread(cu: Recorder) -> None:
    """Work that another thread submits to the stream is captured."""
    address = cu.memory(8, 0)
    for mode, stream in zip((GLOBAL, THREAD_LOCAL, RELAXED), streams(cu, 3), strict=True):
        tools.begin(cu, stream, mode)
        cu.in_thread(lambda stream=stream: cu.call("cuMemsetD32Async", address, 5, 1, stream), tools.context(cu))
        tools.see_capture(cu, stream)


@sequence
def captures_at_once(cu: Recorder) -> None:
    """Two streams capture at the same time."""
    one, two = streams(cu, 2)
    address = cu.memory(8, 0)
    for first, second in ((GLOBAL, GLOBAL), (GLOBAL, RELAXED), (RELAXED, GLOBAL), (THREAD_LOCAL, THREAD_LOCAL)):
        cu.see("modes", (first, second))
        cu.call("cuStreamBeginCapture_v2", one, first)
        cu.call("cuStreamBeginCapture_v2", two, second)
        cu.call("cuMemsetD32Async", address, 5, 1, one)
        cu.call("cuMemsetD32Async", address, 6, 1, two)
        tools.see_capture(cu, one)
        tools.see_capture(cu, two)


@sequence
def identifiers(cu: Recorder) -> None:
    """Each capture has its own identifier, which is the same in all forked streams."""
    one, two = streams(cu, 2)
    seen = []
    for _ in range(3):
        tools.begin(cu, one)
        first = cu.prepare("cuStreamGetCaptureInfo_v2", one, c_int, c_uint64, None, None, None)[1]
        fork(cu, one, two)
        second = cu.prepare("cuStreamGetCaptureInfo_v2", two, c_int, c_uint64, None, None, None)[1]
        cu.see("shared", first == second)
        seen.append(first)
        fork(cu, two, one)
        tools.end(cu, one)
    cu.see("differ", len(set(seen)) == 3)
    cu.see("ascend", seen == sorted(seen))
    cu.call("cuStreamGetCaptureInfo", one, c_int, c_uint64)


@sequence
def to_a_graph(cu: Recorder) -> None:
    """A capture adds nodes to an existing graph. They depend on given nodes of this graph."""
    stream, address, graph = cu.stream(NON_BLOCKING), cu.memory(16, 0), tools.graph(cu)
    node = tools.memset(cu, graph, address, 1, 1)
    cu.call("cuStreamBeginCaptureToGraph", stream, graph, array(node), None, 1, RELAXED)
    inside, _ = see_info(cu, stream)
    cu.see("the graph", inside == graph)
    fill(cu, stream, address + 4, 2)
    ended = c_void_p()
    cu.call("cuStreamEndCapture", stream, ended)
    cu.see("the graph", ended.value == graph)
    tools.see_graph(cu, graph)
    cu.call("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, RELAXED)
    fill(cu, stream, address + 8, 3)
    cu.call("cuStreamEndCapture", stream, ended)
    tools.see_graph(cu, graph)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", address, 3)


@sequence
def to_a_graph_arguments(cu: Recorder) -> None:
    """Arguments with which a capture to a graph cannot begin."""
    stream, graph, other = cu.stream(NON_BLOCKING), tools.graph(cu), tools.graph(cu)
    node, foreign = tools.empty(cu, graph), tools.empty(cu, other)
    for name, arguments in {
        "no graph": (stream, None, None, None, 0, RELAXED), "no array": (stream, graph, None, None, 1, RELAXED),
        "null node": (stream, graph, array(None), None, 1, RELAXED),
        "foreign node": (stream, graph, array(foreign), None, 1, RELAXED), "mode": (stream, graph, None, None, 0, 9),
        "legacy": (None, graph, None, None, 0, RELAXED), "twice": (stream, graph, array(node, node), None, 2, RELAXED),
        "annotated": (stream, graph, array(node), (Edge * 1)(Edge(1, 0, 1)), 1, RELAXED),
    }.items():  # fmt: skip
        cu.see("given", name)
        if cu.call("cuStreamBeginCaptureToGraph", *arguments) == 0:
            see_info(cu, stream)
            tools.end(cu, stream)
    tools.see_graph(cu, graph)


@sequence
def to_a_graph_invalidated(cu: Recorder) -> None:
    """A capture into a graph is invalidated and ended. Then the graph is used."""
    stream, address, graph = cu.stream(NON_BLOCKING), cu.memory(16, 0), tools.graph(cu)
    node = tools.memset(cu, graph, address, 1, 1)
    cu.call("cuStreamBeginCaptureToGraph", stream, graph, array(node), None, 1, RELAXED)
    fill(cu, stream, address + 4, 2)
    cu.call("cuStreamSynchronize", stream)
    tools.status(cu, stream)
    tools.see_graph(cu, graph)
    tools.end(cu, stream)
    cu.call("cuGraphGetNodes", graph, None, c_size_t)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)


@sequence
def to_a_graph_meanwhile(cu: Recorder) -> None:
    """The calls with a graph that are allowed while a capture adds nodes to the graph."""
    stream, other, address, graph = *streams(cu, 2), cu.memory(16, 0), tools.graph(cu)
    node = tools.empty(cu, graph)
    cu.call("cuStreamBeginCaptureToGraph", stream, graph, array(node), None, 1, RELAXED)
    fill(cu, stream, address)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphClone", c_void_p, graph)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, None, 0)
    cu.call("cuGraphAddChildGraphNode", c_void_p, tools.graph(cu), None, 0, graph)
    cu.call("cuStreamBeginCaptureToGraph", other, graph, None, None, 0, RELAXED)
    tools.status(cu, other)
    tools.status(cu, stream)
    cu.attempt("cuStreamEndCapture", other, c_void_p)
    tools.see_capture(cu, stream)


@sequence
def graph_of_a_capture(cu: Recorder) -> None:
    """The calls with the graph of a capture that are allowed before the capture ends."""
    stream, _ = begun(cu)
    graph, _ = see_info(cu, stream)
    tools.empty(cu, graph)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphClone", c_void_p, graph)
    tools.status(cu, stream)
    ended = tools.see_capture(cu, stream)
    cu.see("the same graph", ended == graph)


@sequence
def destroy_the_stream(cu: Recorder) -> None:
    """A stream is destroyed while it captures."""
    stream, _ = begun(cu, GLOBAL)
    cu.call("cuStreamDestroy_v2", stream)
    cu.call("cuMemAlloc_v2", c_uint64, 16)
    cu.call("cuCtxSynchronize")


@sequence
def invalidated(cu: Recorder) -> None:
    """The calls with a stream that are allowed after its capture was invalidated."""
    event, (one, two, address) = cu.event(), forked(cu)
    cu.call("cuStreamSynchronize", one)
    for stream in (one, two):
        tools.status(cu, stream)
        see_info(cu, stream)
        cu.call("cuMemsetD32Async", address, 1, 1, stream)
        cu.call("cuEventRecord", event, stream)
        cu.call("cuStreamSynchronize", stream)
        cu.call("cuStreamQuery", stream)
        cu.call("cuStreamBeginCapture_v2", stream, RELAXED)
        cu.call("cuStreamUpdateCaptureDependencies_v2", stream, None, None, 0, SET)
        cu.call("cuStreamGetFlags", stream, c_int)
    tools.end(cu, two)
    tools.end(cu, one)
    tools.status(cu, one, two)
    tools.end(cu, one)
    fill(cu, one, address)
    cu.call("cuStreamSynchronize", one)


@sequence
def invalidated_end_in_another_thread(cu: Recorder) -> None:
    """An invalidated capture is ended by another thread."""
    stream = cu.stream(NON_BLOCKING)
    tools.begin(cu, stream, GLOBAL)
    cu.attempt("cuStreamSynchronize", stream)
    cu.in_thread(lambda: tools.end(cu, stream), tools.context(cu))
    tools.end(cu, stream)


@sequence
def thread_that_ended(cu: Recorder) -> None:
    """The thread that began a capture ends before the capture does."""
    for mode, stream in zip((GLOBAL, RELAXED), streams(cu, 2), strict=True):
        cu.in_thread(lambda stream=stream, mode=mode: tools.begin(cu, stream, mode), tools.context(cu))
        tools.status(cu, stream)
        tools.end(cu, stream)
        tools.status(cu, stream)
        if mode == GLOBAL:
            cu.call("cuMemAlloc_v2", c_uint64, 16)


@sequence
def exchanged_modes(cu: Recorder) -> None:
    """The capture mode of a thread is exchanged; each thread has its own mode."""

    def exchange(mode: int, what: str = "before") -> None:
        value = c_int(mode)
        cu.call("cuThreadExchangeStreamCaptureMode", value)
        cu.see(what, value.value)

    exchange(RELAXED)
    exchange(THREAD_LOCAL)
    cu.in_thread(lambda: exchange(THREAD_LOCAL, "before in another thread"))
    for mode in (3, -1):
        exchange(mode, "after")
    exchange(GLOBAL)


@sequence
def per_thread_stream(cu: Recorder) -> None:
    """A capture in the per-thread default stream."""
    address = cu.memory(16, 0)
    cu.call("cuStreamBeginCapture_v2", 2, GLOBAL)
    cu.call("cuMemsetD32Async", address, 1, 1, 2)
    tools.status(cu, 2)
    cu.call("cuStreamQuery", None)
    tools.status(cu, 2)
    tools.end(cu, 2)
