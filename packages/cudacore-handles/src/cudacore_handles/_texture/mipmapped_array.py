# SPDX-License-Identifier: Apache-2.0
"""Mipmapped arrays: an image and smaller versions of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.address import check_int
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.made import not_pickled
from cudacore_handles._cffi import lib
from cudacore_handles._texture.array import AnyArray, OpaqueArray
from cudacore_handles._texture.formats import AnyArrayOptions, as_count, describe
from cudacore_handles.typing import ArrayFormatName, ArrayFormatType, IsDType

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device


@dataclass
class MipmappedArrayOptions(AnyArrayOptions):
    """Options of a mipmapped array.

    Attributes
    ----------
    shape : tuple of int
        Extents of level 0 in texels: ``(width,)``, ``(width, height)`` or ``(width, height, depth)``.
    format : ArrayFormatType, str or numpy.dtype
        The type of a channel, such as ``"float32"``.
    num_channels : int
        Number of channels of a texel: 1, 2 or 4.
    num_levels : int
        Number of levels. Each level has half the extents of the one before. The smallest possible level has one texel.
    is_surface_load_store : bool, optional
        Whether kernels can store to the levels, through a :class:`SurfaceObject`. Default False.
    """

    shape: tuple[int, ...]
    format: ArrayFormatType | ArrayFormatName | IsDType | type[Any]
    num_channels: int
    num_levels: int
    is_surface_load_store: bool = False

    def _read(self) -> dict[int, bytes]:
        described = super()._read()
        self.num_levels = as_count(self.num_levels, "num_levels")
        return described

    def _describe(self, device: Device, levels: int = 0) -> bytes:
        maximum = max(self.shape).bit_length()
        if self.num_levels > maximum:
            raise ValueError(
                f"num_levels is {self.num_levels}; an array of {' x '.join(map(str, self.shape))} texels has at most "
                f"{maximum} levels, the last of one texel"
            )
        return super()._describe(device, self.num_levels)


class MipmappedArray(AnyArray):
    """A mipmapped CUDA array: an image, and smaller versions of it for textures.

    Mipmapped arrays are made by :meth:`~cudacore_handles.Device.create_mipmapped_array`. Each level is an
    :class:`OpaqueArray`, which keeps the memory of all levels alive.
    """

    __slots__ = ()
    _describe = staticmethod(lib.cch_mipmapped_array_describe)
    _made_by = "Device.create_mipmapped_array()"

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "copy_to() copies its levels")

    def _facts(self) -> list[str]:
        return [*super()._facts(), f"num_levels={self.num_levels}"]

    def get_level(self, level: int) -> OpaqueArray:
        """Return a level (cuMipmappedArrayGetLevel).

        The level keeps the memory of all levels alive, even after this object is closed.

        Parameters
        ----------
        level : int
            The number of the level; 0 is the largest one.

        Raises
        ------
        ValueError
            If there is no such level.
        """
        number, box = check_int("level", level), hold(self)
        levels = self.num_levels
        if not 0 <= number < levels:
            raise ValueError(f"level is {number}; the array has {levels} levels, from 0 to {levels - 1}")
        out = out_box("cch_array")
        check(lib.cch_mipmapped_array_level(out, box, number))
        return adopt(OpaqueArray, out)

    @property
    def num_levels(self) -> int:
        """int: Number of levels."""
        return int(self._described().levels)


def create_mipmapped_array(device: Device, options: Any) -> MipmappedArray:
    """Create a mipmapped array; see :meth:`Device.create_mipmapped_array`."""
    context = device._target()
    return _native.create_array(MipmappedArray, context, describe(MipmappedArrayOptions, options, device))
