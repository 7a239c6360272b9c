# SPDX-License-Identifier: Apache-2.0
"""The common base class of texture objects and surface objects."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._driver.context import context_of
from cudacore_handles._driver.device import Device
from cudacore_handles._texture.resource import ResourceDescriptor


class AnyObject(_native.TextureHandle, Closing, Made):
    """The base of :class:`TextureObject` and :class:`SurfaceObject`: their handle, resource and device."""

    __slots__ = ("__weakref__",)
    _resource: ResourceDescriptor | None
    #: The function of the library that returns the context of an object.
    _context: ClassVar[Any]

    def __repr__(self) -> str:
        about = "closed" if self.is_closed else f"handle={self._raw:#x} of {self._resource!r}"
        return f"<{type(self).__name__} {about}>"

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "create another one of the same resource")

    @property
    def handle(self) -> int:
        """int: The CUtexObject or CUsurfObject; 0 if the object is closed."""
        return 0 if self.is_closed else self._raw

    @property
    def resource(self) -> ResourceDescriptor | None:
        """ResourceDescriptor or None: The array or memory that kernels use through this object; None if closed."""
        return self._resource

    @property
    def device(self) -> Device:
        """cudacore_handles.Device: The device that the object was created on."""
        return context_of(self._context(hold(self))).device
