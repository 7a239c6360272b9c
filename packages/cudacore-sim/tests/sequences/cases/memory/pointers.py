# SPDX-License-Identifier: Apache-2.0
"""The driver's information about addresses."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from recorder import Recorder, sequence
from structs import device_pool

CONTEXT, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER = 1, 2, 3, 4
SYNC_MEMOPS, BUFFER_ID, IS_MANAGED, DEVICE_ORDINAL = 6, 7, 8, 9
LEGACY_IPC, RANGE_START, RANGE_SIZE, MAPPED, HANDLE_TYPES, ACCESS_FLAGS, POOL = 10, 11, 12, 13, 14, 16, 17

KINDS = {
    CONTEXT: c_void_p, MEMORY_TYPE: c_int, DEVICE_POINTER: c_uint64, HOST_POINTER: c_void_p,
    SYNC_MEMOPS: ctypes.c_ubyte,
    BUFFER_ID: c_uint64, IS_MANAGED: ctypes.c_ubyte, DEVICE_ORDINAL: c_int, LEGACY_IPC: ctypes.c_ubyte,
    RANGE_START: c_uint64,
    RANGE_SIZE: c_size_t, MAPPED: ctypes.c_ubyte, HANDLE_TYPES: c_uint64, ACCESS_FLAGS: c_uint, POOL: c_void_p,
}  # fmt: skip


def see_pointer(cu: Recorder, address: int, base: int | None = None) -> None:
    """List all portable information of the driver about an address."""
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    for attribute, kind in KINDS.items():
        value: Any = kind(0xEE)
        code = cu.call("cuPointerGetAttribute", value, attribute, address)
        if code:
            continue
        shown: object = value.value
        if attribute in (DEVICE_POINTER, HOST_POINTER, RANGE_START):
            shown = "NULL" if not value.value else value.value - (address if base is None else base)
        elif attribute in (BUFFER_ID, POOL):
            shown = bool(value.value)
        elif attribute == CONTEXT:
            shown = "current" if value.value == context else "NULL" if not value.value else "another"
        cu.see(f"attribute {attribute}", shown)


@sequence
def device(cu: Recorder) -> None:
    """The driver's information about the first address of device memory."""
    see_pointer(cu, cu.memory(1000))


@sequence
def inside_device(cu: Recorder) -> None:
    """The driver's information about an address inside device memory."""
    address = cu.memory(1000)
    see_pointer(cu, address + 20, address)


@sequence
def pinned(cu: Recorder) -> None:
    """The driver's information about pinned memory."""
    see_pointer(cu, cu.prepare("cuMemHostAlloc", c_void_p, 1000, 0))


@sequence
def registered(cu: Recorder) -> None:
    """The driver's information about registered memory."""
    memory = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    cu.prepare("cuMemHostRegister_v2", address, 8192, 0)
    see_pointer(cu, address + 64, address)


@sequence
def managed(cu: Recorder) -> None:
    """The driver's information about managed memory."""
    see_pointer(cu, cu.prepare("cuMemAllocManaged", c_uint64, 1000, 1))


@sequence
def stream_ordered(cu: Recorder) -> None:
    """The driver's information about memory of a pool."""
    address = cu.prepare("cuMemAllocAsync", c_uint64, 1000, None)
    cu.prepare("cuCtxSynchronize")
    see_pointer(cu, address)
    found = cu.new("cuPointerGetAttribute", c_void_p, POOL, address)
    cu.see("of the default pool", found == cu.prepare("cuDeviceGetDefaultMemPool", c_void_p, 0))
    pool = cu.prepare("cuMemPoolCreate", c_void_p, device_pool())
    other = cu.prepare("cuMemAllocFromPoolAsync", c_uint64, 64, pool, None)
    found = cu.new("cuPointerGetAttribute", c_void_p, POOL, other)
    cu.see("of the pool", found == pool)


@sequence
def unknown(cu: Recorder) -> None:
    """Queries for addresses that are unknown to the driver."""
    memory = ctypes.create_string_buffer(64)
    see_pointer(cu, ctypes.addressof(memory))
    see_pointer(cu, 0)


@sequence
def several_attributes(cu: Recorder) -> None:
    """Several attributes are queried by one call, which succeeds even for an unknown address."""
    address = cu.memory(1000)
    memory = ctypes.create_string_buffer(64)
    kind, ordinal, pointer, size = c_int(), c_int(), c_uint64(), c_size_t()
    wanted = (c_int * 4)(MEMORY_TYPE, DEVICE_ORDINAL, DEVICE_POINTER, RANGE_SIZE)
    places = (c_void_p * 4)(*map(ctypes.addressof, (kind, ordinal, pointer, size)))
    for where in (address + 8, ctypes.addressof(memory), 0):
        kind.value = ordinal.value = pointer.value = size.value = 77
        cu.call("cuPointerGetAttributes", 4, wanted, places, where)
        relation = pointer.value - where if pointer.value not in (0, 77) else pointer.value
        cu.see("values", (kind.value, ordinal.value, relation, size.value))
    cu.call("cuPointerGetAttributes", 0, wanted, places, address)
    cu.call("cuPointerGetAttributes", 4, None, places, address)
    cu.call("cuPointerGetAttributes", 4, wanted, None, address)
    wanted[1] = 999
    cu.call("cuPointerGetAttributes", 4, wanted, places, address)


@sequence
def synchronous_operations(cu: Recorder) -> None:
    """SYNC_MEMOPS is the only attribute of an address that can be set."""
    address = cu.memory(1000)
    for value in (1, 0):
        cu.call("cuPointerSetAttribute", c_uint(value), SYNC_MEMOPS, address)
        cu.read("cuPointerGetAttribute", ctypes.c_ubyte, SYNC_MEMOPS, address)
    cu.call("cuPointerSetAttribute", c_uint(1), SYNC_MEMOPS, address + 8)
    cu.call("cuPointerSetAttribute", c_uint(1), MEMORY_TYPE, address)
    cu.call("cuPointerSetAttribute", None, SYNC_MEMOPS, address)
    cu.call("cuPointerSetAttribute", c_uint(1), SYNC_MEMOPS, 0)
    cu.call("cuPointerSetAttribute", c_uint(1), SYNC_MEMOPS, 0x1234_5678_9000)
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 64, 0)
    cu.call("cuPointerSetAttribute", c_uint(1), SYNC_MEMOPS, pinned)
    managed = cu.prepare("cuMemAllocManaged", c_uint64, 64, 1)
    cu.call("cuPointerSetAttribute", c_uint(1), SYNC_MEMOPS, managed)


@sequence
def bad_attributes(cu: Recorder) -> None:
    """Queries of attributes that do not exist, and with NULL for the value."""
    address = cu.memory(1000)
    for attribute in (0, 5, 15, 22, 999, -1):
        cu.call("cuPointerGetAttribute", c_uint64, attribute, address)
    cu.call("cuPointerGetAttribute", None, MEMORY_TYPE, address)


@sequence
def freed(cu: Recorder) -> None:
    """Freed memory is unknown to the driver. The next allocation has another buffer identifier."""
    address = cu.memory(1000)
    first = cu.new("cuPointerGetAttribute", c_uint64, BUFFER_ID, address)
    cu.prepare("cuMemFree_v2", address)
    see_pointer(cu, address)
    second = cu.new("cuPointerGetAttribute", c_uint64, BUFFER_ID, cu.memory(1000))
    cu.see("another", first != second)
