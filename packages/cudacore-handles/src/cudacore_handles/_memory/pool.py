# SPDX-License-Identifier: Apache-2.0
"""The common part of memory resources that use the driver's pools. Each resource has its own file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from cudacore_handles import _native
from cudacore_handles._base.address import as_address
from cudacore_handles._base.driver_calls import call_driver
from cudacore_handles._base.errors import (
    ClosedError,
    CUDAError,
    OutOfMemoryError,
    bindings,
    check,
    check_open,
    closed,
)
from cudacore_handles._base.handle import adopt, hold, out_box, share
from cudacore_handles._base.made import Closing, not_pickled
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.ipc import POSIX_FILE_DESCRIPTOR, IPCAllocationHandle
from cudacore_handles._memory.out_of_memory import collect_garbage, explained
from cudacore_handles._memory.resource import AccessibleMemoryResource, MemoryResource
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from cuda.bindings import driver

    from cudacore_handles._memory.pool_attributes import MemPoolAttributes

_MAX_BYTES = 2**63
_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD


class Pool(_native.Handle):
    """The owner of a memory pool.

    This is a Python class, because the garbage collector does not track objects of its base class. The report of an
    :class:`OutOfMemoryError` finds pools by the garbage collector.
    """

    __slots__ = ("__weakref__",)


class PooledMemoryResource(AccessibleMemoryResource, Closing):
    """A memory resource that allocates from a pool, in the order of streams.

    Notes
    -----
    Keep a new pool as long as other threads use CUDA. Driver 580 (CUDA 13.0) can hang or crash if a pool is destroyed
    (``cuMemPoolDestroy``) while another thread waits for a stream.
    """

    _pool = Pool()  # a closed pool, until a pool is set; subclasses without a pool keep it
    _is_handle_owned = False
    _max_size = 0  # the maximum size of a pool that this object created; 0: no maximum
    _buffer_class: type[Buffer] = Buffer
    _alloc_handle: IPCAllocationHandle | None = None  # None if the pool cannot be shared
    _is_imported = False  # whether the pool belongs to another process
    _attributes: Any = None  # MemPoolAttributes, once they are used, and until the pool is closed

    def __init__(self) -> None:
        raise TypeError("PooledMemoryResource is a base class; create a DeviceMemoryResource or another subclass")

    def __cudacore_handle__(self) -> object:
        """Return a capsule of the pool with its own reference, for extension modules."""
        check_open(self)
        return self._pool.__cudacore_handle__()

    def __reduce__(self) -> tuple[Any, ...]:
        not_pickled(self, "processes do not share such memory")

    def __repr__(self) -> str:
        state = " closed" if self.is_closed else f" of {self._where}"
        return f"<{type(self).__name__}{state}>"

    def _repr_html_(self) -> str | None:
        from cudacore_handles._base.html import attributes_table

        return None if self.is_closed else attributes_table(f"{type(self).__name__} of {self._where}", self.attributes)

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate from the pool (cuMemAllocFromPoolAsync).

        Parameters
        ----------
        size : int
            Size in bytes; a buffer of 0 bytes has no memory.
        stream : Stream
            The stream on which the allocation, and later the free, is ordered.

        Raises
        ------
        CUDAError
            If the device or the pool does not have enough memory left.
        """
        return self._allocate_for(self, None, size, stream)

    def _allocate_for(
        self,
        mr: MemoryResource,
        trackers: tuple[_native.Handle, ...] | None,
        size: SupportsIndex,
        stream: Stream | IsStreamType | None,
    ) -> Buffer:
        """Allocate for this resource, or for an adaptor, whose trackers count the memory."""
        if type(size) is not int or not 0 <= size < _MAX_BYTES:
            size = check_size(size)
        try:
            return _native.allocate(self._buffer_class, self._pool, size, stream, mr, trackers)
        except (ClosedError, ValueError):  # a ValueError if a subclass has not called __init__()
            if self.is_closed:
                raise closed(self) from None
            raise
        except CUDAError as error:
            if not isinstance(error, OutOfMemoryError) or not collect_garbage(self, stream):
                raise self._explained(error, size)  # noqa: B904 - it is the same error, or has it as its cause
        try:
            return _native.allocate(self._buffer_class, self._pool, size, stream, mr, trackers)
        except CUDAError as error:
            raise self._explained(error, size)  # noqa: B904

    def _explained(self, error: CUDAError, size: int) -> Exception:
        """Return the error of an allocation, with what to do about it."""
        if self.is_mapped:
            made = TypeError(
                "Cannot allocate from a mapped IPC-enabled memory resource: the process that made it allocates, and "
                "sends its buffers"
            )
            made.__cause__ = error
            return made
        if error.code_name == "CUDA_ERROR_NOT_SUPPORTED" and self.is_ipc_enabled:
            error.hint = "a pool that processes share has no memory for a graph: allocate before the capture"
        return explained(error, self, size, self._where, self._limit_of(size))

    def _limit_of(self, size: int) -> int:
        """Return the pool's maximum size if an allocation would exceed it; otherwise 0."""
        try:
            return self._max_size if self.attributes.used_mem_current + size > self._max_size else 0
        except Exception:  # when the interpreter ends, nothing can be imported; then the error does not name the limit
            return 0

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Free memory that was allocated from a pool by other means (cuMemFreeAsync)."""
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        call_driver("cuMemFreeAsync", as_address(ptr, "ptr must be an int, the memory's address"), accepted)

    def trim(self, min_bytes_to_keep: int = 0) -> None:
        """Return unused memory to the system (cuMemPoolTrimTo).

        Memory whose free is still waiting for its stream remains in the pool. Otherwise, a pool keeps as much memory as
        its :attr:`attributes` specify.

        Parameters
        ----------
        min_bytes_to_keep : int, optional
            Minimum number of bytes that the pool keeps, including used ones. The driver rounds it up (to 32 MiB on an
            H200). Default 0.
        """
        keep = check_size(min_bytes_to_keep, "min_bytes_to_keep")
        check_open(self)
        check(lib.cch_pool_trim(hold(self._pool), keep))

    def close(self) -> None:
        """Release the pool. It is destroyed after its last buffer (cuMemPoolDestroy). Closing twice does nothing."""
        self._pool.close()
        self._attributes = None  # they keep the pool

    def _open(self, function: Callable[..., int], *arguments: object, owned: bool = False, hint: str = "") -> None:
        """Open a pool by a function of the library. If its release threshold is 0, let it keep all freed memory."""
        out = out_box("cch_pool")
        check(function(out, *arguments), hint=hint)
        self._pool = adopt(Pool, out)
        self._is_handle_owned = owned
        box, threshold = hold(self._pool), ffi.new("uint64_t *")
        check(lib.cch_pool_attribute(threshold, box, _RELEASE_THRESHOLD))
        if threshold[0] == 0:
            check(lib.cch_pool_set_attribute(box, _RELEASE_THRESHOLD, 2**64 - 1))

    def _create(self, location: tuple[int, int], kind: int, max_size: int = 0, *, shared: bool = False) -> None:
        """Create a pool."""
        config = ffi.new("cch_pool_config *")
        config.size = ffi.sizeof("cch_pool_config")
        config.location_type, config.location_id = location
        config.alloc_type = kind
        config.max_size = self._max_size = max_size
        config.handle_types = POSIX_FILE_DESCRIPTOR if shared else 0
        self._open(lib.cch_pool_create, config, owned=True, hint=f"The requested pool is of {self._where}")

    @property
    def _where(self) -> str:
        """Name the location of the memory, for messages."""
        return f"device {self.device_id}"

    @property
    def attributes(self) -> MemPoolAttributes:
        """Attributes of the pool (cuMemPoolGetAttribute)."""
        attributes = self._attributes
        if attributes is None or self._pool.is_closed:
            from cudacore_handles._memory.pool_attributes import MemPoolAttributes

            check_open(self)
            attributes = self._attributes = MemPoolAttributes._with(_pool=share(Pool, hold(self._pool)))
            if self._pool.is_closed:  # another thread closed it meanwhile
                self._attributes = None
        return attributes

    @property
    def handle(self) -> driver.CUmemoryPool:
        """cuda.bindings.driver.CUmemoryPool: The pool for ``cuda.bindings``."""
        check_open(self)
        return bindings().CUmemoryPool(self._pool._raw)

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._pool.is_closed

    @property
    def is_handle_owned(self) -> bool:
        """bool: Whether the pool belongs to this object, rather than being a shared one."""
        return self._is_handle_owned

    @property
    def is_ipc_enabled(self) -> bool:
        """bool: Whether the memory can be shared with other processes."""
        return self._alloc_handle is not None and not self.is_closed

    @property
    def is_mapped(self) -> bool:
        """bool: Whether the pool belongs to another process. Nothing can be allocated from it."""
        return self._is_imported and not self.is_closed

    @property
    def uuid(self) -> UUID | None:
        """uuid.UUID or None: Identity between processes, for a pool that can be shared."""
        handle = self._alloc_handle
        return handle.uuid if handle is not None and not self.is_closed else None
