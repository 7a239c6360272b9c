# SPDX-License-Identifier: Apache-2.0
"""Contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import check, closed

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._device import Device
    from cudacore_handles._stream import Stream, StreamOptions


class Context:
    """Hold a CUDA context.

    Contexts are not made directly: :attr:`Device.context` gives a device's, :attr:`Stream.context` a stream's.
    A primary context is retained while any object of it is alive. Two contexts are equal when they are the same
    CUDA context.
    """

    __slots__ = ("__weakref__", "_box")
    _box: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("Context cannot be instantiated directly; use Device(...).context or Stream.context")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return self is other or (not self.is_closed and self._raw() == other._raw())

    def __hash__(self) -> int:
        return hash((Context, self._raw()))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Context cannot be pickled: pickle the Device")

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Context closed>"
        return f"<Context {self._raw():#x} of device {lib.cch_context_device(self._box)}>"

    @classmethod
    def _init(cls, box: Any) -> Context:
        """Take over one reference to a ``cch_context``."""
        self = cls.__new__(cls)
        self._box = ffi.gc(box, lib.cch_context_unref)
        return self

    def _raw(self) -> int:
        return int(ffi.cast("uintptr_t", lib.cch_context_raw(self._box or ffi.NULL)))

    def create_stream(self, options: StreamOptions | None = None) -> Stream:
        """Create a stream in this context; see :meth:`Device.create_stream`."""
        from cudacore_handles._stream import Stream

        if self._box is None:
            raise closed(self)
        return Stream._create(self._box, options)

    def close(self) -> None:
        """Give up this object's hold on the context. Calling it again does nothing."""
        self._box = None

    @property
    def device(self) -> Device:
        """Device: The device that the context is on."""
        from cudacore_handles._device import Device

        if self._box is None:
            raise closed(self)
        return Device(lib.cch_context_device(self._box))

    @property
    def handle(self) -> driver.CUcontext | None:
        """cuda.bindings.driver.CUcontext | None: The context for ``cuda.bindings``; None when closed."""
        if self._box is None:
            return None
        from cuda.bindings import driver

        return driver.CUcontext(self._raw())

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._box is None

    @property
    def is_green(self) -> bool:
        """bool: Whether it is a green context, one with a part of the device's resources."""
        return False


def borrowed_context(box: Any) -> Context:
    """Return the face of a ``cch_context`` that another box holds."""
    return Context._init(lib.cch_context_ref(box))


def current_context_box() -> Any:
    """Return the calling thread's current context as a garbage-collected box, or None."""
    out = ffi.new("cch_context **")
    check(lib.cch_context_current(out))
    return ffi.gc(out[0], lib.cch_context_unref) if out[0] else None
