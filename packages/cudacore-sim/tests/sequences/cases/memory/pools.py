# SPDX-License-Identifier: Apache-2.0
"""Memory pools and stream-ordered memory."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint64, c_void_p

from recorder import Recorder, sequence
from structs import DEVICE, HOST, Access, Location, PoolProperties, device_pool

NON_BLOCKING = 1
REUSE_EVENTS, REUSE_OPPORTUNISTIC, REUSE_INTERNAL, THRESHOLD = 1, 2, 3, 4
RESERVED, RESERVED_HIGH, USED, USED_HIGH = 5, 6, 7, 8
FILE_DESCRIPTOR = 1


def create(cu: Recorder, **fields: object) -> int:
    """Create a pool of device 0."""
    return int(cu.prepare("cuMemPoolCreate", c_void_p, device_pool(**fields)))


def see_used(cu: Recorder, pool: int) -> None:
    """List the used memory of a pool, and the maximum that was used."""
    cu.read("cuMemPoolGetAttribute", pool, USED, c_uint64)
    cu.read("cuMemPoolGetAttribute", pool, USED_HIGH, c_uint64)


@sequence
def create_arguments(cu: Recorder) -> None:
    """The properties that a pool can have."""
    cu.call("cuMemPoolCreate", c_void_p, device_pool())
    cu.call("cuMemPoolCreate", c_void_p, device_pool(handleTypes=FILE_DESCRIPTOR))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(maxSize=64 << 20))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(allocType=0))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(allocType=9))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(handleTypes=2))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(handleTypes=0x100))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(location=Location(DEVICE, 77)))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(location=Location(0, 0)))
    cu.call("cuMemPoolCreate", c_void_p, device_pool(location=Location(99, 0)))
    cu.call("cuMemPoolCreate", c_void_p, PoolProperties())
    reserved = device_pool()
    reserved.reserved[5] = 1
    cu.call("cuMemPoolCreate", c_void_p, reserved)
    cu.call("cuMemPoolCreate", None, device_pool())
    cu.call("cuMemPoolCreate", c_void_p, None)


@sequence
def host_pool(cu: Recorder) -> None:
    """A pool of host memory: the host has access, and a device can be given access."""
    pool = cu.new("cuMemPoolCreate", c_void_p, device_pool(location=Location(HOST, 0)))
    address = cu.new("cuMemAllocFromPoolAsync", c_uint64, 64, pool, None)
    device, data = cu.memory(64, 1), ctypes.create_string_buffer(b"data", 64)
    cu.call("cuCtxSynchronize")
    cu.read("cuPointerGetAttribute", c_int, 2, address)
    for granted in (False, True):
        cu.see("access", granted)
        if granted:
            cu.call("cuMemPoolSetAccess", pool, Access(Location(DEVICE, 0), 3), 1)
        cu.read("cuMemPoolGetAccess", c_int, pool, Location(DEVICE, 0))
        cu.read("cuMemPoolGetAccess", c_int, pool, Location(HOST, 0))
        cu.call("cuMemsetD8_v2", address, 7, 64)
        cu.call("cuMemcpyDtoD_v2", address, device, 4)
        cu.call("cuMemcpyHtoD_v2", address + 8, data, 4)
        cu.call("cuMemcpyDtoH_v2", data, address, 4)
        cu.call("cuMemcpy", address + 16, device, 4)
        cu.call("cuMemcpy", device, address, 4)
        cu.call("cuCtxSynchronize")
        cu.see("host", ctypes.string_at(address, 24).hex())
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuMemPoolDestroy", pool)


@sequence
def default_pools(cu: Recorder) -> None:
    """Each device has a default pool, which is its current pool until another pool is set."""
    default = cu.new("cuDeviceGetDefaultMemPool", c_void_p, 0)
    current = cu.new("cuDeviceGetMemPool", c_void_p, 0)
    cu.see("the same", default == current)
    pool = create(cu)
    cu.call("cuDeviceSetMemPool", 0, pool)
    cu.see("set", cu.new("cuDeviceGetMemPool", c_void_p, 0) == pool)
    address = cu.new("cuMemAllocAsync", c_uint64, 64, None)
    see_used(cu, pool)
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuCtxSynchronize")
    cu.call("cuMemPoolDestroy", pool)
    cu.see("default again", cu.new("cuDeviceGetMemPool", c_void_p, 0) == default)
    cu.call("cuMemPoolDestroy", default)
    cu.call("cuDeviceSetMemPool", 0, default)
    cu.call("cuDeviceSetMemPool", 0, None)
    cu.call("cuDeviceSetMemPool", 77, default)
    cu.call("cuDeviceGetDefaultMemPool", None, 0)
    cu.call("cuDeviceGetMemPool", None, 0)


@sequence
def pools_by_location(cu: Recorder) -> None:
    """The default and the current pool of a location are found by the location."""
    default = cu.prepare("cuDeviceGetDefaultMemPool", c_void_p, 0)
    found = cu.new("cuMemGetDefaultMemPool", c_void_p, Location(DEVICE, 0), 1)
    cu.see("the same", found == default)
    found = cu.new("cuMemGetMemPool", c_void_p, Location(DEVICE, 0), 1)
    cu.see("the same", found == default)
    pool = create(cu)
    cu.call("cuMemSetMemPool", Location(DEVICE, 0), 1, pool)
    cu.see("set", cu.new("cuDeviceGetMemPool", c_void_p, 0) == pool)
    cu.call("cuMemGetMemPool", c_void_p, Location(DEVICE, 77), 1)
    cu.call("cuMemGetMemPool", c_void_p, Location(DEVICE, 0), 0)
    cu.call("cuMemGetMemPool", c_void_p, Location(0, 0), 1)
    cu.call("cuMemGetMemPool", None, Location(DEVICE, 0), 1)


@sequence
def attributes(cu: Recorder) -> None:
    """The attributes of a pool: defaults, attributes that can be set, and attributes that cannot."""
    pool = create(cu)
    for attribute in (0, *range(1, 9), 99):
        cu.see("attribute", attribute)
        cu.read("cuMemPoolGetAttribute", pool, attribute, c_uint64)
    for attribute, value in ((1, 0), (2, 0), (3, 0), (1, 5), (4, 1 << 20), (4, -1)):
        number = c_int(value) if attribute < 4 else c_uint64(value)
        cu.call("cuMemPoolSetAttribute", pool, attribute, number)
        cu.read("cuMemPoolGetAttribute", pool, attribute, c_uint64)
    for attribute, value in ((5, 0), (6, 0), (6, 1), (7, 0), (8, 0), (8, 1), (0, 0), (99, 0)):
        cu.see("set", (attribute, value))
        cu.call("cuMemPoolSetAttribute", pool, attribute, c_uint64(value))
    cu.call("cuMemPoolGetAttribute", None, 4, c_uint64)
    cu.call("cuMemPoolSetAttribute", None, 4, c_uint64(0))


@sequence
def what_is_used(cu: Recorder) -> None:
    """The used and reserved memory that a pool reports, and the maximum of both."""
    pool = create(cu)
    see_used(cu, pool)
    first = cu.new("cuMemAllocFromPoolAsync", c_uint64, 1000, pool, None)
    second = cu.new("cuMemAllocFromPoolAsync", c_uint64, 1 << 20, pool, None)
    cu.see("aligned to 512", (first % 512 == 0, second % 512 == 0))
    see_used(cu, pool)
    cu.read("cuMemPoolGetAttribute", pool, RESERVED, c_uint64)
    cu.call("cuMemFreeAsync", second, None)
    cu.call("cuCtxSynchronize")
    see_used(cu, pool)
    cu.call("cuMemPoolSetAttribute", pool, USED_HIGH, c_uint64(0))
    see_used(cu, pool)
    cu.call("cuMemFreeAsync", first, None)
    cu.call("cuCtxSynchronize")
    see_used(cu, pool)
    cu.read("cuMemPoolGetAttribute", pool, RESERVED_HIGH, c_uint64)


@sequence
def threshold_and_trim(cu: Recorder) -> None:
    """When a stream is synchronised, a pool keeps free memory up to its threshold. Trimming releases this memory."""
    pool = create(cu)
    address = cu.prepare("cuMemAllocFromPoolAsync", c_uint64, 40 << 20, pool, None)
    cu.prepare("cuMemFreeAsync", address, None)
    cu.prepare("cuCtxSynchronize")
    cu.read("cuMemPoolGetAttribute", pool, RESERVED, c_uint64)
    cu.prepare("cuMemPoolSetAttribute", pool, THRESHOLD, c_uint64(1 << 40))
    address = cu.prepare("cuMemAllocFromPoolAsync", c_uint64, 40 << 20, pool, None)
    cu.read("cuMemPoolGetAttribute", pool, RESERVED, c_uint64)
    cu.prepare("cuMemFreeAsync", address, None)
    cu.prepare("cuCtxSynchronize")
    cu.read("cuMemPoolGetAttribute", pool, RESERVED, c_uint64)
    cu.call("cuMemPoolTrimTo", pool, 1 << 40)
    cu.read("cuMemPoolGetAttribute", pool, RESERVED, c_uint64)
    cu.call("cuMemPoolTrimTo", pool, 0)
    cu.read("cuMemPoolGetAttribute", pool, RESERVED, c_uint64)
    cu.call("cuMemPoolTrimTo", None, 0)


@sequence
def allocate(cu: Recorder) -> None:
    """Stream-ordered allocations with valid and invalid sizes, streams and pools."""
    pool, stream = create(cu), cu.stream(NON_BLOCKING)
    for where in (None, 1, 2, stream):
        address = cu.new("cuMemAllocAsync", c_uint64, 64, where)
        cu.call("cuMemFreeAsync", address, where)
    cu.call("cuMemAllocAsync", c_uint64, 0, stream)
    cu.call("cuMemAllocAsync", None, 64, stream)
    cu.call("cuMemAllocAsync", c_uint64, 1 << 50, stream)
    cu.call("cuMemAllocAsync", c_uint64, -1, stream)
    cu.call("cuMemAllocFromPoolAsync", c_uint64, 0, pool, stream)
    cu.call("cuMemAllocFromPoolAsync", c_uint64, 64, None, stream)
    cu.call("cuMemAllocFromPoolAsync", None, 64, pool, stream)
    cu.call("cuStreamSynchronize", stream)


@sequence
def largest_size(cu: Recorder) -> None:
    """A pool does not grow beyond its maximum size."""
    pool = create(cu, maxSize=64 << 20)
    first = cu.new("cuMemAllocFromPoolAsync", c_uint64, 32 << 20, pool, None)
    second = cu.new("cuMemAllocFromPoolAsync", c_uint64, 64 << 20, pool, None)
    cu.see("second", bool(second))
    cu.call("cuMemFreeAsync", first, None)
    cu.call("cuCtxSynchronize")
    cu.call("cuMemAllocFromPoolAsync", c_uint64, 65 << 20, pool, None)


@sequence
def free(cu: Recorder) -> None:
    """Freeing memory in stream order: memory for which this is possible, and other memory."""
    address = cu.prepare("cuMemAllocAsync", c_uint64, 4096, None)
    cu.call("cuMemFreeAsync", address + 16, None)
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuCtxSynchronize")
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFreeAsync", 0, None)
    cu.call("cuMemFreeAsync", 0x1234_5678_9000, None)
    address = cu.prepare("cuMemAllocAsync", c_uint64, 4096, None)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFreeAsync", cu.memory(64), None)
    cu.call("cuMemFreeAsync", cu.prepare("cuMemHostAlloc", c_void_p, 64, 0), None)


@sequence
def destroyed_pool(cu: Recorder) -> None:
    """A pool can be destroyed while it has allocations, which stay usable."""
    pool = create(cu)
    address = cu.prepare("cuMemAllocFromPoolAsync", c_uint64, 64, pool, None)
    cu.call("cuMemPoolDestroy", pool)
    cu.call("cuMemsetD32_v2", address, 3, 4)
    cu.see_words("words", address, 4)
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuCtxSynchronize")
    cu.call("cuMemPoolDestroy", None)


@sequence
def used_in_other_streams(cu: Recorder) -> None:
    """Memory that is allocated in one stream is used and freed in another stream, which waits for the first."""
    first, second, event = cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING), cu.event()
    address = cu.new("cuMemAllocAsync", c_uint64, 64, first)
    cu.call("cuEventRecord", event, first)
    cu.call("cuStreamWaitEvent", second, event, 0)
    cu.call("cuMemsetD32Async", address, 9, 4, second)
    cu.call("cuStreamSynchronize", second)
    cu.see_words("words", address, 4)
    cu.call("cuMemFreeAsync", address, second)
    cu.call("cuStreamSynchronize", second)


@sequence
def access(cu: Recorder) -> None:
    """The device of a pool has access to the pool, and cannot lose it."""
    pool = create(cu)
    cu.read("cuMemPoolGetAccess", c_int, pool, Location(DEVICE, 0))
    for flags in (3, 1, 0, 2):
        cu.see("flags", flags)
        cu.call("cuMemPoolSetAccess", pool, Access(Location(DEVICE, 0), flags), 1)
    cu.read("cuMemPoolGetAccess", c_int, pool, Location(DEVICE, 0))
    cu.call("cuMemPoolSetAccess", pool, Access(Location(DEVICE, 77), 3), 1)
    cu.call("cuMemPoolSetAccess", pool, Access(Location(0, 0), 3), 1)
    cu.call("cuMemPoolSetAccess", pool, Access(Location(HOST, 0), 3), 1)
    cu.call("cuMemPoolSetAccess", pool, None, 0)
    cu.call("cuMemPoolSetAccess", pool, None, 1)
    cu.call("cuMemPoolSetAccess", None, Access(Location(DEVICE, 0), 3), 1)
    cu.call("cuMemPoolGetAccess", c_int, pool, Location(DEVICE, 77))
    cu.call("cuMemPoolGetAccess", None, pool, Location(DEVICE, 0))
    cu.call("cuMemPoolGetAccess", c_int, pool, None)
    cu.call("cuMemPoolGetAccess", c_int, None, Location(DEVICE, 0))


@sequence
def not_exportable(cu: Recorder) -> None:
    """A pool that was created without handle types, and the memory of such a pool, cannot be exported."""
    pool = create(cu)
    cu.call("cuMemPoolExportToShareableHandle", c_int, pool, FILE_DESCRIPTOR, 0)
    address = cu.prepare("cuMemAllocFromPoolAsync", c_uint64, 64, pool, None)
    data = ctypes.create_string_buffer(64)
    cu.call("cuMemPoolExportPointer", data, address)
    default = cu.prepare("cuDeviceGetDefaultMemPool", c_void_p, 0)
    cu.call("cuMemPoolExportToShareableHandle", c_int, default, FILE_DESCRIPTOR, 0)
    exportable = create(cu, handleTypes=FILE_DESCRIPTOR)
    cu.call("cuMemPoolExportToShareableHandle", c_int, exportable, FILE_DESCRIPTOR, 1)
    cu.call("cuMemPoolExportToShareableHandle", c_int, exportable, 2, 0)
    cu.call("cuMemPoolExportToShareableHandle", None, exportable, FILE_DESCRIPTOR, 0)
    cu.call("cuMemPoolExportPointer", data, cu.memory(64))
