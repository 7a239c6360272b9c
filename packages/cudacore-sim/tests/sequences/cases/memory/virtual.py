# SPDX-License-Identifier: Apache-2.0
"""Virtual memory management: addresses, physical memory, and mappings."""

from __future__ import annotations

from ctypes import c_char, c_int, c_size_t, c_uint64

from recorder import Recorder, sequence
from structs import DEVICE, HOST, Access, AllocationProperties, Location, device_allocation

SIZE = 2 << 20
READ, READ_WRITE = 1, 3


def access(flags: int = READ_WRITE) -> Access:
    """Return a description of the access that device 0 gets."""
    return Access(Location(DEVICE, 0), flags)


def reserve(cu: Recorder, size: int = SIZE) -> int:
    """Reserve an address range, and return its address."""
    return int(cu.prepare("cuMemAddressReserve", c_uint64, size, 0, 0, 0))


def create(cu: Recorder, size: int = SIZE) -> int:
    """Create physical memory, and return its handle."""
    return int(cu.prepare("cuMemCreate", c_uint64, size, device_allocation(), 0))


def mapped(cu: Recorder) -> tuple[int, int]:
    """Map new physical memory, and give device 0 access. Return the address, and the handle of the physical memory."""
    address, memory = reserve(cu), create(cu)
    cu.prepare("cuMemMap", address, SIZE, 0, memory, 0)
    cu.prepare("cuMemSetAccess", address, SIZE, access(), 1)
    return address, memory


@sequence
def granularity(cu: Recorder) -> None:
    """The granularity that the driver requires for sizes."""
    cu.read("cuMemGetAllocationGranularity", c_size_t, device_allocation(), 0)
    cu.read("cuMemGetAllocationGranularity", c_size_t, device_allocation(), 1)
    cu.read("cuMemGetAllocationGranularity", c_size_t, device_allocation(handleTypes=1), 0)
    cu.call("cuMemGetAllocationGranularity", c_size_t, device_allocation(), 2)
    cu.call("cuMemGetAllocationGranularity", c_size_t, device_allocation(type=0), 0)
    cu.call("cuMemGetAllocationGranularity", c_size_t, device_allocation(location=Location(DEVICE, 77)), 0)
    cu.call("cuMemGetAllocationGranularity", c_size_t, device_allocation(location=Location(0, 0)), 0)
    cu.call("cuMemGetAllocationGranularity", c_size_t, AllocationProperties(), 0)
    cu.call("cuMemGetAllocationGranularity", None, device_allocation(), 0)
    cu.call("cuMemGetAllocationGranularity", c_size_t, None, 0)


@sequence
def reservation(cu: Recorder) -> None:
    """Sizes and alignments of reserved address ranges, and whether parts of a range can be freed."""
    for size, alignment in ((SIZE, 0), (SIZE, SIZE), (64 << 20, 4096), (4096, 0), (65536, 0), (0, 0), (SIZE + 1, 0)):
        cu.see("size, alignment", (size, alignment))
        address = cu.new("cuMemAddressReserve", c_uint64, size, alignment, 0, 0)
        if address:
            cu.see("aligned", address % max(alignment, 1) == 0)
            cu.call("cuMemAddressFree", address, size)
    cu.call("cuMemAddressReserve", c_uint64, SIZE, 3, 0, 0)
    cu.call("cuMemAddressReserve", c_uint64, SIZE, 0, 0, 1)
    cu.call("cuMemAddressReserve", c_uint64, 1 << 60, 0, 0, 0)
    cu.call("cuMemAddressReserve", None, SIZE, 0, 0, 0)
    address = reserve(cu, 4 * SIZE)
    cu.call("cuMemAddressFree", address, SIZE)
    cu.call("cuMemAddressFree", address + SIZE, SIZE)
    cu.call("cuMemAddressFree", address, 4 * SIZE)
    cu.call("cuMemAddressFree", address, 4 * SIZE)
    cu.call("cuMemAddressFree", 0, SIZE)
    cu.call("cuMemAddressFree", cu.memory(SIZE), SIZE)


@sequence
def physical_memory(cu: Recorder) -> None:
    """Valid and invalid sizes and properties of physical memory."""
    for size in (SIZE, 3 * SIZE, SIZE + 4096, 4096, 1, 0, 1 << 50):
        cu.see("size", size)
        memory = cu.new("cuMemCreate", c_uint64, size, device_allocation(), 0)
        if memory:
            cu.call("cuMemRelease", memory)
    cu.call("cuMemCreate", c_uint64, SIZE, device_allocation(type=0), 0)
    cu.call("cuMemCreate", c_uint64, SIZE, device_allocation(type=9), 0)
    cu.call("cuMemCreate", c_uint64, SIZE, device_allocation(location=Location(DEVICE, 77)), 0)
    cu.call("cuMemCreate", c_uint64, SIZE, device_allocation(location=Location(0, 0)), 0)
    cu.call("cuMemCreate", c_uint64, SIZE, device_allocation(), 1)
    cu.call("cuMemCreate", c_uint64, SIZE, None, 0)
    cu.call("cuMemCreate", None, SIZE, device_allocation(), 0)
    cu.call("cuMemRelease", 0)


@sequence
def properties(cu: Recorder) -> None:
    """Physical memory reports the properties with which it was created."""
    memory = create(cu)
    found = AllocationProperties()
    cu.call("cuMemGetAllocationPropertiesFromHandle", found, memory)
    cu.see("properties", (found.type, found.handleTypes, found.location.type, found.location.id))
    cu.call("cuMemGetAllocationPropertiesFromHandle", None, memory)
    cu.call("cuMemGetAllocationPropertiesFromHandle", found, 0)
    cu.call("cuMemExportToShareableHandle", c_int, memory, 1, 0)
    cu.call("cuMemExportToShareableHandle", c_int, 0, 1, 0)


@sequence
def map_and_use(cu: Recorder) -> None:
    """Mapped memory can be used like any other memory. Two mappings of the same memory have the same contents."""
    memory = create(cu)
    first, second = reserve(cu), reserve(cu)
    for address in (first, second):
        cu.call("cuMemMap", address, SIZE, 0, memory, 0)
        cu.call("cuMemSetAccess", address, SIZE, access(), 1)
    cu.call("cuMemsetD32_v2", first + 4096, 11, 4)
    cu.see_words("words", second + 4096, 4)
    cu.read("cuMemGetAccess", c_uint64, Location(DEVICE, 0), first)
    cu.call("cuMemUnmap", first, SIZE)
    cu.see_words("words", second + 4096, 4)
    cu.call("cuMemRelease", memory)
    cu.see_words("words", second + 4096, 4)
    cu.call("cuMemUnmap", second, SIZE)
    cu.call("cuMemAddressFree", first, SIZE)
    cu.call("cuMemAddressFree", second, SIZE)


@sequence
def map_arguments(cu: Recorder) -> None:
    """Memory that cannot be mapped, and addresses where memory cannot be mapped."""
    address, memory = reserve(cu, 4 * SIZE), create(cu, 2 * SIZE)
    cu.call("cuMemMap", address, SIZE, 0, memory, 1)
    cu.call("cuMemMap", address, 0, 0, memory, 0)
    cu.call("cuMemMap", address, 4096, 0, memory, 0)
    cu.call("cuMemMap", address + 4096, SIZE, 0, memory, 0)
    cu.call("cuMemMap", address, SIZE, 4096, memory, 0)
    cu.call("cuMemMap", address, 3 * SIZE, 0, memory, 0)
    cu.call("cuMemMap", address, SIZE, 0, 0, 0)
    cu.call("cuMemMap", 0, SIZE, 0, memory, 0)
    cu.call("cuMemMap", address, 2 * SIZE, 0, memory, 0)
    cu.call("cuMemMap", address, 2 * SIZE, 0, memory, 0)
    cu.call("cuMemMap", address + SIZE, 2 * SIZE, 0, memory, 0)
    cu.call("cuMemMap", address + 2 * SIZE, SIZE, SIZE, memory, 0)
    cu.call("cuMemMap", cu.memory(SIZE), SIZE, 0, memory, 0)


@sequence
def unmap_arguments(cu: Recorder) -> None:
    """A mapping can only be removed as a whole. Addresses cannot be freed while memory is mapped there."""
    address, memory = reserve(cu, 4 * SIZE), create(cu, 2 * SIZE)
    cu.prepare("cuMemMap", address, 2 * SIZE, 0, memory, 0)
    cu.call("cuMemAddressFree", address, 4 * SIZE)
    cu.call("cuMemUnmap", address, SIZE)
    cu.call("cuMemUnmap", address + SIZE, SIZE)
    cu.call("cuMemUnmap", address, 4 * SIZE)
    cu.call("cuMemUnmap", address, 0)
    cu.call("cuMemUnmap", address, 2 * SIZE)
    cu.call("cuMemUnmap", address, 2 * SIZE)
    cu.call("cuMemUnmap", 0, SIZE)
    cu.call("cuMemUnmap", cu.memory(SIZE), SIZE)
    cu.call("cuMemRelease", memory)
    cu.call("cuMemAddressFree", address, 4 * SIZE)


@sequence
def access_rights(cu: Recorder) -> None:
    """Access to mapped memory is given and queried. Unmapped addresses have no access."""
    address, memory = reserve(cu, 2 * SIZE), create(cu)
    cu.call("cuMemSetAccess", address, SIZE, access(), 1)
    cu.read("cuMemGetAccess", c_uint64, Location(DEVICE, 0), address)
    cu.prepare("cuMemMap", address, SIZE, 0, memory, 0)
    cu.read("cuMemGetAccess", c_uint64, Location(DEVICE, 0), address)
    for flags in (READ_WRITE, READ, 0, 2, 9):
        cu.see("flags", flags)
        cu.call("cuMemSetAccess", address, SIZE, access(flags), 1)
        cu.read("cuMemGetAccess", c_uint64, Location(DEVICE, 0), address)
    cu.call("cuMemSetAccess", address, 2 * SIZE, access(), 1)
    cu.call("cuMemSetAccess", address, 4096, access(), 1)
    cu.call("cuMemSetAccess", address, 0, access(), 1)
    cu.call("cuMemSetAccess", address + 4096, SIZE, access(), 1)
    cu.call("cuMemSetAccess", address, SIZE, Access(Location(DEVICE, 77), 3), 1)
    cu.call("cuMemSetAccess", address, SIZE, Access(Location(HOST, 0), 3), 1)
    cu.call("cuMemSetAccess", address, SIZE, access(), 0)
    cu.call("cuMemSetAccess", address, SIZE, None, 1)
    cu.call("cuMemSetAccess", 0, SIZE, access(), 1)
    cu.call("cuMemGetAccess", c_uint64, Location(DEVICE, 77), address)
    cu.call("cuMemGetAccess", None, Location(DEVICE, 0), address)
    cu.call("cuMemGetAccess", c_uint64, None, address)
    cu.call("cuMemGetAccess", c_uint64, Location(DEVICE, 0), 0)
    cu.read("cuMemGetAccess", c_uint64, Location(DEVICE, 0), cu.memory(64))


@sequence
def use_without_access(cu: Recorder) -> None:
    """Copies and fills by the driver refuse mapped memory to which the device has no access."""
    address, memory = reserve(cu), create(cu)
    data = (c_char * 16)()
    cu.call("cuMemsetD8_v2", address, 1, 16)
    cu.call("cuMemcpyDtoH_v2", data, address, 16)
    cu.prepare("cuMemMap", address, SIZE, 0, memory, 0)
    cu.call("cuMemsetD8_v2", address, 1, 16)
    cu.call("cuMemcpyDtoH_v2", data, address, 16)
    cu.call("cuCtxSynchronize")


@sequence
def handle_of_an_address(cu: Recorder) -> None:
    """The handle of physical memory is found by a mapped address. Each such query adds a reference, to be released."""
    address, memory = mapped(cu)
    found = cu.new("cuMemRetainAllocationHandle", c_uint64, address + 4096)
    cu.see("the same", found == memory)
    cu.call("cuMemRelease", found)
    cu.call("cuMemRelease", memory)
    cu.call("cuMemRetainAllocationHandle", c_uint64, 0)
    cu.call("cuMemRetainAllocationHandle", c_uint64, cu.memory(64))
    cu.call("cuMemRetainAllocationHandle", None, address)
    base, size = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, address + 4096)
    cu.see("range", (base - address, size))


@sequence
def pointers(cu: Recorder) -> None:
    """The driver's information about an address of mapped memory."""
    address, _ = mapped(cu)
    cu.read("cuPointerGetAttribute", c_int, 2, address)
    cu.read("cuPointerGetAttribute", c_int, 9, address)
    cu.read("cuPointerGetAttribute", c_int(), 13, address)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFreeAsync", address, None)
    cu.prepare("cuMemUnmap", address, SIZE)
    cu.call("cuPointerGetAttribute", c_int, 2, address)
    cu.call("cuMemFree_v2", address)


@sequence
def two_in_a_row(cu: Recorder) -> None:
    """Two adjacent mappings can be used as one range of memory."""
    address = reserve(cu, 2 * SIZE)
    for place in range(2):
        cu.prepare("cuMemMap", address + place * SIZE, SIZE, 0, create(cu), 0)
    cu.call("cuMemSetAccess", address, 2 * SIZE, access(), 1)
    cu.call("cuMemsetD8_v2", address + SIZE - 8, 5, 16)
    cu.see_bytes("bytes", address + SIZE - 8, 16)
    cu.call("cuMemUnmap", address, 2 * SIZE)
