# SPDX-License-Identifier: Apache-2.0
"""Surface objects."""

from __future__ import annotations

from typing import NoReturn

from cudacore_handles import _native
from cudacore_handles._cffi import lib
from cudacore_handles._texture.any_object import AnyObject
from cudacore_handles._texture.resource import ResourceDescriptor


class SurfaceObject(AnyObject):
    """A surface: how kernels load and store the texels of an array.

    Surfaces are made by :meth:`~cudacore_handles.Device.create_surface_object`, and are arguments of kernels: a
    ``cudaSurfaceObject_t``. A surface keeps its array alive. A launch keeps the surface until it was submitted, a graph
    as long as it can run: close it when the kernels that use it have ended.
    """

    __slots__ = ()
    _context = staticmethod(lib.cch_surface_context)


def refuse_surface(resource: ResourceDescriptor) -> NoReturn:
    """Raise for a resource that no surface can be made of."""
    if resource.kind != "array":
        raise ValueError(
            f"resource is of the kind {resource.kind!r}: a surface is made of an OpaqueArray, or of a level of a "
            "MipmappedArray, get_level()"
        )
    raise ValueError("the array was created without is_surface_load_store=True, which a surface needs")


_native.register(SurfaceObject, _native.POINTER)
