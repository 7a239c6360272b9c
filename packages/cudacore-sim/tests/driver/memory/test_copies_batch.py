# SPDX-License-Identifier: Apache-2.0
"""Copies with attributes, and batches of three-dimensional copies."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

INVALID_VALUE = 1
IN_ORDER, DURING_CALL = 1, 2
POINTER, ARRAY = 1, 2


class Attributes(ctypes.Structure):
    """``CUmemcpyAttributes``."""

    _fields_ = (("order", c_int), ("source", c_int * 2), ("target", c_int * 2), ("flags", c_uint))


class Operand(ctypes.Structure):
    """``CUmemcpy3DOperand``: an address, a row's length and a layer's height; or an array and an offset of three."""

    _fields_ = (("type", c_int), ("fields", c_uint64 * 4))


class Operation(ctypes.Structure):
    """``CUDA_MEMCPY3D_BATCH_OP``."""

    _fields_ = (("src", Operand), ("dst", Operand), ("extent", c_size_t * 3), ("order", c_int), ("flags", c_uint))


class ArrayDescriptor(ctypes.Structure):
    """``CUDA_ARRAY3D_DESCRIPTOR``."""

    _fields_ = (("size", c_size_t * 3), ("format", c_int), ("channels", c_uint), ("flags", c_uint))


def filled(cuda: Any, data: bytes) -> c_uint64:
    memory = cuda.malloc(len(data))
    cuda.cuMemcpyHtoD_v2(memory, data, c_size_t(len(data)))
    return memory


def read(cuda: Any, memory: c_uint64, size: int) -> bytes:
    back = ctypes.create_string_buffer(size)
    cuda.cuMemcpyDtoH_v2(back, memory, c_size_t(size))
    return back.raw


def operand(kind: int, *fields: int) -> Operand:
    return Operand(kind, (c_uint64 * 4)(*fields))


def packed(address: int) -> Operand:
    """Return memory without gaps between rows and layers."""
    return operand(POINTER, address, 0, 0)


def test_boxes_between_pointers(cuda: Any) -> None:
    """The rows or the layers of a box would be at wrong places, or only the first copy of a batch would be made."""
    data = bytes(range(240))
    source, target = filled(cuda, data), filled(cuda, bytes(64))
    boxes = (Operation * 2)(
        # 3 bytes, 2 rows and 2 layers of rows of 10 bytes and layers of 4 rows
        Operation(operand(POINTER, source.value + 5, 10, 4), packed(target.value), (c_size_t * 3)(3, 2, 2), IN_ORDER),
        Operation(packed(source.value), packed(target.value + 40), (4, 1, 1), DURING_CALL),
    )
    stream = cuda.stream(1)
    cuda.cuMemcpy3DBatchAsync_v2(c_size_t(2), boxes, c_uint64(0), stream)
    cuda.cuStreamSynchronize(stream)
    expected = b"".join(data[at : at + 3] for at in (5, 15, 45, 55))
    assert read(cuda, target, 64) == expected.ljust(40, b"\0") + data[:4] + bytes(20)


def test_boxes_of_arrays(cuda: Any) -> None:
    """Offsets and extents would be taken as bytes, although they count the elements of the array."""
    described = ArrayDescriptor((8, 4, 0), 0x03, 2, 0)  # elements of two 32-bit numbers
    array = c_void_p(cuda.out("cuArray3DCreate_v2", ctypes.byref(described)))
    source, target = filled(cuda, bytes(range(48))), filled(cuda, bytes(48))
    stream = cuda.stream(1)
    inside = operand(ARRAY, array.value or 0, 2, 1, 0)
    for one, other in (
        (packed(source.value), inside),
        (inside, packed(target.value)),
    ):
        box = Operation(one, other, (3, 2, 1), IN_ORDER)
        cuda.cuMemcpy3DBatchAsync_v2(c_size_t(1), ctypes.byref(box), c_uint64(0), stream)
    cuda.cuStreamSynchronize(stream)
    assert read(cuda, target, 48) == bytes(range(48))
    assert cuda.code("cuArrayGetMemoryRequirements", (c_uint64 * 4)(), array, 0) == INVALID_VALUE  # not mapped later
    cuda.cuArrayDestroy(array)


@pytest.mark.parametrize(
    ("extent", "row", "order", "flags"),
    [((0, 1, 1), 0, IN_ORDER, 0), ((4, 1, 1), 3, IN_ORDER, 0), ((4, 1, 1), 0, 0, 0), ((4, 1, 1), 0, IN_ORDER, 1)],
    ids=["no extent", "short rows", "no order", "flags"],
)
def test_boxes_that_cannot_be(cuda: Any, extent: tuple[int, ...], row: int, order: int, flags: int) -> None:
    """A batch with a wrong box would be made, or the index of the wrong box would not be returned."""
    memory = filled(cuda, bytes(64))
    good = Operation(packed(memory.value), packed(memory.value + 32), (4, 1, 1), IN_ORDER)
    bad = Operation(operand(POINTER, memory.value, row, 0), packed(memory.value + 32), extent, order)
    failed = c_size_t()
    arguments = (c_size_t(2), (Operation * 2)(good, bad), ctypes.byref(failed), c_uint64(flags))
    assert cuda.code("cuMemcpy3DBatchAsync", *arguments, cuda.stream(1)) == INVALID_VALUE
    assert failed.value == (2**64 - 1 if flags else 1)
    assert cuda.code("cuMemcpy3DBatchAsync", *arguments, None) == INVALID_VALUE  # the legacy stream


@pytest.mark.parametrize("order", [IN_ORDER, DURING_CALL, 0])
def test_a_copy_with_attributes(cuda: Any, order: int) -> None:
    """A single copy with attributes would not be made, or would be made with attributes that do not exist."""
    source, target = filled(cuda, b"abcdefgh"), filled(cuda, bytes(8))
    attributes = Attributes(order=order)
    code = cuda.code("cuMemcpyWithAttributesAsync", target, source, c_size_t(8), ctypes.byref(attributes), None)
    assert code == (0 if order else INVALID_VALUE)
    assert read(cuda, target, 8) == (b"abcdefgh" if order else bytes(8))
    assert cuda.code("cuMemcpyWithAttributesAsync", target, source, c_size_t(8), None, None) == INVALID_VALUE


def test_decompression_is_refused_by_name(cuda: Any) -> None:
    """The error of a program that decompresses on the device would not say what is not simulated."""
    import cudacore_sim

    assert cuda.code("cuMemBatchDecompressAsync", None, c_size_t(0), 0, None, None) == 801
    assert "cuMemBatchDecompressAsync" in cudacore_sim.why()
