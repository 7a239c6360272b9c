# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import cudacore_handles as ch

DEFAULT_STREAMS = [ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM]


# ---- options


@pytest.mark.parametrize("nonblocking", [True, False])
def test_nonblocking(device: ch.Device, nonblocking: bool) -> None:
    """The option `is_nonblocking` would be ignored or reversed."""
    stream = device.create_stream(options=ch.StreamOptions(nonblocking=nonblocking))
    assert stream.is_nonblocking is nonblocking


def test_default_options(device: ch.Device) -> None:
    """The default options would differ from cuda.core's: non-blocking, and of the lowest priority."""
    stream = device.create_stream()
    assert stream.is_nonblocking
    assert stream.priority == 0
    assert device.create_stream(options=ch.StreamOptions()).priority == 0


def test_priorities(device: ch.Device) -> None:
    """A priority would be clamped silently, or the range in the message would be wrong."""
    from cuda.bindings import driver

    status, lowest, highest = driver.cuCtxGetStreamPriorityRange()
    assert int(status) == 0
    for priority in range(highest, lowest + 1):
        assert device.create_stream(options=ch.StreamOptions(priority=priority)).priority == priority
    for priority in (highest - 1, lowest + 1):
        with pytest.raises(ValueError, match=rf"priority={priority} is out of range \[{highest}, {lowest}\]"):
            device.create_stream(options=ch.StreamOptions(priority=priority))


@pytest.mark.parametrize("priority", [True, 0.0, "0"])
def test_bad_priority(device: ch.Device, priority: Any) -> None:
    """A priority that is not a number would be accepted."""
    with pytest.raises(TypeError, match=r"StreamOptions.priority must be an int"):
        device.create_stream(options=ch.StreamOptions(priority=priority))


# ---- identity


def test_handle_is_for_others(device: ch.Device) -> None:
    """Users of the stream protocol would not accept a stream."""
    stream = device.create_stream()
    assert stream.__cuda_stream__() == (0, int(stream.handle))
    assert isinstance(stream, ch.IsStreamType)


def test_knows_its_device_and_context(device: ch.Device, other_device: ch.Device) -> None:
    """A stream would report the current device instead of its own."""
    stream = other_device.create_stream()
    assert stream.device is other_device
    assert stream.context == other_device.context


# ---- order between streams


def test_wait(device: ch.Device) -> None:
    """A stream could not wait for an event, another stream, a default stream, or itself."""
    stream = device.create_stream()
    for other in (stream.record(), device.create_stream(), ch.LEGACY_DEFAULT_STREAM, stream):
        stream.wait(other)
    ch.LEGACY_DEFAULT_STREAM.wait(stream)
    stream.sync()


def test_wait_for_another_device(device: ch.Device, other_device: ch.Device) -> None:
    """Work on one device could not wait for work on another device."""
    stream = device.create_stream()
    stream.wait(other_device.create_stream())
    stream.wait(other_device.create_stream().record())
    stream.sync()


def test_waits_for_several_streams(device: ch.Device) -> None:
    """A wait for a stream would be forgotten, or would become one for another stream, when others wait, too."""
    slow, waiting, idle, other = (device.create_stream() for _ in range(4))
    release = threading.Event()
    try:
        slow.callback(release.wait)
        waiting.wait(slow)
        for _ in range(3):
            other.wait(idle)
        other.sync()
        done = waiting.record()
        assert not done.is_done
    finally:
        release.set()
    waiting.sync()
    assert done.is_done


def test_waits_in_a_capture(device: ch.Device) -> None:
    """A wait in a capture, and waits outside of it, would share an event in a way that CUDA forbids."""
    driver = pytest.importorskip("cuda.bindings.driver")
    captured, forked, other, idle = (device.create_stream() for _ in range(4))
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    assert not driver.cuStreamBeginCapture(captured.handle, mode)[0]
    forked.wait(captured)
    other.wait(idle)
    captured.wait(forked)
    error, graph = driver.cuStreamEndCapture(captured.handle)
    assert not error
    assert not driver.cuGraphDestroy(graph)[0]
    other.wait(captured)
    other.sync()


@pytest.mark.parametrize("what", [None, 1, "stream", ch.StreamOptions()])
def test_wait_for_something_else(device: ch.Device, what: Any) -> None:
    """Waiting for an object that is neither an event nor a stream would do nothing."""
    with pytest.raises(TypeError, match="a Stream is needed, or an object with __cuda_stream__"):
        device.create_stream().wait(what)


def test_wait_orders_work(device: ch.Device, code: ch.ObjectCode, pinned: Callable[[int], ch.Buffer]) -> None:
    """Work after a wait would begin before the other stream's work is done."""
    slow, fast, out = device.create_stream(), device.create_stream(), pinned(4)
    config = ch.LaunchConfig(grid=1, block=1)
    for wait in (lambda: fast.wait(slow), lambda: fast.wait(slow.record())):
        out.__buffer__()[:] = bytes(4)
        ch.launch(slow, config, code.get_kernel("spin"), 20_000_000)
        ch.launch(slow, config, code.get_kernel("echo_int32"), 7, out)
        wait()
        fast.sync()
        assert bytes(out.__buffer__()) == b"\x07\0\0\0"


# ---- default streams


@pytest.mark.parametrize("stream", DEFAULT_STREAMS, ids=["legacy", "per thread"])
def test_default_streams(device: ch.Device, stream: ch.Stream) -> None:
    """A default stream would not be usable, or count as a leak."""
    stream.sync()
    assert stream.is_nonblocking in (True, False)
    assert isinstance(stream.priority, int)
    assert stream.device is device
    assert stream.record().device is device


@pytest.mark.parametrize("stream", DEFAULT_STREAMS, ids=["legacy", "per thread"])
def test_a_closed_default_stream_stays_usable(device: ch.Device, stream: ch.Stream) -> None:
    """If one part of a program closes a default stream, other parts could no longer use it."""
    stream.close()
    assert not stream.is_closed
    ch.Stream.from_handle(stream.__cuda_stream__()[1]).close()
    assert not device.default_stream.is_closed
    stream.record().sync()


@pytest.mark.parametrize("stream", DEFAULT_STREAMS, ids=["legacy", "per thread"])
def test_default_streams_are_of_the_current_context(
    device: ch.Device, other_device: ch.Device, stream: ch.Stream
) -> None:
    """A default stream would always belong to the context in which it was first used."""
    assert stream.context == device.context
    other_device.set_current()
    assert stream.context == other_device.context
    assert stream.record().device is other_device


@pytest.mark.parametrize("stream", DEFAULT_STREAMS, ids=["legacy", "per thread"])
def test_default_streams_without_a_context(device: ch.Device, stream: ch.Stream, in_new_thread: Any) -> None:
    """Using a default stream on a thread without a context would crash, or the error would not say what to do."""
    for use in (
        lambda: stream.context,
        lambda: stream.device,
        stream.record,
        lambda: device.create_stream().wait(stream),
    ):

        def check(use: Callable[[], Any] = use) -> None:
            with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_INVALID_CONTEXT .*Device\(\)\.set_current\(\) first"):
                use()

        in_new_thread(check)
