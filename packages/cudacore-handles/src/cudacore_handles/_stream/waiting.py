# SPDX-License-Identifier: Apache-2.0
"""Waiting in asyncio, without a thread.

A function that the stream calls on the host wakes the event loop promptly. It is not called if work of the context
fails, and events have no such function. So the event loop also queries the driver, at growing intervals.
"""

from __future__ import annotations

import asyncio
import heapq
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_handles._base.errors import last_error
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import lib

if TYPE_CHECKING:
    from cudacore_handles._stream.event import Event
    from cudacore_handles._stream.stream import Stream

# Times in seconds. The interval between two queries is a fraction of the time waited so far.
_SPIN = 1e-3  # during this time, the driver is queried in each iteration of the event loop
_AT_ONCE = 50e-6  # for shorter intervals the event loop does not sleep, because a sleep takes a millisecond
_GROWTH = 1 / 16
_LONGEST = 5e-3
_EACH = 20e-6  # added for each waiter, so that many waiters do not keep the event loop busy
_REST = 3  # the pause between queries is this multiple of their duration, so they take at most a quarter of the time
# If a host function also wakes the loop: the shortest interval, the growth, and the longest interval.
_PROMPTED = (50e-3, 1 / 2, 1.0)


class _Waiting(NamedTuple):
    """A future that is set when an event is done."""

    when: float  # the time of the next query
    number: int  # makes entries with the same time comparable
    began: float
    event: Any
    future: asyncio.Future[Any]
    result: object
    prompted: bool


class _Poller:
    """All futures that wait in one event loop. The loop's timer keeps the object alive."""

    def __init__(self) -> None:
        self._heap: list[_Waiting] = []
        self._count = 0
        self._timer: asyncio.Handle | None = None
        self._next = 0.0
        self._rests_until = 0.0

    def add(self, event: Any, future: asyncio.Future[Any], result: object, *, prompted: bool) -> None:
        loop = future.get_loop()
        now = loop.time()
        self._count += 1
        waiting = _Waiting(now, self._count, now, event, future, result, prompted)
        heapq.heappush(self._heap, waiting._replace(when=now + self._interval(waiting, now)))
        self._schedule(loop, now)

    def _interval(self, waiting: _Waiting, now: float) -> float:
        elapsed = now - waiting.began
        if waiting.prompted:
            shortest, growth, longest = _PROMPTED
            return min(max(shortest, elapsed * growth), longest)
        interval = 0.0 if elapsed < _SPIN else min(elapsed * _GROWTH, _LONGEST)
        return max(interval, len(self._heap) * _EACH)

    def _schedule(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        if not self._heap:
            return
        when = max(self._heap[0].when, self._rests_until)
        if self._timer is not None:
            if self._next <= when:
                return
            self._timer.cancel()
        self._next = when
        self._timer = loop.call_soon(self._poll) if when - now < _AT_ONCE else loop.call_at(when, self._poll)

    def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        began = loop.time()
        now = began + _SPIN / 10
        due = []
        while self._heap and self._heap[0].when <= now:
            due.append(heapq.heappop(self._heap))
        due.reverse()
        try:
            while due:
                self._query(due[-1], now)
                due.pop()
        finally:  # after a KeyboardInterrupt, the program can run the event loop again
            for waiting in due:
                heapq.heappush(self._heap, waiting)
            ended = loop.time()
            self._rests_until = ended + _REST * (ended - began)
            self._schedule(loop, ended)

    def _query(self, waiting: _Waiting, now: float) -> None:
        if waiting.future.done():  # the future was cancelled, or a host function has woken the loop
            return
        status = lib.cch_event_poll(waiting.event)
        if status == lib.CCH_NOT_READY:
            heapq.heappush(self._heap, waiting._replace(when=now + self._interval(waiting, now)))
        elif status:
            waiting.future.set_exception(last_error(status))
        else:
            waiting.future.set_result(waiting.result)


_pollers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Poller]] = weakref.WeakKeyDictionary()


def _poller_of(loop: asyncio.AbstractEventLoop) -> _Poller:
    reference = _pollers.get(loop)
    poller = reference() if reference is not None else None
    if poller is None:
        poller = _Poller()
        _pollers[loop] = weakref.ref(poller)
    return poller


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
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    box = hold(event)
    status = lib.cch_event_poll(box)
    if status == 0:
        future.set_result(result)
    elif status != lib.CCH_NOT_READY:
        raise last_error(status)
    else:
        if stream is not None:
            stream.callback(_Wake(loop, future, result))
        _poller_of(loop).add(box, future, result, prompted=stream is not None)
    return future


class _Wake:
    """The host function that wakes an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: object) -> None:
        self._loop, self._future, self._result = loop, future, result

    def __call__(self) -> None:
        with suppress(RuntimeError):  # the event loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(self._result)
