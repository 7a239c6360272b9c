# SPDX-License-Identifier: Apache-2.0
"""Runs long calls of a compiler so that signals can interrupt them."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import call_interruptibly

_POLL_SECONDS = 0.1
_T = TypeVar("_T")
_Work = Callable[[], None]


def get_interruptibly(queue: SimpleQueue[_T]) -> _T:
    """Remove the next item from a queue and return it. Signals are handled while this function waits for the item.

    A signal that arrives just before the main thread waits does not wake it, so each wait is short.
    """
    while True:
        try:
            return queue.get(timeout=_POLL_SECONDS)
        except Empty:
            pass


def run_interruptibly(work: _Work, cancel: _Work) -> None:
    """Call a function; if a signal handler raises an exception meanwhile, cancel the function and raise that exception.

    Python handles signals on the main thread, between two bytecodes, so Ctrl-C would wait for a call in C. If the
    caller is the main thread, `work` therefore runs on another thread (``call_interruptibly``).

    The function that NVRTC calls while it compiles (nvrtcSetFlowCallback) is not called often enough to check for
    signals there. NVRTC 13.5 does not call it for 3 seconds while it compiles a kernel with 4,096 inlined calls, nor
    for 2 minutes while it compiles a kernel of 1,500 long lines. NVRTC 12.9 does not call it in the second half of a
    compilation of 2 seconds.

    Parameters
    ----------
    work : callable
        The call in C. After an exception it can still run, so it must own what it uses. The interpreter waits for it
        before it exits.
    cancel : callable
        Ends `work` soon, even if it has not begun. It does nothing if `work` cannot be ended.
    """
    try:
        call_interruptibly(work)
    except CUDAError:  # the exception of `work` itself
        raise
    except BaseException:
        cancel()
        raise


def start_thread(thread: threading.Thread) -> None:
    """Start a thread, even if a signal handler raises an exception meanwhile.

    ``Thread.start`` waits for a lock that is implemented in Python. An exception just after the lock was acquired
    would leave it locked, and the new thread would wait for it forever. So another thread calls ``Thread.start``.

    Raises
    ------
    RuntimeError
        If no more threads can be started.
    """
    results: SimpleQueue[RuntimeError | None] = SimpleQueue()

    def start() -> None:
        try:
            thread.start()
        except RuntimeError as error:
            results.put(error)
        else:
            results.put(None)

    _thread.start_new_thread(start, ())
    failure = get_interruptibly(results)
    if failure is not None:
        raise RuntimeError(*failure.args)
