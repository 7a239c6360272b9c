# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays: their options, their descriptors, and copies from and to arrays."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_void_p
from typing import Any

from recorder import Recorder, sequence
from structs import Array3DDescriptor, ArrayDescriptor, Copy2D, Copy3D, set_operand

U8, U16, U32, S8, S16, S32, HALF, FLOAT = 1, 2, 3, 8, 9, 10, 16, 32
LAYERED, SURFACE, CUBE, GATHER, DEPTH, COLOR = 1, 2, 4, 8, 16, 32


def described(width: int, height: int = 0, depth: int = 0, **fields: int) -> Array3DDescriptor:
    """Return the descriptor of an array. By default, the format is float."""
    return Array3DDescriptor(width, height, depth, **{"format": FLOAT, "channels": 1, **fields})


def array(cu: Recorder, width: int, height: int = 0, depth: int = 0, **fields: int) -> int:
    """Create an array."""
    return int(cu.prepare("cuArray3DCreate_v2", c_void_p, described(width, height, depth, **fields)))


def attempt(cu: Recorder, descriptor: Array3DDescriptor, levels: int | None = None) -> None:
    """List whether an array can be created; if so, destroy the array."""
    if levels is None:
        code, made = cu.silent("cuArray3DCreate_v2", c_void_p, descriptor)
    else:
        code, made = cu.silent("cuMipmappedArrayCreate", c_void_p, descriptor, levels)
    shown = [getattr(descriptor, name) for name in ("width", "height", "depth", "format", "channels", "flags")]
    cu.see(f"{shown}{'' if levels is None else f' levels {levels}'}", code)
    if code == "CUDA_SUCCESS":
        cu.prepare("cuArrayDestroy" if levels is None else "cuMipmappedArrayDestroy", made)


@sequence
def formats(cu: Recorder) -> None:
    """The formats and numbers of channels that an array can have."""
    for number in (*range(0x22), 0x51, 0xA0, 0xCC, 1000):
        for channels in (1, 2, 4):
            attempt(cu, described(16, 16, format=number, channels=channels))
    for channels in (0, 3, 5, 8):
        attempt(cu, described(16, format=U8, channels=channels))


@sequence
def extents(cu: Recorder) -> None:
    """The extents that an array can have, for each combination of flags."""
    for shape in (
        (0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1), (0, 1, 0), (0, 0, 1), (131072, 0, 0), (131073, 0, 0),
        (131072, 1, 0), (131073, 1, 0), (1, 65536, 0), (1, 65537, 0), (16384, 1, 1), (16385, 1, 1), (1, 16384, 1),
        (1, 16385, 1), (1, 1, 16384), (1, 1, 16385), (1, 1, 32768), (1, 1, 32769), (8192, 1, 32768), (8193, 1, 32768),
        (1, 8193, 16385), (1 << 40, 0, 0), (1 << 40, 1 << 40, 0), (131072, 65536, 0),
    ):  # fmt: skip
        attempt(cu, described(*shape, format=U8))
    for flags in (SURFACE, LAYERED, LAYERED | SURFACE, CUBE, CUBE | SURFACE, CUBE | LAYERED, GATHER):
        for shape in (
            (1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1), (0, 0, 1), (32768, 0, 0), (32769, 0, 0), (131072, 1, 0),
            (131073, 1, 0), (1, 65536, 0), (1, 65537, 0), (32768, 0, 1), (32769, 0, 1), (1, 0, 2048), (1, 0, 2049),
            (32768, 1, 1), (32769, 1, 1), (1, 32768, 1), (1, 32769, 1), (1, 1, 2048), (1, 1, 2049), (32768, 1, 0),
            (32769, 1, 0), (1, 32768, 0), (1, 32769, 0), (4, 4, 6), (4, 5, 6), (4, 4, 5), (4, 4, 7), (4, 4, 12),
            (1, 1, 2046), (1, 1, 2052), (4, 0, 6), (32768, 32768, 6), (32769, 32769, 6), (16384, 1, 1), (16385, 1, 1),
            (1, 1, 16385),
        ):  # fmt: skip
            if shape[0] * max(shape[1], 1) < 1 << 26:
                attempt(cu, described(*shape, format=U8, flags=flags))
    for flags in (DEPTH, COLOR, 512, 1 << 20, CUBE | GATHER, LAYERED | GATHER, SURFACE | GATHER):
        attempt(cu, described(64, 64, format=FLOAT, flags=flags))
        attempt(cu, described(64, 64, 6, format=FLOAT, flags=flags))


@sequence
def levels(cu: Recorder) -> None:
    """The numbers of levels that a mipmapped array can have, and the largest extents."""
    for shape, flags in (
        ((16, 0, 0), 0), ((16, 12, 0), 0), ((9, 5, 3), 0), ((1, 1, 1), 0), ((16, 0, 3), LAYERED), ((4, 4, 6), CUBE),
        ((4, 4, 12), CUBE | LAYERED), ((16, 12, 0), SURFACE), ((2, 2, 64), LAYERED), ((1, 1, 64), 0),
        ((16, 12, 0), GATHER),
    ):  # fmt: skip
        for count in (0, 1, 2, 3, 4, 5, 6, 7, 8, 100):
            attempt(cu, described(*shape, flags=flags), count)
    for shape in (
        (32768, 0, 0), (32769, 0, 0), (32768, 1, 0), (32769, 1, 0), (1, 32769, 0), (16384, 1, 1), (16385, 1, 1),
        (0, 0, 0), (0, 1, 0), (1, 0, 1),
    ):  # fmt: skip
        attempt(cu, described(*shape, format=U8), 1)
    made = int(cu.prepare("cuMipmappedArrayCreate", c_void_p, described(9, 5, 3, flags=SURFACE, channels=2), 4))
    for level in (0, 1, 2, 3, 4, 1 << 31):
        part = cu.new("cuMipmappedArrayGetLevel", c_void_p, made, level)
        if level < 4:
            descriptor = Array3DDescriptor()
            cu.call("cuArray3DGetDescriptor_v2", descriptor, part)
            cu.see("is", [getattr(descriptor, name) for name, _ in Array3DDescriptor._fields_])
    again = cu.prepare("cuMipmappedArrayGetLevel", c_void_p, made, 1)
    cu.see("the same", again == cu.prepare("cuMipmappedArrayGetLevel", c_void_p, made, 1))
    cu.call_each(
        ("cuMipmappedArrayGetLevel", None, made, 0), ("cuMipmappedArrayGetLevel", c_void_p, None, 0),
        ("cuMipmappedArrayCreate", None, described(4), 1), ("cuMipmappedArrayCreate", c_void_p, None, 1),
        ("cuArrayDestroy", again), ("cuMipmappedArrayDestroy", made), ("cuMipmappedArrayDestroy", None),
    )  # fmt: skip


@sequence
def descriptors(cu: Recorder) -> None:
    """The descriptors that the driver returns for arrays."""
    for shape, fields in (
        ((16, 0, 0), {}), ((16, 12, 0), {"format": U8, "channels": 4}), ((4, 3, 2), {"format": HALF, "channels": 2}),
        ((8, 0, 3), {"flags": LAYERED}), ((8, 8, 6), {"flags": CUBE}), ((8, 8, 0), {"flags": SURFACE | GATHER}),
        ((7, 1, 1), {}), ((7, 1, 0), {}),
    ):  # fmt: skip
        made = array(cu, *shape, **fields)
        three, two = Array3DDescriptor(), ArrayDescriptor()
        cu.call("cuArray3DGetDescriptor_v2", three, made)
        cu.see("is", [getattr(three, name) for name, _ in Array3DDescriptor._fields_])
        cu.call("cuArrayGetDescriptor_v2", two, made)
        cu.see("is", [getattr(two, name) for name, _ in ArrayDescriptor._fields_])
        cu.call("cuArrayDestroy", made)
    for shape in ((16, 0), (16, 5), (0, 5), (131072, 0), (131073, 0), (131073, 1)):
        code, made = cu.silent("cuArrayCreate_v2", c_void_p, ArrayDescriptor(*shape, U8, 1))
        cu.see(str(shape), code)
    cu.call("cuArrayCreate_v2", c_void_p, ArrayDescriptor(4, 4, 99, 1))
    cu.call("cuArrayCreate_v2", c_void_p, ArrayDescriptor(4, 4, U8, 3))
    cu.call("cuArrayCreate_v2", None, ArrayDescriptor(4, 4, U8, 1))
    cu.call("cuArrayCreate_v2", c_void_p, None)
    cu.call("cuArray3DCreate_v2", None, described(4))
    cu.call("cuArray3DCreate_v2", c_void_p, None)
    cu.call("cuArrayDestroy", None)
    cu.call("cuArray3DGetDescriptor_v2", Array3DDescriptor(), None)
    cu.call("cuArrayGetDescriptor_v2", ArrayDescriptor(), None)
    made = array(cu, 4)
    cu.call("cuArray3DGetDescriptor_v2", None, made)
    cu.call("cuArrayGetDescriptor_v2", None, made)
    cu.call("cuArrayGetPlane", c_void_p, made, 0)


@sequence
def without_context(cu: Recorder) -> None:
    """Functions for arrays, called without a current context."""
    made = array(cu, 16)
    cu.prepare("cuCtxSetCurrent", None)
    cu.call("cuArray3DCreate_v2", c_void_p, described(16))
    cu.call("cuArrayCreate_v2", c_void_p, ArrayDescriptor(16, 0, U8, 1))
    cu.call("cuMipmappedArrayCreate", c_void_p, described(16), 1)
    cu.call("cuArray3DGetDescriptor_v2", Array3DDescriptor(), made)
    cu.call("cuMemcpyAtoH_v2", (ctypes.c_ubyte * 64)(), made, 0, 4)
    cu.call("cuArrayDestroy", made)


def copied(source: Any, target: Any, kind: Any = Copy3D, **fields: int) -> Any:
    """Return the description of a copy.

    An operand is an array (a tuple of its handle), a device address (an int) or host memory.
    """
    copy = kind(WidthInBytes=8, Height=2)
    if kind is Copy3D:
        copy.Depth = 1
    for side, where in (("src", source), ("dst", target)):
        set_operand(copy, side, where)
        if isinstance(where, tuple):
            continue
        setattr(copy, f"{side}Pitch", 16)
        if kind is Copy3D:
            setattr(copy, f"{side}Height", 4)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def numbers(count: int) -> Any:
    """Return host memory that holds 0, 1, 2..."""
    return (ctypes.c_ubyte * count)(*(place & 255 for place in range(count)))


@sequence
def copies(cu: Recorder) -> None:
    """Bytes are copied to an array, within the array, and back, with offsets in bytes and rows."""
    made, other = (array(cu, 4, 4, format=U32),), (array(cu, 4, 4, format=U32),)
    data, address, stream = numbers(64), cu.memory(64, 0), cu.stream()
    back = (ctypes.c_ubyte * 64)()

    def see(what: tuple[int]) -> None:
        ctypes.memset(back, 0xEE, 64)
        cu.call("cuMemcpy2D_v2", copied(what, back, Copy2D, WidthInBytes=16, Height=4))
        cu.see("array", bytes(back).hex())

    cu.call("cuMemcpy2D_v2", copied(data, made, Copy2D, WidthInBytes=16, Height=4))
    see(made)
    cu.call("cuMemcpy2D_v2", copied(data, made, Copy2D, dstXInBytes=4, dstY=1))
    see(made)
    cu.call("cuMemcpy3D_v2", copied(made, other, WidthInBytes=16, Height=4))
    see(other)
    cu.call("cuMemcpy3D_v2", copied(made, other, srcXInBytes=8, dstY=2))
    see(other)
    cu.call("cuMemcpy2DAsync_v2", copied(made, address, Copy2D), stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see_bytes("memory", address, 64)
    cu.call("cuMemcpy3DAsync_v2", copied(address, other, dstXInBytes=4), stream)
    cu.call("cuStreamSynchronize", stream)
    see(other)
    cu.call("cuMemcpy2DUnaligned_v2", copied(data, made, Copy2D))
    see(made)
    cu.call("cuMemcpyHtoA_v2", made[0], 0, data, 8)
    cu.call("cuMemcpyDtoA_v2", made[0], 8, address, 8)
    cu.call("cuMemcpyAtoA_v2", made[0], 4, other[0], 0, 4)
    see(made)
    cu.call("cuMemcpyAtoH_v2", back, made[0], 4, 8)
    cu.see("host", bytes(back[:8]).hex())
    cu.call("cuMemcpyAtoD_v2", address, made[0], 0, 12)
    cu.call("cuMemcpyHtoAAsync_v2", made[0], 0, data, 4, stream)
    cu.call("cuMemcpyAtoHAsync_v2", back, made[0], 0, 4, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see("host", bytes(back[:8]).hex())
    cu.see_bytes("memory", address, 16)


@sequence
def arguments_of_copies(cu: Recorder) -> None:
    """Offsets and extents that copies of arrays cannot have."""
    made, data = (array(cu, 4, 4, format=U32, channels=2),), numbers(256)
    deep, line = (array(cu, 4, 4, 3, format=U32),), (array(cu, 8, format=U32),)
    layers = (array(cu, 4, 4, 3, format=U32, flags=LAYERED),)
    for target, kind, fields in (
        (made, Copy2D, {}), (made, Copy2D, {"WidthInBytes": 4}), (made, Copy2D, {"WidthInBytes": 3}),
        (made, Copy2D, {"dstXInBytes": 4}), (made, Copy2D, {"dstXInBytes": 2}),
        (made, Copy2D, {"WidthInBytes": 32, "srcPitch": 32}), (made, Copy2D, {"WidthInBytes": 40, "srcPitch": 40}),
        (made, Copy2D, {"dstXInBytes": 32}), (made, Copy2D, {"dstXInBytes": 24}), (made, Copy2D, {"dstY": 3}),
        (made, Copy2D, {"dstY": 2}), (made, Copy2D, {"Height": 5}), (made, Copy2D, {"Height": 0}),
        (made, Copy2D, {"WidthInBytes": 0}), (made, Copy2D, {"dstArray": 0}), (made, Copy2D, {"srcPitch": 0}),
        (made, Copy2D, {"srcPitch": 4}), (made, Copy2D, {"dstPitch": 4}),
        (deep, Copy3D, {"Depth": 3}), (deep, Copy3D, {"Depth": 4}), (deep, Copy3D, {"dstZ": 2}),
        (deep, Copy3D, {"dstZ": 3}), (deep, Copy3D, {"Depth": 2, "dstZ": 2}), (deep, Copy3D, {"dstHeight": 1}),
        (deep, Copy3D, {"Depth": 0}), (deep, Copy3D, {"dstLevel": 1}), (deep, Copy2D, {}),
        (deep, Copy2D, {"Height": 4}), (line, Copy2D, {"Height": 1}), (line, Copy2D, {}),
        (line, Copy2D, {"Height": 1, "dstY": 1}), (line, Copy3D, {"Height": 1}),
        (line, Copy3D, {"Height": 1, "Depth": 0}),
        (layers, Copy3D, {"Depth": 3}), (layers, Copy3D, {"Depth": 4}), (layers, Copy3D, {"dstZ": 2}),
        (layers, Copy2D, {}),
    ):  # fmt: skip
        name = "cuMemcpy2D_v2" if kind is Copy2D else "cuMemcpy3D_v2"
        cu.see("with", fields)
        cu.call(name, copied(data, target, kind, **fields))
        cu.call(name.replace("_v2", "Async_v2"), copied(data, target, kind, **fields), None)
    for offset, size in ((0, 32), (0, 33), (0, 40), (8, 32), (32, 8), (2, 4), (0, 0), (0, 3), (1 << 33, 4)):
        cu.see("line", [offset, size])
        cu.call("cuMemcpyHtoA_v2", line[0], offset, data, size)
        cu.call("cuMemcpyAtoH_v2", data, line[0], offset, size)
    for offset, size in ((0, 64), (0, 40), (32, 8), (64, 32), (120, 8), (120, 16)):
        cu.see("rows", [offset, size])
        cu.call("cuMemcpyHtoA_v2", made[0], offset, data, size)
    cu.call("cuMemcpyHtoA_v2", None, 0, data, 4)
    cu.call("cuMemcpyAtoH_v2", None, line[0], 0, 4)
    cu.call("cuMemcpyHtoA_v2", deep[0], 0, data, 4)


@sequence
def captured(cu: Recorder) -> None:
    """Copies of arrays in a capture, and as nodes."""
    made, data = (array(cu, 4, 4, format=U32),), cu.memory(64, 5)
    host = cu.prepare("cuMemHostAlloc", c_void_p, 64, 0)
    pinned = (ctypes.c_ubyte * 64).from_address(host)
    stream = cu.stream(1)
    cu.call("cuStreamBeginCapture_v2", stream, 1)
    cu.call("cuMemcpy3DAsync_v2", copied(data, made), stream)
    cu.call("cuMemcpy2DAsync_v2", copied(made, pinned, Copy2D), stream)
    cu.call("cuMemcpyHtoAAsync_v2", made[0], 0, host, 8, stream)
    graph = cu.new("cuStreamEndCapture", stream, c_void_p)
    if graph:
        nodes = (c_void_p * 8)()
        count = c_size_t(8)
        cu.call("cuGraphGetNodes", graph, nodes, count)
        cu.see("nodes", count.value)
        for node in nodes[: count.value]:
            seen = Copy3D()
            cu.call("cuGraphMemcpyNodeGetParams", node, seen)
            cu.see("copy", [seen.srcMemoryType, seen.dstMemoryType, seen.WidthInBytes, seen.Height, seen.Depth])
            cu.see("pitches", [seen.srcPitch, seen.dstPitch])
        executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
        cu.call("cuGraphLaunch", executable, stream)
        cu.call("cuStreamSynchronize", stream)
        cu.see("host", bytes(pinned[:24]).hex())
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    graph = cu.prepare("cuGraphCreate", c_void_p, 0)
    cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, copied(data, made), context)
    cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, copied(data, made, dstXInBytes=12), context)
    cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, copied(data, made, Height=5), context)


def refused(cu: Recorder, name: str, *arguments: Any) -> None:
    """Make a call while a stream captures in global mode, and list whether the capture is still valid."""
    stream = cu.stream(1)
    cu.prepare("cuStreamBeginCapture_v2", stream, 0)
    cu.call(name, *arguments)
    cu.read("cuStreamIsCapturing", stream, c_int)
    cu.attempt("cuStreamEndCapture", stream, c_void_p)


@sequence
def captures_refuse(cu: Recorder) -> None:
    """The calls for arrays that a capture in global mode allows."""
    made, levels = array(cu, 4, 4), cu.prepare("cuMipmappedArrayCreate", c_void_p, described(4), 1)
    refused(cu, "cuArray3DCreate_v2", c_void_p, described(4))
    refused(cu, "cuArrayCreate_v2", c_void_p, ArrayDescriptor(4, 4, U8, 1))
    refused(cu, "cuMipmappedArrayCreate", c_void_p, described(4), 1)
    refused(cu, "cuArray3DGetDescriptor_v2", Array3DDescriptor(), made)
    refused(cu, "cuMipmappedArrayGetLevel", c_void_p, levels, 0)
    refused(cu, "cuArrayDestroy", made)
    refused(cu, "cuMipmappedArrayDestroy", levels)


@sequence
def of_other_contexts(cu: Recorder) -> None:
    """An array is used while its context is not current, and is destroyed with its context."""
    context = cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    made = array(cu, 4, 4)
    cu.use_primary_context()
    cu.call("cuArray3DGetDescriptor_v2", Array3DDescriptor(), made)
    cu.call("cuMemcpy2D_v2", copied(numbers(64), (made,), Copy2D))
    cu.call("cuArrayDestroy", made)
    cu.prepare("cuCtxSetCurrent", context)
    array(cu, 4, 4)
    cu.call("cuCtxDestroy_v2", context)


@sequence
def memory_of_arrays(cu: Recorder) -> None:
    """An array reduces the free memory of the device."""
    free = cu.prepare("cuMemGetInfo_v2", c_size_t, c_size_t)[0]
    made = array(cu, 4096, 4096, channels=4)
    less = cu.prepare("cuMemGetInfo_v2", c_size_t, c_size_t)[0]
    cu.see("at least its size", free - less >= 4096 * 4096 * 16)
    cu.prepare("cuArrayDestroy", made)
    cu.call("cuArray3DCreate_v2", c_void_p, described(131072, 65536, channels=4))
    cu.call("cuArray3DCreate_v2", c_void_p, described(16384, 16384, 16384, channels=4))
