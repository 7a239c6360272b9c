# SPDX-License-Identifier: Apache-2.0
"""Contexts end while other threads use them, or ask for the next one."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

CONTEXT_IS_DESTROYED = 709
Run = Callable[[Callable[[], None], ctypes.c_void_p], None]


def wait_until(condition: Callable[[], bool]) -> None:
    """Fail if it does not hold within some seconds."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def in_thread(function: Callable[[], None]) -> threading.Thread:
    """Start a thread."""
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_context_that_ends_takes_no_work(cuda: Any, run_in_stream: Run) -> None:
    """Work queued while cuCtxDestroy waits would run on freed memory, and make the whole device fail."""
    opened, codes = threading.Event(), []
    context = ctypes.c_void_p(cuda.out("cuCtxCreate_v2", 0, 0))
    stream, memory = cuda.stream(1), cuda.malloc(4096)
    run_in_stream(lambda: opened.wait(20) and None, stream)
    ending = in_thread(lambda: codes.append(cuda.code("cuCtxDestroy_v2", context)))
    try:
        wait_until(lambda: cuda.code("cuStreamQuery", stream) == CONTEXT_IS_DESTROYED)
        assert cuda.code("cuMemsetD8Async", memory, 1, ctypes.c_size_t(4096), stream) == CONTEXT_IS_DESTROYED
        assert cuda.code("cuCtxDestroy_v2", context) == CONTEXT_IS_DESTROYED
    finally:
        opened.set()
        ending.join()
    assert codes == [0]
    cuda.cuCtxPopCurrent_v2(None)
    cuda.malloc(8)
    cuda.cuCtxSynchronize()


def test_retaining_a_primary_context_that_ends(cuda: Any, run_in_stream: Run) -> None:
    """The next primary context would lose its handle to the one before it, which has the same."""
    opened, active = threading.Event(), ctypes.c_int()
    context, flags = ctypes.c_void_p(), ctypes.c_uint()
    run_in_stream(lambda: opened.wait(20) and None, cuda.stream(1))

    def is_released() -> bool:
        cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
        return not active.value

    releasing = in_thread(lambda: cuda.cuDevicePrimaryCtxRelease_v2(0))
    wait_until(is_released)
    retaining = in_thread(lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    retaining.join(0.1)
    try:
        assert retaining.is_alive()
    finally:
        opened.set()
        releasing.join()
        retaining.join()
    cuda.cuCtxSetCurrent(context)
    cuda.malloc(8)
    assert cuda.out("cuCtxGetCurrent") == context.value
