# SPDX-License-Identifier: Apache-2.0
"""Streams: their properties, their order, and host functions."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint, c_uint64, c_void_p

from recorder import HOST_FUNCTION, Recorder, sequence

LEGACY, PER_THREAD = 1, 2
NON_BLOCKING = 1

CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)


@sequence
def create_arguments(cu: Recorder) -> None:
    """The priority of a new stream is clamped to the valid range; unknown flags are refused."""
    for flags in (0, 1, 2, 3, 4, -1):
        if stream := cu.new("cuStreamCreate", c_void_p, flags):
            cu.read("cuStreamGetFlags", stream, c_uint)
    for priority in (0, -1, -5, -6, -100, 1, 100):
        stream = cu.new("cuStreamCreateWithPriority", c_void_p, 1, priority)
        cu.read("cuStreamGetPriority", stream, c_int)
        cu.read("cuStreamGetFlags", stream, c_uint)
    cu.call("cuStreamCreateWithPriority", c_void_p, 2, 0)
    cu.call("cuStreamCreate", None, 0)
    cu.call("cuStreamCreateWithPriority", None, 0, 0)


@sequence
def default_streams(cu: Recorder) -> None:
    """The properties of the predefined streams."""
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    identifiers = []
    for stream in (None, LEGACY, PER_THREAD):
        cu.read("cuStreamGetFlags", stream, c_uint)
        cu.read("cuStreamGetPriority", stream, c_int)
        cu.read("cuStreamGetDevice", stream, c_int)
        owner = cu.new("cuStreamGetCtx", stream, c_void_p)
        cu.see("current context", owner == context)
        cu.call("cuStreamQuery", stream)
        cu.call("cuStreamSynchronize", stream)
        identifiers.append(cu.new("cuStreamGetId", stream, c_uint64))
    cu.see("NULL is the legacy stream", identifiers[0] == identifiers[1])
    cu.see("per-thread stream is another", identifiers[2] != identifiers[0])
    cu.call("cuStreamDestroy_v2", None)
    cu.call("cuStreamDestroy_v2", LEGACY)
    cu.call("cuStreamDestroy_v2", PER_THREAD)


@sequence
def queries(cu: Recorder) -> None:
    """Queries of a stream's properties, and NULL instead of the address for the result."""
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    first, second = cu.stream(), cu.stream(NON_BLOCKING)
    owner = cu.new("cuStreamGetCtx", first, c_void_p)
    cu.see("current context", owner == context)
    cu.read("cuStreamGetDevice", first, c_int)
    one, two = (cu.new("cuStreamGetId", stream, c_uint64) for stream in (first, second))
    cu.see("identifiers differ", one != two)
    for name in ("GetFlags", "GetPriority", "GetId", "GetCtx", "GetDevice"):
        cu.call(f"cuStream{name}", first, None)
    cu.call("cuStreamQuery", first)
    for stream in (first, second):
        cu.call("cuStreamDestroy_v2", stream)


@sequence
def not_ready(cu: Recorder) -> None:
    """A stream is not done before its work is done."""
    stream = cu.stream(NON_BLOCKING)
    cu.call("cuStreamQuery", stream)
    with cu.gate(stream):
        cu.call("cuStreamQuery", stream)
    cu.call("cuStreamSynchronize", stream)
    cu.call("cuStreamQuery", stream)


@sequence
def legacy_waits_for_blocking(cu: Recorder) -> None:
    """The legacy stream waits for earlier work of blocking streams. Their later work waits for the legacy stream."""
    stream, other, free = cu.stream(), cu.stream(), cu.stream(NON_BLOCKING)
    with cu.gate(stream):
        event, later = cu.event(), cu.event()
        cu.call_each(
            ("cuEventRecord", event, None), ("cuEventQuery", event), ("cuEventRecord", later, other),
            ("cuEventQuery", later), ("cuStreamQuery", other), ("cuStreamQuery", None),
            ("cuEventRecord", later, free), ("cuEventSynchronize", later), ("cuStreamQuery", free),
        )  # fmt: skip
    cu.call("cuEventSynchronize", event)
    cu.call("cuStreamSynchronize", other)


@sequence
def legacy_ignores_non_blocking(cu: Recorder) -> None:
    """Work of the legacy stream does not wait for a stream that is not blocking."""
    stream = cu.stream(NON_BLOCKING)
    with cu.gate(stream):
        cu.call("cuStreamSynchronize", None)
        cu.call("cuStreamQuery", stream)
    cu.call("cuStreamSynchronize", stream)


@sequence
def per_thread_streams(cu: Recorder) -> None:
    """Each thread has its own default stream, which waits for the legacy stream."""
    mine = cu.new("cuStreamGetId", PER_THREAD, c_uint64)

    def other() -> None:
        cu.see("another", cu.new("cuStreamGetId", PER_THREAD, c_uint64) != mine)
        cu.call("cuStreamQuery", PER_THREAD)

    with cu.gate(PER_THREAD):
        cu.in_thread(other, cu.prepare("cuCtxGetCurrent", c_void_p))
        cu.call("cuStreamQuery", PER_THREAD)
    cu.call("cuStreamSynchronize", PER_THREAD)
    cu.see("the same", cu.new("cuStreamGetId", PER_THREAD, c_uint64) == mine)


@sequence
def order_in_a_stream(cu: Recorder) -> None:
    """Work of one stream runs in the order in which it was enqueued."""
    stream = cu.stream(NON_BLOCKING)
    address = cu.memory(4, 0)
    host = cu.prepare("cuMemHostAlloc", c_void_p, 4, 0)
    seen: list[int] = []
    with cu.gate(stream):
        function = cu.host_function(lambda: seen.append(ctypes.c_uint32.from_address(host).value))
        for value in (5, 6, 7):
            cu.call("cuMemsetD32Async", address, value, 1, stream)
            cu.call("cuMemcpyDtoHAsync_v2", host, address, 4, stream)
            cu.call("cuLaunchHostFunc", stream, function, None)
        cu.see("before", seen)
    cu.call("cuStreamSynchronize", stream)
    cu.see("after", seen)


@sequence
def waits(cu: Recorder) -> None:
    """A stream that waits for an event does not continue before the event is done."""
    first, second = cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING)
    event = cu.event()
    cu.call("cuStreamWaitEvent", second, event, 0)
    cu.call("cuStreamQuery", second)
    with cu.gate(first):
        cu.call("cuEventRecord", event, first)
        cu.call("cuStreamWaitEvent", second, event, 0)
        cu.call("cuStreamQuery", second)
        cu.call("cuEventRecord", event, None)
        cu.call("cuEventSynchronize", event)
        cu.call("cuStreamQuery", second)
    cu.call("cuStreamSynchronize", second)
    for flags in (1, 2, -1):
        cu.call("cuStreamWaitEvent", second, event, flags)
    cu.call("cuStreamWaitEvent", second, None, 0)


@sequence
def destroyed_with_work(cu: Recorder) -> None:
    """A stream that is destroyed still finishes its work."""
    stream = cu.stream(NON_BLOCKING)
    event, address = cu.event(), cu.memory(4, 0)
    with cu.gate(stream):
        cu.call("cuMemsetD32Async", address, 7, 1, stream)
        cu.call("cuEventRecord", event, stream)
        cu.call("cuStreamDestroy_v2", stream)
        cu.call("cuEventQuery", event)
    cu.call("cuEventSynchronize", event)
    cu.see_words("words", address, 1)


@sequence
def host_functions(cu: Recorder) -> None:
    """A host function gets its argument, and runs once. NULL instead of a function is refused."""
    stream = cu.stream()
    seen: list[object] = []
    function = HOST_FUNCTION(seen.append)
    cu.call("cuLaunchHostFunc", stream, function, 12345)
    cu.call("cuLaunchHostFunc", stream, function, None)
    cu.call("cuLaunchHostFunc", None, function, 1)
    cu.call("cuCtxSynchronize")
    cu.see("seen", seen)
    cu.call("cuLaunchHostFunc", stream, None, None)


@sequence
def calls_in_host_functions(cu: Recorder) -> None:
    """A host function cannot call the driver, except for a few functions."""
    stream, other, event, address = cu.stream(), cu.stream(NON_BLOCKING), cu.event(), cu.memory(64)
    data = ctypes.create_string_buffer(8)

    def inside() -> None:
        cu.call("cuCtxGetCurrent", c_void_p)
        cu.call("cuMemAlloc_v2", c_uint64, 16)
        cu.call("cuMemcpyDtoH_v2", data, address, 8)
        cu.call("cuStreamQuery", other)
        cu.call("cuEventQuery", event)
        cu.call("cuDeviceGetCount", c_int)
        cu.call("cuGetErrorName", 0, ctypes.c_char_p)

    cu.prepare("cuLaunchHostFunc", stream, cu.host_function(inside), None)
    cu.prepare("cuStreamSynchronize", stream)


@sequence
def callbacks(cu: Recorder) -> None:
    """A callback gets its stream and the status of earlier work."""
    stream = cu.stream()
    seen: list[object] = []
    function = CALLBACK(lambda given, status, data: seen.append((given == stream, status, data)))
    cu.call("cuStreamAddCallback", stream, function, 99, 0)
    cu.call("cuStreamAddCallback", stream, function, None, 0)
    cu.call("cuStreamSynchronize", stream)
    cu.see("seen", seen)
    cu.call("cuStreamAddCallback", stream, function, None, 1)
    cu.call("cuStreamAddCallback", stream, None, None, 0)


@sequence
def attributes(cu: Recorder) -> None:
    """Attributes of a stream are set, read back, and copied to another stream."""
    stream, other = cu.stream(), cu.stream()
    value = (c_uint * 16)()

    def get(which: int, attribute: int) -> None:
        ctypes.memset(value, 0, 64)
        if cu.call("cuStreamGetAttribute", which, attribute, value) == 0:
            cu.see("value", list(value)[:4])

    for attribute in (1, 3, 8, 0, 2, 99):
        cu.see("attribute", attribute)
        get(stream, attribute)
    for policy in (1, 2, 3, 4, 0, 9):
        value[0] = policy
        cu.call("cuStreamSetAttribute", stream, 3, value)
        get(stream, 3)
    for priority in (-2, 0, -9, 9):
        value[0] = priority & 0xFFFFFFFF
        cu.call("cuStreamSetAttribute", stream, 8, value)
        get(stream, 8)
        cu.read("cuStreamGetPriority", stream, c_int)
    value[0] = 3
    cu.call("cuStreamSetAttribute", stream, 3, value)
    cu.call("cuStreamCopyAttributes", other, stream)
    get(other, 3)
    cu.call("cuStreamSetAttribute", stream, 2, value)
    cu.call("cuStreamSetAttribute", stream, 99, value)


@sequence
def attributes_of_the_default_stream(cu: Recorder) -> None:
    """Attributes of the default stream."""
    stream = cu.stream()
    value = (c_uint * 16)()
    cu.call("cuStreamGetAttribute", None, 3, value)
    value[0] = 2
    cu.call("cuStreamSetAttribute", None, 3, value)
    cu.call("cuStreamGetAttribute", None, 3, value)
    cu.see("value", value[0])
    cu.call("cuStreamCopyAttributes", stream, stream)
    cu.call("cuStreamCopyAttributes", None, stream)
