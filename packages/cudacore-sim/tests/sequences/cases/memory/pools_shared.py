# SPDX-License-Identifier: Apache-2.0
"""Memory of pools: access to it, the driver's information about it, and imported pools."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p

from recorder import Recorder, sequence
from structs import DEVICE, HOST, HOST_NUMA, Access, Location, device_pool

FILE_DESCRIPTOR = 1
MEMORY_TYPE, RANGE_SIZE, ALLOWED_HANDLE_TYPES = 2, 12, 14
PLACES = ((DEVICE, 0), (HOST, 0), (HOST_NUMA, 0))


def create(cu: Recorder, place: tuple[int, int], shared: bool) -> int:
    """Create a pool at a location."""
    kinds = FILE_DESCRIPTOR if shared else 0
    return int(cu.prepare("cuMemPoolCreate", c_void_p, device_pool(location=Location(*place), handleTypes=kinds)))


def pools(cu: Recorder) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield each location of pools with False, and with True if pools there can be shared with other processes."""
    for place in PLACES:
        for shared in (False, True):
            if shared and place[0] == HOST:
                continue
            cu.see("pool", (place, shared))
            yield place, shared


def give_access(cu: Recorder, pool: int) -> None:
    """Give device 0 access to a pool."""
    cu.call("cuMemPoolSetAccess", pool, Access(Location(DEVICE, 0), 3), 1)


def see_access(cu: Recorder, pool: int) -> None:
    """List which locations have access to a pool."""
    for place in PLACES:
        cu.see("place", place)
        cu.read("cuMemPoolGetAccess", c_int, pool, Location(*place))


def see_range(cu: Recorder, address: int) -> None:
    """List the driver's information about an allocation."""
    base, size = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, address)
    cu.see("range", (base - address if base else None, size))
    cu.read("cuPointerGetAttribute", c_uint, MEMORY_TYPE, address)
    cu.read("cuPointerGetAttribute", c_size_t, RANGE_SIZE, address)
    cu.read("cuPointerGetAttribute", c_uint64, ALLOWED_HANDLE_TYPES, address)


def free(cu: Recorder, address: int, pool: int) -> None:
    """Free memory of a pool, and destroy the pool."""
    cu.call("cuMemFreeAsync", address, None)
    cu.call("cuCtxSynchronize")
    cu.call("cuMemPoolDestroy", pool)


@sequence
def places(cu: Recorder) -> None:
    """Pools of a device and of the host: the locations with access, before and after device 0 is given access."""
    for place, shared in pools(cu):
        pool = create(cu, place, shared)
        see_access(cu, pool)
        if place[0] != DEVICE:
            give_access(cu, pool)
            see_access(cu, pool)
        cu.call("cuMemPoolDestroy", pool)


@sequence
def ranges(cu: Recorder) -> None:
    """The driver's information about memory of pools, with and without access, and without a context."""
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    for place, shared in pools(cu):
        pool = create(cu, place, shared)
        address = cu.new("cuMemAllocFromPoolAsync", c_uint64, 1000, pool, None)
        cu.call("cuCtxSynchronize")
        see_range(cu, address)
        if place[0] != DEVICE:
            give_access(cu, pool)
            see_range(cu, address)
        cu.prepare("cuCtxSetCurrent", None)
        cu.call("cuMemGetAddressRange_v2", c_uint64, c_size_t, address)
        cu.prepare("cuCtxSetCurrent", context)
        free(cu, address, pool)


@sequence
def imported(cu: Recorder) -> None:
    """A process exports its own pool, and memory of this pool, and imports both again."""
    for place in ((DEVICE, 0), (HOST_NUMA, 0)):
        cu.see("pool", place)
        pool = create(cu, place, True)
        address = cu.new("cuMemAllocFromPoolAsync", c_uint64, 1000, pool, None)
        cu.call("cuCtxSynchronize")
        descriptor = cu.new("cuMemPoolExportToShareableHandle", c_int, pool, FILE_DESCRIPTOR, 0)
        name = ctypes.create_string_buffer(64)
        cu.call("cuMemPoolExportPointer", name, address)
        cu.call("cuMemPoolExportPointer", ctypes.create_string_buffer(64), address + 16)
        import_ = cu.new("cuMemPoolImportFromShareableHandle", c_void_p, descriptor, FILE_DESCRIPTOR, 0)
        cu.see("is the same", import_ == pool)
        see_access(cu, import_)
        cu.call("cuMemPoolExportToShareableHandle", c_int, import_, FILE_DESCRIPTOR, 0)
        cu.call("cuMemAllocFromPoolAsync", c_uint64, 64, import_, None)
        if place[0] != DEVICE:
            give_access(cu, import_)
            see_access(cu, import_)
        memory = cu.new("cuMemPoolImportPointer", c_uint64, import_, name)
        if memory and memory != address:
            see_range(cu, memory)
            cu.call("cuMemPoolExportPointer", ctypes.create_string_buffer(64), memory)
            cu.call("cuMemFreeAsync", memory, None)
        cu.call("cuCtxSynchronize")
        cu.call("cuMemPoolDestroy", import_)
        free(cu, address, pool)


@sequence
def captured(cu: Recorder) -> None:
    """Memory of pools that is allocated in a capture, and its export to other processes."""
    for place, shared in pools(cu):
        pool, stream = create(cu, place, shared), cu.stream(1)
        cu.call("cuStreamBeginCapture_v2", stream, 2)
        address = cu.new("cuMemAllocFromPoolAsync", c_uint64, 1000, pool, stream)
        if address:
            cu.call("cuMemPoolExportPointer", ctypes.create_string_buffer(64), address)
            cu.call("cuMemFreeAsync", address, stream)
        graph = cu.new("cuStreamEndCapture", stream, c_void_p)
        if graph:
            cu.call("cuGraphDestroy", graph)
        cu.call("cuMemPoolDestroy", pool)
