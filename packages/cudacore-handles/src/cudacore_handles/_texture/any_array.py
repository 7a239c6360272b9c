# SPDX-License-Identifier: Apache-2.0
"""The common base class of arrays and mipmapped arrays."""

from __future__ import annotations

from typing import Any, ClassVar

from cudacore_handles import _native
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Closing, Made
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import context_of
from cudacore_handles._driver.device import Device
from cudacore_handles._texture.formats import format_of
from cudacore_handles.typing import ArrayFormatType


class AnyArray(_native.Handle, Closing, Made):
    """The base of :class:`OpaqueArray` and :class:`MipmappedArray`: the properties of their texels."""

    __slots__ = ("__weakref__",)
    #: The functions of the library that return the description of an array, and its context.
    _describe: ClassVar[Any]
    _context: ClassVar[Any]

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {'closed' if self.is_closed else ' '.join(self._facts())}>"

    def _facts(self) -> list[str]:
        return [f"shape={self.shape}", f"format={str(self.format)!r}", f"num_channels={self.num_channels}"]

    def _described(self) -> Any:
        desc = ffi.new("cch_array_desc *")
        desc.size = ffi.sizeof("cch_array_desc")
        check(self._describe(desc, hold(self)))
        return desc

    @property
    def handle(self) -> int:
        """int: The CUarray or CUmipmappedArray; 0 if the array is closed."""
        return 0 if self.is_closed else self._raw

    @property
    def shape(self) -> tuple[int, ...]:
        """tuple of int: Extents in texels (of level 0): width, then height and depth if the array has them."""
        desc = self._described()
        extents = (desc.width, desc.height, desc.depth)
        return tuple(int(extent) for extent in extents[: 1 if not desc.height else 2 if not desc.depth else 3])

    @property
    def format(self) -> ArrayFormatType:
        """ArrayFormatType: The type of a channel."""
        return format_of(self._described().format)

    @property
    def num_channels(self) -> int:
        """int: Number of channels of a texel."""
        return int(self._described().channels)

    @property
    def is_surface_load_store(self) -> bool:
        """bool: Whether kernels can store to the array, through a surface."""
        return bool(self._described().flags & lib.CCH_ARRAY_SURFACE)

    @property
    def device(self) -> Device:
        """cudacore_handles.Device: The device that has the array."""
        return context_of(self._context(hold(self))).device
