# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: descriptors of tensors in global memory, with which kernels copy boxes (TMA)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.address import as_integer
from cudacore_handles._base.made import not_pickled
from cudacore_handles._base.names import type_text
from cudacore_handles._views.dtypes import ELEMENT_TYPES, dtype_text, type_given
from cudacore_handles.typing import (
    TensorMapDataType,
    TensorMapIm2ColWideMode,
    TensorMapInterleave,
    TensorMapL2Promotion,
    TensorMapOOBFill,
    TensorMapSwizzle,
)

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device
    from cudacore_handles._views.tensor_map_options import TensorMapDescriptorOptions
    from cudacore_handles._views.view import StridedMemoryView

_TILED, _IM2COL, _IM2COL_WIDE = range(3)
_KIND_NAMES = ("tiled", "im2col", "im2col_wide")


# Bytes of an element of each data type: its name has the bits.
_SIZES = {one: int("".join(filter(str.isdigit, one.name))) // 8 for one in TensorMapDataType}
# The data types of views, by DLPack's types: code | bits << 8 | lanes << 16. The others are variants of float32.
_DATA_TYPES = {
    ELEMENT_TYPES[name].packed: one for one in TensorMapDataType if (name := one.name.lower()) in ELEMENT_TYPES
}
_TYPE_NAMES = ", ".join(one.name for one in TensorMapDataType)


CHOICES: dict[str, type[enum.IntEnum]] = {
    "interleave": TensorMapInterleave,
    "swizzle": TensorMapSwizzle,
    "l2_promotion": TensorMapL2Promotion,
    "oob_fill": TensorMapOOBFill,
    "mode": TensorMapIm2ColWideMode,
}


class TensorMapDescriptor(_native.TensorMapHandle):
    """A descriptor of a tensor in global memory, for the copies of the tensor memory accelerator (TMA).

    Kernels copy boxes of the tensor. Tensor maps are made by :meth:`StridedMemoryView.as_tensor_map`, or by the class
    methods here for images. They need a device of compute capability 9.0 or later. A kernel declares the parameter as
    ``const __grid_constant__ CUtensorMap``. The descriptor, and launches that use it, keep the tensor's memory alive.

    Examples
    --------
    >>> matrix = device.allocate(4096, stream=stream).view("float32", (32, 32))
    >>> tensor_map = matrix.as_tensor_map(box_dim=(8, 8))
    >>> len(bytes(tensor_map))  # what a kernel gets
    128
    """

    __slots__ = ("__weakref__",)

    def __new__(cls) -> TensorMapDescriptor:
        """Raise an error, because tensor maps are made of views."""
        raise RuntimeError(
            "a TensorMapDescriptor cannot be instantiated directly; use StridedMemoryView.as_tensor_map(), "
            "TensorMapDescriptor.from_im2col() or from_im2col_wide()"
        )

    def __repr__(self) -> str:
        return (
            f"TensorMapDescriptor({_KIND_NAMES[self._kind]}, rank={self._rank}, "
            f"dtype={TensorMapDataType(self._data_type).name}, swizzle={TensorMapSwizzle(self._swizzle).name})"
        )

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "it has the address of its tensor's memory")

    @classmethod
    def from_im2col(
        cls,
        view: StridedMemoryView,
        pixel_box_lower_corner: Sequence[int],
        pixel_box_upper_corner: Sequence[int],
        channels_per_pixel: int,
        pixels_per_column: int,
        *,
        element_strides: Sequence[int] | None = None,
        data_type: Any = None,
        interleave: TensorMapInterleave | None = None,
        swizzle: TensorMapSwizzle | None = None,
        l2_promotion: TensorMapL2Promotion | None = None,
        oob_fill: TensorMapOOBFill | None = None,
    ) -> TensorMapDescriptor:
        """Make a tensor map of images whose pixels become the columns of a matrix (``cuTensorMapEncodeIm2col``).

        Parameters
        ----------
        view : StridedMemoryView
            The images, of the shape (N, W, C), (N, H, W, C) or (N, D, H, W, C).
        pixel_box_lower_corner : tuple of int
            The beginning of the bounding box of the pixels along each axis between N and C, relative to the first
            pixel.
        pixel_box_upper_corner : tuple of int
            The end of the bounding box along each of these axes, relative to the last pixel.
        channels_per_pixel : int
            The number of channels of a pixel that a copy moves: 1 to 256.
        pixels_per_column : int
            The number of pixels that a copy moves: 1 to 1024.
        element_strides, data_type, interleave, swizzle, l2_promotion, oob_fill
            See :class:`TensorMapDescriptorOptions`.

        Raises
        ------
        ValueError
            If the driver would refuse the map; the message names the argument, its value and the rule.
        """
        view, number = _image_elements(view, data_type)
        return _native.tensor_map_make(
            cls, view, _IM2COL, number, interleave, swizzle, l2_promotion, oob_fill, element_strides, None,
            pixel_box_lower_corner, pixel_box_upper_corner, channels_per_pixel, pixels_per_column, None,
        )  # fmt: skip

    @classmethod
    def from_im2col_wide(
        cls,
        view: StridedMemoryView,
        pixel_box_lower_corner_width: int,
        pixel_box_upper_corner_width: int,
        channels_per_pixel: int,
        pixels_per_column: int,
        *,
        element_strides: Sequence[int] | None = None,
        data_type: Any = None,
        interleave: TensorMapInterleave | None = None,
        mode: TensorMapIm2ColWideMode = TensorMapIm2ColWideMode.W,
        swizzle: TensorMapSwizzle | None = TensorMapSwizzle.SWIZZLE_128B,
        l2_promotion: TensorMapL2Promotion | None = None,
        oob_fill: TensorMapOOBFill | None = None,
    ) -> TensorMapDescriptor:
        """Make a tensor map of images whose pixels are copied along W alone (``cuTensorMapEncodeIm2colWide``).

        The map needs a device of compute capability 10.0 or later, and a driver of CUDA 12.8 or later.

        Parameters
        ----------
        view : StridedMemoryView
            The images, of the shape (N, W, C), (N, H, W, C) or (N, D, H, W, C).
        pixel_box_lower_corner_width : int
            The beginning of the bounding box of the pixels along W, relative to the first pixel.
        pixel_box_upper_corner_width : int
            The end of the bounding box along W, relative to the last pixel.
        channels_per_pixel, pixels_per_column : int
            See :meth:`from_im2col`.
        mode : TensorMapIm2ColWideMode, optional
            Whether a copy moves `pixels_per_column` pixels, which is the default, or 128.
        element_strides, data_type, interleave, swizzle, l2_promotion, oob_fill
            See :class:`TensorMapDescriptorOptions`. Default of `swizzle`: ``SWIZZLE_128B``.
        """
        view, number = _image_elements(view, data_type)
        return _native.tensor_map_make(
            cls, view, _IM2COL_WIDE, number, interleave, swizzle, l2_promotion, oob_fill, element_strides, None,
            (pixel_box_lower_corner_width,), (pixel_box_upper_corner_width,), channels_per_pixel, pixels_per_column,
            mode,
        )  # fmt: skip

    @property
    def device(self) -> Device | None:
        """Device or None: The device of the tensor; None for host memory and managed memory."""
        from cudacore_handles._driver.device import Device

        tensor = self._tensor
        return Device(self._device) if tensor is not None and tensor._device[0] == _native.DL_CUDA else None

    def replace_address(self, tensor: Any) -> None:
        """Make the descriptor describe other memory of the same shape and strides.

        Earlier launches, prepared launches and graphs still use, and keep, the old memory.

        Parameters
        ----------
        tensor : StridedMemoryView, Buffer, or array
            The memory. It has at least as many bytes as the descriptor describes, is aligned to 16 bytes (to 32 with
            ``INTERLEAVE_32B``), and is on the same device.

        Raises
        ------
        ValueError
            If the memory is too small, not aligned, on another device, or not accessible to devices.
        """
        from cudacore_handles._views.view import StridedMemoryView

        if not isinstance(tensor, StridedMemoryView):
            tensor = StridedMemoryView.from_any_interface(tensor, stream_ptr=-1)
        self._replace(tensor)


# ---- arguments


def make_tiled(
    view: StridedMemoryView, box_dim: Any, element_strides: Any, data_type: Any,
    interleave: Any, swizzle: Any, l2_promotion: Any, oob_fill: Any,
) -> TensorMapDescriptor:  # fmt: skip
    """Make a tiled tensor map; None stands for a default."""
    view, number = _elements(view, data_type)
    return _native.tensor_map_make(
        TensorMapDescriptor, view, _TILED, number, interleave, swizzle, l2_promotion, oob_fill, element_strides, box_dim
    )


def make_with_options(
    view: StridedMemoryView, options: TensorMapDescriptorOptions | Mapping[str, Any], given: tuple[Any, ...]
) -> TensorMapDescriptor:
    """Make a tiled tensor map from options; `given` are the arguments that must not be given besides the options."""
    from cudacore_handles._base.options import as_options

    if any(one is not None for one in given):
        raise TypeError("give either options or the individual arguments of the tensor map, not both")
    from cudacore_handles._views.tensor_map_options import TensorMapDescriptorOptions

    all_of = as_options(TensorMapDescriptorOptions, options)  # of a subclass, which can have more attributes
    return make_tiled(view, **{name: getattr(all_of, name) for name in TensorMapDescriptorOptions.__dataclass_fields__})


def check_choice(name: str, cls: type[enum.IntEnum], given: Any) -> int:
    if type(given) is not cls:
        raise TypeError(f"{name} must be a {cls.__name__}, not {given!r}, of type {type(given).__name__}")
    number: int = given
    return number


def as_ints(name: str, given: Any) -> tuple[int, ...]:
    is_sequence = hasattr(given, "__getitem__") and not isinstance(given, (str, bytes, dict))
    if not is_sequence or getattr(given, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a tuple of ints, not {given!r}, of type {type(given).__name__}")
    ints = tuple(given)
    for place, one in enumerate(ints):
        if as_integer(one) is None:
            raise TypeError(f"{name}[{place}] must be an int, not {one!r}, of type {type(one).__name__}")
    return ints


def _image_elements(view: StridedMemoryView, data_type: Any) -> tuple[StridedMemoryView, int]:
    if not isinstance(view, _native.ViewHandle):
        raise TypeError(f"view must be a StridedMemoryView, not {type_text(view)}; see Buffer.view()")
    return _elements(view, data_type)


def _elements(view: StridedMemoryView, data_type: Any) -> tuple[StridedMemoryView, int]:
    """Return the view, whose bytes become elements of the type if it is a view of bytes, and the number of the type."""
    if data_type is None:
        found = _DATA_TYPES.get(view._type)
        if found is None:
            unknown = dtype_text(view, f"{view._itemsize} bytes of an unknown type")
            raise ValueError(
                f"tensor maps do not have the view's type of elements, {unknown}; give data_type, one of "
                f"{_TYPE_NAMES} of the same size, as which they are copied"
            )
        return view, found
    number = check_data_type(data_type)
    size = _SIZES[number]
    if view._itemsize == 1 != size:
        view = view.view(view._layout.repacked(size), f"uint{8 * size}")
    if size != view._itemsize:
        raise ValueError(
            f"data_type is {number.name}, whose elements have {size} bytes, but the view's have {view._itemsize}; view "
            "the memory with a dtype of that size first: view.view(dtype=...)"
        )
    return view, number


def check_data_type(given: Any) -> TensorMapDataType:
    if isinstance(given, TensorMapDataType):
        return given
    kind = None
    if not isinstance(given, int):
        try:
            kind = type_given(given)
        except TypeError:
            pass
    if kind is None:
        raise TypeError(
            f"data_type must be a TensorMapDataType, or a dtype of NumPy or ml_dtypes, not {given!r}, of type "
            f"{type(given).__name__}"
        )
    found = _DATA_TYPES.get(kind.packed)
    if found is None:
        raise ValueError(f"data_type is {given!r}, which tensor maps do not have; they have {_TYPE_NAMES}")
    return found
