# SPDX-License-Identifier: Apache-2.0
"""Contexts."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.errors import bindings, check
from cudacore_handles._base.handle import adopt, hold, out_box, share
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._base.options import as_options
from cudacore_handles._cffi import lib

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._driver.device import Device
    from cudacore_handles._driver.device_resources import ContextOptions, DeviceResources
    from cudacore_handles._option_dicts import EventOptionsDict, StreamOptionsDict
    from cudacore_handles._stream.event import Event
    from cudacore_handles._stream.options import EventOptions, StreamOptions
    from cudacore_handles._stream.stream import Stream


class Context(_native.ContextHandle, Closing, Made):
    """A CUDA context.

    :attr:`Device.context` returns a device's context, and :attr:`Stream.context` a stream's. Each caller gets a
    separate object, and may close it. :meth:`Device.create_context` creates a green context, whose work runs on a part
    of the device. Two contexts are equal if they are the same CUDA context.

    A primary context is released, and a green context is destroyed, when nothing uses it any more: no object of this
    class, no stream, event or memory that was created in it, and no thread on which :meth:`Device.set_current` made it
    current.
    """

    __slots__ = ("__weakref__",)
    _made_by = "Device(...).context, Stream.context or Device.create_context()"

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...
        def _own(self) -> Context: ...

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "pickle the Device")

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Context closed>"
        return f"<Context handle={self._raw:#x} device={lib.cch_context_device(hold(self))}>"

    @classmethod
    def _create(cls, device_id: int, options: ContextOptions | Mapping[str, Any] | None) -> Context:
        from cudacore_handles._driver.device_resources import CONTEXT_HINTS, ContextOptions, gather

        if options is None:
            raise ValueError(
                "options with device resources must be provided to create a green context: "
                "ContextOptions(resources=[...]), with parts of Device.resources"
            )
        resources = gather(as_options(ContextOptions, options).resources, device_id)
        out = out_box("cch_context")
        check(lib.cch_context_create(out, device_id, resources, len(resources)), hints=CONTEXT_HINTS)
        return adopt(cls, out)

    def create_stream(self, options: StreamOptions | StreamOptionsDict | None = None) -> Stream:
        """Create a stream in this context; see :meth:`Device.create_stream`.

        Streams of a green context are always non-blocking (cuGreenCtxStreamCreate).
        """
        return _native.create_stream(self, options)

    def create_event(self, options: EventOptions | EventOptionsDict | None = None) -> Event:
        """Create an event in this context; see :meth:`Device.create_event`."""
        return _native.create_event(self, options)

    @property
    def handle(self) -> driver.CUcontext | None:
        """cuda.bindings.driver.CUcontext | None: The context for ``cuda.bindings``; None if closed."""
        if self.is_closed:
            return None
        return bindings().CUcontext(self._raw)

    @property
    def resources(self) -> DeviceResources:
        """DeviceResources: Resources for work in the context; a green context has a part of the device's resources."""
        return resources_of(self._own())


@functools.cache
def _resources_class() -> type[DeviceResources]:
    from cudacore_handles._driver.device_resources import DeviceResources

    return DeviceResources


def resources_of(context: Context) -> DeviceResources:
    """Return the resources of a context. The object is for them alone, because they keep it."""
    return _resources_class()._with(_device_id=context.device._id, _context=context)


def context_of(box: Any) -> Context:
    """Return a face with its own reference to a ``cch_context``, which must stay alive during this call."""
    return share(Context, box)


def current_context() -> Context | None:
    """Return the calling thread's current context (cuCtxGetCurrent)."""
    out = out_box("cch_context")
    check(lib.cch_context_current(out))
    return adopt(Context, out) if out[0] else None
