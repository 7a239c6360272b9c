# SPDX-License-Identifier: Apache-2.0
"""Allocators of the C library, which provide memory to libraries that keep only an address."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_handles import _native
from cudacore_handles._base.errors import check, check_open
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.paths import get_library
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.adaptors.base import ResourceAdaptor, Tracker, boxes_of
from cudacore_handles._memory.pool import PooledMemoryResource
from cudacore_handles._memory.resource import MemoryResource


class Allocator(_native.Handle):
    """Holds a ``cch_allocator``. Its functions run no unrelated Python code: they do not collect garbage."""

    __slots__ = ("__weakref__",)

    def allocate(self, size: int, stream: int) -> int:
        """Allocate memory, ordered on a stream, and return its address. Garbage is not collected."""
        out = ffi.new("CUdeviceptr *")
        check(lib.cch_allocator_alloc(out, hold(self), size, ffi.cast("CUstream", stream)))
        return int(out[0])

    @staticmethod
    def free(ptr: int, stream: int) -> None:
        """Free memory, ordered on a stream."""
        check(lib.cch_allocator_free_async(ptr, ffi.cast("CUstream", stream)))


def make_allocator(mr: MemoryResource) -> Allocator:
    """Make an allocator that allocates from a memory resource without running Python code.

    Parameters
    ----------
    mr : MemoryResource
        A resource of a pool, or an adaptor of such a resource. The adaptor must need no Python code.

    Raises
    ------
    TypeError
        If `mr` is not such a resource.
    """
    pool: MemoryResource = mr
    trackers: tuple[Tracker, ...] = ()
    if isinstance(mr, ResourceAdaptor) and type(mr).allocate is ResourceAdaptor.allocate:
        pool, trackers = mr._target, mr._trackers
    if not isinstance(pool, PooledMemoryResource) or type(pool).allocate is not PooledMemoryResource.allocate:
        raise TypeError(
            f"{mr!r} runs Python code for each allocation, which functions in C cannot do: use a resource of a pool "
            "(DeviceMemoryResource, ManagedMemoryResource), or a statistics, limiting or logging adaptor of one"
        )
    check_open(pool)
    out = out_box("cch_allocator")
    check(lib.cch_allocator_create(out, hold(pool._pool), *boxes_of(trackers)))
    return adopt(Allocator, out)


class TorchFunctions(NamedTuple):
    """The functions of the C library that PyTorch calls."""

    path: str
    """The path of the library."""
    alloc: str
    """The name of the function that allocates, or throws a C++ exception."""
    try_alloc: str
    """The name of the function that allocates, or returns NULL."""
    free: str
    """The name of the function that frees."""
    record_stream: int
    """The address of the function that records a stream."""


def set_torch_allocator(device_id: int, allocator: Allocator) -> TorchFunctions:
    """Set the allocator of a device for the functions that PyTorch calls; return these functions."""
    check(lib.cch_torch_set_allocator(device_id, hold(allocator)))
    record = int(ffi.cast("uintptr_t", ffi.addressof(lib, "cch_torch_record_stream")))
    return TorchFunctions(get_library(), "cch_torch_alloc", "cch_torch_try_alloc", "cch_torch_free", record)
