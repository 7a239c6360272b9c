# SPDX-License-Identifier: Apache-2.0
"""The structures of cuda.h that sequences pass."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p
from typing import Any

DEVICE, HOST, HOST_NUMA = 1, 2, 3
FROM_HOST, FROM_DEVICE, FROM_ARRAY, UNIFIED = 1, 2, 3, 4


def named(kind: Any, *names: str) -> list[tuple[str, Any]]:
    """Return fields of one type for ``_fields_`` of a structure."""
    return [(name, kind) for name in names]


def fields(**kinds: Any) -> list[tuple[str, Any]]:
    """Return ``_fields_`` of a structure, from the types by the names."""
    return list(kinds.items())


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("type", c_int), ("id", c_int)]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = fields(
        allocType=c_int, handleTypes=c_int, location=Location, security=c_void_p, maxSize=c_size_t, usage=c_ushort,
        reserved=c_ubyte * 54,
    )  # fmt: skip


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = fields(
        type=c_int, handleTypes=c_int, location=Location, security=c_void_p, compression=c_ubyte, rdma=c_ubyte,
        usage=c_ushort, reserved=c_ubyte * 4,
    )  # fmt: skip


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", c_int)]


def operands(*fields: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of both operands of a copy. `fields` has the names without "src" and "dst"."""
    return [(side + name, kind) for side in ("src", "dst") for name, kind in fields]


WHERE = (("MemoryType", c_int), ("Host", c_void_p), ("Device", c_uint64))


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        *operands(*named(c_size_t, "XInBytes", "Y"), *WHERE, ("Array", c_void_p), ("Pitch", c_size_t)),
        *named(c_size_t, "WidthInBytes", "Height"),
    ]


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER. The fields of the contexts are reserved in CUDA_MEMCPY3D."""

    _fields_ = [
        *operands(
            *named(c_size_t, "XInBytes", "Y", "Z", "Level"), *WHERE,
            *named(c_void_p, "Array", "Context"), *named(c_size_t, "Pitch", "Height"),
        ),
        *named(c_size_t, "WidthInBytes", "Height", "Depth"),
    ]  # fmt: skip


def set_operand(copy: Copy2D | Copy3D, side: str, where: Any) -> None:
    """Set the operand "src" or "dst" to an array (a tuple of its handle), a device address (an int) or host memory."""
    if isinstance(where, tuple):
        kind, field, value = FROM_ARRAY, "Array", where[0]
    elif isinstance(where, int):
        kind, field, value = FROM_DEVICE, "Device", where
    else:
        kind, field, value = FROM_HOST, "Host", ctypes.addressof(where)
    setattr(copy, f"{side}MemoryType", kind)
    setattr(copy, f"{side}{field}", value)


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute. A sequence sets the first four words of the value."""

    _fields_ = [("id", c_int), ("pad", c_int), ("value", c_uint * 16)]


class LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = fields(
        grid=c_uint * 3, block=c_uint * 3, shared=c_uint, stream=c_void_p, attributes=c_void_p, count=c_uint
    )


def device_pool(**fields: Any) -> PoolProperties:
    """Return the properties of a pool of device 0."""
    return PoolProperties(**{"allocType": 1, "location": Location(DEVICE, 0), **fields})


def device_allocation(**fields: Any) -> AllocationProperties:
    """Return the properties of physical memory of device 0."""
    return AllocationProperties(**{"type": 1, "location": Location(DEVICE, 0), **fields})


def launch_configuration(
    *attributes: tuple[int, tuple[int, ...]],
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (1, 1, 1),
    shared: int = 0,
    stream: int = 0,
) -> LaunchConfiguration:
    """Return the configuration of a launch. Each attribute is a pair of its number and the words of its value."""
    array = (LaunchAttribute * max(len(attributes), 1))()
    for place, (number, words) in zip(array, attributes, strict=False):
        place.id = number
        place.value[: len(words)] = words
    made = LaunchConfiguration(grid, block, shared, stream, ctypes.addressof(array), len(attributes))
    made.kept = array
    return made


class Resource(ctypes.Structure):
    """CUdevResource. `words` are its readable fields. The first of them is the number of multiprocessors."""

    _fields_ = [("type", c_int), ("internal", c_ubyte * 92), ("words", c_uint * 10), ("next", c_void_p)]


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]


class Array3DDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        *named(c_size_t, "width", "height", "depth"),
        ("format", c_int),
        *named(c_uint, "channels", "flags"),
    ]


class ResourceDescriptor(ctypes.Structure):
    """CUDA_RESOURCE_DESC. Arrays use only a handle; linear memory uses the fields up to the size."""

    _fields_ = fields(
        type=c_int, handle=c_uint64, format=c_int, channels=c_uint, width=c_size_t, height=c_size_t, pitch=c_size_t,
        rest=c_int * 22, flags=c_uint,
    )  # fmt: skip


class TextureDescriptor(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = fields(
        modes=c_int * 3, filter=c_int, flags=c_uint, anisotropy=c_uint, mipmap_filter=c_int, bias=c_float,
        minimum=c_float, maximum=c_float, border=c_float * 4, reserved=c_int * 12,
    )  # fmt: skip


class ViewDescriptor(ctypes.Structure):
    """CUDA_RESOURCE_VIEW_DESC."""

    _fields_ = [
        ("format", c_int),
        *named(c_size_t, "width", "height", "depth"),
        *named(c_uint, "first_level", "last_level", "first_layer", "last_layer"),
        ("reserved", c_uint * 16),
    ]
