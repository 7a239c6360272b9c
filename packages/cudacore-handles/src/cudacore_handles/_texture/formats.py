# SPDX-License-Identifier: Apache-2.0
"""What arrays and textures have in common: formats, channels and extents, handles and devices."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from cudacore_handles._base.address import as_integer, check_int
from cudacore_handles._base.handle import hold
from cudacore_handles._base.names import shorten
from cudacore_handles._base.options import as_options, check_flags, copy_options
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import context_of
from cudacore_handles.typing import ArrayFormatName, ArrayFormatType, IsDType

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device

Options = TypeVar("Options", bound="CheckedOptions")

#: For each format, its number in the driver, and the size of a channel in bytes.
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
    """Return the format that has this number in the driver."""
    return _BY_NUMBER[number]


def as_format(value: object) -> ArrayFormatType:
    """Convert a format, the name of a format, or a NumPy dtype to a format."""
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
    """Check a number of channels, and return it as an int."""
    number = as_integer(value)
    if number not in (1, 2, 4):
        raise ValueError(f"num_channels is {shorten(repr(value))}; it must be 1, 2 or 4")
    return int(number)


def as_count(value: object, name: str) -> int:
    """Check an integer that must be at least 1, and return it as an int."""
    number = check_int(name, value)
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be at least 1")
    return number


def as_shape(value: object) -> tuple[int, ...]:
    """Check the extents of an array, and return them: (width,), (width, height) or (width, height, depth)."""
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


def _excess(device: Device, shape: tuple[int, ...], limits: list[str]) -> str:
    for axis, (extent, name) in enumerate(zip(shape, limits, strict=True)):
        maximum = attribute_of(device, name)
        if extent > maximum:
            return f"shape[{axis}] is {extent}; device {device.device_id} takes at most {maximum} ({name})"
    return ""


class OnDevice:
    """A base of arrays, textures and surfaces: their handle, and the device that has them."""

    __slots__ = ()

    @property
    def handle(self: Any) -> int:
        """int: The handle in CUDA, such as the CUarray; 0 if the object is closed."""
        return 0 if self.is_closed else self._raw

    @property
    def device(self: Any) -> Device:
        """cudacore_handles.Device: The device that the object was created on."""
        return context_of(lib.cch_context_of(hold(self))).device


class Known:
    """What is known of options since the last assignment to a field."""

    __slots__ = ("checked", "read")

    def __init__(self, read: Any) -> None:
        self.read = read  # what the constructor has read; None after an assignment
        # A copy of the options that never changes, and `_read` of the copy. None before their first use.
        self.checked: tuple[Any, Any] | None = None


class CheckedOptions:
    """The base class of options that are checked once, until a field is assigned.

    A subclass has a method ``_read``, which checks the fields, and returns what :class:`Known` keeps of them.
    """

    __slots__ = ("_known",)
    _known: Any  # Known; None after an assignment

    def __post_init__(self) -> None:
        check_flags(self)
        _set_known(self, Known(self._read()))

    def __setattr__(self, name: str, value: object) -> None:
        _set_field(self, name, value)
        _set_known(self, None)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        _set_known(self, None)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)  # copies and pickles are checked again

    def _read(self) -> Any:
        raise NotImplementedError


# These are called for each field of new options.
_set_field, _set_known = object.__setattr__, vars(CheckedOptions)["_known"].__set__


def checked(cls: type[Options], options: Any) -> tuple[Options, Any]:
    """Check options, unless nothing was assigned since then. Return a copy that never changes, and its ``_read``."""
    found: tuple[Options, Any] | None
    try:
        found = options._known.checked if type(options) is cls else None
    except AttributeError:  # a copy, or unpickled, or a field was assigned
        found = None
    return found or _check_again(cls, options)


def _check_again(cls: type[Options], options: Any) -> tuple[Options, Any]:
    given = options if type(options) is cls else as_options(cls, options)
    is_own = type(given) is cls  # a subclass can have checks of its own
    known: Known | None = getattr(given, "_known", None) if is_own else None
    if known is None:
        known = Known(None)
        if is_own:  # before the fields are read: if another thread assigns to one meanwhile, it takes this away again
            _set_known(given, known)
    read = known.read
    try:
        hash(tuple(vars(given).values()))
    except TypeError:  # a value that can change without an assignment
        read, is_fixed = None, False
    else:
        is_fixed = is_own
    if read is not None:
        copied = object.__new__(cls)
        vars(copied).update(vars(given))
    else:
        copied = copy_options(given)
        copied.__post_init__()
        # A subclass may not call this class's __post_init__().
        own = getattr(copied, "_known", None)
        read = own.read if own is not None else copied._read()
    found = copied, read
    if is_fixed:
        known.checked = found
    return found


class AnyArrayOptions(CheckedOptions):
    """The base class of the options of arrays and mipmapped arrays. It has the options that both have."""

    shape: tuple[int, ...]
    format: ArrayFormatType | ArrayFormatName | IsDType | type[Any]
    num_channels: int
    is_surface_load_store: bool

    def _read(self) -> dict[int, bytes]:
        """Check the fields. Return the descriptions of the array for the devices that support it: none as yet."""
        self.shape = as_shape(self.shape)
        self.format = as_format(self.format)
        self.num_channels = as_channels(self.num_channels)
        return {}

    def _check_extents(self, device: Device, *, mipmapped: bool) -> None:
        """Raise an error that names the limit if an extent exceeds a limit of the device."""
        axes, rank = ("width", "height", "depth"), len(self.shape)
        kinds = [f"texture{rank}d_mipmapped" if mipmapped and rank < 3 else f"texture{rank}d"]
        if self.is_surface_load_store:
            kinds.append(f"surface{rank}d")
        for kind in kinds:
            excess = _excess(device, self.shape, [f"maximum_{kind}_{axis}" for axis in axes[:rank]])
            if excess and kind == "texture3d":  # 3D textures have two sets of limits; extents must fit one of them
                alternate = [f"maximum_{kind}_{axis}_alternate" for axis in axes]
                excess = _excess(device, self.shape, alternate) and excess
            if excess:
                raise ValueError(excess)

    def _describe(self, device: Device, levels: int = 0) -> bytes:
        self._check_extents(device, mipmapped=levels > 0)
        number, _ = NUMBERS[ArrayFormatType(self.format)]
        flags = lib.CCH_ARRAY_SURFACE if self.is_surface_load_store else 0
        extents = (*self.shape, 0, 0)[:3]
        desc = ffi.new("cch_array_desc *", (*extents, number, self.num_channels, flags, levels))
        return bytes(ffi.buffer(desc))


def describe(cls: type[AnyArrayOptions], options: Any, device: Device) -> bytes:
    """Check options of an array for a device, once; return the bytes of a ``cch_array_desc``."""
    copied, described = checked(cls, options)
    try:
        desc: bytes = described[device._id]
    except KeyError:
        desc = described[device._id] = copied._describe(device)
    return desc
