# SPDX-License-Identifier: Apache-2.0
"""Stream capture: its states, forks and joins, the nodes that it makes, and its end."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint32, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import GLOBAL, RELAXED, THREAD_LOCAL, Edge, array
from ptx import KERNELS
from recorder import Recorder, pointers, sequence
from structs import launch_configuration

NON_BLOCKING = 1
DISABLE_TIMING = 2
ADD, SET = 0, 1


def streams(cu: Recorder, count: int) -> list[int]:
    """Create streams."""
    return [cu.stream(NON_BLOCKING) for _ in range(count)]


def fill(cu: Recorder, stream: int, address: int, value: int = 1) -> None:
    """Enqueue a memset, which must succeed."""
    cu.prepare("cuMemsetD32Async", address, value, 1, stream)


def fork(cu: Recorder, source: int, to: int) -> int:
    """Make a stream wait for another one; return the event."""
    event = cu.event(DISABLE_TIMING)
    cu.prepare("cuEventRecord", event, source)
    cu.prepare("cuStreamWaitEvent", to, event, 0)
    return event


def see_info(cu: Recorder, stream: int | None) -> tuple[int, list[int]]:
    """See the driver's information about a capture; return the graph and the dependencies."""
    state, identifier, graph = c_int(99), c_uint64(0), c_void_p()
    dependencies, data, count = c_void_p(), c_void_p(), c_size_t(99)
    code = cu.call("cuStreamGetCaptureInfo_v3", stream, state, identifier, graph, dependencies, data, count)
    if code:
        return 0, []
    cu.see("info", (tools.STATUS.get(state.value, state.value), identifier.value != 0, bool(graph.value), count.value))
    if state.value != 1:
        return 0, []
    nodes = (
        [node or 0 for node in (c_void_p * count.value).from_address(dependencies.value or 0)] if count.value else []
    )
    names = tools.labels(cu, graph.value or 0)
    cu.see("dependencies", [names.get(node, "?") for node in nodes])
    if data.value and count.value:
        edges = (Edge * count.value).from_address(data.value)
        cu.see("edges", [(edge.from_port, edge.to_port, edge.type) for edge in edges])
    else:
        cu.see("edges", bool(data.value))
    return graph.value or 0, nodes


@sequence
def states(cu: Recorder) -> None:
    """A stream before, during and after a capture."""
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
        tools.run(cu, executable, stream)
        cu.see_words("after", address, 1)
        tools.put(cu, 32, address, 0, 1)


@sequence
def empty_capture(cu: Recorder) -> None:
    """A capture without work makes a graph without nodes."""
    stream = cu.stream(NON_BLOCKING)
    cu.call("cuStreamBeginCapture_v2", stream, GLOBAL)
    tools.see_capture(cu, stream)


@sequence
def begin_arguments(cu: Recorder) -> None:
    """Streams and modes with which a capture cannot begin."""
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
    """Streams without a capture to end, and NULL for the graph."""
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
    context = tools.context(cu)
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        stream = cu.stream(NON_BLOCKING)
        tools.begin(cu, stream, mode)

        def other(stream: int = stream) -> None:
            cu.prepare("cuCtxSetCurrent", context)
            tools.status(cu, stream)
            tools.end(cu, stream)

        cu.in_thread(other)
        tools.status(cu, stream)
        tools.end(cu, stream)


@sequence
def work_of_another_thread(cu: Recorder) -> None:
    """Work that another thread submits to the stream is captured."""
    context, address = tools.context(cu), cu.memory(8, 0)
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        stream = cu.stream(NON_BLOCKING)
        tools.begin(cu, stream, mode)

        def other(stream: int = stream) -> None:
            cu.prepare("cuCtxSetCurrent", context)
            cu.call("cuMemsetD32Async", address, 5, 1, stream)

        cu.in_thread(other)
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
    """Each capture has its own identifier, which its forks share."""
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
def fork_and_join(cu: Recorder) -> None:
    """Another stream joins a capture by an event, and the first one waits for it again."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
    tools.status(cu, two)
    see_info(cu, two)
    fill(cu, two, address + 4)
    fill(cu, one, address + 8)
    fork(cu, two, one)
    see_info(cu, one)
    fill(cu, one, address + 12)
    tools.see_capture(cu, one)
    tools.status(cu, two)


@sequence
def fork_from_nothing(cu: Recorder) -> None:
    """A stream joins a capture that has no nodes yet."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fork(cu, one, two)
    see_info(cu, two)
    fill(cu, two, address)
    fork(cu, two, one)
    see_info(cu, one)
    tools.see_capture(cu, one)


@sequence
def fork_of_a_fork(cu: Recorder) -> None:
    """A forked stream forks another one, which the first stream joins."""
    one, two, three = streams(cu, 3)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
    fill(cu, two, address + 4)
    fork(cu, two, three)
    fill(cu, three, address + 8)
    fork(cu, three, one)
    tools.see_capture(cu, one)
    for stream in (two, three):
        tools.status(cu, stream)


@sequence
def unjoined(cu: Recorder) -> None:
    """A capture ends while a fork has work that nothing waits for."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
    fill(cu, two, address + 4)
    tools.end(cu, one)
    tools.status(cu, one)
    tools.status(cu, two)
    fill(cu, two, address)
    cu.call("cuStreamSynchronize", two)


@sequence
def unjoined_without_work(cu: Recorder) -> None:
    """A capture ends while a fork that has done nothing is not joined."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
    tools.end(cu, one)
    tools.status(cu, two)
    tools.begin(cu, one)
    fork(cu, one, two)
    tools.end(cu, one)
    tools.status(cu, two)


@sequence
def unjoined_after_a_join(cu: Recorder) -> None:
    """A fork that was joined gets more work."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fork(cu, one, two)
    fill(cu, two, address + 4)
    fork(cu, two, one)
    fill(cu, two, address + 8)
    tools.end(cu, one)


@sequence
def end_in_a_fork(cu: Recorder) -> None:
    """A capture is ended in a stream that did not begin it."""
    one, two = streams(cu, 2)
    tools.begin(cu, one)
    fork(cu, one, two)
    tools.end(cu, two)
    tools.status(cu, one)
    tools.status(cu, two)
    tools.end(cu, one)


@sequence
def merge(cu: Recorder) -> None:
    """A stream of one capture waits for an event of another one."""
    one, two = streams(cu, 2)
    address, event = cu.memory(16, 0), cu.event()
    tools.begin(cu, one)
    tools.begin(cu, two)
    fill(cu, one, address)
    cu.call("cuEventRecord", event, one)
    cu.call("cuStreamWaitEvent", two, event, 0)
    tools.status(cu, one)
    tools.status(cu, two)
    tools.end(cu, one)
    tools.end(cu, two)


@sequence
def event_of_an_ended_capture(cu: Recorder) -> None:
    """An event that was recorded in a capture which has ended."""
    one, two = streams(cu, 2)
    address, event = cu.memory(16, 0), cu.event()
    tools.begin(cu, one)
    fill(cu, one, address)
    cu.call("cuEventRecord", event, one)
    tools.end(cu, one)
    cu.call("cuEventQuery", event)
    cu.call("cuEventSynchronize", event)
    cu.call("cuStreamWaitEvent", two, event, 0)
    tools.status(cu, two)
    tools.begin(cu, two)
    cu.call("cuStreamWaitEvent", two, event, 0)
    tools.status(cu, two)
    tools.end(cu, two)
    cu.call("cuEventRecord", event, two)
    cu.call("cuEventSynchronize", event)
    cu.call("cuEventQuery", event)
    cu.call("cuEventDestroy_v2", event)


@sequence
def event_recorded_again(cu: Recorder) -> None:
    """An event of a capture is recorded outside of it, and the reverse."""
    one, two, three = streams(cu, 3)
    address, event = cu.memory(16, 0), cu.event()
    tools.begin(cu, one)
    fill(cu, one, address)
    cu.call("cuEventRecord", event, one)
    cu.call("cuEventRecord", event, two)
    cu.call("cuEventQuery", event)
    cu.call("cuEventSynchronize", event)
    tools.status(cu, one)
    cu.call("cuStreamWaitEvent", three, event, 0)
    tools.status(cu, three)
    cu.call("cuEventRecord", event, one)
    cu.call("cuEventQuery", event)
    tools.status(cu, one)
    tools.end(cu, one)


@sequence
def external_events(cu: Recorder) -> None:
    """External records and waits are nodes."""
    stream, other = streams(cu, 2)
    address, one, two = cu.memory(16, 0), cu.event(), cu.event()
    tools.begin(cu, stream)
    cu.call("cuStreamWaitEvent", stream, one, 1)
    fill(cu, stream, address)
    cu.call("cuEventRecordWithFlags", two, stream, 1)
    cu.call("cuEventQuery", two)
    tools.status(cu, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        for node, label in tools.labels(cu, graph).items():
            if label.endswith(("wait", "record")):
                kind = "Wait" if label.endswith("wait") else "Record"
                event = cu.new(f"cuGraphEvent{kind}NodeGetEvent", node, c_void_p)
                cu.see(label, {one: "one", two: "two"}.get(event))
        executable = tools.instantiate(cu, graph)
        with cu.gate(other):
            cu.call("cuEventRecord", one, other)
            cu.call("cuGraphLaunch", executable, stream)
            cu.call("cuEventQuery", two)
        cu.call("cuEventSynchronize", two)
    cu.call("cuStreamWaitEvent", stream, one, 1)
    cu.call("cuEventRecordWithFlags", two, stream, 1)


@sequence
def waits_add_dependencies(cu: Recorder) -> None:
    """A stream waits for its own event, twice for the event of another stream, and for an event older than that."""
    one, two = streams(cu, 2)
    address, early = cu.memory(16, 0), cu.event()
    tools.begin(cu, one)
    fill(cu, one, address)
    cu.call("cuEventRecord", early, one)
    fill(cu, one, address + 4)
    cu.call("cuStreamWaitEvent", one, early, 0)
    see_info(cu, one)
    cu.call("cuStreamWaitEvent", two, early, 0)
    cu.call("cuStreamWaitEvent", two, early, 0)
    see_info(cu, two)
    late = fork(cu, one, two)
    see_info(cu, two)
    cu.call("cuStreamWaitEvent", two, late, 0)
    fill(cu, two, address + 8)
    cu.call("cuStreamWaitEvent", two, early, 0)
    see_info(cu, two)
    fork(cu, two, one)
    see_info(cu, one)
    tools.see_capture(cu, one)


@sequence
def fork_in_another_thread(cu: Recorder) -> None:
    """A stream of another thread joins a capture."""
    context, address = tools.context(cu), cu.memory(16, 0)
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        one, two = streams(cu, 2)
        event, back = cu.event(), cu.event()
        tools.begin(cu, one, mode)
        fill(cu, one, address)
        cu.call("cuEventRecord", event, one)

        def other(two: int = two, event: int = event, back: int = back) -> None:
            cu.prepare("cuCtxSetCurrent", context)
            cu.call("cuStreamWaitEvent", two, event, 0)
            cu.call("cuMemsetD32Async", address, 5, 1, two)
            cu.call("cuEventRecord", back, two)

        cu.in_thread(other)
        cu.call("cuStreamWaitEvent", one, back, 0)
        tools.see_capture(cu, one)


@sequence
def fork_of_a_blocking_stream(cu: Recorder) -> None:
    """Blocking streams fork, and the legacy stream is not used."""
    one, two = cu.stream(), cu.stream()
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
    fill(cu, two, address + 4)
    fork(cu, two, one)
    tools.see_capture(cu, one)
    cu.call("cuMemsetD32_v2", address, 1, 1)


@sequence
def update_dependencies(cu: Recorder) -> None:
    """Dependencies of the next captured work are added and replaced."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    other = tools.graph(cu)
    foreign = tools.empty(cu, other)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, None, None, 0, SET)
    tools.begin(cu, stream)
    fill(cu, stream, address)
    graph, (first,) = see_info(cu, stream)
    extra = tools.empty(cu, graph)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, array(extra), None, 1, ADD)
    see_info(cu, stream)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, array(extra), None, 1, ADD)
    see_info(cu, stream)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, array(extra, extra), None, 2, SET)
    see_info(cu, stream)
    cu.call("cuStreamUpdateCaptureDependencies", stream, array(first), 1, SET)
    see_info(cu, stream)
    for arguments in ((array(foreign), None, 1, SET), (array(None), None, 1, SET), (None, None, 1, SET),
                      (array(extra), None, 1, 2), (array(extra), None, 1, 7)):  # fmt: skip
        cu.call("cuStreamUpdateCaptureDependencies_v2", stream, *arguments)
        see_info(cu, stream)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, array(extra), (Edge * 1)(Edge(1, 0, 1)), 1, SET)
    see_info(cu, stream)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, None, None, 0, SET)
    see_info(cu, stream)
    fill(cu, stream, address + 4)
    tools.see_capture(cu, stream)


@sequence
def dependencies_removed(cu: Recorder) -> None:
    """Removed dependencies do not count as unjoined."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    tools.begin(cu, stream)
    fill(cu, stream, address)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, None, None, 0, SET)
    tools.see_capture(cu, stream)
    tools.begin(cu, stream)
    graph, _ = see_info(cu, stream)
    tools.empty(cu, graph)
    tools.see_capture(cu, stream)


@sequence
def programmatic_dependencies(cu: Recorder) -> None:
    """A launch with programmatic serialization makes an annotated edge."""
    stream = cu.stream(NON_BLOCKING)
    function = cu.function(KERNELS, "nothing")
    tools.begin(cu, stream)
    cu.launch(function, stream=stream)
    configuration = launch_configuration((6, (1,)), stream=stream)
    cu.call("cuLaunchKernelEx", configuration, function, None, None)
    see_info(cu, stream)
    cu.call("cuStreamGetCaptureInfo_v2", stream, c_int, None, c_void_p, c_void_p, c_size_t)
    cu.launch(function, stream=stream)
    tools.see_capture(cu, stream)


@sequence
def programmatic_events(cu: Recorder) -> None:
    """A fork by a programmatic event has an annotated dependency."""
    one, two = streams(cu, 2)
    function, event, address = cu.function(KERNELS, "nothing"), cu.event(DISABLE_TIMING), cu.memory(4)
    tools.begin(cu, one)
    configuration = launch_configuration((7, (event & 0xFFFFFFFF, event >> 32, 0, 0)), stream=one)
    cu.call("cuLaunchKernelEx", configuration, function, None, None)
    cu.call("cuStreamWaitEvent", two, event, 0)
    see_info(cu, two)
    cu.call("cuStreamGetCaptureInfo_v2", two, c_int, None, c_void_p, c_void_p, c_size_t)
    cu.call("cuStreamGetCaptureInfo_v2", two, c_int, None, c_void_p, None, None)
    cu.launch(function, stream=two)
    fork(cu, two, one)
    fill(cu, one, address)
    tools.see_capture(cu, one)


@sequence
def programmatic_event_before_another_node(cu: Recorder) -> None:
    """A fork by a programmatic event has an annotated dependency, and its next work is a memset."""
    one, two = streams(cu, 2)
    function, event, address = cu.function(KERNELS, "nothing"), cu.event(DISABLE_TIMING), cu.memory(4)
    tools.begin(cu, one)
    configuration = launch_configuration((7, (event & 0xFFFFFFFF, event >> 32, 0, 0)), stream=one)
    cu.call("cuLaunchKernelEx", configuration, function, None, None)
    cu.call("cuStreamWaitEvent", two, event, 0)
    cu.call("cuMemsetD32Async", address, 1, 1, two)
    tools.status(cu, one)
    fork(cu, two, one)
    tools.see_capture(cu, one)


@sequence
def to_a_graph(cu: Recorder) -> None:
    """A capture adds to an existing graph, after some of its nodes."""
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
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see_words("words", address, 3)


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
    """A capture into a graph is invalidated, and the graph is requested after that."""
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
    """The calls that are allowed for a graph while a capture adds to it."""
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
    """The calls that are allowed for the graph of a capture before its end."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    tools.begin(cu, stream)
    fill(cu, stream, address)
    graph, _ = see_info(cu, stream)
    tools.empty(cu, graph)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphClone", c_void_p, graph)
    tools.status(cu, stream)
    ended = tools.see_capture(cu, stream)
    cu.see("the same graph", ended == graph)


@sequence
def destroy_the_stream(cu: Recorder) -> None:
    """A stream that captures is destroyed."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    tools.begin(cu, stream, GLOBAL)
    fill(cu, stream, address)
    cu.call("cuStreamDestroy_v2", stream)
    cu.call("cuMemAlloc_v2", c_uint64, 16)
    cu.call("cuCtxSynchronize")


@sequence
def destroy_a_fork(cu: Recorder) -> None:
    """A stream that has joined a capture is destroyed."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fork(cu, one, two)
    fill(cu, two, address)
    cu.call("cuStreamDestroy_v2", two)
    tools.status(cu, one)
    tools.end(cu, one)


@sequence
def destroy_a_joined_fork(cu: Recorder) -> None:
    """A stream that was joined again is destroyed."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fork(cu, one, two)
    fill(cu, two, address)
    fork(cu, two, one)
    cu.call("cuStreamDestroy_v2", two)
    tools.status(cu, one)
    tools.see_capture(cu, one)


@sequence
def events_destroyed(cu: Recorder) -> None:
    """The events of forks and joins are destroyed before the capture ends."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one, GLOBAL)
    cu.call("cuEventDestroy_v2", fork(cu, one, two))
    fill(cu, two, address)
    cu.call("cuEventDestroy_v2", fork(cu, two, one))
    tools.see_capture(cu, one)


@sequence
def invalidated(cu: Recorder) -> None:
    """The calls that are allowed for a stream whose capture was invalidated."""
    one, two = streams(cu, 2)
    address, event = cu.memory(16, 0), cu.event()
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
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
    for stream in (one, two):
        tools.status(cu, stream)
    tools.end(cu, one)
    fill(cu, one, address)
    cu.call("cuStreamSynchronize", one)


@sequence
def invalidated_end_in_another_thread(cu: Recorder) -> None:
    """An invalidated capture is ended by another thread."""
    stream, context = cu.stream(NON_BLOCKING), tools.context(cu)
    tools.begin(cu, stream, GLOBAL)
    cu.attempt("cuStreamSynchronize", stream)

    def other() -> None:
        cu.prepare("cuCtxSetCurrent", context)
        tools.end(cu, stream)

    cu.in_thread(other)
    tools.end(cu, stream)


@sequence
def thread_that_ended(cu: Recorder) -> None:
    """The thread that began a capture has ended."""
    context = tools.context(cu)
    for mode in (GLOBAL, RELAXED):
        stream = cu.stream(NON_BLOCKING)

        def other(stream: int = stream, mode: int = mode) -> None:
            cu.prepare("cuCtxSetCurrent", context)
            tools.begin(cu, stream, mode)

        cu.in_thread(other)
        tools.status(cu, stream)
        tools.end(cu, stream)
        tools.status(cu, stream)
        if mode == GLOBAL:
            cu.call("cuMemAlloc_v2", c_uint64, 16)


@sequence
def exchanged_modes(cu: Recorder) -> None:
    """The mode of a thread is exchanged; other threads have their own."""
    mode = c_int(RELAXED)
    cu.call("cuThreadExchangeStreamCaptureMode", mode)
    cu.see("before", mode.value)
    mode = c_int(THREAD_LOCAL)
    cu.call("cuThreadExchangeStreamCaptureMode", mode)
    cu.see("before", mode.value)

    def other() -> None:
        mode = c_int(THREAD_LOCAL)
        cu.call("cuThreadExchangeStreamCaptureMode", mode)
        cu.see("before in another thread", mode.value)

    cu.in_thread(other)
    for value in (3, -1):
        mode = c_int(value)
        cu.call("cuThreadExchangeStreamCaptureMode", mode)
        cu.see("after", mode.value)
    mode = c_int(GLOBAL)
    cu.call("cuThreadExchangeStreamCaptureMode", mode)
    cu.see("before", mode.value)


@sequence
def kernels_are_captured(cu: Recorder) -> None:
    """A launch becomes a kernel node with its sizes, arguments and attributes."""
    stream, out = cu.stream(NON_BLOCKING), cu.memory(64, 0)
    store = cu.function(KERNELS, "store")
    kernel = cu.kernel(KERNELS, "nothing")
    tools.begin(cu, stream)
    value = c_uint32(5)
    cu.launch(store, c_uint64(out), value, grid=(2, 1, 1), block=(4, 1, 1), shared=16, stream=stream)
    value.value = 9
    cu.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
    configuration = launch_configuration((4, (2, 1, 1)), (8, (-2 & 0xFFFFFFFF,)), grid=(4, 1, 1), stream=stream)
    cu.call("cuLaunchKernelEx", configuration, store, pointers(c_uint64(out + 4), c_uint32(6)), None)
    cu.call("cuLaunchCooperativeKernel", store, 1, 1, 1, 1, 1, 1, 0, stream, pointers(c_uint64(out + 8), c_uint32(7)))
    graph = tools.see_capture(cu, stream)
    for node in tools.nodes_of(cu, graph):
        params = tools.KernelNode()
        cu.call("cuGraphKernelNodeGetParams_v2", node, params)
        cu.see("params", (list(params.grid), list(params.block), params.shared, bool(params.kernelParams)))
        cu.see("function", "store" if params.func == store else "kernel" if params.func == kernel else "another")
        cu.see("kernel", "none" if not params.kern else "kernel" if params.kern == kernel else "another")
        words = (ctypes.c_uint * 16)()
        for attribute in (2, 4, 8):
            ctypes.memset(words, 0, 64)
            cu.prepare("cuGraphKernelNodeGetAttribute", node, attribute, words)
            cu.see("attribute", (attribute, list(words)[:3]))
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see_words("words", out, 3)


@sequence
def priority_of_the_stream(cu: Recorder) -> None:
    """A captured kernel has the priority of its stream."""
    stream = cu.prepare("cuStreamCreateWithPriority", c_void_p, NON_BLOCKING, -3)
    tools.begin(cu, stream)
    cu.launch(cu.function(KERNELS, "nothing"), stream=stream)
    graph = tools.end(cu, stream)
    words = (ctypes.c_uint * 16)()
    cu.call("cuGraphKernelNodeGetAttribute", tools.nodes_of(cu, graph)[0], 8, words)
    cu.see("priority", ctypes.c_int(words[0]).value)


@sequence
def copies_are_captured(cu: Recorder) -> None:
    """Copies become memcpy nodes. Pageable memory is read when the graph runs."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(64, 3)
    host = tools.keep(ctypes.create_string_buffer(b"a" * 16, 64))
    pinned = int(cu.prepare("cuMemHostAlloc", c_void_p, 64, 0))
    two = tools.copy_params(address + 16, address, 4, Height=2, srcPitch=8, dstPitch=8)
    tools.begin(cu, stream)
    cu.call("cuMemcpyDtoDAsync_v2", address + 32, address, 8, stream)
    cu.call("cuMemcpyHtoDAsync_v2", address, host, 8, stream)
    cu.call("cuMemcpyDtoHAsync_v2", pinned, address, 8, stream)
    cu.call("cuMemcpyAsync", address + 40, pinned, 8, stream)
    cu.call("cuMemcpyAsync", pinned, address + 40, 8, stream)
    cu.call("cuMemcpy3DAsync_v2", two, stream)
    graph = tools.see_capture(cu, stream)
    fields = ("srcMemoryType", "dstMemoryType", "srcPitch", "dstPitch", "srcHeight", "dstHeight", "WidthInBytes",
              "Height", "Depth")  # fmt: skip
    for node in tools.nodes_of(cu, graph):
        back = tools.Copy3D()
        cu.call("cuGraphMemcpyNodeGetParams", node, back)
        cu.see("back", [getattr(back, field) for field in fields])
    host.value = b"b" * 16
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see_bytes("bytes", address, 48)


@sequence
def memsets_are_captured(cu: Recorder) -> None:
    """Memsets become memset nodes."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(256, 0)
    tools.begin(cu, stream)
    cu.call("cuMemsetD8Async", address, 0x101, 5, stream)
    cu.call("cuMemsetD16Async", address, 2, 5, stream)
    cu.call("cuMemsetD32Async", address, 3, 5, stream)
    cu.call("cuMemsetD2D8Async", address, 16, 4, 3, 2, stream)
    cu.call("cuMemsetD2D32Async", address, 16, 5, 3, 2, stream)
    cu.call("cuMemsetD2D32Async", address, 16, 5, 3, 1, stream)
    cu.call("cuMemsetD32Async", address, 3, 0, stream)
    graph = tools.see_capture(cu, stream)
    for node in tools.nodes_of(cu, graph):
        back = tools.MemsetNode()
        if cu.call("cuGraphMemsetNodeGetParams", node, back) == 0:
            cu.see("back", (back.dst == address, back.pitch, back.value, back.elementSize, back.width, back.height))


@sequence
def host_functions_are_captured(cu: Recorder) -> None:
    """Host functions become host nodes."""
    stream = cu.stream(NON_BLOCKING)
    seen: list[object] = []
    function = tools.keep(tools.HOST_FUNCTION(seen.append))
    tools.begin(cu, stream)
    cu.call("cuLaunchHostFunc", stream, function, 5)
    cu.call("cuLaunchHostFunc", stream, function, 6)
    graph = tools.see_capture(cu, stream)
    cu.see("seen", seen)
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see("seen", seen)


@sequence
def memory_is_captured(cu: Recorder) -> None:
    """Stream-ordered allocations and frees become memory nodes."""
    stream, out = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    tools.begin(cu, stream)
    address = cu.new("cuMemAllocAsync", c_uint64, 64, stream)
    cu.call("cuMemsetD32Async", address, 7, 4, stream)
    cu.call("cuMemcpyDtoDAsync_v2", out, address, 16, stream)
    cu.call("cuMemFreeAsync", address, stream)
    cu.call("cuMemFreeAsync", address, stream)
    tools.status(cu, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        back = tools.AllocNode()
        cu.call("cuGraphMemAllocNodeGetParams", tools.nodes_of(cu, graph)[0], back)
        cu.see("back", (back.bytesize, back.dptr == address, back.poolProps.location.type, back.accessDescCount))
        executable = tools.instantiate(cu, graph)
        tools.run(cu, executable, stream)
        tools.run(cu, executable, stream)
        cu.see_words("words", out, 4)


@sequence
def memory_is_not_freed_in_the_capture(cu: Recorder) -> None:
    """Memory that is allocated in a capture is freed outside of it, and in another capture."""
    stream = cu.stream(NON_BLOCKING)
    tools.begin(cu, stream)
    address = cu.new("cuMemAllocAsync", c_uint64, 64, stream)
    first = tools.instantiate(cu, tools.end(cu, stream))
    tools.run(cu, first, stream)
    cu.call("cuMemFreeAsync", address, stream)
    tools.begin(cu, stream)
    cu.call("cuMemFreeAsync", address, stream)
    tools.status(cu, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        second = tools.instantiate(cu, graph)
        tools.run(cu, first, stream)
        tools.run(cu, second, stream)


@sequence
def graphs_are_captured(cu: Recorder) -> None:
    """The launch of a graph becomes a child graph node."""
    stream, address, inner = cu.stream(NON_BLOCKING), cu.memory(16, 0), tools.graph(cu)
    node = tools.memset(cu, inner, address, 5, 1)
    executable = tools.instantiate(cu, inner)
    context = tools.context(cu)
    cu.prepare("cuGraphExecMemsetNodeSetParams", executable, node, tools.memset_params(address, 6, 1), context)
    cu.prepare("cuGraphMemsetNodeSetParams", node, tools.memset_params(address, 7, 1))
    tools.begin(cu, stream)
    cu.call("cuGraphLaunch", executable, stream)
    cu.attempt("cuMemsetD32Async", address + 4, 2, 1, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        tools.see_graph(cu, tools.child_graph(cu, tools.nodes_of(cu, graph)[0]))
        tools.run(cu, tools.instantiate(cu, graph), stream)
        cu.see_words("words", address, 2)


@sequence
def graphs_with_memory_are_captured(cu: Recorder) -> None:
    """The launch of a graph with memory nodes, or with conditional ones, in a capture."""
    stream, inner, other = cu.stream(NON_BLOCKING), tools.graph(cu), tools.graph(cu)
    node, address = tools.alloc(cu, inner, 64)
    tools.free(cu, inner, address, node)
    executable = tools.instantiate(cu, inner)
    tools.begin(cu, stream)
    cu.call("cuGraphLaunch", executable, stream)
    tools.status(cu, stream)
    tools.see_capture(cu, stream)
    tools.conditional(cu, other, tools.condition(cu, other, 1), tools.IF)
    executable = tools.instantiate(cu, other)
    tools.begin(cu, stream)
    cu.call("cuGraphLaunch", executable, stream)
    tools.status(cu, stream)
    tools.see_capture(cu, stream)


@sequence
def captured_chain(cu: Recorder) -> None:
    """All work of one stream becomes a chain of nodes."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(64, 0)
    function = tools.keep(tools.HOST_FUNCTION(lambda _: None))
    kernel = cu.function(KERNELS, "nothing")
    tools.begin(cu, stream, GLOBAL)
    fill(cu, stream, address)
    cu.launch(kernel, stream=stream)
    cu.call("cuMemcpyDtoDAsync_v2", address, address + 16, 16, stream)
    cu.call("cuLaunchHostFunc", stream, function, None)
    cu.call("cuStreamWriteValue32_v2", stream, address, 5, 0)
    cu.call("cuStreamWaitValue32_v2", stream, address, 5, 0)
    tools.see_capture(cu, stream)


@sequence
def per_thread_stream(cu: Recorder) -> None:
    """The per-thread default stream captures."""
    address = cu.memory(16, 0)
    cu.call("cuStreamBeginCapture_v2", 2, GLOBAL)
    cu.call("cuMemsetD32Async", address, 1, 1, 2)
    tools.status(cu, 2)
    cu.call("cuStreamQuery", None)
    tools.status(cu, 2)
    tools.end(cu, 2)


@sequence
def another_context(cu: Recorder) -> None:
    """A stream of another context joins a capture."""
    one, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    primary, event, back = tools.context(cu), cu.event(), None
    context = cu.prepare("cuCtxCreate_v2", c_void_p, 0, 0)
    cu.prepare("cuCtxSetCurrent", context)
    two, back = cu.stream(NON_BLOCKING), cu.event()
    cu.prepare("cuCtxSetCurrent", primary)
    tools.begin(cu, one)
    fill(cu, one, address)
    cu.call("cuEventRecord", event, one)
    cu.call("cuStreamWaitEvent", two, event, 0)
    cu.call("cuMemsetD32Async", address, 1, 1, two)
    cu.call("cuEventRecord", back, two)
    cu.call("cuStreamWaitEvent", one, back, 0)
    tools.see_capture(cu, one)
