# SPDX-License-Identifier: Apache-2.0
"""What arrays and textures are described by: formats, channels, extents."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cudacore_handles._base.address import as_integer
from cudacore_handles._base.errors import check
from cudacore_handles._base.names import shorten
from cudacore_handles._cffi import ffi, lib
from cudacore_handles.typing import ArrayFormatType

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device

#: The number in the driver, and the bytes of a channel.
NUMBERS = {
    ArrayFormatType.UINT8: (lib.CCH_FORMAT_UINT8, 1),
    ArrayFormatType.UINT16: (lib.CCH_FORMAT_UINT16, 2),
    ArrayFormatType.UINT32: (lib.CCH_FORMAT_UINT32, 4),
    ArrayFormatType.INT8: (lib.CCH_FORMAT_INT8, 1),
    ArrayFormatType.INT16: (lib.CCH_FORMAT_INT16, 2),
    ArrayFormatType.INT32: (lib.CCH_FORMAT_INT32, 4),
    ArrayFormatType.FLOAT16: (lib.CCH_FORMAT_HALF, 2),
    ArrayFormatType.FLOAT32: (lib.CCH_FORMAT_FLOAT, 4),
}
FLOATS = (ArrayFormatType.FLOAT16, ArrayFormatType.FLOAT32)
_BY_NUMBER = {number: member for member, (number, _) in NUMBERS.items()}


def format_of(number: int) -> ArrayFormatType:
    """Return the format with a number of the driver."""
    return _BY_NUMBER[number]


def as_format(value: object) -> ArrayFormatType:
    """Return the format that a value is or names, or that a dtype of NumPy has."""
    numpy = sys.modules.get("numpy")
    name = value
    if numpy is not None and not isinstance(value, str):
        is_class = isinstance(value, type) and issubclass(value, numpy.generic)
        if isinstance(value, numpy.dtype) or is_class:
            dtype: Any = numpy.dtype(value)
            name = dtype.name if dtype.isnative else str(dtype)
    try:
        return ArrayFormatType(name)
    except ValueError:
        known = ", ".join(repr(str(member)) for member in ArrayFormatType)
        raise ValueError(
            f"format is {shorten(repr(value))}; it must be an ArrayFormatType, one of {known}, or the NumPy dtype of "
            "that name"
        ) from None


def as_channels(value: object) -> int:
    """Return a number of channels."""
    number = as_integer(value)
    if number not in (1, 2, 4):
        raise ValueError(f"num_channels is {shorten(repr(value))}; it must be 1, 2 or 4")
    return int(number)


def as_count(value: object, name: str) -> int:
    """Return an integer of at least 1."""
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} must be an int, not {shorten(repr(value))}, of type {type(value).__name__}")
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be at least 1")
    return number


def as_shape(value: object) -> tuple[int, ...]:
    """Return the extents of an array: (width,), (width, height) or (width, height, depth)."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"shape must be a tuple of one to three ints, not {shorten(repr(value))}")
    shape = tuple(as_count(extent, f"shape[{axis}]") for axis, extent in enumerate(value))
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"shape is {shape}; it must have one to three extents: width, height, depth")
    return shape


def attribute_of(device: Device, name: str) -> int:
    """Return an attribute of a device by its name in :class:`~cudacore_handles.DeviceProperties`."""
    value: int = getattr(device.properties, name)
    return value


def check_extents(device: Device, shape: tuple[int, ...], *, surface: bool, mipmapped: bool) -> None:
    """Raise for an extent that is beyond a limit of the device, and name the limit."""
    axes = ("width", "height", "depth")
    kinds = [f"texture{len(shape)}d_mipmapped" if mipmapped and len(shape) < 3 else f"texture{len(shape)}d"]
    if surface:
        kinds.append(f"surface{len(shape)}d")
    for kind in kinds:
        excess = _excess(device, shape, [f"maximum_{kind}_{axis}" for axis in axes[: len(shape)]])
        if excess and kind == "texture3d":  # there is a second set of limits, for deep textures
            alternate = [f"maximum_{kind}_{axis}_alternate" for axis in axes]
            excess = _excess(device, shape, alternate) and excess
        if excess:
            raise ValueError(excess)


def _excess(device: Device, shape: tuple[int, ...], limits: list[str]) -> str:
    for axis, (extent, name) in enumerate(zip(shape, limits, strict=True)):
        most = attribute_of(device, name)
        if extent > most:
            return f"shape[{axis}] is {extent}; device {device.device_id} takes at most {most} ({name})"
    return ""


def describe(shape: tuple[int, ...], type_: ArrayFormatType, channels: int, *, surface: bool, levels: int = 0) -> Any:
    """Return a ``cch_array_desc``."""
    width, height, depth = (*shape, 0, 0)[:3]
    flags = lib.CCH_ARRAY_SURFACE if surface else 0
    size = ffi.sizeof("cch_array_desc")
    return ffi.new("cch_array_desc *", (size, width, height, depth, NUMBERS[type_][0], channels, flags, levels))


def described(function: Any, box: Any) -> Any:
    """Return what a function of the library says of an array."""
    desc = ffi.new("cch_array_desc *")
    desc.size = ffi.sizeof("cch_array_desc")
    check(function(desc, box))
    return desc


def shape_of(desc: Any) -> tuple[int, ...]:
    """Return the extents of a ``cch_array_desc``."""
    extents = (desc.width, desc.height, desc.depth)
    return tuple(int(extent) for extent in extents[: 1 if not desc.height else 2 if not desc.depth else 3])
