# SPDX-License-Identifier: Apache-2.0
"""Memory of all kinds: its location, access to it, and reports of misuse."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from structs import device_pool

import cudacore_sim

INVALID_VALUE, OUT_OF_MEMORY = 1, 2
Size = ctypes.c_size_t
Python = Callable[..., subprocess.CompletedProcess[str]]


def at(pointer: ctypes.c_uint64, offset: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(pointer.value + offset)


def test_round_trip(cuda: Any) -> None:
    """Data that is copied to the device and back would be changed."""
    data, back = bytes(range(256)) * 40, ctypes.create_string_buffer(10240)
    first, second = cuda.malloc(10240), cuda.malloc(10240)
    cuda.cuMemcpyHtoD_v2(first, data, Size(10240))
    cuda.cuMemcpyDtoD_v2(second, first, Size(10240))
    cuda.cuMemcpyDtoH_v2(back, second, Size(10240))
    assert back.raw == data


def test_pageable_memory_may_change_after_the_call(cuda: Any) -> None:
    """An asynchronous copy from pageable memory would read the memory after the call has returned."""
    stream, memory = cuda.stream(), cuda.malloc(1 << 20)
    source, back = ctypes.create_string_buffer(b"x" * (1 << 20)), ctypes.create_string_buffer(1 << 20)
    cuda.cuMemcpyHtoDAsync_v2(memory, source, Size(1 << 20), stream)
    ctypes.memset(source, 0, 1 << 20)
    cuda.cuMemcpyDtoHAsync_v2(back, memory, Size(1 << 20), stream)
    assert back.raw == b"x" * (1 << 20)


@pytest.mark.parametrize(("bits", "value"), [(8, 0xA5), (16, 0xA5B6), (32, 0xA5B6C7D8)])
def test_fills(cuda: Any, bits: int, value: int) -> None:
    """A fill would write a wrong pattern, or write beyond its rows."""
    memory, back = cuda.malloc(64 * 8), ctypes.create_string_buffer(64 * 8)
    cuda.cuMemsetD8_v2(memory, 0, Size(512))
    getattr(cuda, f"cuMemsetD2D{bits}_v2")(memory, Size(64), value, Size(4), Size(8))
    cuda.cuMemcpyDtoH_v2(back, memory, Size(512))
    row = value.to_bytes(bits // 8, "little") * 4
    assert back.raw == (row + bytes(64 - len(row))) * 8


def test_device_addresses_are_not_the_hosts(run_python: Python) -> None:
    """Host code that dereferences a device pointer would read some value instead of crashing."""
    child = run_python(
        """
        cu.cuInit(0)
        context, pointer = c_void_p(), c_uint64()
        cu.cuDevicePrimaryCtxRetain(byref(context), 0)
        cu.cuCtxSetCurrent(context)
        assert cu.cuMemAlloc_v2(byref(pointer), c_size_t(16)) == 0
        string_at(pointer.value, 1)
        """
    )
    assert child.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("size", [1001, 1 << 40])
def test_copies_out_of_bounds(cuda: Any, size: int) -> None:
    """A copy could go beyond the end of an allocation."""
    memory, back = cuda.malloc(1000), ctypes.create_string_buffer(2000)
    assert cuda.code("cuMemcpyDtoH_v2", back, memory, Size(size)) == INVALID_VALUE
    assert cuda.code("cuMemsetD8_v2", memory, 0, Size(size)) == INVALID_VALUE


@pytest.mark.parametrize("host", [0, 0x1000, (1 << 64) - 4096])
def test_bad_host_pointers(cuda: Any, host: int) -> None:
    """An invalid host pointer would end the process."""
    memory = cuda.malloc(1000)
    assert cuda.code("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(host), Size(1000)) == INVALID_VALUE
    assert cuda.code("cuMemcpyDtoH_v2", ctypes.c_void_p(host), memory, Size(1000)) == INVALID_VALUE


def test_double_free(cuda: Any) -> None:
    """A double free would not be reported, or the report would not describe the allocation."""
    memory = cuda.malloc(1000)
    cuda.cuMemFree_v2(memory)
    assert cuda.code("cuMemFree_v2", memory) == INVALID_VALUE
    assert "1000 bytes of device memory" in cudacore_sim.reports()[-1]
    assert "freed by cuMemFree_v2" in cudacore_sim.reports()[-1]


def test_use_after_a_free_in_order(cuda: Any) -> None:
    """A stream could use memory after a stream-ordered free in the same stream."""
    stream = cuda.stream()
    memory = ctypes.c_uint64(cuda.out("cuMemAllocAsync", Size(100), stream, kind=ctypes.c_uint64))
    cuda.cuMemsetD8Async(memory, 1, Size(100), stream)
    cuda.cuMemFreeAsync(memory, stream)
    assert cuda.code("cuMemsetD8Async", memory, 1, Size(100), stream) == INVALID_VALUE
    assert cuda.code("cuMemFreeAsync", memory, stream) == INVALID_VALUE


def test_out_of_memory(cuda: Any) -> None:
    """More memory could be allocated than is reported as free, or a failed allocation would use up memory."""
    free, total = Size(), Size()
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    pointer = ctypes.c_uint64()
    assert cuda.code("cuMemAlloc_v2", ctypes.byref(pointer), Size(free.value + 1)) == OUT_OF_MEMORY
    cuda.cuMemFree_v2(cuda.malloc(free.value))
    left = Size()
    cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total))
    assert left.value == free.value


@pytest.mark.parametrize("taker", ["cuMemAlloc", "another pool", "cuMemCreate"])
def test_memory_that_pools_keep_is_given_to_others(cuda: Any, taker: str) -> None:
    """An allocation would fail because another pool keeps unused memory, which an H200 takes from that pool."""
    free, total = Size(), Size()
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    size = free.value * 6 // 10 >> 25 << 25
    stream, keeper, other = cuda.stream(), new_pool(cuda), new_pool(cuda)
    keep(cuda, keeper)
    kept = ctypes.c_uint64()
    cuda.cuMemAllocFromPoolAsync(ctypes.byref(kept), Size(size), keeper, stream)
    cuda.cuMemFreeAsync(kept, stream)
    cuda.cuStreamSynchronize(stream)
    assert reserved(cuda, keeper) == size
    if taker == "cuMemAlloc":
        cuda.cuMemFree_v2(cuda.malloc(size))
    elif taker == "another pool":
        cuda.cuMemAllocFromPoolAsync(ctypes.byref(kept), Size(size), other, stream)
        cuda.cuMemFreeAsync(kept, stream)
    else:
        handle = ctypes.c_uint64()
        cuda.cuMemCreate(ctypes.byref(handle), Size(size), ctypes.byref(PROPS), ctypes.c_uint64(0))
        cuda.cuMemRelease(handle)
    assert reserved(cuda, keeper) < size
    for pool in (keeper, other):
        cuda.cuMemPoolDestroy(pool)


def test_memory_that_a_pool_keeps_is_its_own(cuda: Any) -> None:
    """An allocation from a pool would fail because the memory that the pool already has counts twice."""
    free, total = Size(), Size()
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    size = free.value * 6 // 10 >> 25 << 25
    stream, pool = cuda.stream(), new_pool(cuda)
    keep(cuda, pool)
    first, second = ctypes.c_uint64(), ctypes.c_uint64()
    for more in (size, size + (1 << 25)):
        cuda.cuMemAllocFromPoolAsync(ctypes.byref(first), Size(more), pool, stream)
        cuda.cuMemFreeAsync(first, stream)
    assert cuda.code("cuMemAllocFromPoolAsync", ctypes.byref(second), Size(free.value >> 25 << 25), pool, stream) == 0
    cuda.cuMemFreeAsync(second, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuMemPoolDestroy(pool)
    left = Size()
    cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total))
    assert left.value == free.value


def test_memory_whose_free_waits_is_the_pools(cuda: Any) -> None:
    """Another pool could allocate memory whose free is enqueued but has not run yet, which fails on an H200."""
    free, total = Size(), Size()
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    size = free.value * 6 // 10 >> 25 << 25
    stream, other, pool, second = cuda.stream(), cuda.stream(), new_pool(cuda), new_pool(cuda)
    memory = ctypes.c_uint64()
    cuda.cuMemAllocFromPoolAsync(ctypes.byref(memory), Size(size), pool, stream)
    waiting = HOST_FUNCTION(lambda _: time.sleep(0.2))
    cuda.cuLaunchHostFunc(stream, waiting, None)
    cuda.cuMemFreeAsync(memory, stream)
    assert cuda.code("cuMemAllocFromPoolAsync", ctypes.byref(memory), Size(size), second, other) == OUT_OF_MEMORY
    assert cuda.code("cuMemAllocFromPoolAsync", ctypes.byref(memory), Size(size), pool, other) == 0
    cuda.cuMemFreeAsync(memory, other)
    cuda.cuStreamSynchronize(stream)
    cuda.cuStreamSynchronize(other)
    cuda.cuMemAllocFromPoolAsync(ctypes.byref(memory), Size(size), second, other)
    cuda.cuMemFreeAsync(memory, other)
    cuda.cuStreamSynchronize(other)
    for each in (pool, second):
        cuda.cuMemPoolDestroy(each)


@pytest.mark.parametrize(("max_size", "room"), [(1, 32), (32 << 20, 32), (33 << 20, 64), (100 << 20, 128)])
def test_max_size_is_rounded_up(cuda: Any, max_size: int, room: int) -> None:
    """A pool's maximum size would not be rounded up to a multiple of 32 MiB, as on an H200."""
    props = device_pool(maxSize=max_size)
    pool, stream = ctypes.c_void_p(cuda.out("cuMemPoolCreate", ctypes.byref(props))), cuda.stream()
    made = []
    memory = ctypes.c_uint64()
    while cuda.code("cuMemAllocFromPoolAsync", ctypes.byref(memory), Size(1 << 20), pool, stream) == 0:
        made.append(memory.value)
    assert len(made) == room
    for address in made:
        cuda.cuMemFreeAsync(ctypes.c_uint64(address), stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuMemPoolDestroy(pool)


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def new_pool(cuda: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(cuda.out("cuMemPoolCreate", ctypes.byref(PROPS)))


PROPS = device_pool()


def keep(cuda: Any, pool: ctypes.c_void_p) -> None:
    """Make a pool keep freed memory instead of giving it back to the device."""
    cuda.cuMemPoolSetAttribute(pool, 4, ctypes.byref(ctypes.c_uint64(2**64 - 1)))


def reserved(cuda: Any, pool: ctypes.c_void_p) -> int:
    value = ctypes.c_uint64()
    cuda.cuMemPoolGetAttribute(pool, 5, ctypes.byref(value))
    return value.value


def test_addresses_are_not_reused_at_once(cuda: Any) -> None:
    """A use of freed memory would change another allocation instead of being reported."""
    seen = set()
    for _ in range(100):
        memory = cuda.malloc(4096)
        seen.add(memory.value)
        cuda.cuMemFree_v2(memory)
    assert len(seen) == 100


def test_pool_attributes(cuda: Any) -> None:
    """The attributes of a pool would not change with its allocations as they do on an H200."""
    pool = ctypes.c_void_p(cuda.out("cuDeviceGetDefaultMemPool", 0))
    stream = cuda.stream()

    def numbers() -> list[int]:
        value = ctypes.c_uint64()
        found = []
        for attribute in (5, 6, 7, 8):
            cuda.cuMemPoolGetAttribute(pool, attribute, ctypes.byref(value))
            found.append(value.value)
        return found

    chunk = 32 << 20
    memory = ctypes.c_uint64(cuda.out("cuMemAllocAsync", Size(1000), stream, kind=ctypes.c_uint64))
    assert numbers()[0] == chunk
    assert numbers()[2] == 1000
    large = ctypes.c_uint64(cuda.out("cuMemAllocAsync", Size(40 << 20), stream, kind=ctypes.c_uint64))
    assert numbers()[0] == 2 * chunk
    for pointer in (memory, large):
        cuda.cuMemFreeAsync(pointer, stream)
    assert numbers()[2] == 0
    cuda.cuStreamSynchronize(stream)
    assert numbers()[0] == 0
    assert numbers()[1] >= 2 * chunk


def test_mapped_memory(cuda: Any) -> None:
    """Two mappings of the same memory would have different contents, or could be used before access is granted."""
    chunk = 2 << 20
    properties = (ctypes.c_int * 8)(1, 0, 1, 0, 0, 0, 0, 0)
    access = (ctypes.c_int * 3)(1, 0, 3)
    zero = ctypes.c_uint64(0)
    handle = ctypes.c_uint64(cuda.out("cuMemCreate", Size(chunk), properties, zero, kind=ctypes.c_uint64))
    base = ctypes.c_uint64(cuda.out("cuMemAddressReserve", Size(2 * chunk), Size(0), zero, zero, kind=ctypes.c_uint64))
    for offset in (0, chunk):
        cuda.cuMemMap(at(base, offset), Size(chunk), Size(0), handle, zero)
    assert cuda.code("cuMemsetD8_v2", base, 7, Size(16)) == INVALID_VALUE
    cuda.cuMemSetAccess(base, Size(2 * chunk), access, Size(1))
    back = ctypes.create_string_buffer(32)
    cuda.cuMemsetD8_v2(at(base, chunk - 16), 7, Size(32))  # the end of one mapping and the start of the other
    cuda.cuMemcpyDtoH_v2(back, base, Size(32))
    assert back.raw == b"\x07" * 16 + bytes(16)
    assert cuda.code("cuMemAddressFree", base, Size(2 * chunk)) == INVALID_VALUE
    cuda.cuMemUnmap(base, Size(2 * chunk))
    cuda.cuMemRelease(handle)
    cuda.cuMemAddressFree(base, Size(2 * chunk))
    assert cudacore_sim.live()["physical_memory"] == cudacore_sim.live()["address_range"] == 0


def test_many_allocations(cuda: Any) -> None:
    """Registering and mapping memory would take a time that is proportional to the number of allocations."""
    size, properties = Size(2 << 20), (ctypes.c_int * 8)(1, 0, 1)  # pinned memory of device 0
    host = ctypes.create_string_buffer(4096)

    def measure() -> float:
        address, physical = ctypes.c_uint64(), ctypes.c_uint64()
        start = time.perf_counter()
        cuda.cuMemHostRegister_v2(host, Size(4096), 0)
        cuda.cuMemHostUnregister(host)
        cuda.cuMemAddressReserve(ctypes.byref(address), size, Size(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        cuda.cuMemCreate(ctypes.byref(physical), size, properties, ctypes.c_uint64(0))
        cuda.cuMemMap(address, size, Size(0), physical, ctypes.c_uint64(0))
        cuda.cuMemUnmap(address, size)
        cuda.cuMemRelease(physical)
        cuda.cuMemAddressFree(address, size)
        return time.perf_counter() - start

    few = min(measure() for _ in range(30))
    for _ in range(20_000):
        cuda.malloc(256)
    many = min(measure() for _ in range(30))
    assert many < 10 * few
