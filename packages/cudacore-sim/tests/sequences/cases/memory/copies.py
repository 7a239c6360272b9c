# SPDX-License-Identifier: Apache-2.0
"""Copies and fills of one, two and three dimensions."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from recorder import Recorder, sequence
from structs import UNIFIED, Copy2D, Copy3D, Location, set_operand

NON_BLOCKING = 1


def numbers(count: int) -> Any:
    """Return host memory that holds 0, 1, 2..."""
    return (ctypes.c_ubyte * count)(*(place & 255 for place in range(count)))


@sequence
def there_and_back(cu: Recorder) -> None:
    """Bytes are copied to the device, on the device, and back."""
    first, second = cu.memory(64, 0), cu.memory(64, 0)
    data, back = numbers(64), (ctypes.c_ubyte * 64)()
    cu.call("cuMemcpyHtoD_v2", first, data, 64)
    cu.call("cuMemcpyDtoD_v2", second + 3, first + 1, 20)
    cu.call("cuMemcpyDtoH_v2", back, second, 64)
    cu.see("back", bytes(back).hex())
    cu.call("cuMemcpy", second, first, 8)
    cu.call("cuMemcpy", ctypes.addressof(back), second, 64)
    cu.see("back", bytes(back).hex())
    cu.call("cuMemcpy", ctypes.addressof(back), ctypes.addressof(data), 64)
    cu.see("back", bytes(back) == bytes(data))


@sequence
def nothing(cu: Recorder) -> None:
    """Copies and fills of zero bytes, including from and to NULL."""
    address, data = cu.memory(64), numbers(4)
    cu.call_each(
        ("cuMemcpyHtoD_v2", address, data, 0), ("cuMemcpyHtoD_v2", 0, data, 0), ("cuMemcpyHtoD_v2", address, None, 0),
        ("cuMemcpyDtoH_v2", data, 0, 0), ("cuMemcpyDtoD_v2", 0, 0, 0), ("cuMemcpy", 0, 0, 0),
        ("cuMemcpyAsync", address, address, 0, None), ("cuMemsetD8_v2", address, 1, 0), ("cuMemsetD8_v2", 0, 1, 0),
        ("cuMemsetD32_v2", address + 1, 1, 0), ("cuMemsetD2D8_v2", address, 8, 1, 0, 4),
        ("cuMemsetD2D8_v2", address, 8, 1, 4, 0), ("cuCtxSynchronize",),
    )  # fmt: skip


@sequence
def null(cu: Recorder) -> None:
    """Copies from and to NULL, and fills at NULL."""
    address, data = cu.memory(64), numbers(16)
    cu.call_each(
        ("cuMemcpyHtoD_v2", address, None, 16), ("cuMemcpyHtoD_v2", 0, data, 16),
        ("cuMemcpyDtoH_v2", None, address, 16), ("cuMemcpyDtoH_v2", data, 0, 16), ("cuMemcpyDtoD_v2", address, 0, 16),
        ("cuMemcpyDtoD_v2", 0, address, 16), ("cuMemsetD8_v2", 0, 0, 16), ("cuMemsetD8Async", 0, 0, 16, None),
        ("cuMemcpyHtoDAsync_v2", 0, data, 16, None), ("cuMemcpyDtoHAsync_v2", data, 0, 16, None), ("cuCtxSynchronize",),
    )  # fmt: skip


@sequence
def past_the_end(cu: Recorder) -> None:
    """Copies and fills that begin in an allocation and end beyond it."""
    address, data = cu.memory(4 << 20), numbers(16)
    cu.call("cuMemcpyHtoD_v2", address + (4 << 20) - 8, data, 16)
    cu.call("cuMemcpyDtoH_v2", data, address + (4 << 20) - 8, 16)
    cu.call("cuMemsetD8_v2", address, 0, (4 << 20) + 1)
    cu.call("cuMemsetD32_v2", address, 0, (1 << 20) + 1)
    cu.call("cuMemsetD2D8_v2", address, 1 << 20, 0, 16, 5)
    cu.call("cuMemcpyDtoD_v2", address, cu.memory(64), 4 << 20)
    cu.call("cuMemcpyHtoD_v2", address - 8, data, 4)
    cu.call("cuMemcpyDtoH_v2", data, 0x1234_5678_9000, 8)
    cu.call("cuMemsetD8_v2", 0x1234_5678_9000, 0, 8)
    cu.call("cuCtxSynchronize")


@sequence
def wrong_direction(cu: Recorder) -> None:
    """A function for one direction is called with addresses for the other direction."""
    address, other = cu.memory(64, 1), cu.memory(64, 2)
    data = numbers(16)
    host = ctypes.addressof(data)
    cu.call("cuMemcpyHtoD_v2", address, other, 16)
    cu.call("cuMemcpyDtoH_v2", address, other, 16)
    cu.call("cuMemcpyDtoD_v2", address, host, 16)
    cu.call("cuMemcpyHtoD_v2", host, data, 16)
    cu.call("cuMemsetD8_v2", host, 0, 16)
    cu.call("cuCtxSynchronize")


@sequence
def fills(cu: Recorder) -> None:
    """Fills with values of one, two and four bytes."""
    address = cu.memory(32, 0)
    cu.call("cuMemsetD8_v2", address + 1, 0x1FE, 3)
    cu.call("cuMemsetD16_v2", address + 8, 0x12345, 3)
    cu.call("cuMemsetD32_v2", address + 16, 0xDEADBEEF, 3)
    cu.see_bytes("bytes", address, 32)
    cu.call("cuMemsetD16_v2", address + 1, 1, 1)
    cu.call("cuMemsetD32_v2", address + 2, 1, 1)
    cu.call("cuMemsetD16Async", address + 1, 1, 1, None)
    cu.call("cuMemsetD32Async", address + 1, 1, 1, None)
    cu.see_bytes("bytes", address, 32)


@sequence
def fills_of_rows(cu: Recorder) -> None:
    """Fills of rows, which do not change the bytes between the rows."""
    address = cu.memory(64, 0)
    cu.call("cuMemsetD2D8_v2", address, 16, 1, 3, 2)
    cu.call("cuMemsetD2D16_v2", address + 32, 8, 2, 2, 2)
    cu.call("cuMemsetD2D32_v2", address + 48, 8, 3, 1, 2)
    cu.see_bytes("bytes", address, 64)
    cu.call("cuMemsetD2D8_v2", address, 2, 1, 3, 2)
    cu.call("cuMemsetD2D8_v2", address, 0, 1, 3, 1)
    cu.call("cuMemsetD2D8_v2", address, 2, 1, 3, 1)
    cu.call("cuMemsetD2D16_v2", address, 7, 1, 2, 2)
    cu.call("cuMemsetD2D16_v2", address + 1, 8, 1, 2, 2)
    cu.call("cuMemsetD2D32_v2", address, 10, 1, 1, 2)
    cu.call("cuMemsetD2D32_v2", address + 2, 8, 1, 1, 2)
    cu.call("cuMemsetD2D8Async", address, 16, 9, 2, 2, None)
    cu.see_bytes("bytes", address, 64)


def described(copy: Any, source: Any, target: Any, fields: dict[str, int]) -> Any:
    """Set the source, the target and other fields of a copy, and return it. An int is a device address."""
    set_operand(copy, "src", source)
    set_operand(copy, "dst", target)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def rows(source: Any, target: Any, **fields: int) -> Any:
    """Return the description of a copy of rows. A device address is given as an int."""
    return described(Copy2D(WidthInBytes=4, Height=3, srcPitch=8, dstPitch=8), source, target, fields)


def slices(source: Any, target: Any, **fields: int) -> Any:
    """Return the description of a copy of slices. A device address is given as an int."""
    copy = Copy3D(WidthInBytes=2, Height=2, Depth=2, srcPitch=4, dstPitch=4, srcHeight=4, dstHeight=3)
    return described(copy, source, target, fields)


@sequence
def copies_of_rows(cu: Recorder) -> None:
    """Rows are copied to the places that their pitch and offsets determine."""
    address, other, data = cu.memory(64, 0), cu.memory(64, 0), numbers(64)
    cu.call("cuMemcpy2D_v2", rows(data, address, srcXInBytes=1, srcY=1, dstPitch=16))
    cu.see_bytes("bytes", address, 64)
    cu.call("cuMemcpy2DAsync_v2", rows(address, other, srcPitch=16, dstXInBytes=2, dstY=1), None)
    cu.call("cuMemcpy2DUnaligned_v2", rows(address, other + 40, srcPitch=16, WidthInBytes=3))
    cu.see_bytes("bytes", other, 64)
    back = (ctypes.c_ubyte * 64)()
    cu.call("cuMemcpy2D_v2", rows(other, back, Height=8))
    cu.see("back", bytes(back).hex())
    unified = Copy2D(
        WidthInBytes=4, Height=2, srcMemoryType=UNIFIED, dstMemoryType=UNIFIED, srcDevice=ctypes.addressof(data),
        dstDevice=address, srcPitch=4, dstPitch=4,
    )  # fmt: skip
    cu.call("cuMemcpy2D_v2", unified)
    cu.see_bytes("bytes", address, 8)


@sequence
def row_arguments(cu: Recorder) -> None:
    """Pitches, widths and kinds of memory that a copy of rows cannot have."""
    address, data = cu.memory(64, 0), numbers(64)
    for fields in (
        {"srcPitch": 2}, {"dstPitch": 3}, {"srcPitch": 0}, {"dstPitch": 0, "Height": 1}, {"srcPitch": 0, "Height": 1},
        {"WidthInBytes": 0}, {"Height": 0}, {"srcMemoryType": 0}, {"dstMemoryType": 9}, {"dstDevice": 0},
        {"dstXInBytes": 6},
    ):  # fmt: skip
        cu.see("with", fields)
        cu.call("cuMemcpy2D_v2", rows(data, address, **fields))
        cu.call("cuMemcpy2DAsync_v2", rows(data, address, **fields), None)
    cu.call("cuMemcpy2D_v2", None)
    cu.call("cuMemcpy2DAsync_v2", None, None)
    cu.call("cuCtxSynchronize")


@sequence
def copies_of_slices(cu: Recorder) -> None:
    """Slices are copied to the places that their pitch, height and offsets determine."""
    address, other, data = cu.memory(64, 0), cu.memory(64, 0), numbers(64)
    cu.call("cuMemcpy3D_v2", slices(data, address, srcXInBytes=1, srcY=1, srcZ=1))
    cu.see_bytes("bytes", address, 64)
    cu.call("cuMemcpy3DAsync_v2", slices(address, other, srcHeight=3, dstZ=1, dstXInBytes=1), None)
    cu.see_bytes("bytes", other, 64)
    back = (ctypes.c_ubyte * 64)()
    cu.call("cuMemcpy3D_v2", slices(other, back, srcHeight=3, Depth=3))
    cu.see("back", bytes(back).hex())


@sequence
def slice_arguments(cu: Recorder) -> None:
    """Pitches, heights and sizes that a copy of slices cannot have."""
    address, data = cu.memory(64, 0), numbers(64)
    for fields in (
        {"srcPitch": 1}, {"dstPitch": 1}, {"srcHeight": 1}, {"dstHeight": 1}, {"srcHeight": 0},
        {"dstHeight": 0, "Depth": 1},
        {"srcHeight": 0, "Depth": 1}, {"WidthInBytes": 0}, {"Height": 0}, {"Depth": 0}, {"srcMemoryType": 0},
        {"dstMemoryType": 9},
        {"srcHost": 0}, {"dstDevice": 0}, {"srcLevel": 1}, {"dstLevel": 1}, {"srcContext": 8}, {"srcPitch": 0},
        {"dstPitch": 0},
    ):  # fmt: skip
        cu.see("with", fields)
        cu.call("cuMemcpy3D_v2", slices(data, address, **fields))
    cu.call("cuMemcpy3D_v2", None)
    cu.call("cuMemcpy3DAsync_v2", None, None)
    cu.call("cuCtxSynchronize")


@sequence
def peers(cu: Recorder) -> None:
    """Copies by cuMemcpyPeer: between two contexts of one device, and within a context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    address, stream = cu.memory(64, 3), cu.stream()
    created = cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    other = cu.memory(64, 4)
    cu.prepare("cuCtxSetCurrent", primary)
    cu.call("cuMemcpyPeer", other, created, address, primary, 8)
    cu.see_bytes("bytes", other, 16)
    cu.call("cuMemcpyPeerAsync", other, created, address, primary, 12, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see_bytes("bytes", other, 16)
    cu.call("cuMemcpyPeer", address, primary, address + 32, primary, 8)
    cu.call("cuMemcpyPeer", 0, created, address, primary, 8)
    cu.call("cuMemcpyPeer", other, created, address, primary, 0)
    cu.call("cuMemcpy3DPeer", slices(address, other, srcContext=primary, dstContext=created))
    cu.see_bytes("bytes", other, 24)


@sequence
def asynchronous(cu: Recorder) -> None:
    """Asynchronous copies from pinned memory read the memory when the copy runs."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(4, 0)
    host = cu.prepare("cuMemHostAlloc", c_void_p, 8, 0)
    word = ctypes.c_uint32.from_address(host)
    word.value = 1
    with cu.gate(stream):
        cu.call("cuMemcpyHtoDAsync_v2", address, host, 4, stream)
        word.value = 2
        cu.call("cuMemcpyAsync", host + 4, address, 4, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see("copied", ctypes.c_uint32.from_address(host + 4).value)


@sequence
def pageable(cu: Recorder) -> None:
    """An asynchronous copy from pageable memory has read all bytes when the call returns."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(64, 0)
    data = numbers(64)
    cu.call("cuMemcpyHtoDAsync_v2", address, data, 64, stream)
    ctypes.memset(data, 0, 64)
    cu.call("cuStreamSynchronize", stream)
    cu.see_bytes("bytes", address, 16)
    back = (ctypes.c_ubyte * 64)()
    cu.call("cuMemcpyDtoHAsync_v2", back, address, 64, stream)
    cu.see("back", bytes(back[:16]).hex())


class CopyAttributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = [("order", c_int), ("source", Location), ("target", Location), ("flags", ctypes.c_uint)]


@sequence
def batches(cu: Recorder) -> None:
    """Several copies by one call (cuMemcpyBatchAsync), which does not accept the legacy stream."""
    stream, data = cu.stream(), numbers(16)
    first, second = cu.memory(16, 0), cu.memory(16, 0)
    targets = (c_uint64 * 2)(first, second + 4)
    sources = (c_uint64 * 2)(ctypes.addressof(data), ctypes.addressof(data) + 8)
    sizes = (c_size_t * 2)(8, 4)
    attributes = (CopyAttributes * 1)(CopyAttributes(order=1))
    places = (c_size_t * 1)(0)
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 1, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see_bytes("first", first, 16)
    cu.see_bytes("second", second, 16)
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 1, None)
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 0, attributes, places, 1, stream)
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 0, stream)
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 3, stream)
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, None, None, 1, stream)
    cu.call("cuMemcpyBatchAsync_v2", None, sources, sizes, 2, attributes, places, 1, stream)
    attributes[0].order = 0
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 1, stream)
    attributes[0].order = 1
    places[0] = 1
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 1, stream)
    places[0] = 0
    sizes[1] = 0
    cu.call("cuMemcpyBatchAsync_v2", targets, sources, sizes, 2, attributes, places, 1, stream)
    cu.call("cuStreamSynchronize", stream)
