# SPDX-License-Identifier: Apache-2.0
"""Events."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.errors import CUDAError, bindings, closed, last_error
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Closing, Made
from cudacore_handles._base.names import check_type
from cudacore_handles._base.options import as_options
from cudacore_handles._cffi import lib
from cudacore_handles._stream.ipc import IPCEventDescriptor, check_events, describe_event, import_event

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._driver.context import Context
    from cudacore_handles._driver.device import Device
    from cudacore_handles._option_dicts import EventOptionsDict
    from cudacore_handles._stream.options import EventOptions


class Event(_native.EventHandle, Closing, Made):
    """A point in a stream's work, to wait for or to measure time.

    Events are made by :meth:`Device.create_event` and :meth:`Stream.record`. ``end - start`` is the time between two
    recorded events in milliseconds (cuEventElapsedTime); a :class:`CUDAError` is raised if an event was created without
    timing, was never recorded, or its work is not done yet. Two events are equal if they are the same CUDA event.

    Examples
    --------
    >>> timing = core.EventOptions(timing_enabled=True)
    >>> begin = stream.record(options=timing)
    >>> device.allocate(1024, stream=stream).fill(0, stream=stream)
    >>> end = stream.record(options=timing)
    >>> end.sync()
    >>> end - begin >= 0  # milliseconds
    True
    """

    __slots__ = ("__weakref__", "_descriptor")
    _made_by = "Device.create_event() or Stream.record()"
    _descriptor: IPCEventDescriptor  # for other processes; set by an import, or at its first use

    if TYPE_CHECKING:

        @property
        def context(self) -> Context | None: ...
        @property
        def device(self) -> Device | None: ...

    def __deepcopy__(self, memo: object) -> Event:
        raise TypeError("copy.deepcopy() does not copy an Event: record another one, with Stream.record()")

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_ipc_enabled:
            raise TypeError(
                "only an Event that was made with EventOptions(ipc_enabled=True) can be pickled, for another process"
            )
        return Event.from_ipc_descriptor, (self.ipc_descriptor,)

    def __await__(self) -> Generator[Any, None, Event]:
        """Wait in asyncio until the recorded work is done: ``await event`` returns the event.

        The event loop runs other tasks meanwhile; no thread waits. The event loop queries the driver at intervals of a
        sixteenth of the time waited so far, at most 5 ms. If hundreds of tasks wait, the intervals are longer.
        :meth:`Stream.async_done` is woken by the stream instead. If work of the context failed, the :class:`CUDAError`
        is raised. The wait can be cancelled.
        """
        from cudacore_handles._stream.waiting import future_of  # imports asyncio

        return future_of(self, self).__await__()

    def __repr__(self) -> str:
        return "<Event closed>" if self.is_closed else f"<Event handle={self._raw:#x}>"

    @classmethod
    def from_ipc_descriptor(cls, ipc_descriptor: IPCEventDescriptor) -> Event:
        """Open an event of another process (cuIpcOpenEventHandle).

        Parameters
        ----------
        ipc_descriptor : IPCEventDescriptor
            The :attr:`ipc_descriptor` of the event in the other process.
        """
        check_type("ipc_descriptor", ipc_descriptor, IPCEventDescriptor)
        return import_event(cls, ipc_descriptor)

    @property
    def ipc_descriptor(self) -> IPCEventDescriptor:
        """IPCEventDescriptor: The name of the event for other processes (cuIpcGetEventHandle).

        Available for events that were created with ``ipc_enabled=True``.
        """
        if self.is_closed:
            raise closed(self)
        if not hasattr(self, "_descriptor"):
            self._descriptor = describe_event(self)
        return self._descriptor

    @property
    def handle(self) -> driver.CUevent:
        """cuda.bindings.driver.CUevent: The event for ``cuda.bindings``."""
        hold(self)
        return bindings().CUevent(self._raw)


def event_flags(context: Context, options: EventOptions | EventOptionsDict) -> int:
    """Return the flags for a new event in a context."""
    from cudacore_handles._stream.options import EventOptions

    flags = as_options(EventOptions, options)._flags()
    if flags & lib.CCH_EVENT_INTERPROCESS:
        check_events(context)
    return flags


def raise_not_elapsed(end: Event, start: Event, status: int) -> NoReturn:
    raise _not_elapsed(end, start, status)


def _not_elapsed(end: Event, start: Event, status: int) -> CUDAError:
    """Make the exception for a time that cannot be measured, with the reason, which the driver does not report."""
    error = last_error(status)
    if status == lib.CCH_NOT_READY:
        error.operation = "cuEventElapsedTime"
        error.hint = "The work before one of the events has not finished: call its sync() first"
    elif status == results.INVALID_HANDLE and end.is_timing_enabled and start.is_timing_enabled:
        error.hint = "Both Events must be recorded before they can be subtracted, on streams of one device"
    elif status == results.INVALID_HANDLE:
        error.hint = (
            "Both Events must be created with timing enabled in order to subtract them: make both with "
            "EventOptions(timing_enabled=True)"
        )
    return error
