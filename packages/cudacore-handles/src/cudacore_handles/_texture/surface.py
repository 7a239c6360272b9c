# SPDX-License-Identifier: Apache-2.0
"""Surface objects."""

from __future__ import annotations

from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import adopt, hold
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import context_of
from cudacore_handles._driver.device import Device
from cudacore_handles._texture.resource import ResourceDescriptor
from cudacore_handles._texture.texture import check_resource


class SurfaceObject(_native.Handle):
    """A surface: how kernels load and store the texels of an array.

    Surfaces are made by :meth:`~cudacore_handles.Device.create_surface_object`, and are arguments of kernels: a
    ``cudaSurfaceObject_t``. A surface keeps its array alive. A launch keeps the surface until it was submitted, a graph
    as long as it can run: close it when the kernels that use it have ended.
    """

    __slots__ = ("__weakref__", "_resource")
    _resource: ResourceDescriptor

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("SurfaceObject objects cannot be instantiated directly; use Device.create_surface_object()")

    def __enter__(self) -> SurfaceObject:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SurfaceObject {'closed' if self.is_closed else f'handle={self._raw:#x} of {self._resource!r}'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a SurfaceObject cannot be pickled or copied: create another one of the same array")

    @classmethod
    def _create(cls, device: Device, resource: Any) -> SurfaceObject:
        check_resource(resource)
        if resource._kind != "array":
            raise ValueError(
                f"resource is of the kind {resource._kind!r}: a surface is made of an OpaqueArray, or of a level of a "
                "MipmappedArray, get_level()"
            )
        if not resource._source.is_surface_load_store:
            raise ValueError("the array was created without is_surface_load_store=True, which a surface needs")
        out = ffi.new("cch_surface **")
        check(lib.cch_surface_create(out, hold(device._target()), resource._hold()))
        made = adopt(cls, out[0])
        made._resource = resource
        return made

    @property
    def handle(self) -> int:
        """int: The CUsurfObject; 0 if the surface is closed."""
        return 0 if self.is_closed else self._raw

    @property
    def resource(self) -> ResourceDescriptor:
        """ResourceDescriptor: The array of the surface."""
        return self._resource

    @property
    def device(self) -> Device:
        """cudacore_handles.Device: The device that the surface is of."""
        return context_of(lib.cch_surface_context(hold(self))).device


_native.register(SurfaceObject, _native.POINTER)
