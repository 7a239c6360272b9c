# SPDX-License-Identifier: Apache-2.0
"""Stream capture: streams that fork and join by events, and the dependencies of captured work."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_void_p

import graph_tools as tools
from capture_tools import (
    ADD,
    DISABLE_TIMING,
    NON_BLOCKING,
    SET,
    begun,
    fill,
    fork,
    forked,
    see_info,
    see_joined,
    streams,
)  # fmt: skip
from graph_tools import GLOBAL, RELAXED, THREAD_LOCAL, Edge, array
from ptx import KERNELS
from recorder import Recorder, sequence
from structs import launch_configuration


@sequence
def fork_and_join(cu: Recorder) -> None:
    """A second stream joins a capture by an event. Then the first stream waits for the second."""
    one, two, address = forked(cu)
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
    one, two, address = forked(cu, empty=True)
    see_info(cu, two)
    fill(cu, two, address)
    fork(cu, two, one)
    see_info(cu, one)
    tools.see_capture(cu, one)


@sequence
def fork_of_a_fork(cu: Recorder) -> None:
    """A forked stream forks a third stream. The first stream waits for the third stream."""
    three, (one, two, address) = cu.stream(NON_BLOCKING), forked(cu)
    fill(cu, two, address + 4)
    fork(cu, two, three)
    fill(cu, three, address + 8)
    see_joined(cu, one, three)
    tools.status(cu, two, three)


@sequence
def unjoined(cu: Recorder) -> None:
    """A capture ends while a forked stream, which was not joined, has captured work."""
    one, two, address = forked(cu)
    fill(cu, two, address + 4)
    tools.end(cu, one)
    tools.status(cu, one, two)
    fill(cu, two, address)
    cu.call("cuStreamSynchronize", two)


@sequence
def unjoined_without_work(cu: Recorder) -> None:
    """A capture ends while a forked stream without captured work was not joined."""
    one, two, _ = forked(cu)
    tools.end(cu, one)
    tools.status(cu, two)
    tools.begin(cu, one)
    fork(cu, one, two)
    tools.end(cu, one)
    tools.status(cu, two)


@sequence
def unjoined_after_a_join(cu: Recorder) -> None:
    """More work is captured in a forked stream after it was joined."""
    one, two, address = forked(cu, empty=True)
    fill(cu, two, address + 4)
    fork(cu, two, one)
    fill(cu, two, address + 8)
    tools.end(cu, one)


@sequence
def end_in_a_fork(cu: Recorder) -> None:
    """A capture is ended in a stream that did not begin it."""
    one, two, _ = forked(cu, empty=True)
    tools.end(cu, two)
    tools.status(cu, one, two)
    tools.end(cu, one)


@sequence
def merge(cu: Recorder) -> None:
    """A stream that captures waits for an event of another capture."""
    two, event, (one, _) = cu.stream(NON_BLOCKING), cu.event(), begun(cu)
    tools.begin(cu, two)
    cu.call("cuEventRecord", event, one)
    cu.call("cuStreamWaitEvent", two, event, 0)
    tools.status(cu, one, two)
    for stream in (one, two):
        tools.end(cu, stream)


@sequence
def event_of_an_ended_capture(cu: Recorder) -> None:
    """Calls with an event that was recorded in a capture that has ended."""
    two, event, (one, _) = cu.stream(NON_BLOCKING), cu.event(), begun(cu)
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
    for name in ("Synchronize", "Query", "Destroy_v2"):
        cu.call(f"cuEvent{name}", event)


@sequence
def event_recorded_again(cu: Recorder) -> None:
    """An event of a capture is recorded again in a stream outside of the capture, and then in the capture."""
    (two, three), event, (one, _) = streams(cu, 2), cu.event(), begun(cu)
    for stream in (one, two):
        cu.call("cuEventRecord", event, stream)
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
    """Records of events and waits for events with the flag EXTERNAL become nodes."""
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
    """The dependencies of a stream that waits for its own event, for one event twice, and for an older event."""
    two, early, (one, address) = cu.stream(NON_BLOCKING), cu.event(), begun(cu)
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
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        two, event, back = cu.stream(NON_BLOCKING), cu.event(), cu.event()
        one, address = begun(cu, mode)
        cu.call("cuEventRecord", event, one)

        def other(address: int = address, two: int = two, event: int = event, back: int = back) -> None:
            cu.call("cuStreamWaitEvent", two, event, 0)
            cu.call("cuMemsetD32Async", address, 5, 1, two)
            cu.call("cuEventRecord", back, two)

        cu.in_thread(other, tools.context(cu))
        cu.call("cuStreamWaitEvent", one, back, 0)
        tools.see_capture(cu, one)


@sequence
def fork_of_a_blocking_stream(cu: Recorder) -> None:
    """A blocking stream forks to another blocking stream. The legacy stream is used only after the capture."""
    one, two = cu.stream(), cu.stream()
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    fill(cu, one, address)
    fork(cu, one, two)
    fill(cu, two, address + 4)
    see_joined(cu, one, two)
    cu.call("cuMemsetD32_v2", address, 1, 1)


@sequence
def update_dependencies(cu: Recorder) -> None:
    """The dependencies of the next captured work are added to, and replaced."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    foreign = tools.empty(cu, tools.graph(cu))
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, None, None, 0, SET)
    tools.begin(cu, stream)
    fill(cu, stream, address)
    graph, (first,) = see_info(cu, stream)
    extra = tools.empty(cu, graph)

    def update(*arguments: object, version: str = "_v2") -> None:
        cu.call(f"cuStreamUpdateCaptureDependencies{version}", stream, *arguments)
        see_info(cu, stream)

    for _ in range(2):
        update(array(extra), None, 1, ADD)
    update(array(extra, extra), None, 2, SET)
    update(array(first), 1, SET, version="")
    for nodes, how in ((array(foreign), SET), (array(None), SET), (None, SET), (array(extra), 2), (array(extra), 7)):
        update(nodes, None, 1, how)
    update(array(extra), (Edge * 1)(Edge(1, 0, 1)), 1, SET)
    update(None, None, 0, SET)
    fill(cu, stream, address + 4)
    tools.see_capture(cu, stream)


@sequence
def dependencies_removed(cu: Recorder) -> None:
    """Work that was removed from a stream's dependencies does not count as unjoined."""
    stream, _ = begun(cu)
    cu.call("cuStreamUpdateCaptureDependencies_v2", stream, None, None, 0, SET)
    tools.see_capture(cu, stream)
    tools.begin(cu, stream)
    graph, _ = see_info(cu, stream)
    tools.empty(cu, graph)
    tools.see_capture(cu, stream)


@sequence
def programmatic_dependencies(cu: Recorder) -> None:
    """Capturing a launch with programmatic serialization adds an edge with annotations."""
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


def forked_by_a_kernel(cu: Recorder, function: int) -> tuple[int, int]:
    """Begin a capture, and fork a second stream by an event that a launch records; return both streams."""
    (one, two), event = streams(cu, 2), cu.event(DISABLE_TIMING)
    tools.begin(cu, one)
    configuration = launch_configuration((7, (event & 0xFFFFFFFF, event >> 32, 0, 0)), stream=one)
    cu.call("cuLaunchKernelEx", configuration, function, None, None)
    cu.call("cuStreamWaitEvent", two, event, 0)
    return one, two


@sequence
def programmatic_events(cu: Recorder) -> None:
    """A stream that was forked by a programmatic event has a dependency with annotations."""
    function, address = cu.function(KERNELS, "nothing"), cu.memory(4)
    one, two = forked_by_a_kernel(cu, function)
    see_info(cu, two)
    cu.call("cuStreamGetCaptureInfo_v2", two, c_int, None, c_void_p, c_void_p, c_size_t)
    cu.call("cuStreamGetCaptureInfo_v2", two, c_int, None, c_void_p, None, None)
    cu.launch(function, stream=two)
    fork(cu, two, one)
    fill(cu, one, address)
    tools.see_capture(cu, one)


@sequence
def programmatic_event_before_another_node(cu: Recorder) -> None:
    """A stream that was forked by a programmatic event captures a memset, not a kernel."""
    address = cu.memory(4)
    one, two = forked_by_a_kernel(cu, cu.function(KERNELS, "nothing"))
    cu.call("cuMemsetD32Async", address, 1, 1, two)
    tools.status(cu, one)
    see_joined(cu, one, two)


@sequence
def destroy_a_fork(cu: Recorder) -> None:
    """A stream that has joined a capture is destroyed."""
    one, two, address = forked(cu, empty=True)
    fill(cu, two, address)
    cu.call("cuStreamDestroy_v2", two)
    tools.status(cu, one)
    tools.end(cu, one)


@sequence
def destroy_a_joined_fork(cu: Recorder) -> None:
    """A forked stream is destroyed after it was joined."""
    one, two, address = forked(cu, empty=True)
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
def another_context(cu: Recorder) -> None:
    """A stream of another context joins a capture."""
    primary, event = tools.context(cu), cu.event()
    context = cu.prepare("cuCtxCreate_v2", c_void_p, 0, 0)
    cu.prepare("cuCtxSetCurrent", context)
    two, back = cu.stream(NON_BLOCKING), cu.event()
    cu.prepare("cuCtxSetCurrent", primary)
    one, address = begun(cu)
    cu.call("cuEventRecord", event, one)
    cu.call("cuStreamWaitEvent", two, event, 0)
    cu.call("cuMemsetD32Async", address, 1, 1, two)
    cu.call("cuEventRecord", back, two)
    cu.call("cuStreamWaitEvent", one, back, 0)
    tools.see_capture(cu, one)
