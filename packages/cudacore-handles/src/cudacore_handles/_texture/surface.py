# SPDX-License-Identifier: Apache-2.0
"""Surface objects."""

from __future__ import annotations

from cudacore_handles import _native
from cudacore_handles._cffi import lib
from cudacore_handles._texture.any_object import AnyObject


class SurfaceObject(AnyObject):
    """A surface, through which kernels load and store the texels of an array.

    Surfaces are made by :meth:`~cudacore_handles.Device.create_surface_object`. Kernels take them as parameters of type
    ``cudaSurfaceObject_t``. A surface keeps its array alive. A launch keeps the surface alive only until it is
    submitted, so close the surface after the kernels that use it have ended. A graph keeps it alive as long as the
    graph can run.
    """

    __slots__ = ()
    _made_by = "Device.create_surface_object()"
    _context = staticmethod(lib.cch_surface_context)


_native.register(SurfaceObject, _native.POINTER)
