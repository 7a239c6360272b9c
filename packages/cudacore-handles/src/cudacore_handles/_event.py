# SPDX-License-Identifier: Apache-2.0
"""Events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles._cffi import ffi, lib
from cudacore_handles._context import Context, borrowed_context
from cudacore_handles._errors import closed, last_error, raise_last, raise_status

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._device import Device

_NOT_READY = 600  # CUDA_ERROR_NOT_READY
_INVALID_HANDLE = 400  # CUDA_ERROR_INVALID_HANDLE

# What hot methods call, looked up once.
_NO_TIME = 1e300  # what the call gives when it has failed; twice that when it is too early to say
_gc = ffi.gc
_event_create = lib.cudacore_event_create
_event_elapsed = lib.cudacore_event_elapsed
_event_unref = lib.cch_event_unref
_event_query = lib.cch_event_query
_event_synchronize = lib.cch_event_synchronize


@dataclass
class EventOptions:
    """Say how an event behaves.

    Attributes
    ----------
    timing_enabled : bool, optional
        Whether the event can measure time. Default False: such an event is cheaper.
    blocking_sync : bool, optional
        Whether a thread that waits for the event sleeps rather than spins. Default False.
    ipc_enabled : bool, optional
        Whether other processes can use the event. Not supported in this release. Default False.
    """

    timing_enabled: bool | None = False
    blocking_sync: bool | None = False
    ipc_enabled: bool | None = False

    def _flags(self) -> int:
        if self.ipc_enabled:
            raise NotImplementedError("EventOptions.ipc_enabled: events between processes are not supported yet")
        flags = 0 if self.timing_enabled else lib.CCH_EVENT_DISABLE_TIMING
        return flags | (lib.CCH_EVENT_BLOCKING_SYNC if self.blocking_sync else 0)


DEFAULT_FLAGS = EventOptions()._flags()


class Event:
    """Mark a point in a stream's work, to wait for it or to measure time.

    Events are made by :meth:`Device.create_event` and :meth:`Stream.record`. ``end - start`` is the time between
    two recorded events in milliseconds. Two events are equal when they are the same CUDA event.
    """

    __slots__ = ("__weakref__", "_box")
    _box: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("Event cannot be instantiated directly; use Device.create_event() or Stream.record()")

    def __sub__(self, other: Event) -> float:
        """Return the milliseconds from `other` to this event (cuEventElapsedTime).

        Raises
        ------
        CUDAError
            When an event was made without timing, was never recorded, or its work is not done yet.
        """
        try:
            milliseconds: float = _event_elapsed(other._box, self._box)
        except (TypeError, AttributeError):
            if not isinstance(other, Event):
                return NotImplemented
            raise closed(self if self._box is None else other) from None
        if milliseconds < _NO_TIME:
            return milliseconds
        self._raise_not_elapsed(other, not_ready=milliseconds > _NO_TIME)

    def __rsub__(self, other: object) -> float:
        raise TypeError(f"cannot subtract an Event from a {type(other).__name__}; both sides must be Events")

    def __isub__(self, other: object) -> Event:
        raise TypeError("an Event cannot be changed; write elapsed = end - start")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self is other or (self._box is not None and self._raw() == other._raw())

    def __hash__(self) -> int:
        return hash((Event, self._raw()))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("an Event cannot be pickled: events between processes are not supported yet")

    def __repr__(self) -> str:
        return "<Event closed>" if self._box is None else f"<Event {self._raw():#x}>"

    def _raise_not_elapsed(self, other: Event, *, not_ready: bool) -> NoReturn:
        error = last_error(_NOT_READY if not_ready else None)
        if not_ready:
            error.operation = "cuEventElapsedTime"
            error.hint = "The work before one of the events has not finished: call its sync() first"
        elif error.code == _INVALID_HANDLE and self.is_timing_enabled and other.is_timing_enabled:
            error.hint = "Both events must have been recorded, on streams of one device"
        elif error.code == _INVALID_HANDLE:
            error.hint = "Make both events with EventOptions(timing_enabled=True)"
        raise error

    @classmethod
    def _create(cls, context: Any, options: EventOptions | None) -> Event:
        if options is None:
            flags = DEFAULT_FLAGS
        elif isinstance(options, EventOptions):
            flags = options._flags()
        else:
            raise TypeError(f"options must be an EventOptions, not {type(options).__name__}")
        box = _event_create(context, flags)
        if not box:
            raise_last()
        self = cls.__new__(cls)
        self._box = _gc(box, _event_unref)
        return self

    def _raw(self) -> int:
        return int(ffi.cast("uintptr_t", lib.cch_event_raw(self._box or ffi.NULL)))

    def _known_flags(self) -> int:
        if self._box is None:
            raise closed(self)
        return int(lib.cch_event_flags(self._box))

    def close(self) -> None:
        """Give up the event. Calling it again does nothing; work that waits for it still waits."""
        self._box = None

    def sync(self) -> None:
        """Wait until the work recorded in the event is done (cuEventSynchronize).

        Raises
        ------
        CUDAError
            Also when work that ran earlier has failed.
        """
        try:
            status = _event_synchronize(self._box)
        except TypeError:
            raise closed(self) from None
        if status:
            raise_status(status)

    @property
    def is_done(self) -> bool:
        """bool: Whether the work recorded in the event is done (cuEventQuery)."""
        try:
            status = _event_query(self._box)
        except TypeError:
            raise closed(self) from None
        if status == 0:
            return True
        if status == _NOT_READY:
            return False
        raise_status(status)

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._box is None

    @property
    def is_timing_enabled(self) -> bool:
        """bool: Whether the event can measure time."""
        return not self._known_flags() & lib.CCH_EVENT_DISABLE_TIMING

    @property
    def is_blocking_sync(self) -> bool:
        """bool: Whether a thread that waits for the event sleeps."""
        return bool(self._known_flags() & lib.CCH_EVENT_BLOCKING_SYNC)

    @property
    def is_ipc_enabled(self) -> bool:
        """bool: Whether other processes can use the event."""
        return bool(self._known_flags() & lib.CCH_EVENT_INTERPROCESS)

    @property
    def context(self) -> Context:
        """Context: The context that the event is of."""
        if self._box is None:
            raise closed(self)
        return borrowed_context(lib.cch_event_context(self._box))

    @property
    def device(self) -> Device:
        """Device: The device that the event is of."""
        return self.context.device

    @property
    def handle(self) -> driver.CUevent:
        """cuda.bindings.driver.CUevent: The event for ``cuda.bindings``."""
        if self._box is None:
            raise closed(self)
        from cuda.bindings import driver

        return driver.CUevent(self._raw())
