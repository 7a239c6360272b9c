# SPDX-License-Identifier: Apache-2.0
"""Mipmapped arrays: an image and smaller versions of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.address import as_integer
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import adopt, hold
from cudacore_handles._base.names import shorten
from cudacore_handles._base.options import as_flag, as_options
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import context_of
from cudacore_handles._driver.device import Device
from cudacore_handles._texture.array import OpaqueArray
from cudacore_handles._texture.formats import (
    as_channels,
    as_count,
    as_format,
    as_shape,
    check_extents,
    describe,
    described,
    format_of,
    shape_of,
)
from cudacore_handles.typing import ArrayFormatType


@dataclass
class MipmappedArrayOptions:
    """Say what a mipmapped array is.

    Attributes
    ----------
    shape : tuple of int
        Extents of level 0 in texels: ``(width,)``, ``(width, height)`` or ``(width, height, depth)``.
    format : ArrayFormatType, str or numpy.dtype
        The type of a channel, such as ``"float32"``.
    num_channels : int
        Channels of a texel: 1, 2 or 4.
    num_levels : int
        Levels, each half as large in each dimension as the one before. The last level that there can be has one texel.
    is_surface_load_store : bool, optional
        Whether kernels can store to the levels, through a :class:`SurfaceObject`. Default False.
    """

    shape: tuple[int, ...]
    format: object
    num_channels: int
    num_levels: int
    is_surface_load_store: bool = False

    def __post_init__(self) -> None:
        self.shape = as_shape(self.shape)
        self.format = as_format(self.format)
        self.num_channels = as_channels(self.num_channels)
        self.num_levels = as_count(self.num_levels, "num_levels")
        as_flag("MipmappedArrayOptions.is_surface_load_store", self.is_surface_load_store)


class MipmappedArray(_native.Handle):
    """A mipmapped CUDA array: an image, and smaller versions of it for textures.

    Mipmapped arrays are made by :meth:`~cudacore_handles.Device.create_mipmapped_array`. Each level is an
    :class:`OpaqueArray`, which keeps the whole alive.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError(
            "MipmappedArray objects cannot be instantiated directly; use Device.create_mipmapped_array()"
        )

    def __enter__(self) -> MipmappedArray:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.is_closed:
            return "<MipmappedArray closed>"
        return (
            f"<MipmappedArray shape={self.shape} format={str(self.format)!r} num_channels={self.num_channels} "
            f"num_levels={self.num_levels}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a MipmappedArray cannot be pickled or copied by the module copy: copy its levels")

    @classmethod
    def _create(cls, device: Device, options: Any) -> MipmappedArray:
        o: MipmappedArrayOptions = as_options(MipmappedArrayOptions, options, "options")
        shape, levels, surface = as_shape(o.shape), as_count(o.num_levels, "num_levels"), bool(o.is_surface_load_store)
        most = max(shape).bit_length()
        if levels > most:
            raise ValueError(
                f"num_levels is {levels}; an array of {' x '.join(map(str, shape))} texels has at most {most} levels, "
                "the last of one texel"
            )
        desc = describe(shape, as_format(o.format), as_channels(o.num_channels), surface=surface, levels=levels)
        check_extents(device, shape, surface=surface, mipmapped=True)
        out = ffi.new("cch_mipmapped_array **")
        check(lib.cch_mipmapped_array_create(out, hold(device._target()), desc))
        return adopt(cls, out[0])

    def get_level(self, level: int) -> OpaqueArray:
        """Return a level (cuMipmappedArrayGetLevel).

        The level keeps the memory of all levels alive, also when this object is closed.

        Parameters
        ----------
        level : int
            Its number; 0 is the largest level.
        """
        number, box = as_integer(level), hold(self)
        if number is None:
            raise TypeError(f"level must be an int, not {shorten(repr(level))}, of type {type(level).__name__}")
        levels = self.num_levels
        if not 0 <= number < levels:
            raise ValueError(f"level is {number}; the array has {levels} levels, from 0 to {levels - 1}")
        out = ffi.new("cch_array **")
        check(lib.cch_mipmapped_array_level(out, box, number))
        return adopt(OpaqueArray, out[0])

    def _described(self) -> Any:
        return described(lib.cch_mipmapped_array_describe, hold(self))

    @property
    def handle(self) -> int:
        """int: The CUmipmappedArray; 0 if the array is closed."""
        return 0 if self.is_closed else self._raw

    @property
    def shape(self) -> tuple[int, ...]:
        """tuple of int: Extents of level 0 in texels."""
        return shape_of(self._described())

    @property
    def format(self) -> ArrayFormatType:
        """ArrayFormatType: The type of a channel."""
        return format_of(self._described().format)

    @property
    def num_channels(self) -> int:
        """int: Channels of a texel."""
        return int(self._described().channels)

    @property
    def num_levels(self) -> int:
        """int: How many levels there are."""
        return int(self._described().levels)

    @property
    def is_surface_load_store(self) -> bool:
        """bool: Whether kernels can store to the levels, through a surface."""
        return bool(self._described().flags & lib.CCH_ARRAY_SURFACE)

    @property
    def device(self) -> Device:
        """cudacore_handles.Device: The device that the array is of."""
        return context_of(lib.cch_mipmapped_array_context(hold(self))).device
