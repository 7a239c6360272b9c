# SPDX-License-Identifier: Apache-2.0
"""Device, pinned, registered and managed memory."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p

from recorder import Recorder, sequence
from structs import DEVICE, HOST, HOST_NUMA

HUGE = 1 << 50


def pages(count: int) -> tuple[mmap.mmap, int]:
    """Return an object that holds pages of host memory, and their address."""
    memory = mmap.mmap(-1, count * mmap.PAGESIZE)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


@sequence
def allocate(cu: Recorder) -> None:
    """Sizes of device memory that can be allocated, and sizes that cannot."""
    cu.call("cuMemAlloc_v2", c_uint64, 0)
    cu.call("cuMemAlloc_v2", None, 16)
    for size in (1, 256, 257, 1 << 20, (2 << 20) + 1):
        address = cu.new("cuMemAlloc_v2", c_uint64, size)
        cu.see("aligned to 256", address % 256 == 0)
        base, whole = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, address)
        cu.see("range", (base - address, whole))
    for size in (HUGE, -1, -4096, 1 << 63):
        cu.call("cuMemAlloc_v2", c_uint64, size)


@sequence
def free(cu: Recorder) -> None:
    """Device memory can be freed once, by the address of its beginning."""
    address = cu.memory(1024)
    cu.call("cuMemFree_v2", address + 16)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFree_v2", 0)
    cu.call("cuMemFree_v2", 1)
    cu.call("cuMemFree_v2", 0x1234_5678_9000)
    cu.call("cuMemFree_v2", -1)


@sequence
def free_other_kinds(cu: Recorder) -> None:
    """Which function frees which kind of memory."""
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 64, 0)
    managed = cu.prepare("cuMemAllocManaged", c_uint64, 64, 1)
    ordered = cu.prepare("cuMemAllocAsync", c_uint64, 64, None)
    device = cu.memory(64)
    cu.call_each(
        ("cuMemFree_v2", pinned), ("cuMemFreeHost", device), ("cuMemFreeHost", managed), ("cuMemFreeHost", ordered),
        ("cuMemFreeAsync", managed, None), ("cuMemFreeAsync", pinned, None), ("cuMemFree_v2", managed),
        ("cuMemFree_v2", ordered), ("cuMemFreeHost", pinned), ("cuMemFreeHost", pinned), ("cuMemFreeHost", None),
        ("cuCtxSynchronize",),
    )  # fmt: skip


@sequence
def pitch(cu: Recorder) -> None:
    """The pitch that cuMemAllocPitch chooses, and an element size that it does not support."""
    for width, height, element in ((1, 1, 4), (512, 2, 4), (513, 3, 8), (100, 10, 16), (70_000, 2, 4)):
        cu.see("rows", (width, height, element))
        cu.read("cuMemAllocPitch_v2", c_uint64(), c_size_t, width, height, element)
    for element in (1, 2, 3, 0, 32):
        cu.call("cuMemAllocPitch_v2", c_uint64, c_size_t, 16, 16, element)
    cu.call("cuMemAllocPitch_v2", c_uint64, c_size_t, 0, 16, 4)
    cu.call("cuMemAllocPitch_v2", c_uint64, c_size_t, 16, 0, 4)
    cu.call("cuMemAllocPitch_v2", c_uint64, c_size_t, HUGE, 1, 4)
    cu.call("cuMemAllocPitch_v2", None, c_size_t, 16, 16, 4)
    cu.call("cuMemAllocPitch_v2", c_uint64, None, 16, 16, 4)


@sequence
def address_ranges(cu: Recorder) -> None:
    """The range that the driver reports for an address."""
    address = cu.memory(1000)
    for offset in (0, 1, 999):
        base, size = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, address + offset)
        cu.see("range", (base - address, size))
    cu.call("cuMemGetAddressRange_v2", None, c_size_t, address)
    cu.call("cuMemGetAddressRange_v2", c_uint64, None, address)
    cu.call("cuMemGetAddressRange_v2", None, None, address)
    cu.call("cuMemGetAddressRange_v2", c_uint64, c_size_t, 0)
    cu.call("cuMemGetAddressRange_v2", c_uint64, c_size_t, 0x1234_5678_9000)
    cu.prepare("cuMemFree_v2", address)
    cu.call("cuMemGetAddressRange_v2", c_uint64, c_size_t, address)
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 100, 0)
    base, size = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, pinned + 4)
    cu.see("range", (base - pinned, size))
    managed = cu.prepare("cuMemAllocManaged", c_uint64, 100, 1)
    base, size = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, managed + 4)
    cu.see("range", (base - managed, size))


@sequence
def amounts(cu: Recorder) -> None:
    """A large allocation reduces the free memory."""
    free, total = cu.new("cuMemGetInfo_v2", c_size_t, c_size_t)
    cu.see("no more is free than there is", 0 < free <= total)
    cu.see("as the device says", cu.prepare("cuDeviceTotalMem_v2", c_size_t, 0) == total)
    address = cu.memory(256 << 20)
    less, _ = cu.new("cuMemGetInfo_v2", c_size_t, c_size_t)
    cu.see("used", free - less >= 256 << 20)
    cu.prepare("cuMemFree_v2", address)
    again, _ = cu.new("cuMemGetInfo_v2", c_size_t, c_size_t)
    cu.see("free again", again > less)
    cu.call("cuMemGetInfo_v2", None, c_size_t)
    cu.call("cuMemGetInfo_v2", c_size_t, None)


@sequence
def pinned(cu: Recorder) -> None:
    """Pinned memory has one address on host and device, and reports its flags."""
    for flags in (0, 1, 2, 3, 4, 7, 8, 16, -1):
        if (memory := cu.new("cuMemHostAlloc", c_void_p, 100, flags)) and flags < 8:
            cu.read("cuMemHostGetFlags", c_uint, memory)
            same = cu.new("cuMemHostGetDevicePointer_v2", c_uint64, memory, 0)
            cu.see("the same", same == memory)
            inner = cu.new("cuMemHostGetDevicePointer_v2", c_uint64, memory + 5, 0)
            cu.see("the same", inner == memory + 5)
    memory = cu.new("cuMemAllocHost_v2", c_void_p, 100)
    cu.read("cuMemHostGetFlags", c_uint, memory)
    cu.call("cuMemHostGetFlags", c_uint, memory + 5)
    cu.call("cuMemHostGetDevicePointer_v2", c_uint64, memory, 1)
    cu.call("cuMemHostGetDevicePointer_v2", None, memory, 0)
    cu.call("cuMemHostGetFlags", None, memory)
    cu.call("cuMemFreeHost", memory + 5)
    cu.call("cuMemFreeHost", memory)
    cu.call("cuMemHostGetFlags", c_uint, memory)
    cu.call("cuMemHostGetDevicePointer_v2", c_uint64, memory, 0)


@sequence
def pinned_arguments(cu: Recorder) -> None:
    """Pinned memory: invalid sizes, NULL, and memory that is not pinned."""
    for name, more in (("cuMemHostAlloc", (0,)), ("cuMemAllocHost_v2", ())):
        nothing = c_void_p(1)
        cu.call(name, nothing, 0, *more)
        cu.see("NULL", nothing.value is None)
    cu.call("cuMemHostAlloc", None, 16, 0)
    cu.call("cuMemAllocHost_v2", None, 16)
    cu.call("cuMemHostAlloc", c_void_p, HUGE, 0)
    memory, address = pages(1)
    cu.call("cuMemHostGetFlags", c_uint, address)
    cu.call("cuMemHostGetFlags", c_uint, None)
    cu.call("cuMemHostGetDevicePointer_v2", c_uint64, None, 0)
    cu.call("cuMemFreeHost", address)
    assert memory
    cu.call("cuMemHostGetFlags", c_uint, cu.memory(64))


@sequence
def register(cu: Recorder) -> None:
    """Memory of the program can be registered only once until it is unregistered."""
    memory, address = pages(4)
    cu.call("cuMemHostRegister_v2", address, 4096, 0)
    cu.call("cuMemHostRegister_v2", address, 4096, 0)
    cu.call("cuMemHostRegister_v2", address, 8192, 0)
    cu.read("cuMemHostGetFlags", c_uint, address)
    same = cu.new("cuMemHostGetDevicePointer_v2", c_uint64, address + 8, 0)
    cu.see("the same", same == address + 8)
    cu.call("cuMemHostRegister_v2", address + 4096, 4096, 3)
    cu.read("cuMemHostGetFlags", c_uint, address + 4096)
    cu.call("cuMemFreeHost", address)
    cu.call("cuMemHostUnregister", address + 16)
    cu.call("cuMemHostUnregister", address)
    cu.call("cuMemHostUnregister", address)
    cu.call("cuMemHostGetFlags", c_uint, address)
    cu.call("cuMemHostUnregister", address + 4096)
    assert memory


@sequence
def register_arguments(cu: Recorder) -> None:
    """Registering memory with valid and invalid sizes and flags, and memory that cannot be registered."""
    memory, address = pages(4)
    cu.call("cuMemHostRegister_v2", address, 0, 0)
    cu.call("cuMemHostRegister_v2", None, 4096, 0)
    for flags in (1, 2, 3, 4, 8, 16, -1):
        if cu.call("cuMemHostRegister_v2", address, 4096, flags) == 0:
            cu.read("cuMemHostGetFlags", c_uint, address)
            cu.prepare("cuMemHostUnregister", address)
    cu.call("cuMemHostRegister_v2", address + 100, 1000, 0)
    cu.call("cuMemHostUnregister", address + 100)
    cu.call("cuMemHostUnregister", None)
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 8192, 0)
    cu.call("cuMemHostRegister_v2", pinned, 4096, 0)
    cu.call("cuMemHostUnregister", pinned)
    assert memory


@sequence
def managed(cu: Recorder) -> None:
    """The host reads managed memory that the host and the device have written; sizes and flags of allocations."""
    address = cu.new("cuMemAllocManaged", c_uint64, 4096, 1)
    words = (c_uint * 4).from_address(address)
    words[0] = 5
    cu.call("cuMemsetD32_v2", address + 4, 6, 1)
    cu.call("cuCtxSynchronize")
    cu.see("words", list(words))
    cu.call("cuMemFree_v2", address)
    for flags in (2, 4, 0, 3, 8):
        cu.call("cuMemAllocManaged", c_uint64, 64, flags)
    cu.call("cuMemAllocManaged", c_uint64, 0, 1)
    cu.call("cuMemAllocManaged", None, 64, 1)
    other = cu.prepare("cuMemAllocManaged", c_uint64, 64, 1)
    cu.call("cuMemHostGetDevicePointer_v2", c_uint64, other, 0)
    cu.call("cuMemHostGetFlags", c_uint, other)


def place(kind: int, number: int) -> int:
    """Return a CUmemLocation as the 64-bit number by which it is passed."""
    return kind | number << 32


@sequence
def prefetch(cu: Recorder) -> None:
    """Managed memory is prefetched to devices and to the host; other memory is not."""
    address = cu.prepare("cuMemAllocManaged", c_uint64, 4 << 20, 1)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(DEVICE, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(HOST, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address + 4096, 4096, place(DEVICE, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(HOST_NUMA, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(DEVICE, 77), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(0, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(9, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 4096, place(DEVICE, 0), 1, None)
    cu.call("cuMemPrefetchAsync_v2", address, 0, place(DEVICE, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", address, 8 << 20, place(DEVICE, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", 0, 4096, place(DEVICE, 0), 0, None)
    cu.call("cuMemPrefetchAsync_v2", cu.memory(4096), 4096, place(DEVICE, 0), 0, None)
    cu.call("cuMemPrefetchAsync", address, 4096, 0, None)
    cu.call("cuMemPrefetchAsync", address, 4096, -1, None)
    cu.call("cuMemPrefetchAsync", address, 4096, 77, None)
    cu.call("cuCtxSynchronize")


@sequence
def advice(cu: Recorder) -> None:
    """Calls of cuMemAdvise with valid and invalid advice."""
    address = cu.prepare("cuMemAllocManaged", c_uint64, 1 << 20, 1)
    for advice in range(8):
        cu.call("cuMemAdvise_v2", address, 4096, advice, DEVICE)
        cu.call("cuMemAdvise", address, 4096, advice, 0)
    cu.call("cuMemAdvise", address, 4096, 3, -1)
    cu.call("cuMemAdvise", address, 4096, 3, 77)
    cu.call("cuMemAdvise_v2", address, 4096, 3, HOST)
    cu.call("cuMemAdvise_v2", address, 4096, 3, 0)
    cu.call("cuMemAdvise", address, 0, 1, 0)
    cu.call("cuMemAdvise", address, 2 << 20, 1, 0)
    cu.call("cuMemAdvise", 0, 4096, 1, 0)
    cu.call("cuMemAdvise", cu.memory(4096), 4096, 1, 0)


@sequence
def usage_of_freed(cu: Recorder) -> None:
    """Copies and fills of freed memory fail, because the driver checks each address."""
    address = cu.memory(1024)
    keep = cu.memory(1024)
    cu.prepare("cuMemFree_v2", address)
    data = ctypes.create_string_buffer(64)
    cu.call("cuMemcpyDtoH_v2", data, address, 64)
    cu.call("cuMemcpyHtoD_v2", address, data, 64)
    cu.call("cuMemcpyDtoD_v2", keep, address, 64)
    cu.call("cuMemsetD8_v2", address, 0, 64)
    cu.call("cuPointerGetAttribute", c_int, 2, address)
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuCtxSynchronize")
