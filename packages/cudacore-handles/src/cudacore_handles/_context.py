# SPDX-License-Identifier: Apache-2.0
"""Contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import check
from cudacore_handles._handle import adopt, hold
from cudacore_handles._not_yet import NotYet

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._device import Device
    from cudacore_handles._stream import Stream, StreamOptions


class Context(_native.Handle):
    """Hold a CUDA context.

    Contexts are not made directly: :attr:`Device.context` gives a device's, :attr:`Stream.context` a stream's; each
    caller gets an object of its own, which it may close.
    A primary context is retained while any object of it is alive. Two contexts are equal when they are the same
    CUDA context.
    """

    __slots__ = ("__weakref__",)

    resources = NotYet()

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("Context objects cannot be instantiated directly; use Device(...).context or Stream.context")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Context cannot be pickled: pickle the Device")

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Context closed>"
        return f"<Context handle={self._raw:#x} device={lib.cch_context_device(hold(self))}>"

    def create_stream(self, options: StreamOptions | None = None) -> Stream:
        """Create a stream in this context; see :meth:`Device.create_stream`."""
        from cudacore_handles._stream import Stream

        return Stream._create(self, options)

    @property
    def device(self) -> Device:
        """Device: The device that the context is on."""
        from cudacore_handles._device import Device

        return Device(lib.cch_context_device(hold(self)))

    @property
    def handle(self) -> driver.CUcontext | None:
        """cuda.bindings.driver.CUcontext | None: The context for ``cuda.bindings``; None when closed."""
        if self.is_closed:
            return None
        from cuda.bindings import driver

        return driver.CUcontext(self._raw)

    @property
    def is_green(self) -> bool:
        """bool: Whether it is a green context, one with a part of the device's resources."""
        return False


def context_of(box: Any) -> Context:
    """Return the face of a ``cch_context`` that another box, which the caller holds, has."""
    return adopt(Context, lib.cch_context_ref(box))


def current_context() -> Context | None:
    """Return the calling thread's current context (cuCtxGetCurrent)."""
    out = ffi.new("cch_context **")
    check(lib.cch_context_current(out))
    return adopt(Context, out[0]) if out[0] else None
