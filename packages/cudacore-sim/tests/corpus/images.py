# SPDX-License-Identifier: Apache-2.0
"""Textures and surfaces of kernels of the catalogue, made with the given CUDA driver."""

from __future__ import annotations

import contextlib
import ctypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from corpus.values import FORMATS, Array

if TYPE_CHECKING:
    from corpus.machine import Machine

_FORMATS = {"u8": 0x01, "u16": 0x02, "u32": 0x03, "i8": 0x08, "i16": 0x09, "i32": 0x0A, "f16": 0x10, "f32": 0x20}
_ADDRESS_MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
_ARRAY_FLAGS = {"layered": 0x01, "cubemap": 0x04, "gather": 0x08}
_SURFACE = 0x02  # CUDA_ARRAY3D_SURFACE_LDST
_AS_INTEGER, _NORMALIZED, _SRGB, _SEAMLESS = 0x01, 0x02, 0x10, 0x40  # CU_TRSF_...
_HOST, _ARRAY = 0x01, 0x03  # CU_MEMORYTYPE_...
_IN_ARRAY, _IN_MIPMAPPED_ARRAY, _IN_LINEAR, _IN_PITCH2D = range(4)  # CU_RESOURCE_TYPE_...
_PITCH = 512  # bytes
BORDER = (0.25, 0.5, 0.75, 1.0)

PATTERN = re.compile(
    r"(?P<what>texture|surface):(?P<kind>\w+?)(\((?P<low>[^,]+),(?P<high>[^)]+)\))?x(?P<channels>[124])"
    r":(?P<shape>\d+(?:x\d+){0,2})(?:@(?P<how>[\w,.-]+))?"
)


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("width", "height", "depth")),
        *((name, ctypes.c_uint) for name in ("format", "channels", "flags")),
    )


class ResourceDescriptor(ctypes.Structure):
    """CUDA_RESOURCE_DESC. The fields of its union are an address and the properties of linear memory."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("address", ctypes.c_uint64),
        *((name, ctypes.c_uint) for name in ("format", "channels")),
        *((name, ctypes.c_size_t) for name in ("width", "height", "pitch")),
        ("rest", ctypes.c_int * 24),
    )


class TextureDescriptor(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = (
        ("modes", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        *((name, ctypes.c_uint) for name in ("flags", "anisotropy")),
        ("mipmap_filter", ctypes.c_int),
        *((name, ctypes.c_float) for name in ("bias", "min_level", "max_level")),
        ("border", ctypes.c_float * 4),
        ("reserved", ctypes.c_int * 12),
    )


class Copy(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        *(
            (side + name, kind)
            for side in ("src", "dst")
            for name, kind in (
                *((one, ctypes.c_size_t) for one in ("x", "y", "z", "level")),
                ("type", ctypes.c_int),
                *((one, ctypes.c_void_p) for one in ("host", "device", "array", "reserved")),
                ("pitch", ctypes.c_size_t),
                ("height", ctypes.c_size_t),
            )
        ),
        *((name, ctypes.c_size_t) for name in ("width", "height", "depth")),
    )


@dataclass(frozen=True)
class Image:
    """The resource of a texture or a surface, and its options.

    `how` has these words:

    - ``layered``, ``cubemap`` and ``gather`` are flags of the array. ``levelsN`` makes a mipmapped array.
    - ``memory`` uses linear memory instead of an array, or pitched memory if there is a height.
    - ``clamp``, ``wrap``, ``mirror`` and ``border`` are address modes. ``normalized`` coordinates are from 0 to 1.
    - ``linear`` filters texels, ``trilinear`` filters between levels, and ``seamless`` across the edges of a cube map.
    - ``biasX``, ``leastX`` and ``mostX`` are the bias and the limits of the level.
    - ``fraction`` reads integers as fractions, ``srgb`` decodes bytes as sRGB.
    """

    is_surface: bool
    kind: str
    channels: int
    shape: tuple[int, ...]
    how: tuple[str, ...]

    @property
    def count(self) -> int:
        """int: The number of channels of all texels together."""
        return int(np.prod(self.shape)) * self.channels

    @property
    def _texel(self) -> int:
        return FORMATS[self.kind].word.itemsize * self.channels

    def _number(self, name: str, other: float) -> float:
        return next((float(word[len(name) :]) for word in self.how if word.startswith(name)), other)

    def _descriptor(self) -> ArrayDescriptor:
        width, height, depth = (*self.shape, 0, 0)[:3]
        if "layered" in self.how and len(self.shape) == 2:  # layers that are one-dimensional
            width, height, depth = width, 0, height
        flags = sum(flag for name, flag in _ARRAY_FLAGS.items() if name in self.how)
        return ArrayDescriptor(
            width, height, depth, _FORMATS[self.kind], self.channels, flags | (_SURFACE if self.is_surface else 0)
        )

    def _copy(self, machine: Machine, array: int, data: Array, shape: tuple[int, int, int], *, back: bool) -> None:
        width, height, depth = shape
        copy = Copy(width=width * self._texel, height=max(height, 1), depth=max(depth, 1))
        host, other = ("dst", "src") if back else ("src", "dst")
        for name, value in (
            ("type", _HOST),
            ("host", data.ctypes.data),
            ("pitch", copy.width),
            ("height", copy.height),
        ):
            setattr(copy, host + name, value)
        setattr(copy, other + "type", _ARRAY)
        setattr(copy, other + "array", array)
        machine.call("cuMemcpy3D_v2", ctypes.byref(copy))

    def read(self, machine: Machine, array: int) -> Array:
        """Return the texels of a surface's array, as an array with one row."""
        facts = self._descriptor()
        data = np.zeros((1, self.count), FORMATS[self.kind].word)
        self._copy(machine, array, data, (facts.width, facts.height, facts.depth), back=True)
        return data

    def make(self, machine: Machine, data: Array, stack: contextlib.ExitStack) -> tuple[ctypes.c_uint64, int]:
        """Create a texture or surface of the given texels, and its array or memory; `stack` destroys both."""
        if "memory" in self.how:
            resource = self._memory(machine, data, stack)
        else:
            resource = self._array(machine, data, stack)
        handle = ctypes.c_uint64()
        if self.is_surface:
            machine.call("cuSurfObjectCreate", ctypes.byref(handle), ctypes.byref(resource))
            stack.callback(machine.call, "cuSurfObjectDestroy", handle)
            return handle, resource.address
        mode = next((number for name, number in _ADDRESS_MODES.items() if name in self.how), _ADDRESS_MODES["clamp"])
        flags = 0 if "fraction" in self.how else _AS_INTEGER
        for name, flag in (("normalized", _NORMALIZED), ("srgb", _SRGB), ("seamless", _SEAMLESS)):
            flags |= flag if name in self.how else 0
        sampling = TextureDescriptor(
            (mode,) * 3,
            int("linear" in self.how),
            flags,
            mipmap_filter=int("trilinear" in self.how),
            bias=self._number("bias", 0.0),
            min_level=self._number("least", 0.0),
            max_level=self._number("most", 32.0),
            border=BORDER,
        )
        machine.call("cuTexObjectCreate", ctypes.byref(handle), ctypes.byref(resource), ctypes.byref(sampling), None)
        stack.callback(machine.call, "cuTexObjectDestroy", handle)
        return handle, resource.address

    def _array(self, machine: Machine, data: Array, stack: contextlib.ExitStack) -> ResourceDescriptor:
        facts, array = self._descriptor(), ctypes.c_void_p()
        shape = (facts.width, facts.height, facts.depth)
        levels = int(self._number("levels", 0))
        if not levels:
            machine.call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(facts))
            stack.callback(machine.call, "cuArrayDestroy", array)
            self._copy(machine, array.value or 0, data, shape, back=False)
            return ResourceDescriptor(_IN_ARRAY, array.value)
        machine.call("cuMipmappedArrayCreate", ctypes.byref(array), ctypes.byref(facts), levels)
        stack.callback(machine.call, "cuMipmappedArrayDestroy", array)
        for number in range(levels):
            level = ctypes.c_void_p()
            machine.call("cuMipmappedArrayGetLevel", ctypes.byref(level), array, number)
            width, height, depth = (max(extent >> number, min(extent, 1)) for extent in shape)
            if "layered" in self.how or "cubemap" in self.how:
                depth = shape[2]
            # Each level has its own texels, which differ from those of the other levels.
            self._copy(machine, level.value or 0, np.roll(data, number), (width, height, depth), back=False)
        return ResourceDescriptor(_IN_MIPMAPPED_ARRAY, array.value)

    def _memory(self, machine: Machine, data: Array, stack: contextlib.ExitStack) -> ResourceDescriptor:
        width, height = (*self.shape, 0)[:2]
        rows = data.reshape(max(height, 1), -1)
        if height:
            rows = np.pad(rows, ((0, 0), (0, _PITCH // rows.itemsize - rows.shape[1])))
        bytes_ = np.ascontiguousarray(rows)
        address = ctypes.c_uint64()
        machine.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(bytes_.nbytes))
        stack.callback(machine.call, "cuMemFree_v2", address)
        size = ctypes.c_size_t(bytes_.nbytes)
        machine.call("cuMemcpyHtoD_v2", address, bytes_.ctypes.data_as(ctypes.c_void_p), size)
        texel = (_FORMATS[self.kind], self.channels)
        if not height:
            return ResourceDescriptor(_IN_LINEAR, address.value, *texel, data.nbytes)
        return ResourceDescriptor(_IN_PITCH2D, address.value, *texel, width, height, _PITCH)


def image_of(found: re.Match[str]) -> Image:
    """Return the image that a word of a kernel's ``//!`` line describes."""
    shape = tuple(int(extent) for extent in found["shape"].split("x"))
    how = tuple(found["how"].split(",")) if found["how"] else ()
    return Image(found["what"] == "surface", found["kind"], int(found["channels"]), shape, how)
