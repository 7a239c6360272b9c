# SPDX-License-Identifier: Apache-2.0
"""Captures that other libraries begin, and captures that begin during a call: objects of captured work are kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from graph_tools import ONE, USES, DeviceArray, Numbers, wait_until

import cudacore_handles as ch
from bindings import call_bindings

MODES = ("GLOBAL", "THREAD_LOCAL", "RELAXED")


class Foreign:
    """A capture as another library would make it, with calls of the driver's functions only."""

    def __init__(self, stream: ch.Stream, mode: str = "GLOBAL") -> None:
        from cuda.bindings import driver

        self.stream, self.driver = stream, driver
        mode_value = getattr(driver.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{mode}")
        call_bindings("cuStreamBeginCapture", stream.handle, mode_value)
        self.graph: Any = None
        self.executable: Any = None

    def end(self) -> None:
        self.graph = call_bindings("cuStreamEndCapture", self.stream.handle)
        self.executable = call_bindings("cuGraphInstantiate", self.graph, 0)

    def run(self) -> None:
        call_bindings("cuGraphLaunch", self.executable, self.stream.handle)
        self.stream.sync()

    def close(self) -> None:
        if self.graph is not None:
            call_bindings("cuGraphDestroy", self.graph)
        if self.executable is not None:
            call_bindings("cuGraphExecDestroy", self.executable)


def check_kept(capture: Foreign, alive: weakref.ref[Any], numbers: Numbers, value: int) -> None:
    """Check that a graph keeps an object as long as it can run."""
    gc.collect()
    assert alive() is not None
    capture.run()
    assert numbers[0] == value
    capture.close()
    assert wait_until(lambda: alive() is None)


def buffers() -> int:
    return ch.live_counts()["deviceptr"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("use", USES)
def test_a_capture_of_others_keeps_what_is_used(device: ch.Device, numbers: Numbers, use: str, mode: str) -> None:
    """The replay of another library's graph would write to memory that was allocated to other code."""
    stream, other = device.create_stream(), device.create_stream()
    memory = device.allocate(64, stream=other)
    out = ch.Buffer.from_handle(numbers.at(16), 64)
    other.sync()
    before = buffers()
    capture = Foreign(stream, mode)
    USES[use](stream, memory, out)
    memory.close()
    gc.collect()
    capture.end()
    assert buffers() >= before  # the graph keeps the buffer
    fresh = device.allocate(64, stream=other)  # if `memory` had been freed, this allocation would get its address
    fresh.fill(7, stream=other)
    ch.Buffer.from_handle(numbers.at(0), 64).copy_from(fresh, stream=other)
    other.sync()
    capture.run()
    ch.Buffer.from_handle(numbers.at(32), 64).copy_from(fresh, stream=other)
    other.sync()
    assert numbers[32] == numbers[0] == 0x07070707
    fresh.close()
    capture.close()
    assert wait_until(lambda: buffers() < before), "it is kept for ever"


def test_an_array_that_a_capture_of_others_uses_is_kept(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
    """The graph would write to an array of another library that has been collected."""
    stream = device.create_stream()
    array = DeviceArray(numbers)
    alive = weakref.ref(array)
    capture = Foreign(stream)
    ch.launch(stream, ONE, add, array, 2)
    del array
    capture.end()
    check_kept(capture, alive, numbers, 2)


def test_what_a_capture_of_others_keeps_is_one_object(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
    """A graph would have one user object for each of its launches, which would slow down the graph."""
    stream = device.create_stream()
    before = ch.live_counts()["bundle"]
    for launches in (1, 20):
        capture = Foreign(stream)
        for _ in range(launches):
            ch.launch(stream, ONE, add, numbers.buffer, 1)
        assert ch.live_counts()["bundle"] == before + 1
        capture.end()
        capture.run()
        capture.close()
        assert wait_until(lambda: ch.live_counts()["bundle"] == before)
    assert numbers[0] == 21


def test_memory_of_a_capture_of_others_is_freed_in_it(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
    """The graph would keep the memory that it allocates. Then it would not free the memory, and could run only once."""
    stream = device.create_stream()
    capture = Foreign(stream, "RELAXED")
    memory = device.allocate(64, stream=stream)
    memory.fill(0, stream=stream)
    ch.launch(stream, ONE, add, memory, 5)
    ch.Buffer.from_handle(numbers.at(0), 64).copy_from(memory, stream=stream)
    memory.close()
    capture.end()
    for _ in range(2):
        capture.run()
    assert numbers[0] == 5
    capture.close()


def test_functions_in_a_capture_of_others(device: ch.Device) -> None:
    """A host function would be released after its first call, although the graph calls it again."""
    stream = device.create_stream()
    seen: list[str] = []

    class Function:
        def __call__(self) -> None:
            seen.append("called")

    function = Function()
    alive = weakref.ref(function)
    capture = Foreign(stream)
    stream.callback(function)
    del function
    capture.end()
    gc.collect()
    assert seen == []
    capture.run()
    capture.run()
    assert seen == ["called"] * 2
    capture.close()
    assert wait_until(lambda: alive() is None)


@pytest.mark.parametrize("ends", ["lost", "dropped"])
def test_a_capture_of_others_that_comes_to_nothing(
    device: ch.Device, add: ch.Kernel, numbers: Numbers, ends: str
) -> None:
    """Objects kept by a graph that never ran would be kept forever."""
    stream = device.create_stream()
    owner = Foreign.__new__(Foreign)
    alive = weakref.ref(owner)
    memory = ch.Buffer.from_handle(numbers.at(0), 64, owner=owner)
    capture = Foreign(stream, "RELAXED")
    ch.launch(stream, ONE, add, memory, 3)
    del memory, owner
    if ends == "lost":
        with pytest.raises(ch.CUDAError):
            stream.sync()
        with pytest.raises(ch.CUDAError):
            capture.end()
    else:
        call_bindings("cuGraphDestroy", call_bindings("cuStreamEndCapture", stream.handle))
    assert wait_until(lambda: alive() is None)
    ch.launch(stream, ONE, add, numbers.buffer, 1)
    stream.sync()
    assert numbers[0] == 1


def test_a_capture_that_others_end_and_begin_again(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
    """If other code has ended a builder's capture, its graph would keep objects that only another graph uses."""
    stream = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    ch.launch(builder, ONE, add, numbers.at(0), 1)
    ended = call_bindings("cuStreamEndCapture", stream.handle)
    owner = Foreign.__new__(Foreign)
    alive = weakref.ref(owner)
    memory = ch.Buffer.from_handle(numbers.at(0), 64, owner=owner)
    capture = Foreign(stream)
    ch.launch(stream, ONE, add, memory, 2)
    del memory, owner
    capture.end()
    builder.close()
    call_bindings("cuGraphDestroy", ended)
    check_kept(capture, alive, numbers, 2)


def begins(stream: ch.Stream, way: str) -> Any:
    return stream.create_graph_builder().begin_building() if way == "builder" else Foreign(stream)


@pytest.mark.parametrize("way", ["builder", "others"])
@pytest.mark.parametrize("prepared", [False, True])
def test_a_capture_that_begins_while_arguments_are_read(
    device: ch.Device, add: ch.Kernel, numbers: Numbers, way: str, prepared: bool
) -> None:
    """The graph would not keep the arguments of the captured launch, and its replay would write to freed memory."""
    stream = device.create_stream()
    captures: list[Any] = []

    class Number:
        def __index__(self) -> int:
            if not captures:
                captures.append(begins(stream, way))
            return 2

    array = DeviceArray(numbers)
    alive = weakref.ref(array)
    if prepared:
        launch = add.prepare(stream, ONE, numbers.buffer, 1)
        launch(array, Number())
        del launch
    else:
        ch.launch(stream, ONE, add, array, Number())
    del array
    gc.collect()
    assert alive() is not None
    (capture,) = captures
    if way == "builder":
        graph = capture.end_building().complete()
        graph.launch(stream)
        stream.sync()
        graph.close()
    else:
        capture.end()
        capture.run()
    assert numbers[0] == 2
    capture.close()
    captures.clear()
    del capture
    assert wait_until(lambda: alive() is None)


def test_threads_that_launch_into_one_capture_of_others(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
    """If two threads make a graph keep objects at the same time, the objects of one would be lost."""
    stream = device.create_stream()
    forks = [device.create_stream() for _ in range(4)]
    made = [[device.allocate(64, stream=stream) for _ in range(30)] for _ in forks]
    stream.sync()
    before = buffers()
    capture = Foreign(stream, "RELAXED")
    for fork in forks:
        fork.wait(stream)
    together = threading.Barrier(len(forks))

    def work(fork: ch.Stream, memory: list[ch.Buffer]) -> None:
        device.set_current()
        together.wait()
        for buffer in memory:
            ch.launch(fork, ONE, add, buffer, 1)
            buffer.close()

    with ThreadPoolExecutor(len(forks)) as pool:
        for done in [pool.submit(work, *pair) for pair in zip(forks, made, strict=True)]:
            done.result()
    for fork in forks:
        stream.wait(fork)
    capture.end()
    gc.collect()
    assert buffers() == before
    capture.run()
    capture.close()
    assert wait_until(lambda: buffers() == before - sum(map(len, made)))


def test_a_device_that_changes_while_arguments_are_read(
    device: ch.Device, other_device: ch.Device, add: ch.Kernel, numbers: Numbers
) -> None:
    """The arguments would be checked for one device, and the default stream would launch on another one."""

    class Number:
        def __index__(self) -> int:
            other_device.set_current()
            return 2

    memory = device.allocate(64, stream=device.create_stream())
    try:
        with pytest.raises(RuntimeError, match="while the arguments were read, the current device changed from 0 to 1"):
            ch.launch(ch.LEGACY_DEFAULT_STREAM, ONE, add, memory, Number())
    finally:
        device.set_current()


@pytest.fixture
def blocking(device: ch.Device) -> ch.Stream:
    """Give a stream that the legacy default stream waits for."""
    return device.create_stream(options=ch.StreamOptions(nonblocking=False))


def test_the_legacy_stream_beside_a_capture_of_others(
    device: ch.Device, add: ch.Kernel, numbers: Numbers, blocking: ch.Stream
) -> None:
    """Querying the capture of the legacy stream would fail, and replace the error of the launch."""
    capture = Foreign(blocking, "RELAXED")
    with pytest.raises(ch.CUDAError, match="CAPTURE_IMPLICIT") as failed:
        ch.launch(ch.LEGACY_DEFAULT_STREAM, ONE, add, numbers.buffer, 1)
    assert failed.value.operation == "cuLaunchKernelEx"
    with pytest.raises(ch.CUDAError):
        capture.end()
    ch.launch(ch.LEGACY_DEFAULT_STREAM, ONE, add, numbers.buffer, 1)
    ch.LEGACY_DEFAULT_STREAM.sync()
    assert numbers[0] == 1


def test_a_callback_in_the_legacy_stream_beside_a_capture(blocking: ch.Stream) -> None:
    """A host function that the legacy stream cannot call would end the capture of another stream."""
    builder = blocking.create_graph_builder().begin_building("relaxed")
    with pytest.raises(ch.CUDAError, match="CAPTURE_IMPLICIT"):
        ch.LEGACY_DEFAULT_STREAM.callback(lambda: None)
    builder.end_building()


@pytest.mark.parametrize("timing", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_an_event_that_is_recorded_in_a_capture_of_others(device: ch.Device, mode: str, timing: bool) -> None:
    """A query of the event would invalidate the capture of the other library (13.0, H200)."""
    stream, other = device.create_stream(), device.create_stream()
    event = device.create_event({"timing_enabled": timing})
    other.record(event)
    capture = Foreign(stream, mode)
    stream.record(event)

    async def wait() -> None:
        await event

    for ask in (event.sync, lambda: event.is_done, lambda: asyncio.run(wait())):
        with pytest.raises(ch.CUDAError, match="The event was recorded in a capture"):
            ask()
    capture.end()  # fails if a query has invalidated the capture
    other.record(event)  # the event can be used again
    event.sync()
    assert event.is_done
    capture.close()


def test_an_event_whose_captured_stream_is_gone(device: ch.Device) -> None:
    """A query would invalidate the capture if the stream of the event was destroyed, and its handle used again."""
    stream, fork = device.create_stream(), device.create_stream()
    event = device.create_event()
    capture = Foreign(stream)
    fork.wait(stream.record())
    fork.record(event)
    stream.wait(event)
    fork.close()
    others = [device.create_stream() for _ in range(8)]
    with pytest.raises(ch.CUDAError, match="The event was recorded in a capture"):
        event.sync()
    capture.end()
    for other in others:
        assert other.record(event) is event
    event.sync()
    capture.close()


def test_an_event_that_was_recorded_before_a_capture(device: ch.Device) -> None:
    """The event would count as captured because its stream is in a capture now."""
    stream = device.create_stream()
    event = stream.record()
    capture = Foreign(stream, "RELAXED")
    event.sync()
    assert event.is_done
    capture.end()
    capture.close()
