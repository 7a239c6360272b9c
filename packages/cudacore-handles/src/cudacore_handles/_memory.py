# SPDX-License-Identifier: Apache-2.0
"""Memory resources: where buffers come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudacore_handles import _native
from cudacore_handles._address import as_address
from cudacore_handles._buffer import Buffer, check_size
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._context import current_context
from cudacore_handles._device import Device
from cudacore_handles._errors import CUDAError, call_driver, check, closed
from cudacore_handles._handle import address, adopt, hold
from cudacore_handles._ipc import POSIX_FILE_DESCRIPTOR, IPCAllocationHandle, SharedPool, check_pools, import_pool
from cudacore_handles._options import as_options, check_flags
from cudacore_handles._stream import IsStreamType, Stream, Stream_accept

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._peer_access import PeerAccessibleBySetProxy
    from cudacore_handles._pool_attributes import _MemPoolAttributes

_MEMHOSTALLOC_PORTABLE = 1  # pinned for every context
_LOCATION_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_MOST_BYTES = 2**63
_PTR = "ptr must be an int, the memory's address"


class MemoryResource:
    """Allocate memory; subclass it to bring an allocator of one's own.

    A subclass has :meth:`allocate`, which often ends with ``Buffer.from_handle(ptr, size, mr=self)``,
    :meth:`deallocate`, and the properties.
    """

    def allocate(self, size: int, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate a buffer of `size` bytes, ordered on a stream."""
        raise TypeError(f"{type(self).__name__} does not implement allocate()")

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Free the `size` bytes at `ptr`, ordered on a stream."""
        raise TypeError(f"{type(self).__name__} does not implement deallocate()")

    @property
    def is_device_accessible(self) -> bool:
        """bool: Whether kernels can use the memory."""
        raise TypeError(f"{type(self).__name__} does not implement is_device_accessible")

    @property
    def is_host_accessible(self) -> bool:
        """bool: Whether the host can use the memory."""
        raise TypeError(f"{type(self).__name__} does not implement is_host_accessible")

    @property
    def is_managed(self) -> bool:
        """bool: Whether it is managed memory. Default False."""
        return False

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device whose memory it is; -1 for host memory."""
        raise TypeError(f"{type(self).__name__} does not implement device_id")


@dataclass
class DeviceMemoryResourceOptions:
    """Say how a new pool behaves.

    Attributes
    ----------
    ipc_enabled : bool, optional
        Whether the memory can be shared with other processes. Default False.
    max_size : int, optional
        Most bytes that the pool may hold; 0 for the system's limit. Default 0.
    """

    ipc_enabled: bool = False
    max_size: int = 0

    def __post_init__(self) -> None:
        check_flags(self)


class Pool(_native.Handle):
    """Hold a memory pool. A class of Python, which tells the collector of itself; nobody would ever collect it else."""

    __slots__ = ("__weakref__",)


class DeviceMemoryResource(SharedPool, MemoryResource):
    """Allocate a device's memory from a pool, in the order of streams.

    Parameters
    ----------
    device_id : int or Device
        The device.
    options : DeviceMemoryResourceOptions, optional
        Options of a new pool. Default: no new pool, but the one that the device uses now; it is told to keep freed
        memory for reuse, unless somebody set its release threshold already.

    Notes
    -----
    Keep a pool of your own as long as other threads work with CUDA: driver 580 (CUDA 13.0) can hang or crash where a
    pool is destroyed (``cuMemPoolDestroy``) while another thread waits for a stream.
    """

    _pool = Pool()  # closed: until there is one, and where a subclass makes none

    def __init__(
        self,
        device_id: Device | int,
        options: DeviceMemoryResourceOptions | Mapping[str, Any] | None = None,
    ) -> None:
        self._device_id = Device(device_id).device_id
        self._is_handle_owned = options is not None
        out = ffi.new("cch_pool **")
        if options is None:
            check(lib.cch_pool_current(out, self._device_id))
        else:
            config = _pool_config(options, self._device_id)
            check(lib.cch_pool_create(out, config))
        self._pool = adopt(Pool, out[0])
        self._keep_freed_memory()
        if options is not None and config.handle_types:
            self._share()

    @classmethod
    def _init(cls, pool: Pool) -> DeviceMemoryResource:
        """Make one of a pool that somebody else made."""
        self = cls.__new__(cls)
        self._pool = pool
        self._device_id = lib.cch_pool_device(hold(pool))
        self._is_handle_owned = False
        if self._device_id < 0:
            raise TypeError("the pool is of host memory; a DeviceMemoryResource is made of a device's")
        return self

    def __cudacore_handle__(self) -> object:
        """Return the pool for extension modules: a capsule with a reference of its own."""
        if self.is_closed:
            raise closed(self)
        return self._pool.__cudacore_handle__()

    def __repr__(self) -> str:
        state = " closed" if self.is_closed else f" of device {self._device_id}"
        return f"<DeviceMemoryResource{state}>"

    @classmethod
    def from_allocation_handle(
        cls, device_id: Device | int, alloc_handle: int | IPCAllocationHandle
    ) -> DeviceMemoryResource:
        """Import the pool of another process (cuMemPoolImportFromShareableHandle).

        Parameters
        ----------
        device_id : int or Device
            The device whose memory it is; ordinals are each process's own.
        alloc_handle : IPCAllocationHandle or int
            The other process's :attr:`allocation_handle`, or a file descriptor, which stays the caller's.

        Returns
        -------
        DeviceMemoryResource
            The resource of the pool; the one that there is already, in a process that made or imported it.
        """
        return import_pool(cls, Device(device_id), alloc_handle)

    def allocate(self, size: int, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate from the pool (cuMemAllocFromPoolAsync).

        Parameters
        ----------
        size : int
            Bytes; a buffer of 0 bytes has no memory.
        stream : Stream
            The stream that the allocation, and later the free, is ordered on.

        Raises
        ------
        CUDAError
            When the device, or the pool, has no such memory left.
        """
        if type(size) is not int or not 0 < size < _MOST_BYTES:
            size = check_size(size)
        if self.is_closed:
            raise closed(self)
        if size == 0:
            return empty_buffer(self, stream)
        try:
            return _native.allocate(Buffer, self._pool, size, stream, self)
        except CUDAError as error:
            if self.is_mapped:
                raise TypeError(
                    "Cannot allocate from a mapped IPC-enabled memory resource: the process that made it allocates, "
                    "and sends its buffers"
                ) from error
            error.hint = error.hint or f"{size:,} bytes were asked of device {self._device_id}"
            raise

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Free memory that was allocated from a pool by other means (cuMemFreeAsync)."""
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        call_driver("cuMemFreeAsync", as_address(ptr, _PTR), accepted.handle)

    def close(self) -> None:
        """Give up the pool. Calling it again does nothing; it goes when its last buffer does (cuMemPoolDestroy)."""
        self._pool.close()

    def _keep_freed_memory(self) -> None:
        """Have the pool keep what is freed, unless somebody has set how much it keeps."""
        attributes = self.attributes
        if attributes.release_threshold == 0:
            attributes._set_release_threshold(2**64 - 1)

    @property
    def attributes(self) -> _MemPoolAttributes:
        """Attributes of the pool (cuMemPoolGetAttribute)."""
        from cudacore_handles._pool_attributes import _MemPoolAttributes

        if self.is_closed:
            raise closed(self)
        return _MemPoolAttributes._init(self)

    @property
    def peer_accessible_by(self) -> PeerAccessibleBySetProxy:
        """Set of the other devices whose kernels can use the memory; can be assigned (cuMemPoolSetAccess)."""
        from cudacore_handles._peer_access import PeerAccessibleBySetProxy

        if self.is_closed:
            raise closed(self)
        return PeerAccessibleBySetProxy._init(self)

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[Device | int]) -> None:
        self.peer_accessible_by._replace(devices)

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device."""
        return self._device_id

    @property
    def handle(self) -> driver.CUmemoryPool:
        """cuda.bindings.driver.CUmemoryPool: The pool for ``cuda.bindings``."""
        if self.is_closed:
            raise closed(self)
        from cuda.bindings import driver

        return driver.CUmemoryPool(self._pool._raw)

    @property
    def is_handle_owned(self) -> bool:
        """bool: Whether the pool is this object's own, not the device's."""
        return self._is_handle_owned

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: False."""
        return False

    def _shared_devices(self) -> tuple[str, ...]:
        return (Device(self._device_id).uuid,)


class LegacyPinnedMemoryResource(MemoryResource):
    """Allocate page-locked host memory, which devices can reach too, at once (cuMemHostAlloc)."""

    def allocate(self, size: int, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate host memory.

        Parameters
        ----------
        size : int
            Bytes; a buffer of 0 bytes has no memory.
        stream : Stream, optional
            A stream to wait for before the memory is freed. Default None.
        """
        context = current_context() or Device().context
        out = ffi.new("cch_deviceptr **")
        nbytes = check_size(size)
        accepted = None if stream is None else Stream_accept(stream, allow_stream_protocol=True)
        if nbytes == 0:
            return empty_buffer(self, stream)
        status = lib.cch_deviceptr_alloc_host(out, hold(context), nbytes, _MEMHOSTALLOC_PORTABLE)
        check(status, hint=f"{nbytes:,} bytes of page-locked host memory were asked for")
        buffer = Buffer._adopt_memory(address(out[0]), self, None)
        if accepted is not None:
            buffer.set_deallocation_stream(accepted)
        return buffer

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType | None = None) -> None:
        """Free host memory that was allocated by other means, when the stream is done (cuMemFreeHost)."""
        if stream is not None:
            Stream_accept(stream, allow_stream_protocol=True).sync()
        call_driver("cuMemFreeHost", as_address(ptr, _PTR))

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def device_id(self) -> int:
        """int: -1: it is host memory."""
        return -1


class _SynchronousMemoryResource(MemoryResource):
    """Allocate a device's memory at once (cuMemAlloc), for devices that have no pools."""

    def __init__(self, device_id: int) -> None:
        self._device_id = Device(device_id).device_id

    def allocate(self, size: int, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate device memory; see :meth:`LegacyPinnedMemoryResource.allocate`."""
        out = ffi.new("cch_deviceptr **")
        nbytes = check_size(size)
        accepted = None if stream is None else Stream_accept(stream, allow_stream_protocol=True)
        if nbytes == 0:
            return empty_buffer(self, stream)
        status = lib.cch_deviceptr_alloc(out, hold(Device(self._device_id)._target()), nbytes)
        check(status, hint=f"{nbytes:,} bytes were asked of device {self._device_id}")
        buffer = Buffer._adopt_memory(address(out[0]), self, None)
        if accepted is not None:
            buffer.set_deallocation_stream(accepted)
        return buffer

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType | None = None) -> None:
        """Free device memory that was allocated by other means, when the stream is done (cuMemFree)."""
        if stream is not None:
            Stream_accept(stream, allow_stream_protocol=True).sync()
        call_driver("cuMemFree", as_address(ptr, _PTR))

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: False."""
        return False

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device."""
        return self._device_id


def empty_buffer(mr: MemoryResource, stream: Stream | IsStreamType | None) -> Buffer:
    """Return a buffer of 0 bytes, which has no memory."""
    if stream is not None:
        Stream_accept(stream, allow_stream_protocol=True)
    out = ffi.new("cch_deviceptr **")
    check(lib.cch_deviceptr_wrap(out, 0, 0, ffi.NULL, ffi.NULL, ffi.NULL))
    return Buffer._adopt_memory(address(out[0]), mr, None)


def _pool_config(given: DeviceMemoryResourceOptions | Mapping[str, Any], device_id: int) -> Any:
    options = as_options(DeviceMemoryResourceOptions, given)
    config = ffi.new("cch_pool_config *")
    if options.ipc_enabled:
        check_pools(Device(device_id))
        config.handle_types = POSIX_FILE_DESCRIPTOR
    config.size = ffi.sizeof("cch_pool_config")
    config.location_type = _LOCATION_DEVICE
    config.location_id = device_id
    config.max_size = check_size(options.max_size)
    return config
