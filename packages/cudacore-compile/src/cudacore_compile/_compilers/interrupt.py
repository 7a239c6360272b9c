# SPDX-License-Identifier: Apache-2.0
"""Runs long calls of a compiler so that signals can interrupt them."""

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
    caller is the main thread, `work` therefore runs on another thread. The main thread waits for a queue, which a
    signal interrupts. Other threads handle no signals, so they call `work` themselves.

    The function that NVRTC calls while it compiles (nvrtcSetFlowCallback) is not called often enough to check for
    signals there. NVRTC 13.5 does not call it for 3 seconds while it compiles a kernel with 4,096 inlined calls, nor
    for 2 minutes while it compiles a kernel of 1,500 long lines. NVRTC 12.9 does not call it in the second half of a
    compilation of 2 seconds.

    Use this for NVRTC only. nvJitLink keeps state by thread. If one thread creates a linker, and another thread links
    it and ends, the next linker of the first thread crashes (13.5).

    Parameters
    ----------
    work : callable
        The call in C. After an exception it can still run, so it must own what it uses. The interpreter waits for it
        before it exits.
    cancel : callable
        Ends `work` soon, even if it has not begun. It does nothing if `work` cannot be ended.
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
        raise failures.pop()  # this frame is in the exception's traceback, so it must not refer to the exception


class _Thread(threading.Thread):
    """A thread that calls functions, one after another.

    The thread is kept, because a new thread for each call would make a short compilation a few percent slower. It is a
    daemon thread, because otherwise the interpreter would wait for the thread's end before it calls :func:`_end`.
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
                del work  # before the result is delivered, so that this thread keeps no objects of the call
                self._results.put(result)
                del result
                if self._is_given_up:
                    self._drop_results()
        finally:
            _threads.discard(self)

    def wait(self) -> list[BaseException]:
        """Wait for the call to end. Return a list with the exception that it raised, or an empty list.

        Signals are handled during the wait.
        """
        return get_interruptibly(self._results)

    def give_up(self) -> None:
        """Make the thread end after its call, and drop the objects of the call."""
        self._is_given_up = True
        self.calls.put(None)
        self._drop_results()  # if the call has not ended yet, the thread drops its result later

    def _drop_results(self) -> None:
        # The exception refers to its frames, the frames to the thread, and the thread to the exception. This cycle is
        # never collected if the thread was made before a gc.freeze().
        while True:
            try:
                self._results.get_nowait()
            except Empty:
                return


def _call(work: _Work) -> list[BaseException]:
    try:
        work()
    except BaseException as error:
        # Remove this frame from the traceback, because it refers to `work`.
        return [error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)]
    return []


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


# All threads that have not ended. The main thread adds threads, and each thread removes itself when it ends.
_threads: set[_Thread] = set()
_idle: list[_Thread] = []  # usually one thread; several if signal handlers have compiled programs
_is_ending = False


def _take_thread() -> _Thread | None:
    """Return an idle thread or a new one; None if no thread can be started."""
    if _is_ending:
        return None
    if _idle:
        return _idle.pop()
    thread = _Thread()
    try:
        start_thread(thread)
    except RuntimeError:  # the interpreter is ending, or the system allows no more threads
        return None
    _threads.add(thread)
    return thread


def _end() -> None:
    """Wait for running calls, because a compiler that runs while the process ends would crash."""
    global _is_ending
    _is_ending = True
    for thread in list(_threads):
        thread.calls.put(None)
        thread.join()


def _end_idle() -> None:
    """End the idle threads before a fork, because Python warns of it, and because the child does not have them."""
    while _idle:
        try:
            thread = _idle.pop()
        except IndexError:  # the main thread has taken this thread meanwhile
            return
        thread.calls.put(None)
        thread.join()


def _forget() -> None:
    _threads.clear()
    _idle.clear()


atexit.register(_end)
os.register_at_fork(before=_end_idle, after_in_child=_forget)  # the child has only one thread
