# SPDX-License-Identifier: Apache-2.0
"""Streams write values to memory and wait for them; contexts record events and wait for them."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import kernels
import pytest
from peer import U64, Size, launch_store, read

import cudacore_sim

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, ILLEGAL_ADDRESS, NOT_SUPPORTED = 1, 201, 400, 600, 700, 801


class Operation(ctypes.Structure):
    """CUstreamBatchMemOpParams, with the fields of waits for values and of writes of values."""

    _fields_ = (
        ("operation", ctypes.c_int),
        ("flags_of_others", ctypes.c_uint),
        ("address", U64),
        ("value", U64),
        ("flags", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 20),
    )


@pytest.fixture
def word(cuda: Any) -> Any:
    """Return memory that host and device share, filled with zeros."""
    memory = U64(cuda.out("cuMemHostAlloc", Size(4096), 0))
    ctypes.memset(memory.value, 0, 4096)
    return memory


def wait_until(condition: Any) -> bool:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return bool(condition())


@pytest.mark.parametrize(
    ("bits", "flag", "value", "no", "yes"),
    [
        (32, 0, 5, 4, 6),  # at least
        (32, 0, 2**32 - 1, 2**32 - 2, 3),  # cyclic
        (32, 1, 5, 6, 5),  # equal
        (32, 2, 6, 8, 4),  # and
        (32, 3, 0xFFFFFFF0, 0xF, 0xE),  # nor
        (64, 0, 2**40, 2**32, 2**40),
        (64, 1, 2**40 + 1, 1, 2**40 + 1),
        (64, 3, 2**64 - 2, 1, 0),
    ],
)
def test_wait(cuda: Any, word: Any, bits: int, flag: int, value: int, no: int, yes: int) -> None:
    """A stream that waits for a value would continue before the value is written, or never."""
    kind = ctypes.c_uint32 if bits == 32 else ctypes.c_uint64
    where = kind.from_address(word.value)
    where.value = no
    stream = cuda.stream(1)
    getattr(cuda, f"cuStreamWaitValue{bits}_v2")(stream, word, kind(value), flag)
    time.sleep(0.005)
    assert cuda.code("cuStreamQuery", stream) == NOT_READY
    where.value = yes
    cuda.cuStreamSynchronize(stream)


def test_wait_is_in_order(cuda: Any, word: Any, run_in_stream: Any) -> None:
    """A wait would use a value that the memory had before the stream reached the wait."""
    stream = cuda.stream(1)
    where = ctypes.c_uint32.from_address(word.value)
    where.value = 1
    run_in_stream(lambda: setattr(where, "value", 0), stream)
    cuda.cuStreamWaitValue32_v2(stream, word, 1, 1)
    assert wait_until(lambda: where.value == 0)
    time.sleep(0.005)
    assert cuda.code("cuStreamQuery", stream) == NOT_READY
    where.value = 1
    cuda.cuStreamSynchronize(stream)


def test_streams_wait_for_each_other(cuda: Any, word: Any) -> None:
    """Many waiting streams would occupy all worker threads, so that the work that the streams wait for cannot run."""
    streams = [cuda.stream(1) for _ in range(100)]
    for i, stream in enumerate(streams):
        cuda.cuStreamWaitValue32_v2(stream, word, i + 1, 1)
        cuda.cuStreamWriteValue32_v2(stream, word, i + 2, 0)
    first = cuda.stream(1)
    cuda.cuStreamWriteValue32_v2(first, word, 1, 0)
    cuda.cuCtxSynchronize()
    assert ctypes.c_uint32.from_address(word.value).value == 101


def test_write(cuda: Any) -> None:
    """A write of a value would have the wrong width, or run before earlier work of the stream."""
    memory, stream = cuda.malloc(64), cuda.stream(1)
    cuda.cuMemsetD8Async(memory, 0xFF, Size(64), stream)
    cuda.cuStreamWriteValue32_v2(stream, memory, 5, 0)
    cuda.cuStreamWriteValue64_v2(stream, U64(memory.value + 8), U64(2**40), 0)
    cuda.cuStreamSynchronize(stream)
    assert read(cuda.library, memory, 20) == b"\5\0\0\0" + b"\xff" * 4 + (2**40).to_bytes(8, "little") + b"\xff" * 4


def test_batch(cuda: Any, word: Any) -> None:
    """A batch would run in the wrong order, or would run in part if one of its operations is invalid."""
    stream, where = cuda.stream(1), ctypes.c_uint32.from_address(word.value)

    def batch(*operations: Operation) -> int:
        array = (Operation * len(operations))(*operations)
        return int(cuda.code("cuStreamBatchMemOp_v2", stream, len(operations), array, 0))

    address = word.value
    good = (Operation(2, 0, address, 21), Operation(1, 0, address, 21), Operation(6), Operation(5, 0, address + 8, 22))
    assert batch(*good, Operation(4, 0, address + 8, 22)) == 0
    cuda.cuStreamSynchronize(stream)
    assert (where.value, ctypes.c_uint64.from_address(address + 8).value) == (21, 22)
    bad = (Operation(0), Operation(7), Operation(9), Operation(2, 0, address + 1), Operation(1, 0, address, 0, 4))
    for operation in bad:
        assert batch(Operation(2, 0, address, 77), operation) == INVALID_VALUE
    assert batch(Operation(3)) == NOT_SUPPORTED
    assert batch(*[Operation(2, 0, address, 1)] * 257) == INVALID_VALUE
    assert cuda.code("cuStreamBatchMemOp_v2", stream, 1, None, 0) == INVALID_VALUE
    cuda.cuStreamSynchronize(stream)
    assert where.value == 21


def test_reduction(cuda: Any, word: Any) -> None:
    """A reduction would store its operand instead of combining it with the value in memory, or have the wrong width."""
    address, stream = word.value, cuda.stream(1)
    ctypes.c_uint64.from_address(address).value = 2**32 - 1
    add, bits_64, bits_32 = 0, 2 | 16 | 4, 2 | 8 | 4
    for kind, where, value in ((bits_64, address, 3), (bits_32, address + 8, 2**32 - 1), (bits_32, address + 8, 1)):
        operation = (U64 * 6)(8, add | kind << 32, where, value)
        cuda.cuStreamBatchMemOp_v2(stream, 1, operation, 0)
    cuda.cuStreamSynchronize(stream)
    assert [ctypes.c_uint64.from_address(address + i).value for i in (0, 8)] == [2**32 + 2, 0]


def test_bad_values(cuda: Any, word: Any) -> None:
    """A write or a wait for memory that an H200 refuses (misaligned, managed, unknown, pageable) would be accepted."""
    managed = U64(cuda.out("cuMemAllocManaged", Size(64), 1, kind=U64))
    pageable = ctypes.create_string_buffer(64)
    places = (U64(0), U64(0x1000), U64(word.value + 2), managed, U64(ctypes.addressof(pageable) + 16 & ~7))
    for place in places:
        assert cuda.code("cuStreamWriteValue32_v2", None, place, 1, 0) == INVALID_VALUE
        assert cuda.code("cuStreamWaitValue32_v2", None, place, 1, 0) == INVALID_VALUE
    assert cuda.code("cuStreamWriteValue64_v2", None, U64(word.value + 4), U64(1), 0) == INVALID_VALUE
    assert [cuda.code("cuStreamWriteValue32_v2", None, word, 1, flags) for flags in (1, 2)] == [INVALID_VALUE] * 2
    assert cuda.code("cuStreamWaitValue32_v2", None, word, 0, 4) == INVALID_VALUE
    assert cuda.code("cuStreamWaitValue32_v2", None, word, 0, 1 << 30) == NOT_SUPPORTED


def test_wait_ends_with_its_context(cuda: Any, word: Any) -> None:
    """A wait for a value would not end when its context fails."""
    stream = cuda.stream(1)
    cuda.cuStreamWaitValue32_v2(stream, word, 1, 0)
    assert launch_store(cuda.library, kernels.PTX, U64(64), 1) == ILLEGAL_ADDRESS
    assert cuda.code("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS


def test_memory_that_is_freed_while_it_is_waited_for(cuda: Any) -> None:
    """A wait for a value in memory that was freed meanwhile would not fail."""
    stream, other = cuda.stream(1), cuda.stream(1)
    memory = U64(cuda.out("cuMemAllocAsync", Size(64), other, kind=U64))
    cuda.cuMemsetD8Async(memory, 0, Size(64), other)
    cuda.cuStreamSynchronize(other)
    cuda.cuStreamWaitValue32_v2(stream, memory, 1, 0)
    cuda.cuMemFreeAsync(memory, other)
    assert cuda.code("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS
    assert "freed by cuMemFreeAsync" in cudacore_sim.reports()[0]


def test_context_events(cuda: Any, word: Any) -> None:
    """An event that a context records would not cover all of its streams, or a context would not wait for an event."""
    context = ctypes.c_void_p(cuda.out("cuCtxGetCurrent"))
    busy, event, later = cuda.stream(1), cuda.event(), cuda.stream(1)
    cuda.cuStreamWaitValue32_v2(busy, word, 1, 0)
    cuda.cuCtxRecordEvent(context, event)
    assert cuda.code("cuEventQuery", event) == NOT_READY
    cuda.cuCtxWaitEvent(context, event)
    cuda.cuMemsetD8Async(cuda.malloc(64), 0, Size(64), later)
    time.sleep(0.005)
    assert cuda.code("cuStreamQuery", later) == NOT_READY
    ctypes.c_uint32.from_address(word.value).value = 1
    cuda.cuStreamSynchronize(later)
    cuda.cuEventSynchronize(event)
    assert cuda.code("cuCtxRecordEvent", None, event) == INVALID_CONTEXT
    assert cuda.code("cuCtxRecordEvent", context, None) == INVALID_HANDLE
