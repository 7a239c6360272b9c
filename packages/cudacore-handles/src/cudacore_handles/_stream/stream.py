# SPDX-License-Identifier: Apache-2.0
"""Streams, and objects that can be passed as streams."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn, cast

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.address import as_address, check_int
from cudacore_handles._base.driver_calls import driver_status
from cudacore_handles._base.errors import CUDAError, bindings, check, closed, driver_error, result_of
from cudacore_handles._base.handle import adopt, hold, out_box, share
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._base.options import as_options
from cudacore_handles._base.siblings import graph_package
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import Context, resources_of
from cudacore_handles._stream.callback import host_function
from cudacore_handles._stream.event import Event, event_flags, raise_not_elapsed
from cudacore_handles.typing import IsStreamType as IsStreamType

if TYPE_CHECKING:
    import asyncio

    from cuda.bindings import driver

    from cudacore_graph import GraphBuilder
    from cudacore_handles._driver.device import Device
    from cudacore_handles._driver.device_resources import DeviceResources
    from cudacore_handles._option_dicts import EventOptionsDict, StreamOptionsDict
    from cudacore_handles._stream.options import EventOptions, StreamOptions

_NON_BLOCKING: int = lib.CCH_STREAM_NON_BLOCKING


def _selects_per_thread() -> bool:
    """Return whether the environment selects the per-thread default stream."""
    return os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0")


# Without a GIL, another thread can change the environment during the extension module's getenv().
if getattr(sys, "_is_gil_enabled", lambda: True)():
    _selects_per_thread = _native.selects_per_thread


class Stream(_native.StreamHandle, Closing, Made):
    """A queue of work for a device. The work of one stream runs in order.

    Streams are made by :meth:`Device.create_stream` and :meth:`Context.create_stream`; :meth:`from_handle` borrows one.
    Functions with a stream argument accept any object with ``__cuda_stream__``. Two streams are equal if they are the
    same CUDA stream. After a stream is closed, its work still runs. The CUDA stream is destroyed when nothing refers to
    it, such as a buffer that will be freed on it.

    Examples
    --------
    >>> stream = device.create_stream()
    >>> buffer = device.allocate(64, stream=stream)
    >>> buffer.fill(1, stream=stream)  # queued
    >>> stream.sync()  # done
    """

    __slots__ = ("__weakref__", "_is_of_zero")
    _made_by = "Device.create_stream() or Stream.from_handle()"
    _is_of_zero: bool  # set, to True, only by from_handle(0)

    if TYPE_CHECKING:

        def record(
            self, event: Event | None = None, options: EventOptions | EventOptionsDict | None = None
        ) -> Event: ...
        def wait(self, event_or_stream: Event | Stream | IsStreamType) -> None: ...
        @property
        def context(self) -> Context: ...
        @property
        def device(self) -> Device: ...

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, address of the stream): the protocol by which libraries share streams."""
        if self.is_closed:
            raise closed(self)
        return (0, self._raw)

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "make one in each process with Device.create_stream()")

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Stream closed>"
        stream = hold(self)
        context = int(ffi.cast("uintptr_t", lib.cch_context_raw(lib.cch_stream_context(stream))))
        return f"<Stream handle={self._raw:#x} context={context:#x}>"

    @staticmethod
    def from_handle(handle: int) -> Stream:
        """Borrow a stream by its address.

        The caller must make sure that the stream outlives the object. If this library created the stream, the object
        keeps it alive.

        Parameters
        ----------
        handle : int
            Address of a ``CUstream``. 0 and 1 mean the legacy default stream, 2 the per-thread default stream.
        """
        out = out_box("cch_stream")
        raw = ffi.cast("CUstream", as_address(handle, "handle must be an int, the stream's address"))
        check(lib.cch_stream_wrap(out, raw, ffi.NULL, ffi.NULL))
        stream = adopt(Stream, out)
        if not raw:
            stream._is_of_zero = True
        return stream

    @staticmethod
    def _from_protocol(obj: IsStreamType) -> Stream:
        """Borrow a foreign stream, and keep the object that provides it as long as the stream is in use."""
        name = f"{type(obj).__name__}.__cuda_stream__"
        offered: object = obj.__cuda_stream__
        if callable(offered):
            offered = offered()
        else:
            warnings.warn(f"{name} is an attribute; the protocol requires a method", DeprecationWarning, stacklevel=4)
        try:
            version, handle = cast("tuple[object, object]", offered)
        except (TypeError, ValueError):
            raise TypeError(f"{name}() must return two ints, (version, address), not {offered!r}") from None
        if version != 0:
            raise TypeError(f"{name}() returned version {version}; only version 0 is supported")
        raw = ffi.cast("CUstream", as_address(handle, f"{name}() must give an int, the stream's address"))
        out = out_box("cch_stream")
        check(_native.call_owning(obj, lib.cch_stream_wrap, out, raw))
        return adopt(Stream, out)

    def create_graph_builder(self) -> GraphBuilder:
        """Create a graph builder that captures this stream. Needs the package ``cudacore-graph``."""
        return _native.make_builder(self)

    def async_done(self) -> asyncio.Future[Stream]:
        """Return a future of the running asyncio event loop that is set when the stream's present work is done.

        ``await stream.async_done()`` waits, and returns the stream. The event loop runs other tasks meanwhile; no
        thread waits. The stream calls a host function that wakes the event loop (cuLaunchHostFunc), so later work of
        the stream begins some microseconds later than without it. If work of the context failed, the future has the
        :class:`CUDAError`. It can be cancelled.

        Raises
        ------
        RuntimeError
            If no event loop is running.
        CUDAError
            If the stream is being captured: its work does not run before the graph is launched.
        """
        from cudacore_handles._stream.waiting import future_of  # imports asyncio

        if is_capturing(self):
            raise driver_error("cuStreamSynchronize", results.STREAM_CAPTURE_UNSUPPORTED)
        return future_of(self.record(), self, self)

    @property
    def resources(self) -> DeviceResources:
        """DeviceResources: The resources for the stream's work: those of its :attr:`context`."""
        return resources_of(self.context)

    @property
    def handle(self) -> driver.CUstream:
        """cuda.bindings.driver.CUstream: The stream for ``cuda.bindings``; 0 if 0 was given to :meth:`from_handle`."""
        if self.is_closed:
            raise closed(self)
        raw = self._raw
        is_of_zero = raw == LEGACY and getattr(self, "_is_of_zero", False)
        return bindings().CUstream(0 if is_of_zero else raw)


LEGACY = 1  # CU_STREAM_LEGACY, the handle of the legacy default stream
LEGACY_DEFAULT_STREAM = share(Stream, lib.cch_stream_legacy())  # these boxes are never destroyed
PER_THREAD_DEFAULT_STREAM = share(Stream, lib.cch_stream_per_thread())


def _stream_flags(context: Context, options: StreamOptions | StreamOptionsDict) -> tuple[int, int]:
    """Return the flags and the priority for a new stream in a context."""
    from cudacore_handles._stream.options import StreamOptions

    options = as_options(StreamOptions, options)
    priority = 0 if options.priority is None else _check_priority(options.priority, context)
    if not options.nonblocking and context.is_green:
        raise ValueError("StreamOptions.nonblocking must not be False: streams of green contexts are non-blocking")
    return _NON_BLOCKING if options.nonblocking else 0, priority


def default_stream() -> Stream:
    """Return the default stream: the legacy one, or the per-thread one if the environment selects it.

    ``CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1`` selects the per-thread one.

    Examples
    --------
    >>> import cudacore_handles
    >>> with device.allocate(64, stream=cudacore_handles.default_stream()) as scratch:
    ...     scratch.fill(0, stream=cudacore_handles.default_stream())
    """
    return PER_THREAD_DEFAULT_STREAM if _selects_per_thread() else LEGACY_DEFAULT_STREAM


def Stream_accept(arg: object, allow_stream_protocol: bool = False) -> Stream:
    """Return the stream that an argument is or represents.

    Parameters
    ----------
    arg : object
        A :class:`Stream`.
    allow_stream_protocol : bool, optional
        Whether any object with ``__cuda_stream__`` is accepted. Default False.

    Raises
    ------
    TypeError
        If `arg` is not a stream.
    ClosedError
        If the stream is closed.
    RuntimeError
        If `arg` is a graph builder that is not building: the work would run at once.
    """
    if isinstance(arg, Stream):
        if arg.is_closed:
            raise closed(arg)
        return arg
    if isinstance(arg, _native.Builder):
        stream = arg._stream
        return stream if stream is not None and not stream.is_closed else arg._accept_work()
    if allow_stream_protocol and hasattr(arg, "__cuda_stream__") and not isinstance(arg, type):
        return Stream._from_protocol(arg)
    needed = "a Stream is needed, or an object with __cuda_stream__"
    if arg is None:
        raise TypeError(f"stream is required and must not be None: {needed}; Device.default_stream is one, too")
    raise TypeError(
        f"Stream or GraphBuilder expected, got {type(arg).__name__}: {needed}; make one with Device.create_stream()"
    )


def accept_if_given(stream: object) -> Stream | None:
    """Return an optional argument as a stream; None for None."""
    return None if stream is None else Stream_accept(stream, allow_stream_protocol=True)


def _check_priority(priority: object, context: Context) -> int:
    wanted = check_int("StreamOptions.priority", priority)
    lowest, highest = ffi.new("int *"), ffi.new("int *")
    check(driver_status("cuCtxGetStreamPriorityRange", lowest, highest, context=context))
    if not highest[0] <= wanted <= lowest[0]:
        raise ValueError(f"StreamOptions.priority={priority} is out of range [{highest[0]}, {lowest[0]}]")
    return wanted


def _accept(arg: object) -> Stream:
    return Stream_accept(arg, allow_stream_protocol=True)


def _raise_no_context() -> NoReturn:
    name = "CUDA_ERROR_INVALID_CONTEXT"
    hint = "A default stream means that of the current context: call Device().set_current() first"
    meaning = "no context is current on this thread"
    raise CUDAError("cuCtxGetCurrent", lib.CCH_INVALID_CONTEXT, name, meaning, hint=hint)


def is_capturing(stream: Stream) -> bool:
    """Return whether work on a stream is captured into a graph (cuStreamIsCapturing)."""
    return bool(result_of(lib.cch_stream_is_capturing, hold(stream)))


def _show_printed() -> None:
    from cudacore_handles._stream.printed import show_printed  # imported late, because few programs need it

    show_printed()


_native.connect(
    "stream",
    stream=Stream,
    accept_stream=_accept,
    event=Event,
    raise_no_context=_raise_no_context,
    event_flags=event_flags,
    stream_flags=_stream_flags,
    raise_not_elapsed=raise_not_elapsed,
    host_function=host_function,
    show_printed=_show_printed,
    graph_package=graph_package,
)
