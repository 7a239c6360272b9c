# SPDX-License-Identifier: Apache-2.0
"""Events: recording, queries, waits, and the time between two events."""

from __future__ import annotations

from ctypes import c_float, c_void_p

from recorder import Recorder, sequence

NON_BLOCKING = 1
BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 1, 2, 4


@sequence
def create_flags(cu: Recorder) -> None:
    """Valid and invalid flags of events. An interprocess event must not measure time."""
    for flags in (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, -1):
        cu.call("cuEventCreate", c_void_p, flags)
    cu.call("cuEventCreate", None, 0)


@sequence
def never_recorded(cu: Recorder) -> None:
    """An event that was never recorded is done, and has no time."""
    event, other, stream = cu.event(), cu.event(), cu.stream()
    cu.call("cuEventQuery", event)
    cu.call("cuEventSynchronize", event)
    cu.call("cuStreamWaitEvent", stream, event, 0)
    cu.call("cuEventElapsedTime_v2", c_float, event, other)
    cu.prepare("cuEventRecord", event, stream)
    cu.prepare("cuEventSynchronize", event)
    cu.call("cuEventElapsedTime_v2", c_float, event, other)
    cu.call("cuEventElapsedTime_v2", c_float, other, event)
    cu.call("cuEventElapsedTime", c_float, other, event)


@sequence
def null(cu: Recorder) -> None:
    """Calls with NULL as the event."""
    event = cu.event()
    cu.call_each(
        ("cuEventQuery", None), ("cuEventSynchronize", None), ("cuEventRecord", None, None),
        ("cuEventRecordWithFlags", None, None, 0), ("cuEventDestroy_v2", None),
        ("cuEventElapsedTime_v2", c_float, None, event), ("cuEventElapsedTime_v2", c_float, event, None),
        ("cuEventElapsedTime_v2", None, event, event),
    )  # fmt: skip


@sequence
def recorded(cu: Recorder) -> None:
    """An event is done when the work before its record is done, and not earlier."""
    stream, event = cu.stream(NON_BLOCKING), cu.event()
    with cu.gate(stream):
        cu.call("cuEventRecord", event, stream)
        cu.call("cuEventQuery", event)
    cu.call("cuEventSynchronize", event)
    cu.call("cuEventQuery", event)


@sequence
def recorded_again(cu: Recorder) -> None:
    """An event represents its latest record. Waits that were enqueued before this record wait for the earlier one."""
    first, second, third = cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING)
    event = cu.event()
    cu.call("cuEventRecord", event, first)
    cu.call("cuEventSynchronize", event)
    with cu.gate(second):
        cu.call_each(
            ("cuEventRecord", event, second), ("cuEventQuery", event), ("cuStreamWaitEvent", third, event, 0),
            ("cuEventRecord", event, first), ("cuEventSynchronize", event), ("cuEventQuery", event),
            ("cuStreamQuery", third),
        )  # fmt: skip
    cu.call("cuStreamSynchronize", third)


@sequence
def elapsed_time(cu: Recorder) -> None:
    """The time between two events is available once both are done. It is negative if the events are swapped."""
    stream, start, end = cu.stream(NON_BLOCKING), cu.event(), cu.event()
    cu.call("cuEventRecord", start, stream)
    with cu.gate(stream):
        cu.call("cuEventRecord", end, stream)
        cu.call("cuEventSynchronize", start)
        cu.call("cuEventElapsedTime_v2", c_float, start, end)
    cu.call("cuEventSynchronize", end)
    cu.see("positive", cu.new("cuEventElapsedTime_v2", c_float, start, end) > 0)
    cu.see("negative", cu.new("cuEventElapsedTime_v2", c_float, end, start) < 0)
    cu.read("cuEventElapsedTime_v2", c_float, start, start)
    cu.see("positive", cu.new("cuEventElapsedTime", c_float, start, end) > 0)


@sequence
def no_timing(cu: Recorder) -> None:
    """The time between two events is not available if one of them does not measure time."""
    start, end = cu.event(), cu.event(DISABLE_TIMING)
    cu.call("cuEventRecord", start, None)
    cu.call("cuEventRecord", end, None)
    cu.call("cuCtxSynchronize")
    cu.call("cuEventElapsedTime_v2", c_float, start, end)
    cu.call("cuEventElapsedTime_v2", c_float, end, start)
    cu.call("cuEventElapsedTime_v2", c_float, end, end)


@sequence
def record_flags(cu: Recorder) -> None:
    """Flags of cuEventRecordWithFlags."""
    stream, event = cu.stream(), cu.event()
    for flags in (0, 1, 2, 3, -1):
        cu.call("cuEventRecordWithFlags", event, stream, flags)
    cu.call("cuEventSynchronize", event)


@sequence
def default_streams(cu: Recorder) -> None:
    """An event is recorded in the default streams."""
    event = cu.event()
    for stream in (None, 1, 2):
        cu.call("cuEventRecord", event, stream)
        cu.call("cuEventSynchronize", event)
        cu.call("cuEventQuery", event)


@sequence
def destroyed_before_it_is_done(cu: Recorder) -> None:
    """If an event is destroyed before it is done, a stream that waits for it still waits."""
    first, second, event = cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING), cu.event()
    with cu.gate(first):
        cu.call("cuEventRecord", event, first)
        cu.call("cuStreamWaitEvent", second, event, 0)
        cu.call("cuEventDestroy_v2", event)
        cu.call("cuStreamQuery", second)
    cu.call("cuStreamSynchronize", second)


@sequence
def blocking_synchronisation(cu: Recorder) -> None:
    """Waiting for an event with the flag BLOCKING_SYNC has the same results as for other events."""
    stream, event = cu.stream(), cu.event(BLOCKING_SYNC)
    seen: list[str] = []
    cu.prepare("cuLaunchHostFunc", stream, cu.host_function(lambda: seen.append("ran")), None)
    cu.call("cuEventRecord", event, stream)
    cu.call("cuEventSynchronize", event)
    cu.see("seen", seen)


@sequence
def wait_in_its_own_stream(cu: Recorder) -> None:
    """A stream that waits for an event that it has recorded itself continues."""
    stream, event = cu.stream(), cu.event()
    cu.call("cuStreamWaitEvent", stream, event, 0)
    cu.call("cuEventRecord", event, stream)
    cu.call("cuStreamWaitEvent", stream, event, 0)
    cu.call("cuStreamSynchronize", stream)


@sequence
def waiting_of_the_legacy_stream(cu: Recorder) -> None:
    """If the legacy stream waits for an event, later work in blocking streams waits for the event as well."""
    free, blocking, event = cu.stream(NON_BLOCKING), cu.stream(), cu.event()
    with cu.gate(free):
        cu.call("cuEventRecord", event, free)
        cu.call("cuStreamWaitEvent", None, event, 0)
        later = cu.event()
        cu.call("cuEventRecord", later, blocking)
        cu.call("cuEventQuery", later)
        cu.call("cuStreamQuery", None)
    cu.call("cuEventSynchronize", later)
    cu.call("cuStreamSynchronize", None)
