# SPDX-License-Identifier: Apache-2.0
"""Long calls of a compiler that a signal can end."""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

_POLL_SECONDS = 0.1
_T = TypeVar("_T")
_Work = Callable[[], None]


def get_interruptibly(queue: SimpleQueue[_T]) -> _T:
    """Take the next item of a queue; signals are handled meanwhile.

    A signal that comes right before the main thread waits does not wake it, so that it must not wait for long.
    """
    while True:
        try:
            return queue.get(timeout=_POLL_SECONDS)
        except Empty:
            pass


def run_interruptibly(work: _Work, cancel: _Work) -> None:
    """Call a function; if a signal handler raises an exception meanwhile, cancel the function and raise that exception.

    Python handles signals on the main thread, between two bytecodes, so that Ctrl-C waits for a call in C. On the main
    thread, `work` therefore runs on another thread, while the main thread waits for a queue, which a signal interrupts.
    Other threads handle no signals and call `work` themselves.

    A function that NVRTC calls while it compiles (nvrtcSetFlowCallback) could not look for signals instead. NVRTC 13.5
    does not call it for 3 seconds while it compiles a kernel with 4,096 inlined calls, nor for 2 minutes while it
    compiles a kernel of 1,500 long lines. NVRTC 12.9 does not call it in the second half of a compilation of 2 seconds.

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
    thread = _take_thread() if threading.current_thread() is threading.main_thread() else None
    if thread is None:
        work()
        return
    try:
        thread.calls.put(work)
        del work
        failures = thread.wait()
    except BaseException:
        thread.give_up()
        cancel()
        raise
    _idle.append(thread)
    if failures:
        raise failures.pop()  # so that this frame, which is in its traceback, does not have it


class _Thread(threading.Thread):
    """A thread that calls functions, one after another.

    It stays, because a new thread for each call would cost a short compilation some percent. It is a daemon, because
    the interpreter would otherwise wait for it before it calls :func:`_end`.
    """

    def __init__(self) -> None:
        super().__init__(name="cudacore-compile-main", daemon=True)
        self.calls: SimpleQueue[_Work | None] = SimpleQueue()
        self._results: SimpleQueue[list[BaseException]] = SimpleQueue()
        self._is_given_up = False

    def run(self) -> None:
        try:
            while (work := self.calls.get()) is not None:
                result = _call(work)
                del work  # before the result is there: when it is, nothing keeps what the call has used
                self._results.put(result)
                del result
                if self._is_given_up:
                    self._drop_results()
        finally:
            _threads.discard(self)

    def wait(self) -> list[BaseException]:
        """Return the exception that the call has raised, if any, once it is over; signals are handled meanwhile."""
        return get_interruptibly(self._results)

    def give_up(self) -> None:
        """Have the thread end after its call, of which nothing is kept."""
        self._is_given_up = True
        self.calls.put(None)
        self._drop_results()  # the thread does so, too, if its call ends later

    def _drop_results(self) -> None:
        # An exception refers to its frames, these to the thread, and the thread to it: a cycle that is not collected if
        # the thread is older than a gc.freeze().
        while True:
            try:
                self._results.get_nowait()
            except Empty:
                return


def _call(work: _Work) -> list[BaseException]:
    try:
        work()
    except BaseException as error:
        # Without this frame, which has `work`.
        return [error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)]
    return []


def start_thread(thread: threading.Thread) -> None:
    """Start a thread, so that a signal handler can raise an exception meanwhile.

    ``Thread.start`` waits for a lock that is Python code. An exception right behind the call that locks would leave it
    locked, and the new thread would wait for it forever. So another thread makes the call.

    Raises
    ------
    RuntimeError
        When there can be no more threads.
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


# Changed by the main thread, and by threads that end.
_threads: set[_Thread] = set()
_idle: list[_Thread] = []  # several, if signal handlers have compiled
_is_ending = False


def _take_thread() -> _Thread | None:
    """Return a thread that has nothing to do, or None if there can be none."""
    if _is_ending:
        return None
    if _idle:
        return _idle.pop()
    thread = _Thread()
    try:
        start_thread(thread)
    except RuntimeError:  # the interpreter is ending, or the system's limit is reached
        return None
    _threads.add(thread)
    return thread


def _end() -> None:
    """Wait for calls that are running; a compiler that runs while the process ends would crash."""
    global _is_ending
    _is_ending = True
    for thread in list(_threads):
        thread.calls.put(None)
        thread.join()


def _end_idle() -> None:
    """End the threads that wait for work: Python warns of a fork in a process with threads, and its child has none."""
    while _idle:
        try:
            thread = _idle.pop()
        except IndexError:  # the main thread has taken it meanwhile
            return
        thread.calls.put(None)
        thread.join()


def _forget() -> None:
    _threads.clear()
    _idle.clear()


atexit.register(_end)
os.register_at_fork(before=_end_idle, after_in_child=_forget)  # in the child there is one thread
