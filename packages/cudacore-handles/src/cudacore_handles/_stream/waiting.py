# SPDX-License-Identifier: Apache-2.0
"""Waiting in asyncio, without a thread.

A function that the stream calls on the host wakes the event loop promptly. It is not called if work of the context
fails, and events have no such function. So the event loop also queries the driver, at growing intervals.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudacore_handles._base.errors import last_error
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import lib

if TYPE_CHECKING:
    from cudacore_handles._stream.event import Event
    from cudacore_handles._stream.stream import Stream

# Intervals between two queries: the shortest one, the fraction of the time waited so far, and the longest one; in
# seconds. The second row is for waits that a host function ends.
_INTERVALS = ((0.0, 1 / 16, 5e-3), (50e-3, 1 / 2, 1.0))
_AT_ONCE = 100e-6  # for shorter intervals the event loop does not sleep, because a sleep takes a millisecond
_EACH = 50e-6  # the shortest interval for each waiter of the thread, so that many do not keep the event loop busy


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.waiting: weakref.WeakSet[_Waiting] = weakref.WeakSet()


_of_thread = _OfThread()


class _Waiting:
    """A future that is set when an event is done. A timer of the event loop keeps this object alive."""

    def __init__(self, event: Any, future: asyncio.Future[Any], result: object, *, prompted: bool) -> None:
        self._event, self._future, self._result = event, future, result
        self._intervals = _INTERVALS[prompted]
        self._loop = future.get_loop()
        self._began = self._loop.time()
        _of_thread.waiting.add(self)

    def __call__(self) -> None:
        """Wake the event loop: the stream calls this after the work."""
        with suppress(RuntimeError):  # the event loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._query)

    def schedule(self) -> None:
        shortest, fraction, longest = self._intervals
        interval = min(max(shortest, fraction * (self._loop.time() - self._began)), longest)
        interval = max(interval, _EACH * len(_of_thread.waiting))
        if interval < _AT_ONCE:
            self._loop.call_soon(self._query)
        else:
            self._loop.call_later(interval, self._query)

    def _query(self) -> None:
        try:
            if not self._future.done():  # it was not cancelled, and the host function has not woken the loop
                self._settle()
        finally:  # after a KeyboardInterrupt, the program can run the event loop again
            if not self._future.done():
                self.schedule()

    def _settle(self) -> None:
        status = lib.cch_event_poll(self._event)
        if status == 0:
            self._future.set_result(self._result)
        elif status != lib.CCH_NOT_READY:
            self._future.set_exception(last_error(status))


def future_of(event: Event, result: object, stream: Stream | None = None) -> asyncio.Future[Any]:
    """Return a future of the running event loop that is set when an event is done, or fails with the device's error.

    Parameters
    ----------
    event : Event
        The event.
    result : object
        The result of the future.
    stream : Stream, optional
        The stream on which the event was just recorded. It calls a host function that wakes the event loop.
    """
    future = asyncio.get_running_loop().create_future()
    box = hold(event)
    status = lib.cch_event_poll(box)
    if status == 0:
        future.set_result(result)
    elif status != lib.CCH_NOT_READY:
        raise last_error(status)
    else:
        waiting = _Waiting(box, future, result, prompted=stream is not None)
        if stream is not None:
            stream.callback(waiting)
        waiting.schedule()
    return future
