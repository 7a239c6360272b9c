# SPDX-License-Identifier: Apache-2.0
"""Host functions that a stream calls."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import cudacore_handles as ch

VOID = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def test_order(stream: ch.Stream, pinned: Callable[[int], ch.Buffer]) -> None:
    """A function would be called before the earlier work is done, or after later work."""
    memory = pinned(4)
    view = memory.__buffer__()
    seen: list[Any] = []
    for i in range(20):
        memory.fill(i, stream=stream)
        stream.callback(lambda i=i: seen.append((i, view[0])))
    stream.sync()
    assert seen == [(i, i) for i in range(20)]
    view.release()


def test_streams(device: ch.Device) -> None:
    """No function could be called on default streams, or from a thread without a context."""
    seen: list[int] = []
    for i, stream in enumerate((ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM)):
        stream.callback(lambda i=i: seen.append(i))
        stream.sync()
    other = device.create_stream()
    thread = threading.Thread(target=lambda: other.callback(lambda: seen.append(2)))
    thread.start()
    thread.join()
    other.sync()
    assert seen == [0, 1, 2]


def test_lifetime(stream: ch.Stream) -> None:
    """A function would be released before it is called, or never."""

    class Function:
        def __call__(self) -> None:
            seen.append(1)

    seen: list[int] = []
    function = Function()
    gone = weakref.ref(function)
    stream.callback(function)
    del function
    stream.sync()
    assert seen == [1]
    stream.sync()
    gc.collect()
    assert gone() is None


def test_what_it_raises(stream: ch.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception would be lost or end the process, or no later function would be called."""
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_type))

    def fail() -> None:
        raise LookupError("lost")

    stream.callback(fail)
    stream.callback(lambda: seen.append("next"))
    stream.sync()
    assert seen == [LookupError, "next"]


def test_functions_of_ctypes(stream: ch.Stream) -> None:
    """A ctypes function would be called with another argument, or be released with its data before the call."""
    seen: list[Any] = []

    @VOID
    def take(data: int) -> None:
        seen.append(ctypes.string_at(data, 3) if data else None)

    stream.callback(take)
    stream.callback(take, user_data=bytearray(b"abc"))
    kept = ctypes.create_string_buffer(b"xyz")
    stream.callback(take, user_data=ctypes.addressof(kept))
    stream.callback(VOID(lambda data: seen.append("mine")))
    gc.collect()
    stream.sync()
    assert seen == [None, b"abc", b"xyz", "mine"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3,), TypeError, "fn must be a callable or a function of ctypes, not int"),
        ((), TypeError, "callback"),
        ((lambda: None, 1), TypeError, "callback"),
        ((ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda data: 0),), TypeError, "this one returns c_int"),
        ((ctypes.CFUNCTYPE(None)(lambda: None),), TypeError, "fn must be a function of the type"),
        ((ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda data: None),), TypeError, "needs the GIL"),
        ((VOID(),), ValueError, "fn is a NULL pointer"),
    ],
)
def test_bad_functions(stream: ch.Stream, arguments: Any, error: type[Exception], message: str) -> None:
    """A function that CUDA cannot call would be accepted, and fail on a thread that cannot report it."""
    with pytest.raises(error, match=message):
        stream.callback(*arguments)
    with pytest.raises(ValueError, match="user_data is only supported with functions of ctypes"):
        stream.callback(lambda: None, user_data=1)
    with pytest.raises(TypeError, match="user_data must be an int or bytes-like, not float"):
        stream.callback(VOID(lambda data: None), user_data=1.5)
    closed = ch.Device().create_stream()
    closed.close()
    with pytest.raises(ch.ClosedError):
        closed.callback(lambda: None)


@pytest.mark.cuda_sim
def test_a_failing_call(stream: ch.Stream) -> None:
    """If the driver refuses a function, the error would be lost, or the function would be kept forever."""
    import cudacore_sim as sim

    class Function:
        def __call__(self) -> None: ...

    function = Function()
    gone = weakref.ref(function)
    with sim.failing("cuLaunchHostFunc"), pytest.raises(ch.CUDAError, match="cuLaunchHostFunc"):
        stream.callback(function)
    del function
    stream.sync()
    gc.collect()
    assert gone() is None


def test_the_end_of_the_interpreter(run_on_driver: Callable[..., str]) -> None:
    """A function that CUDA calls after the interpreter has ended would crash or block the process."""
    run_on_driver(
        """
        import time
        import cudacore_handles as ch
        device = ch.Device(0)
        device.set_current()
        stream = device.create_stream()
        for _ in range(50):
            stream.callback(lambda: time.sleep(0.002))
        """
    )
