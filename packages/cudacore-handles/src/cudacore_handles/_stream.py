# SPDX-License-Identifier: Apache-2.0
"""Streams, and what else can stand in for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cudacore_handles import _owners
from cudacore_handles._address import as_address
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._context import Context, borrowed_context, current_context_box
from cudacore_handles._errors import CUDAError, check, closed, raise_last, raise_status
from cudacore_handles._event import Event, EventOptions

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._device import Device

# What hot methods call, looked up once.
_address_of = lib.cudacore_address
_event_record = lib.cch_event_record
_NON_BLOCKING: int = lib.CCH_STREAM_NON_BLOCKING
_stream_create = lib.cudacore_stream_create
_stream_synchronize = lib.cch_stream_synchronize
_stream_unref = lib.cch_stream_unref
_stream_wait_event = lib.cch_stream_wait_event


@dataclass
class StreamOptions:
    """Say how a stream behaves.

    Attributes
    ----------
    nonblocking : bool, optional
        Whether the stream runs without implicit ordering with the legacy default stream. Default True.
    priority : int, optional
        Lower numbers run first. The range is the device's, often -5 to 0. Default None: the lowest priority, 0.
    """

    nonblocking: bool = True
    priority: int | None = None


@runtime_checkable
class IsStreamType(Protocol):
    """Match any object that offers a CUDA stream by the ``__cuda_stream__`` protocol."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version, 0, and the stream's address."""
        ...


class Stream:
    """Queue work for a device; what is queued on one stream runs in order.

    Streams are made by :meth:`Device.create_stream` and :meth:`Context.create_stream`; :meth:`from_handle` borrows
    one. Everything that takes a stream takes any object with ``__cuda_stream__``. Two streams are equal when
    they are the same CUDA stream.
    """

    # _address, of the box, is what the launcher reads; None once closed.
    __slots__ = ("__weakref__", "_address", "_box")
    _address: int | None
    _box: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("Stream cannot be instantiated directly; use Device.create_stream() or Stream.from_handle()")

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, address of the stream): the protocol by which libraries share streams."""
        if self._box is None:
            raise closed(self)
        return (0, self._raw())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self is other or (self._box is not None and self._raw() == other._raw())

    def __hash__(self) -> int:
        return hash((Stream, self._raw()))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Stream cannot be pickled: make one in each process with Device.create_stream()")

    def __repr__(self) -> str:
        return "<Stream closed>" if self._box is None else f"<Stream {self._raw():#x}>"

    @classmethod
    def _init(cls, box: Any) -> Stream:
        """Take over one reference to a ``cch_stream``."""
        self = cls.__new__(cls)
        self._box = ffi.gc(box, _stream_unref)
        self._address = _address_of(box)
        return self

    @classmethod
    def _create(cls, context: Any, options: StreamOptions | None) -> Stream:
        flags, priority = _NON_BLOCKING, 0
        if options is not None:
            if not isinstance(options, StreamOptions):
                raise TypeError(f"options must be a StreamOptions, not {type(options).__name__}")
            flags = lib.CCH_STREAM_NON_BLOCKING if options.nonblocking else 0
            if options.priority is not None:
                priority = _check_priority(options.priority, context)
        box = _stream_create(context, flags, priority)
        if not box:
            raise_last()
        return cls._init(box)

    @staticmethod
    def from_handle(handle: int) -> Stream:
        """Borrow a stream by its address.

        The caller sees to it that the stream outlives the object; one that this library made comes back as what it
        is, and stays alive.

        Parameters
        ----------
        handle : int
            Address of a ``CUstream``. 0 and 1 mean the legacy default stream, 2 the per-thread default stream.
        """
        out = ffi.new("cch_stream **")
        raw = ffi.cast("CUstream", as_address(handle, "handle must be an int, the stream's address"))
        check(lib.cch_stream_wrap(out, raw, ffi.NULL, ffi.NULL))
        return Stream._init(out[0])

    @staticmethod
    def _from_protocol(obj: IsStreamType) -> Stream:
        """Borrow a foreign stream and keep the object that offers it as long as the stream is in use."""
        name = f"{type(obj).__name__}.__cuda_stream__"
        if not callable(obj.__cuda_stream__):
            raise TypeError(f"{name} must be a method")
        offered = obj.__cuda_stream__()
        try:
            version, handle = offered
        except (TypeError, ValueError):
            raise TypeError(f"{name}() must return two ints, (version, address), not {offered!r}") from None
        if version != 0:
            raise TypeError(f"{name}() speaks version {version}; only 0 is known")
        raw = ffi.cast("CUstream", as_address(handle, f"{name}() must give an int, the stream's address"))
        out = ffi.new("cch_stream **")
        owner = _owners.keep(obj)
        status = lib.cch_stream_wrap(out, raw, owner, lib.cudacore_release)
        if status:
            _owners.drop(owner)
            raise_status(status)
        return Stream._init(out[0])

    def _raw(self) -> int:
        return int(ffi.cast("uintptr_t", lib.cch_stream_raw(self._box or ffi.NULL)))

    def close(self) -> None:
        """Give up the stream. Calling it again does nothing.

        Work that is queued still runs; the stream itself goes when nothing uses it any more, such as a buffer that
        will be freed on it.
        """
        self._address = None
        self._box = None

    def sync(self) -> None:
        """Wait until all work of the stream is done (cuStreamSynchronize).

        Raises
        ------
        CUDAError
            Also when work that ran earlier has failed.
        """
        try:
            status = _stream_synchronize(self._box)
        except TypeError:
            raise closed(self) from None
        if status:
            raise_status(status)

    def record(self, event: Event | None = None, options: EventOptions | None = None) -> Event:
        """Record the work that the stream has now in an event (cuEventRecord).

        Parameters
        ----------
        event : Event, optional
            The event to record in. Default: a new one.
        options : EventOptions, optional
            Options of a new event; an error together with `event`.

        Returns
        -------
        Event
            The event.
        """
        if event is None:
            if self._box is None:
                raise closed(self)
            event = Event._create(self._context_box(), options)
        elif options is not None:
            raise TypeError("options are for a new event: give either event or options")
        try:
            status = _event_record(event._box, self._box)
        except (TypeError, AttributeError):
            if not isinstance(event, Event):
                raise TypeError(f"event must be an Event, not {type(event).__name__}") from None
            raise closed(self if self._box is None else event) from None
        if status:
            raise_status(status)
        return event

    def wait(self, event_or_stream: Event | Stream | IsStreamType) -> None:
        """Make later work of this stream wait, without blocking the host.

        Parameters
        ----------
        event_or_stream : Event or Stream
            The event to wait for (cuStreamWaitEvent), or the stream whose present work to wait for.
        """
        try:
            # What is not an event is a type error here, and looked at then.
            status = _stream_wait_event(self._box, event_or_stream._box)  # type: ignore[union-attr]
        except (TypeError, AttributeError):
            status = self._wait_checked(event_or_stream)
        if status:
            raise_status(status)

    def create_graph_builder(self) -> Any:
        """Create a graph builder that captures this stream. Needs the package ``cudacore-graph``."""
        from cudacore_handles._device import graph_module

        return graph_module().GraphBuilder._init(stream=self)

    def _wait_checked(self, event_or_stream: Event | Stream | IsStreamType) -> int:
        """What :meth:`wait` does with anything but an event that can be waited for."""
        if self._box is None:
            raise closed(self)
        if isinstance(event_or_stream, Event):
            raise closed(event_or_stream)
        other = Stream_accept(event_or_stream, allow_stream_protocol=True)
        return int(lib.cch_stream_wait_stream(self._box, other._box))

    def _context_box(self) -> Any:
        """The stream's context, or for a default stream the current one."""
        box = lib.cch_stream_context(self._box)
        if box:
            return box
        current = current_context_box()
        if current is None:
            name = "CUDA_ERROR_INVALID_CONTEXT"
            hint = "A default stream means that of the current context: call Device().set_current() first"
            raise CUDAError("cuCtxGetCurrent", 201, name, "no context is current on this thread", hint=hint)
        return current

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._box is None

    @property
    def is_nonblocking(self) -> bool:
        """bool: Whether the stream runs without implicit ordering with the legacy default stream (cuStreamGetFlags)."""
        if self._box is None:
            raise closed(self)
        out = ffi.new("unsigned *")
        check(lib.cch_stream_flags(out, self._box))
        return bool(out[0] & lib.CCH_STREAM_NON_BLOCKING)

    @property
    def priority(self) -> int:
        """int: Its priority; lower numbers run first (cuStreamGetPriority)."""
        if self._box is None:
            raise closed(self)
        out = ffi.new("int *")
        check(lib.cch_stream_priority(out, self._box))
        return int(out[0])

    @property
    def context(self) -> Context:
        """Context: The stream's context; for a default stream the current one."""
        if self._box is None:
            raise closed(self)
        return borrowed_context(self._context_box())

    @property
    def device(self) -> Device:
        """Device: The device that the stream's work runs on."""
        return self.context.device

    @property
    def handle(self) -> driver.CUstream:
        """cuda.bindings.driver.CUstream: The stream for ``cuda.bindings``."""
        if self._box is None:
            raise closed(self)
        from cuda.bindings import driver

        return driver.CUstream(self._raw())


LEGACY_DEFAULT_STREAM = Stream._init(lib.cch_stream_legacy())
PER_THREAD_DEFAULT_STREAM = Stream._init(lib.cch_stream_per_thread())


def default_stream() -> Stream:
    """Return the default stream: the legacy one, or the per-thread one where the environment asks for it.

    ``CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1`` asks for it.
    """
    import os

    per_thread = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0")
    return PER_THREAD_DEFAULT_STREAM if per_thread not in ("", "0") else LEGACY_DEFAULT_STREAM


def Stream_accept(arg: object, allow_stream_protocol: bool = False) -> Stream:
    """Return the stream that an argument is or stands for.

    Parameters
    ----------
    arg : object
        A :class:`Stream`.
    allow_stream_protocol : bool, optional
        Whether any object with ``__cuda_stream__`` will do. Default False.

    Raises
    ------
    TypeError
        When `arg` is no stream.
    ValueError
        When it is closed.
    """
    if isinstance(arg, Stream):
        if arg._box is None:
            raise closed(arg)
        return arg
    if allow_stream_protocol and hasattr(arg, "__cuda_stream__"):
        return Stream._from_protocol(arg)
    raise TypeError(
        f"a Stream is needed, or an object with __cuda_stream__, not {type(arg).__name__}; "
        "make one with Device.create_stream()"
    )


def _check_priority(priority: object, context: Any) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"StreamOptions.priority must be an int, not {type(priority).__name__}")
    lowest, highest = ffi.new("int *"), ffi.new("int *")
    check(lib.cch_context_priorities(lowest, highest, context))
    if not highest[0] <= priority <= lowest[0]:
        raise ValueError(f"StreamOptions.priority is {priority}; this device takes {highest[0]} to {lowest[0]}")
    return priority
