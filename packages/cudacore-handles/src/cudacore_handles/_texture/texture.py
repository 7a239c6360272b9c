# SPDX-License-Identifier: Apache-2.0
"""Textures and surfaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cudacore_handles import _native
from cudacore_handles._base.address import check_int
from cudacore_handles._base.errors import check_open
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._base.names import shorten, type_text
from cudacore_handles._base.options import copy_options
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._texture.formats import FLOATS, NUMBERS, CheckedOptions, OnDevice, checked
from cudacore_handles._texture.resource import ResourceDescriptor
from cudacore_handles.typing import (
    AddressModeName,
    AddressModeType,
    ArrayFormatType,
    FilterModeName,
    FilterModeType,
    ReadModeName,
    ReadModeType,
    _as_name,
)

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device

# CUDA's numbers of modes (CUaddress_mode, CUfilter_mode): they are in the order of the members.
_NUMBERS: dict[Any, int] = {
    mode: number for cls in (AddressModeType, FilterModeType) for number, mode in enumerate(cls)
}
_FLAGS = {
    "normalized_coords": lib.CCH_TEXTURE_NORMALIZED,
    "srgb": lib.CCH_TEXTURE_SRGB,
    "disable_trilinear_optimization": lib.CCH_TEXTURE_NO_TRILINEAR,
    "seamless_cubemap": lib.CCH_TEXTURE_SEAMLESS,
}
_close, _create_texture = _native.Handle.close, _native.create_texture
_M = TypeVar("_M", AddressModeType, FilterModeType, ReadModeType)
_MAX_ANISOTROPY = 16
_BYTES = (ArrayFormatType.UINT8, ArrayFormatType.INT8)
_SMALL = (*_BYTES, ArrayFormatType.UINT16, ArrayFormatType.INT16)


@dataclass
class TextureObjectOptions(CheckedOptions):
    """Options of a texture: how it is sampled.

    Attributes
    ----------
    address_mode : AddressModeType, str, or a tuple of them, optional
        What kernels read outside of the texture, as one mode for all dimensions or a mode for each: ``"clamp"``, the
        nearest texel; ``"border"``, the border color; ``"wrap"``, the texture repeated; ``"mirror"``, the texture
        repeated in reverse. The last two need normalized coordinates; without them, CUDA clamps. Default ``"clamp"``.
    filter_mode : FilterModeType or str, optional
        ``"point"`` reads the nearest texel. ``"linear"`` interpolates between texels, which must be read as
        floating-point numbers. Default ``"point"``.
    read_mode : ReadModeType or str, optional
        ``"element_type"`` reads numbers unchanged. ``"normalized_float"`` reads integers of 8 and 16 bits as numbers
        from 0 to 1, or from -1 to 1 if they are signed. Default ``"element_type"``.
    normalized_coords : bool, optional
        Whether coordinates are from 0 to 1, rather than in texels. Default False.
    srgb : bool, optional
        Whether colors are converted from sRGB. This needs the format ``"uint8"`` and the read mode
        ``"normalized_float"``. Default False.
    disable_trilinear_optimization : bool, optional
        Whether filtering between levels is exact. Default False.
    seamless_cubemap : bool, optional
        Whether cube maps are filtered across the edges of their faces. Default False.
    max_anisotropy : int, optional
        Maximum number of samples of an anisotropic filter, at most 16. Default 0: no such filter.
    mipmap_filter_mode : FilterModeType or str, optional
        How levels are combined: ``"point"`` or ``"linear"``. Default ``"point"``.
    mipmap_level_bias : float, optional
        A number that is added to the level. Default 0.
    min_mipmap_level_clamp, max_mipmap_level_clamp : float, optional
        The lowest and the highest level that are read. Default 0: only level 0.
    border_color : tuple of four float, optional
        The color that the address mode ``"border"`` reads. Default zeros.
    """

    address_mode: AddressModeType | AddressModeName | tuple[AddressModeType | AddressModeName, ...] = (
        AddressModeType.CLAMP
    )
    filter_mode: FilterModeType | FilterModeName = FilterModeType.POINT
    read_mode: ReadModeType | ReadModeName = ReadModeType.ELEMENT_TYPE
    normalized_coords: bool = False
    srgb: bool = False
    disable_trilinear_optimization: bool = False
    seamless_cubemap: bool = False
    max_anisotropy: int = 0
    mipmap_filter_mode: FilterModeType | FilterModeName = FilterModeType.POINT
    mipmap_level_bias: float = 0.0
    min_mipmap_level_clamp: float = 0.0
    max_mipmap_level_clamp: float = 0.0
    border_color: tuple[float, ...] | None = None

    def _read(self) -> tuple[bytes, tuple[ArrayFormatType, ...]]:
        """Check the fields. Return a ``cch_texture_desc``, and formats that can be sampled with these options.

        All devices have the same limits.
        """
        for name, cls in _ENUMERATIONS.items():
            value = getattr(self, name)
            if type(value) is not cls:
                setattr(self, name, _as_member(cls, name, value))
        changed = (name for name in _FIELDS if getattr(self, name) is not getattr(TextureObjectOptions, name))
        fields = _UNCHANGED | {name: _FIELDS[name](name, getattr(self, name)) for name in changed}
        if fields["min_mipmap_level_clamp"] > fields["max_mipmap_level_clamp"]:
            raise ValueError(
                f"min_mipmap_level_clamp is {self.min_mipmap_level_clamp}, more than max_mipmap_level_clamp, "
                f"{self.max_mipmap_level_clamp}"
            )
        flags = 0 if self.read_mode is ReadModeType.NORMALIZED_FLOAT else lib.CCH_TEXTURE_AS_INTEGER
        flags |= sum(flag for name, flag in _FLAGS.items() if getattr(self, name))
        formats = FLOATS if self.filter_mode is FilterModeType.LINEAR else tuple(NUMBERS)
        struct = ffi.new("cch_texture_desc *", fields | {"flags": flags})
        return bytes(ffi.buffer(struct)), () if self.srgb else formats


class AnyObject(_native.Handle, OnDevice, Closing, Made):
    """The base of :class:`TextureObject` and :class:`SurfaceObject`: their resource."""

    __slots__ = ("__weakref__", "_resource")
    _resource: ResourceDescriptor | None

    def __repr__(self) -> str:
        about = "closed" if self.is_closed else f"handle={self._raw:#x} of {self._resource!r}"
        return f"<{type(self).__name__} {about}>"

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "create another one of the same resource")

    def close(self) -> None:
        """Destroy the object, unless a graph still uses it. Closing twice does nothing."""
        _close(self)
        self._resource = None  # the descriptor keeps its source alive

    @property
    def resource(self) -> ResourceDescriptor | None:
        """ResourceDescriptor or None: The array or memory that kernels use through this object; None if closed."""
        return self._resource


class TextureObject(AnyObject):
    """A texture, through which kernels sample an array or memory.

    Textures are made by :meth:`~cudacore_handles.Device.create_texture_object`. Kernels take them as parameters of type
    ``cudaTextureObject_t``. A texture keeps its array or buffer alive. A launch keeps the texture alive only until it
    is submitted, so close the texture after the kernels that use it have ended. A graph keeps it alive as long as the
    graph can run.

    Examples
    --------
    >>> from cudacore.texture import OpaqueArrayOptions, ResourceDescriptor, TextureObjectOptions
    >>> array = device.create_opaque_array(OpaqueArrayOptions(shape=(64, 32), format="float32", num_channels=1))
    >>> resource = ResourceDescriptor.from_opaque_array(array)
    >>> texture = device.create_texture_object(resource=resource, options=TextureObjectOptions(filter_mode="linear"))
    """

    __slots__ = ("_options", "_shown")
    _made_by = "Device.create_texture_object()"
    _options: TextureObjectOptions  # can be shared with other textures
    _shown: TextureObjectOptions  # a copy of them

    @property
    def options(self) -> TextureObjectOptions:
        """TextureObjectOptions: How the texture is sampled. Changing these options does not change the texture."""
        try:
            return self._shown
        except AttributeError:
            self._shown = copy_options(self._options)
        return self._shown


class SurfaceObject(AnyObject):
    """A surface, through which kernels load and store the texels of an array.

    Surfaces are made by :meth:`~cudacore_handles.Device.create_surface_object`. Kernels take them as parameters of type
    ``cudaSurfaceObject_t``. A surface keeps its array alive. A launch keeps the surface alive only until it is
    submitted, so close the surface after the kernels that use it have ended. A graph keeps it alive as long as the
    graph can run.
    """

    __slots__ = ()
    _made_by = "Device.create_surface_object()"


def _as_member(cls: type[_M], name: str, value: Any) -> _M:
    """Convert a value, which is a member of an enumeration or its name, to the member."""
    return _as_name(cls, value, f"{name} is {shorten(repr(value))}")


# ---- functions that return the value of a field of cch_texture_desc for an option


def _modes(name: str, given: Any) -> list[int]:
    """Return the address modes of three dimensions. The last given mode also applies to the missing ones."""
    if isinstance(given, str):
        return [_NUMBERS[_as_member(AddressModeType, name, given)]] * 3
    if not isinstance(given, (tuple, list)) or not 1 <= len(given) <= 3:
        error = ValueError if isinstance(given, (tuple, list)) else TypeError
        raise error(
            f"{name} is {shorten(repr(given))}; it must be an AddressModeType, or a tuple of one to three of them"
        )
    modes = [_NUMBERS[_as_name(AddressModeType, mode, f"{name} has {shorten(repr(mode))}")] for mode in given]
    return modes + modes[-1:] * (3 - len(modes))


def _filter(name: str, mode: FilterModeType) -> int:
    return _NUMBERS[mode]


def _anisotropy(name: str, value: object) -> int:
    number = check_int(name, value)
    if not 0 <= number <= _MAX_ANISOTROPY:
        raise ValueError(f"{name} is {number}; it must be from 0 to {_MAX_ANISOTROPY}")
    return number


def _as_float(name: str, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, str) else None
    except (TypeError, ValueError):
        number = None
    if number is None or math.isnan(number):
        error = TypeError if number is None else ValueError
        raise error(f"{name} is {shorten(repr(value))}; it must be a number")
    return number


def _border(name: str, color: Any) -> list[float]:
    if color is None:
        return [0.0] * 4
    is_sequence = hasattr(color, "__getitem__") and hasattr(color, "__len__") and not isinstance(color, (str, bytes))
    if not is_sequence or len(color) != 4:
        error = ValueError if is_sequence else TypeError
        raise error(f"{name} is {shorten(repr(color))}; it must be a tuple of four numbers, or None")
    return [_as_float(f"{name}[{place}]", value) for place, value in enumerate(color)]


_FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "address_mode": _modes,
    "filter_mode": _filter,
    "max_anisotropy": _anisotropy,
    "mipmap_filter_mode": _filter,
    "mipmap_level_bias": _as_float,
    "min_mipmap_level_clamp": _as_float,
    "max_mipmap_level_clamp": _as_float,
    "border_color": _border,
}
_ENUMERATIONS: dict[str, Any] = {
    "filter_mode": FilterModeType,
    "mipmap_filter_mode": FilterModeType,
    "read_mode": ReadModeType,
}
# What is read of the fields of options to which nothing was assigned.
_UNCHANGED = {name: read(name, getattr(TextureObjectOptions, name)) for name, read in _FIELDS.items()}


def create_texture(device: Device, resource: ResourceDescriptor, options: Any) -> TextureObject:
    """Create a texture; see :meth:`Device.create_texture_object`."""
    context = device._target()
    if type(resource) is not ResourceDescriptor:
        _check_resource(resource)
    if resource._facts:  # memory
        resource._check_memory(device)
    copied, (desc, formats) = checked(TextureObjectOptions, _DEFAULTS if options is None else options)
    if resource._texel not in formats:
        _check_format(resource, copied)
    made = _create_texture(TextureObject, context, resource._source, resource._struct, desc)
    made._resource, made._options = resource, copied
    return made


def create_surface(device: Device, resource: ResourceDescriptor) -> SurfaceObject:
    """Create a surface; see :meth:`Device.create_surface_object`."""
    context = device._target()
    if type(resource) is not ResourceDescriptor:
        _check_resource(resource)
    if not resource._stores:
        check_open(resource._source)
        raise ValueError(
            "resource: a surface needs an array that was created with is_surface_load_store=True, which is an "
            "OpaqueArray, or a level of a MipmappedArray, get_level()"
        )
    made = _create_texture(SurfaceObject, context, resource._source, None, None)
    made._resource = resource
    return made


def _check_resource(given: object) -> None:
    if not isinstance(given, ResourceDescriptor):
        raise TypeError(
            f"resource must be a ResourceDescriptor, not {type_text(given)}: use "
            "ResourceDescriptor.from_opaque_array() and its like"
        )


def _check_format(resource: ResourceDescriptor, options: TextureObjectOptions) -> None:
    """Raise an error if texels of this format cannot be sampled with the options."""
    texel = resource._texel
    if options.srgb and texel not in _BYTES:
        raise ValueError(f"srgb is True, and the format '{texel}': only channels of 8 bits can be sRGB")
    if options.filter_mode is FilterModeType.POINT or resource._kind == "linear":
        return  # linear memory is never filtered
    given = f"filter_mode is 'linear', and the format '{texel}'"
    if texel not in _SMALL:
        raise ValueError(f"{given}: integers of 32 bits cannot be filtered")
    if options.read_mode is not ReadModeType.NORMALIZED_FLOAT:
        raise ValueError(f"{given}: integers are filtered with read_mode='normalized_float'")


_DEFAULTS = TextureObjectOptions()
