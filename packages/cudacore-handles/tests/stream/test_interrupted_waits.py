# SPDX-License-Identifier: Apache-2.0
"""Waits that a signal ends, although the device is never done."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from foreign_objects import Gate

import cudacore_handles as ch
import cudacore_handles._views.view_copy  # a signal during the import would leave the file of the module open


class _Alarm(Exception):
    pass


@contextmanager
def _alarm(handler: Callable[[], None], delay: float) -> Iterator[None]:
    """Send a signal to the main thread after a moment."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise() -> None:
    raise _Alarm


INTERRUPTED_DEVICE = pytest.mark.needs_driver("12.5", "waits for a device that signals interrupt")
_WAITS: dict[str, Callable[[Any, ch.Stream, ch.Buffer], Any]] = {
    "stream": lambda event, stream, buffer: stream.sync(),
    "default stream": lambda event, stream, buffer: _default(stream).sync(),
    "event": lambda event, stream, buffer: event.sync(),
    "device": lambda event, stream, buffer: ch.Device().sync(),
    "copy to an array": lambda event, stream, buffer: buffer.copy_to(np.empty(64, "i1"), stream=stream),
    "copy from an array": lambda event, stream, buffer: buffer.copy_from(np.zeros(64, "i1"), stream=stream),
    "copy to a view": lambda event, stream, buffer: buffer.view("i1", (8, 4), (8, 1)).copy_to(
        ch.StridedMemoryView.from_any_interface(np.empty((8, 4), "i1"), -1), stream
    ),
}


def _default(stream: ch.Stream) -> ch.Stream:
    ch.LEGACY_DEFAULT_STREAM.wait(stream)
    return ch.LEGACY_DEFAULT_STREAM


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize(
    "wait", [pytest.param(name, marks=INTERRUPTED_DEVICE) if name == "device" else name for name in _WAITS]
)
@pytest.mark.parametrize("delay", [0.001, 0.2])  # while the wait queries without pauses, and later
def test_a_signal_ends_a_wait(
    device: ch.Device, stream: ch.Stream, gate: Gate, wait: str, delay: float, blocking: bool
) -> None:
    """Ctrl-C would wait for the device, and a kernel that never ends could be ended by ``kill -9`` only."""
    buffer = device.allocate(64, stream=device.create_stream())
    event = stream.record(options=ch.EventOptions(blocking_sync=blocking))
    began = time.monotonic()
    with pytest.raises(_Alarm), _alarm(_raise, delay):
        _WAITS[wait](event, stream, buffer)
    assert time.monotonic() - began < 10


def test_a_signal_handler_that_raises_nothing(stream: ch.Stream, gate: Gate) -> None:
    """A handler would run only after the wait, or end it."""
    handled: list[float] = []

    def handle() -> None:
        handled.append(time.monotonic())
        threading.Timer(0.1, gate.open).start()

    with _alarm(handle, 0.05):
        stream.sync()
    assert handled[0] < time.monotonic() - 0.05


@pytest.mark.parametrize("wait", ["stream", "device"])
def test_other_threads_wait(device: ch.Device, stream: ch.Stream, gate: Gate, wait: str) -> None:
    """A thread that handles no signals would return before the work is done."""
    ended: list[bool] = []
    waiter = stream if wait == "stream" else device
    thread = threading.Thread(target=lambda: (waiter.sync(), ended.append(gate.is_passed)))
    thread.start()
    time.sleep(0.05)
    gate.open()
    thread.join()
    assert ended == [True]


@pytest.mark.parametrize("mode", ["global", "relaxed"])
@pytest.mark.parametrize("wait", ["stream", "default stream", "event"])
@pytest.mark.parametrize("same", [False, True])
def test_a_capture_that_begins_during_a_wait(
    device: ch.Device, stream: ch.Stream, gate: Gate, wait: str, mode: Any, same: bool
) -> None:
    """A query of the wait would invalidate a capture that another thread begins, such as one of PyTorch's."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    event = stream.record()
    graphs: list[Any] = []

    def capture() -> None:
        time.sleep(0.1)  # the wait has begun
        device.set_current()
        builder = (stream if same else device).create_graph_builder()
        try:
            builder.begin_building(mode)
            gate.open()
            time.sleep(0.1)
            graphs.append(builder.end_building())
        finally:
            gate.open()

    thread = threading.Thread(target=capture)
    thread.start()
    _WAITS[wait](event, stream, device.allocate(64, stream=device.create_stream()))
    assert gate.is_passed
    thread.join()
    assert len(graphs) == 1


def test_other_threads_launch(device: ch.Device, stream: ch.Stream) -> None:
    """A wait would not end as long as another thread launches."""
    buffer = device.allocate(1 << 22, stream=stream)
    waiting, ended = threading.Event(), threading.Event()

    def launch() -> None:
        device.set_current()
        until = time.monotonic() + 20
        before = stream.record()
        while not ended.is_set() and time.monotonic() < until:
            event = stream.record()
            for _ in range(20):
                buffer.fill(0, stream=stream)
            waiting.set()
            before.sync()  # the stream always has work
            before = event

    thread = threading.Thread(target=launch)
    thread.start()
    waiting.wait()
    began = time.monotonic()
    stream.sync()
    ended.set()
    assert time.monotonic() - began < 10
    thread.join()


@pytest.mark.cuda_sim
def test_an_idle_wait_is_a_query(device: ch.Device, stream: ch.Stream, cuda_sim: Any) -> None:
    """A wait for work that is done would be slower than it must be, or pools would not return memory to the system."""
    device.allocate(64, stream=stream).close()
    event = stream.record()
    for wait, what in ((stream.sync, "Stream"), (event.sync, "Event")):
        wait()
        for expected in ([f"cu{what}Query"], [f"cu{what}Query", f"cu{what}Synchronize"]):
            with cuda_sim.logging() as made:
                wait()
            others = ("cuCtxGetId", "cuThreadExchangeStreamCaptureMode")
            assert [call.name for call in made if call.name not in others] == expected
            device.allocate(64, stream=device.create_stream()).close()


def test_a_device_waits_for_all_streams(device: ch.Device, stream: ch.Stream) -> None:
    """``Device.sync`` would return before the work of some of the streams is done."""
    done: list[int] = []
    for number, busy in enumerate((stream, device.create_stream(), ch.LEGACY_DEFAULT_STREAM, device.create_stream())):
        busy.callback(lambda number=number: (time.sleep(0.02 * number), done.append(number)))  # type: ignore[misc]
    device.sync()
    assert sorted(done) == [0, 1, 2, 3]


@pytest.mark.cuda_sim
@pytest.mark.parametrize("function", ["cuEventCreate", pytest.param("cuCtxRecordEvent", marks=INTERRUPTED_DEVICE)])
def test_a_device_waits_without_an_event(device: ch.Device, stream: ch.Stream, cuda_sim: Any, function: str) -> None:
    """On an older driver, or if an event is refused, ``Device.sync`` would fail, or not wait."""
    done: list[int] = []
    stream.callback(lambda: (time.sleep(0.05), done.append(1)))  # type: ignore[arg-type]
    with cuda_sim.failing(function, error=2):
        device.sync()
    assert done == [1]


HUNG = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes ignore it
import cudacore_handles as ch

device = ch.Device()
device.set_current()
stream = device.create_stream()
code = ch.ObjectCode.from_ptx(b".version 7.0 .target sm_80 .address_size 64 .visible .entry spin() { L: bra.uni L; }")
kernel = code.get_kernel("spin")
ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel)


def interrupt():
    for _ in range(40):
        stopped.wait(0.5)
        os.kill(os.getpid(), signal.SIGINT)


stopped = threading.Event()
threading.Thread(target=interrupt, daemon=True).start()
stream.sync()
"""


def test_a_kernel_that_never_ends(run_on_driver: Callable[..., str]) -> None:
    """Only ``kill -9`` would end the process."""
    out = run_on_driver(
        f"""
import subprocess, sys
child = subprocess.run([sys.executable, "-c", {HUNG!r}], capture_output=True, text=True, timeout=60)
print(child.returncode, child.stderr.split()[-1])
"""
    )
    assert out.split() == [str(-signal.SIGINT), "KeyboardInterrupt"]


IGNORED = """
import atexit, os, signal, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
atexit.register(os.kill, os.getpid(), signal.SIGINT)  # runs after the functions that the import registers
import cudacore_handles as ch


def interrupt(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, interrupt)
device = ch.Device()
device.set_current()
stream = device.create_stream()
go_on = threading.Event()
stream.callback(lambda: bool(go_on.wait(30)))
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    stream.sync()
except TimeoutError:
    print("interrupted")
go_on.set()
device.sync()
"""


def test_a_signal_that_is_ignored(run_on_driver: Callable[..., str]) -> None:
    """After an interrupted wait, Ctrl-C would end a program at its exit that ignores it, such as one under nohup."""
    assert run_on_driver(IGNORED).split() == ["interrupted"]
