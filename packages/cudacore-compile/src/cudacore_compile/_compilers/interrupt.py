# SPDX-License-Identifier: Apache-2.0
"""Long calls of a compiler that a signal can end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_MAX_THREADS = 64  # there is one, and another one for each call that was interrupted and still runs
# A signal that comes right before the main thread waits does not wake it.
_POLL_SECONDS = 0.1
_pool: ThreadPoolExecutor | None = None


def run_interruptibly(work: Callable[[], None], cancel: Callable[[], None]) -> None:
    """Call a function; if a signal handler raises an exception meanwhile, cancel the function and raise that exception.

    Python handles signals on the main thread, between two bytecodes, so that Ctrl-C waits for a call in C. On the main
    thread, `work` therefore runs on another thread, while the main thread waits for a lock, which a signal interrupts.
    Other threads handle no signals and call `work` themselves.

    This is for NVRTC alone. nvJitLink keeps state by thread: when one thread makes a linker and another thread links it
    and ends, the next linker of the first thread is a SIGSEGV (13.5).

    Parameters
    ----------
    work : callable
        The call in C. After an exception it can still run, so it must own what it uses. The interpreter waits for it
        before it exits.
    cancel : callable
        Ends `work` soon, also if it has not begun. It does nothing if `work` cannot be ended.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    call = _Call(work)
    del work
    try:
        try:
            future = _threads().submit(call)
        except RuntimeError:  # no more threads: the interpreter is ending, or the system's limit is reached
            call()
            return
        while not call.ended.wait(_POLL_SECONDS):
            pass
        future.result()
    except BaseException:
        cancel()
        raise


class _Call:
    """A call that keeps nothing alive when it is over: threads drop what they have run a little later."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self.ended = threading.Event()

    def __call__(self) -> None:
        work, self._work = self._work, None
        try:
            if work is not None:
                work()
        finally:
            self.ended.set()


def _threads() -> ThreadPoolExecutor:
    """Return the threads, which stay: a new one for each call would cost a short compilation some percent."""
    global _pool
    if _pool is None:
        from concurrent.futures import ThreadPoolExecutor  # here, so that importing this package does not import it

        _pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="cudacore-compile-main")
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)  # where there is one thread
