# SPDX-License-Identifier: Apache-2.0
"""Texture objects and surface objects: the resources from which they can be made."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from recorder import Recorder, sequence
from structs import ResourceDescriptor, TextureDescriptor, ViewDescriptor

from cases.texture.arrays import (
    CUBE,
    FLOAT,
    GATHER,
    HALF,
    LAYERED,
    S8,
    SURFACE,
    U8,
    U16,
    U32,
    array,
    described,
    refused,
)

OF_ARRAY, OF_MIPMAP, LINEAR, PITCHED = range(4)
INTEGER, NORMALIZED, SRGB, NO_TRILINEAR, SEAMLESS = 1, 2, 0x10, 0x20, 0x40
WRAP, CLAMP, MIRROR, BORDER = range(4)


def texture(**fields: Any) -> TextureDescriptor:
    """Return a description of how a texture is sampled."""
    modes = fields.pop("modes", (CLAMP, CLAMP, CLAMP))
    return TextureDescriptor(modes=(c_int * 3)(*modes), **fields)


def attempt(cu: Recorder, what: object, resource: Any, sampling: Any, view: Any = None) -> None:
    """Try to create a texture, and list the result. Destroy the texture if it was created."""
    code, made = cu.silent("cuTexObjectCreate", c_uint64, resource, sampling, view)
    cu.see(str(what), code)
    if code == "CUDA_SUCCESS":
        cu.prepare("cuTexObjectDestroy", made)


@sequence
def of_arrays(cu: Recorder) -> None:
    """How arrays of each format can be sampled."""
    for number in (U8, U16, U32, S8, HALF, FLOAT):
        for channels in (1, 4):
            made = ResourceDescriptor(type=OF_ARRAY, handle=array(cu, 16, 16, format=number, channels=channels))
            for flags in (0, INTEGER, NORMALIZED, SRGB, INTEGER | SRGB, NO_TRILINEAR, SEAMLESS):
                for filtering in (0, 1):
                    attempt(cu, [number, channels, flags, filtering], made, texture(flags=flags, filter=filtering))
    made = ResourceDescriptor(type=OF_ARRAY, handle=array(cu, 16, 16))
    for fields in (
        {"modes": (WRAP,) * 3}, {"modes": (MIRROR,) * 3}, {"modes": (BORDER,) * 3}, {"modes": (4, 0, 0)},
        {"modes": (CLAMP, 9, CLAMP)}, {"modes": (CLAMP, CLAMP, 9)}, {"modes": (-1, 0, 0)}, {"filter": 2},
        {"filter": -1},
        {"flags": 4}, {"flags": 8}, {"flags": 128}, {"anisotropy": 1}, {"anisotropy": 16}, {"anisotropy": 17},
        {"anisotropy": 1000}, {"mipmap_filter": 1}, {"mipmap_filter": 2}, {"bias": 100.0}, {"bias": -100.0},
        {"minimum": 3.0, "maximum": 1.0}, {"minimum": -5.0}, {"bias": float("nan")}, {"maximum": float("inf")},
        {"border": (c_float * 4)(1, 2, 3, 4)}, {"reserved": (c_int * 12)(1)},
    ):  # fmt: skip
        shown = {name: list(value) if hasattr(value, "__len__") else value for name, value in fields.items()}
        attempt(cu, shown, made, texture(**fields))
    attempt(cu, "flags of the resource", ResourceDescriptor(type=OF_ARRAY, handle=made.handle, flags=1), texture())
    attempt(cu, "no array", ResourceDescriptor(type=OF_ARRAY), texture())
    attempt(cu, "no such resource", ResourceDescriptor(type=4, handle=made.handle), texture())
    attempt(cu, "no sampling", made, None)
    attempt(cu, "no resource", None, texture())
    cu.call("cuTexObjectCreate", None, made, texture(), None)
    cu.call("cuTexObjectDestroy", 0)
    for shape, flags in (((4, 4, 6), CUBE), ((4, 4, 12), CUBE | LAYERED), ((4, 0, 3), LAYERED), ((4, 4, 4), 0)):
        made = ResourceDescriptor(type=OF_ARRAY, handle=array(cu, *shape, flags=flags))
        for sampling in (0, NORMALIZED, SEAMLESS | NORMALIZED):
            for filtering in (0, 1):
                attempt(cu, [shape, flags, sampling, filtering], made, texture(flags=sampling, filter=filtering))
    gathered = ResourceDescriptor(type=OF_ARRAY, handle=array(cu, 16, 16, flags=GATHER))
    attempt(cu, "gather", gathered, texture())


@sequence
def of_levels(cu: Recorder) -> None:
    """How mipmapped arrays can be sampled."""
    for number in (U8, FLOAT):
        made = int(cu.prepare("cuMipmappedArrayCreate", c_void_p, described(16, 16, format=number), 5))
        whole = ResourceDescriptor(type=OF_MIPMAP, handle=made)
        for flags in (0, INTEGER, NORMALIZED, INTEGER | NORMALIZED):
            for filtering in (0, 1):
                for between in (0, 1):
                    sampling = texture(flags=flags, filter=filtering, mipmap_filter=between, maximum=4.0)
                    attempt(cu, [number, flags, filtering, between], whole, sampling)
        part = int(cu.prepare("cuMipmappedArrayGetLevel", c_void_p, made, 1))
        attempt(cu, "a level", ResourceDescriptor(type=OF_ARRAY, handle=part), texture())
    attempt(cu, "none", ResourceDescriptor(type=OF_MIPMAP), texture())
    for fields in (
        {"bias": 20.0}, {"bias": -20.0}, {"minimum": 3.0, "maximum": 1.0}, {"minimum": -5.0}, {"maximum": 100.0},
        {"anisotropy": 16}, {"anisotropy": 17},
    ):  # fmt: skip
        attempt(cu, fields, whole, texture(flags=NORMALIZED, **fields))


@sequence
def of_memory(cu: Recorder) -> None:
    """Textures of linear and pitched memory: alignment and limits of the memory."""
    memory = cu.memory(1 << 20)
    line = {"type": LINEAR, "handle": memory, "format": FLOAT, "channels": 1, "width": 4096}
    rows = {"type": PITCHED, "handle": memory, "format": FLOAT, "channels": 1, "width": 16, "height": 16, "pitch": 128}
    for fields in (
        {}, {"format": U8}, {"channels": 4}, {"channels": 3}, {"channels": 0}, {"format": 99}, {"handle": memory + 16},
        {"handle": memory + 32}, {"handle": memory + 256}, {"handle": memory + 512}, {"handle": memory + 4},
        {"handle": 0}, {"width": 0}, {"width": 3}, {"width": 5}, {"width": 1 << 20}, {"width": (1 << 20) + 512},
        {"width": 1 << 30}, {"width": (1 << 30) + 4}, {"width": 1 << 31, "channels": 4}, {"flags": 1},
    ):  # fmt: skip
        shown = {name: value - memory if name == "handle" and value else value for name, value in fields.items()}
        made = ResourceDescriptor(**{**line, **fields})
        attempt(cu, shown, made, texture())
    made = ResourceDescriptor(type=LINEAR, handle=memory, format=U8, channels=1, width=4096)
    for fields in (
        {"filter": 1}, {"flags": INTEGER}, {"flags": NORMALIZED}, {"flags": SRGB}, {"modes": (BORDER,) * 3},
        {"modes": (9,) * 3}, {"flags": INTEGER, "filter": 1}, {"filter": 9}, {"anisotropy": 99},
    ):  # fmt: skip
        attempt(cu, fields, made, texture(**fields))
    for fields in (
        {}, {"pitch": 100}, {"pitch": 63}, {"pitch": 64}, {"pitch": 96}, {"pitch": 80}, {"pitch": 32}, {"pitch": 0},
        {"width": 0}, {"height": 0}, {"width": 17}, {"handle": memory + 32}, {"handle": memory + 512},
        {"handle": memory + 256}, {"handle": 0}, {"channels": 3}, {"format": 99}, {"channels": 4},
        {"width": 131072, "pitch": 131072 * 4, "height": 1}, {"width": 131073, "pitch": 131104 * 4, "height": 1},
        {"height": 8192}, {"height": 65000}, {"height": 65001}, {"pitch": 2097120}, {"pitch": 2097152},
        {"height": 8193},
    ):  # fmt: skip
        shown = {name: value - memory if name == "handle" and value else value for name, value in fields.items()}
        made = ResourceDescriptor(**{**rows, **fields})
        attempt(cu, shown, made, texture())
    for fields in ({"filter": 1}, {"flags": NORMALIZED}, {"modes": (WRAP,) * 3}, {"flags": SRGB}):
        attempt(cu, fields, ResourceDescriptor(**rows), texture(**fields))
    stack = ctypes.create_string_buffer(4096)
    made = ResourceDescriptor(type=LINEAR, handle=ctypes.addressof(stack) & -512, format=U8, channels=1, width=512)
    attempt(cu, "host memory", made, texture())
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 4096, 0)
    made = ResourceDescriptor(type=LINEAR, handle=pinned, format=U8, channels=1, width=512)
    attempt(cu, "pinned memory", made, texture())


@sequence
def read_back(cu: Recorder) -> None:
    """The driver returns the descriptions from which a texture was made."""
    handle = array(cu, 16, 16)
    made = cu.prepare(
        "cuTexObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=handle),
        texture(modes=(WRAP, BORDER, MIRROR), filter=1, flags=NORMALIZED, anisotropy=20, mipmap_filter=1, bias=1.5,
                minimum=0.5, maximum=3.0, border=(c_float * 4)(1, 2, 3, 4)), None,
    )  # fmt: skip
    resource, sampling, view = ResourceDescriptor(), TextureDescriptor(), ViewDescriptor()
    cu.call("cuTexObjectGetResourceDesc", resource, made)
    cu.see("resource", [resource.type, resource.handle == handle, resource.format, resource.channels])
    cu.call("cuTexObjectGetTextureDesc", sampling, made)
    cu.see("modes", list(sampling.modes))
    for name in ("filter", "flags", "anisotropy", "mipmap_filter", "bias", "minimum", "maximum"):
        cu.see(name, getattr(sampling, name))
    cu.see("border", list(sampling.border))
    cu.call("cuTexObjectGetResourceViewDesc", view, made)
    memory = cu.memory(1 << 16)
    for descriptor in (
        ResourceDescriptor(type=LINEAR, handle=memory, format=U8, channels=2, width=100),
        ResourceDescriptor(type=PITCHED, handle=memory, format=U8, channels=2, width=10, height=11, pitch=64),
    ):
        made = cu.prepare("cuTexObjectCreate", c_uint64, descriptor, texture(), None)
        resource = ResourceDescriptor()
        cu.call("cuTexObjectGetResourceDesc", resource, made)
        cu.see("resource", [resource.handle == memory, resource.format, resource.channels, resource.width])
        cu.see("rows", [resource.height, resource.pitch])
    cu.call("cuTexObjectGetResourceDesc", None, made)
    cu.call("cuTexObjectGetTextureDesc", None, made)
    cu.call("cuTexObjectGetResourceDesc", ResourceDescriptor(), 0)


@sequence
def surfaces(cu: Recorder) -> None:
    """The arrays from which surfaces can be made."""
    for shape, flags in (
        ((16, 0, 0), SURFACE), ((16, 16, 0), SURFACE), ((16, 16, 4), SURFACE), ((16, 16, 4), SURFACE | LAYERED),
        ((16, 16, 6), SURFACE | CUBE), ((16, 16, 12), SURFACE | CUBE | LAYERED), ((16, 16, 0), 0),
    ):  # fmt: skip
        for number in (U8, HALF, FLOAT):
            handle = array(cu, *shape, flags=flags, format=number)
            made = cu.new("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=handle))
            if made:
                resource = ResourceDescriptor()
                cu.call("cuSurfObjectGetResourceDesc", resource, made)
                cu.see("same", resource.handle == handle)
                cu.call("cuSurfObjectDestroy", made)
    whole = int(cu.prepare("cuMipmappedArrayCreate", c_void_p, described(16, 16, flags=SURFACE), 5))
    part = int(cu.prepare("cuMipmappedArrayGetLevel", c_void_p, whole, 1))
    cu.call("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=OF_MIPMAP, handle=whole))
    cu.call("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=part))
    memory = cu.memory(4096)
    cu.call(
        "cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=LINEAR, handle=memory, format=U8, channels=1, width=64)
    )
    cu.call("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY))
    cu.call("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=9, handle=part))
    cu.call("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=part, flags=1))
    cu.call("cuSurfObjectCreate", c_uint64, None)


@sequence
def destroyed_twice(cu: Recorder) -> None:
    """Textures and surfaces are destroyed twice, or by the function for the other kind of object."""
    handle = array(cu, 16, 16, flags=SURFACE)
    made = cu.prepare("cuTexObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=handle), texture(), None)
    surface = cu.prepare("cuSurfObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=handle))
    cu.call_each(
        ("cuSurfObjectDestroy", made), ("cuTexObjectDestroy", surface), ("cuTexObjectDestroy", made),
        ("cuTexObjectDestroy", made), ("cuSurfObjectDestroy", surface), ("cuSurfObjectDestroy", surface),
        ("cuTexObjectGetResourceDesc", ResourceDescriptor(), made), ("cuTexObjectDestroy", 12345),
        ("cuSurfObjectDestroy", 12345),
    )  # fmt: skip


@sequence
def order_of_ends(cu: Recorder) -> None:
    """An array is destroyed before the texture that uses it."""
    handle = array(cu, 16, 16)
    made = cu.prepare("cuTexObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=handle), texture(), None)
    cu.call("cuArrayDestroy", handle)
    cu.call("cuTexObjectDestroy", made)


@sequence
def in_captures(cu: Recorder) -> None:
    """Textures are created and destroyed during a capture."""
    resource = ResourceDescriptor(type=OF_ARRAY, handle=array(cu, 16, 16, flags=SURFACE))
    made = cu.prepare("cuTexObjectCreate", c_uint64, resource, texture(), None)
    surface = cu.prepare("cuSurfObjectCreate", c_uint64, resource)
    refused(cu, "cuTexObjectCreate", c_uint64, resource, texture(), None)
    refused(cu, "cuSurfObjectCreate", c_uint64, resource)
    refused(cu, "cuTexObjectGetResourceDesc", ResourceDescriptor(), made)
    refused(cu, "cuTexObjectDestroy", made)
    refused(cu, "cuSurfObjectDestroy", surface)


@sequence
def limits(cu: Recorder) -> None:
    """The largest number of texels of a linear texture, for each format."""
    for number, channels in ((U8, 1), (U8, 4), (FLOAT, 1), (FLOAT, 4), (HALF, 2)):
        cu.read("cuDeviceGetTexture1DLinearMaxWidth", c_size_t, number, channels, 0)
    cu.call("cuDeviceGetTexture1DLinearMaxWidth", c_size_t, 99, 1, 0)
    cu.call("cuDeviceGetTexture1DLinearMaxWidth", c_size_t, U8, 3, 0)
    cu.call("cuDeviceGetTexture1DLinearMaxWidth", None, U8, 1, 0)
    cu.prepare("cuCtxSetCurrent", None)
    cu.call("cuTexObjectCreate", c_uint64, ResourceDescriptor(type=OF_ARRAY, handle=1), texture(), None)
    cu.call("cuTexObjectDestroy", 1)
