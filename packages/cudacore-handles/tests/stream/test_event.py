# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

import cudacore_handles as ch
from cudacore_handles._base.handle import hold, share

TIMED = ch.EventOptions(timing_enabled=True)


# ---- options


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("blocking", [True, False])
def test_options(device: ch.Device, stream: ch.Stream, timing: bool, blocking: bool) -> None:
    """An event would not behave according to its options, or lose them."""
    options = ch.EventOptions(timing_enabled=timing, blocking_sync=blocking)
    for event in (device.create_event(options), stream.record(options=options)):
        assert event.is_timing_enabled is timing
        assert event.is_blocking_sync is blocking
        assert event.is_ipc_enabled is False


def test_default_options(device: ch.Device, stream: ch.Stream) -> None:
    """By default, an event would have options that make it slower, such as timing."""
    for event in (device.create_event(), stream.record(), device.create_event(ch.EventOptions())):
        assert (event.is_timing_enabled, event.is_blocking_sync, event.is_ipc_enabled) == (False, False, False)
    none = ch.EventOptions(timing_enabled=None, blocking_sync=None, ipc_enabled=None)
    assert device.create_event(none).is_timing_enabled is False


def test_events_between_processes_have_no_time(device: ch.Device, stream: ch.Stream) -> None:
    """For an event that should be shared and measure time, the error would be INVALID_VALUE."""
    for make in (device.create_event, lambda o: stream.record(options=o)):
        assert make(ch.EventOptions(ipc_enabled=True)).is_ipc_enabled
        with pytest.raises(TypeError, match=r"IPC-enabled events cannot use timing"):
            make(ch.EventOptions(ipc_enabled=True, timing_enabled=True))


# ---- identity


def test_knows_its_device_and_context(device: ch.Device, other_device: ch.Device) -> None:
    """An event would report the current device instead of its own."""
    for event in (other_device.create_event(), other_device.create_stream().record()):
        assert event.device is other_device
        assert event.context == other_device.context


# ---- recording


def test_record_in_an_event_or_a_new_one(device: ch.Device, stream: ch.Stream) -> None:
    """An event would be recorded on another stream, or its options would change."""
    event = device.create_event()
    assert stream.record(event) is event
    assert stream.record() != event
    with pytest.raises(TypeError, match="give either event or options"):
        stream.record(event, TIMED)


@pytest.mark.parametrize("event", [1, "event", ch.LEGACY_DEFAULT_STREAM])
def test_record_in_something_else(device: ch.Device, stream: ch.Stream, event: Any) -> None:
    """An object that is not an event would reach the driver."""
    with pytest.raises(TypeError, match="event must be an Event, not"):
        stream.record(event)
    stream.sync()


def test_record_in_an_event_of_another_device(device: ch.Device, other_device: ch.Device, stream: ch.Stream) -> None:
    """For an event of another device, the driver's error would only say that a handle is invalid."""
    event = other_device.create_event()
    with pytest.raises(ch.CUDAError, match=r"CCH_EMISMATCH .*the event is of device 1 and the stream of device 0"):
        stream.record(event)
    other_device.create_stream().record(event).sync()


def test_an_event_outlives_its_stream(device: ch.Device) -> None:
    """An event would be destroyed with the stream on which it was recorded."""
    stream = device.create_stream()
    event = stream.record()
    stream.close()
    event.sync()
    assert event.is_done


def test_an_event_that_was_never_recorded_is_done(device: ch.Device) -> None:
    """Waiting for an event that was never recorded would hang."""
    event = device.create_event()
    assert event.is_done
    event.sync()
    device.create_stream().wait(event)


@pytest.mark.parametrize("blocking", [True, False])
def test_is_done(device: ch.Device, stream: ch.Stream, code: ch.ObjectCode, blocking: bool) -> None:
    """An event would be reported as done before its work is done, or sync() would return early."""
    kernel = code.get_kernel("spin")
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, 0)
    stream.sync()  # the kernel is now loaded
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, 500_000_000)
    event = stream.record(options=ch.EventOptions(blocking_sync=blocking))
    assert not event.is_done
    event.sync()
    assert event.is_done


# ---- elapsed time


def test_elapsed_time(device: ch.Device, stream: ch.Stream) -> None:
    """The time between two events would be of the wrong sign or type."""
    start = stream.record(options=TIMED)
    end = stream.record(options=TIMED)
    stream.sync()
    assert isinstance(end - start, float)
    assert end - start >= 0
    assert start - end <= 0
    assert start - start == 0


def test_elapsed_time_is_in_milliseconds(device: ch.Device, stream: ch.Stream, code: ch.ObjectCode) -> None:
    """The time between two events would not be in milliseconds."""
    start = stream.record(options=TIMED)
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), code.get_kernel("spin"), 50_000_000)
    end = stream.record(options=TIMED)
    end.sync()
    assert 45 < end - start < 5000


def test_elapsed_time_of_unfinished_work(device: ch.Device, stream: ch.Stream, code: ch.ObjectCode) -> None:
    """The elapsed time to an unfinished event would be a number, or the error would not say what to do."""
    kernel = code.get_kernel("spin")
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, 0)
    start = stream.record(options=TIMED)
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, 500_000_000)
    end = stream.record(options=TIMED)
    with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_NOT_READY .*call its sync\(\) first"):
        end - start
    end.sync()
    assert end - start > 0


@pytest.mark.parametrize(
    ("pair", "match"),
    [
        (("timed", "untimed"), r"Both Events must be created with timing .*\(timing_enabled=True\)"),
        (("untimed", "timed"), r"Both Events must be created with timing .*\(timing_enabled=True\)"),
        (("untimed", "untimed"), r"Both Events must be created with timing .*\(timing_enabled=True\)"),
        (("timed", "unrecorded"), "Both Events must be recorded before they can be subtracted, on"),
        (("unrecorded", "timed"), "Both Events must be recorded before they can be subtracted, on"),
        (("timed", "of another device"), "on streams of one device"),
    ],
    ids=" - ".join,
)
def test_no_elapsed_time(
    device: ch.Device, other_device: ch.Device, stream: ch.Stream, pair: tuple[str, str], match: str
) -> None:
    """The error would not say what the events lack, or the clocks of two devices would be compared silently."""
    there = other_device.create_stream().record(options=TIMED)
    events = {
        "timed": stream.record(options=TIMED),
        "untimed": stream.record(),
        "unrecorded": device.create_event(TIMED),
        "of another device": there,
    }
    stream.sync()
    there.sync()
    end, start = (events[name] for name in pair)
    with pytest.raises(ch.CUDAError, match=match):
        end - start


def test_only_events_are_subtracted(device: ch.Device, stream: ch.Stream) -> None:
    """A number could be subtracted from an event, and the program would continue with a wrong time."""
    event = stream.record(options=TIMED)
    with pytest.raises(TypeError):
        event - 1  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        1 - event  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        event -= 1  # type: ignore[operator, assignment]


class Measured(ch.Event):
    def __sub__(self, other: Any) -> Any:
        return super().__sub__(other)


def test_a_subclass_can_call_the_subtraction(device: ch.Device, stream: ch.Stream) -> None:
    """``super().__sub__`` would fail in a subclass that overrides the subtraction."""
    options = ch.EventOptions(timing_enabled=True)
    start, end = (stream.record(share(Measured, hold(device.create_event(options)))) for _ in range(2))
    stream.sync()
    assert end - start >= 0
    with pytest.raises(TypeError, match="unsupported operand"):
        end - 1
