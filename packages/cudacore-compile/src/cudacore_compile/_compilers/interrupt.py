# SPDX-License-Identifier: Apache-2.0
"""Long calls of a compiler that a signal can end."""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_interruptibly(work: Callable[[], None], cancel: Callable[[], None]) -> None:
    """Call a function; if a signal handler raises an exception meanwhile, cancel the function and raise that exception.

    Python handles signals on the main thread, between two bytecodes, so that Ctrl-C waits for a call in C. On the main
    thread, `work` therefore runs on a thread of its own, while the main thread waits for an event, which a signal
    interrupts. Other threads handle no signals and call `work` themselves.

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
    thread = threading.Thread(target=call.run, name="cudacore-compile")
    try:
        try:
            thread.start()
        except RuntimeError:  # no more threads: the interpreter is ending, or the system's limit is reached
            call.run()
        call.ended.wait()
    except BaseException:
        cancel()
        raise
    error, call.error = call.error, None
    try:
        if error is not None:
            raise error
    finally:
        del error  # a frame that refers to its exception keeps both until a collection


class _Call:
    """A call on another thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call."""
        try:
            self._work()
        except BaseException as error:
            self.error = error.with_traceback(None)
        finally:
            self.ended.set()
