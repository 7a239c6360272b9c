# SPDX-License-Identifier: Apache-2.0
"""Sharing memory between processes: pools by file descriptors, buffers by descriptors, both by pickle."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from cudacore_handles import _native
from cudacore_handles._base import ipc as base
from cudacore_handles._base.address import as_integer
from cudacore_handles._base.errors import CUDAError, GoneError, check, check_open, last_error
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.ipc import HANDLE_SIZE, Descriptors, SentFields, teach_multiprocessing
from cudacore_handles._base.made import Made
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.names import check_type
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import find_device

if TYPE_CHECKING:
    from uuid import UUID

    from cudacore_handles._driver.device import Device
    from cudacore_handles._memory.buffer import Buffer
    from cudacore_handles._memory.pool import PooledMemoryResource
else:
    PooledMemoryResource = object  # the other base class of SharedPool's subclasses; its module imports this one

Resource = TypeVar("Resource", bound="SharedPool")

POSIX_FILE_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_NOT_ENABLED = "Memory resource is not IPC-enabled"
_OUT_OF_RANGE = "The offset and size in ipc_descriptor are outside of the memory: the descriptor was changed or damaged"

# The pools of this process, by the names that identify them in all processes.
_resources: weakref.WeakValueDictionary[UUID, SharedPool] = weakref.WeakValueDictionary()


class IPCAllocationHandle(base.HasDescriptors, Made):
    """The file descriptor with which another process imports a memory pool.

    :attr:`DeviceMemoryResource.allocation_handle` returns it. It is sent to other processes by ``multiprocessing``, or
    as ``int(handle)`` by ``socket.send_fds``. The descriptor is closed with the object.
    """

    __slots__ = ("__weakref__", "_location", "_uuid")
    _made_by = "DeviceMemoryResource.allocation_handle"
    _names = ("_files", "_uuid", "_location")
    _other_way = "int(handle)"
    _location: tuple[int, int] | None  # for host memory: a CCH_LOCATION_* and its id
    _uuid: UUID | None

    def __int__(self) -> int:
        return self._open().numbers[0]

    def __repr__(self) -> str:
        return f"<IPCAllocationHandle {'closed' if self.is_closed else self.handle}>"

    @property
    def handle(self) -> int:
        """int: The file descriptor; -1 when closed."""
        files = self._files
        return -1 if files is None else files.numbers[0]

    @property
    def uuid(self) -> UUID | None:
        """uuid.UUID or None: Identity of the pool between processes; None if the pool was imported by number."""
        return self._uuid


class IPCBufferDescriptor(SentFields, Made):
    """The name of a buffer of a shared pool for other processes; see :attr:`Buffer.ipc_descriptor`.

    The descriptor can be pickled and sent by any means. The receiving process must have the pool. Two descriptors are
    equal if they name the same memory.
    """

    __slots__ = ("_data", "_offset", "_size", "_uuid")
    _made_by = "Buffer.ipc_descriptor"
    _names = ("_data", "_size", "_uuid", "_offset")
    _data: bytes
    _offset: int  # offset in the memory that `_data` names
    _size: int
    _uuid: UUID | None

    def __repr__(self) -> str:
        return f"<IPCBufferDescriptor of {self._size} bytes>"

    @property
    def size(self) -> int:
        """int: Size of the buffer in bytes."""
        return self._size


class SharedPool(PooledMemoryResource):
    """The common part of memory resources whose pools can be shared between processes.

    A subclass is also a ``PooledMemoryResource``, has class methods ``from_allocation_handle`` and ``_init``, and
    implements ``_shared_devices``.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        handle = self._open_handle("pickled")
        if handle.uuid is None:
            raise RuntimeError(
                f"the {type(self).__name__} was imported by the number of a file descriptor, and has no identity "
                "between processes: call register(uuid) with that of the process that made it"
            )
        return type(self).from_registry, (handle.uuid,)

    @classmethod
    def from_registry(cls, uuid: UUID) -> Any:
        """Return the memory resource of this process that has a given identity.

        Parameters
        ----------
        uuid : uuid.UUID
            The :attr:`uuid` of the resource, in the process that created it or in one that imported it.

        Raises
        ------
        RuntimeError
            If this process neither created nor imported such a resource.
        """
        found = _find(uuid)
        if found is None:
            raise RuntimeError(
                f"Memory resource {uuid} was not found: this process must import it first, by "
                "DeviceMemoryResource.from_allocation_handle(), or have it sent by multiprocessing"
            )
        return found

    def register(self, uuid: UUID) -> Any:
        """Register an imported resource under the identity that it has in the process that created it.

        Buffers that are sent to this process by plain ``pickle`` then use this resource.

        Parameters
        ----------
        uuid : uuid.UUID
            The identity.

        Returns
        -------
        DeviceMemoryResource
            This object, or the one that was registered before.

        Raises
        ------
        ValueError
            If `uuid` is not the identity of this resource.
        """
        from uuid import UUID

        handle = self._open_handle("registered")
        check_type("uuid", uuid, UUID)
        with base.lock:
            known = _find(uuid)
            if known is not None:
                return known
            if handle.uuid not in (None, uuid):
                raise ValueError(f"uuid is {uuid}, and the memory resource is {handle.uuid}")
            handle._uuid = uuid
            _resources[uuid] = self
        return self

    def _reduce_buffer(self, buffer: Buffer) -> tuple[Any, ...]:
        """Return the function and arguments that make a buffer of the pool in another process."""
        if self._alloc_handle is None:
            raise not_enabled(self, "pickled")
        return receive_buffer, (self, buffer.ipc_descriptor)

    def _open_handle(self, done: str = "shared") -> IPCAllocationHandle:
        """Return the handle of the pool; raise an error if the resource is closed or cannot be shared."""
        check_open(self)
        if self._alloc_handle is None:
            raise not_enabled(self, done)
        return self._alloc_handle

    def _share(self) -> None:
        """Export a new pool."""
        from uuid import uuid4

        uuid = uuid4()
        self._alloc_handle = _export(self._pool, uuid)
        with base.lock:
            _resources[uuid] = self
        teach_multiprocessing(type(self), _reduce_resource)

    @classmethod
    def _init(cls, pool: Any) -> Any:
        raise NotImplementedError

    def _shared_devices(self) -> tuple[str, ...]:
        """Return the UUIDs of the devices that ``from_allocation_handle`` takes before the handle."""
        raise NotImplementedError

    @property
    def allocation_handle(self) -> IPCAllocationHandle:
        """IPCAllocationHandle: The file descriptor with which another process imports the pool.

        The object belongs to the resource. If it was closed, a new one is made in the process that created the pool,
        but not in other processes.
        """
        handle = self._open_handle()
        if handle.is_closed and not self._is_imported:
            handle = self._alloc_handle = _export(self._pool, handle.uuid)
        return handle


def not_enabled(resource: object, done: str) -> Exception:
    """Return the error for a resource that cannot be shared."""
    if isinstance(resource, SharedPool):
        made = f"make it with {type(resource).__name__}Options(ipc_enabled=True)"
    else:
        made = "only memory of a resource that was made with ipc_enabled=True can be, such as a DeviceMemoryResource"
    text = f"{_NOT_ENABLED}: it cannot be {done}; {made}"
    return TypeError(text) if done == "pickled" else RuntimeError(text)


def check_pools(device: Device) -> None:
    """Raise an error with the reason if the memory of a device cannot be shared between processes."""
    if sys.platform != "linux":
        raise RuntimeError(
            f"ipc_enabled: processes share memory pools by file descriptors, which {sys.platform} does not have"
        )
    if not device.properties.mempool_supported_handle_types & POSIX_FILE_DESCRIPTOR:
        raise RuntimeError(
            f"ipc_enabled: {device!r} ({device.name}) has no memory pools that processes can share by file "
            "descriptors (see its properties.mempool_supported_handle_types); under WSL, for example, no device has "
            "such pools"
        )


# ---- pools


def import_pool(cls: type[Resource], device: Device | None, alloc_handle: int | IPCAllocationHandle) -> Resource:
    """Import a pool that another process exported; return its memory resource. `device` is None for host memory."""
    uuid = location = None
    if isinstance(alloc_handle, IPCAllocationHandle):
        files = alloc_handle._open()  # keeps the descriptor open during this call
        uuid, location, descriptor = alloc_handle.uuid, alloc_handle._location, files.numbers[0]
        known = _find(uuid) or _find(uuid, own=True)
        if known is not None:
            _check_known(known, cls, device)
            check_open(known)  # if it were imported again, the driver would take it for another process's pool
            return known
    else:
        number = as_integer(alloc_handle)
        if number is None:
            raise TypeError(
                "alloc_handle must be an IPCAllocationHandle or an int, a file descriptor, not "
                f"{type(alloc_handle).__name__}"
            )
        descriptor = number
        if not -(2**31) <= descriptor < 2**31:
            raise ValueError(f"alloc_handle is {descriptor}, which is not a file descriptor")
    handle = IPCAllocationHandle._init(Descriptors.copies([descriptor]), uuid, location)
    out = out_box("cch_pool")
    if device is not None:
        place = (lib.CCH_LOCATION_DEVICE, device.device_id)
    else:
        place = location or (lib.CCH_LOCATION_HOST, 0)
    status = lib.cch_pool_import(out, int(handle), *place)
    if status == lib.CCH_EMISMATCH:
        where = "the host's memory" if device is None else f"the memory of device {device.device_id}"
        raise ValueError(
            f"alloc_handle is not of a pool of {where}: DeviceMemoryResource imports a pool of its device, and "
            "PinnedMemoryResource one of the host"
        ) from last_error(status)
    check(status, hint=f"file descriptor {descriptor} must be one that a process of this machine exported for a pool")
    from cudacore_handles._memory.pool import Pool

    resource = cls._init(adopt(Pool, out))
    resource._is_handle_owned = resource._is_imported = True
    resource._alloc_handle = handle
    teach_multiprocessing(cls, _reduce_resource)
    return resource.register(uuid) if uuid is not None else resource


def _export(pool: _native.Handle, uuid: UUID | None) -> IPCAllocationHandle:
    files, place = Descriptors(ffi.new("int[]", [-1])), ffi.new("int[2]")
    box = hold(pool)
    lib.cch_pool_location(place, place + 1, box)
    check(lib.cch_pool_export(files.numbers, box))
    # Device ordinals differ between processes; numbers of the host's NUMA nodes do not.
    location = None if place[0] == lib.CCH_LOCATION_DEVICE else tuple(place)
    return IPCAllocationHandle._init(files, uuid, location)


def _find(uuid: UUID | None, *, own: bool = False) -> Any:
    """Find an open resource or, with `own`, one that this process created, to which others can send its buffers back.

    It can be closed then.
    """
    with base.lock:
        found = _resources.get(uuid) if uuid is not None else None
    if found is None or (found._is_imported if own else found.is_closed):
        return None
    return found


def _check_known(known: Any, cls: type[Resource], device: Device | None) -> None:
    where = device.device_id if device is not None else -1
    if not isinstance(known, cls) or known.device_id != where:
        wanted = cls.__name__ if device is None else f"{cls.__name__} of device {where}"
        raise ValueError(f"alloc_handle is of {known!r}, not of a {wanted}")


# ---- buffers


def describe_buffer(buffer: Buffer) -> IPCBufferDescriptor:
    """Export a buffer of this process, or return the descriptor of an imported one."""
    mr = buffer.memory_resource
    check_open(buffer)  # last, because another thread can close it
    resource = mr._origin if mr is not None else None
    handle = resource._alloc_handle if isinstance(resource, SharedPool) else None
    if handle is None:
        raise not_enabled(resource, "shared")
    box = hold(buffer)
    size = lib.cch_deviceptr_size(box)
    if not size:
        return IPCBufferDescriptor._init(bytes(HANDLE_SIZE), 0, handle.uuid, 0)
    out = ffi.new("cch_ipc_handle *")
    check(lib.cch_deviceptr_export(out, box))
    return IPCBufferDescriptor._init(bytes(out.bytes), size, handle.uuid, lib.cch_deviceptr_offset(box))


def import_buffer(cls: type[Buffer], resource: SharedPool, descriptor: IPCBufferDescriptor, stream: Any) -> Buffer:
    """Return a buffer of another process's memory, or of this process's if the descriptor was sent back."""
    if not isinstance(resource, SharedPool):
        raise TypeError(f"mr must be a memory resource that processes share, not {type(resource).__name__}")
    check_type("ipc_descriptor", descriptor, IPCBufferDescriptor)
    handle = resource._alloc_handle
    if handle is None or (resource._is_imported and resource._pool.is_closed):
        handle = resource._open_handle()  # raises an error that explains the problem
    own, given = handle._uuid, descriptor._uuid
    if own is not given and own != given and own is not None and given is not None:
        raise ValueError(f"ipc_descriptor is of memory resource {given}, and mr is {own}: import that one first")
    offset, size, name = descriptor._offset, descriptor._size, descriptor._data
    if not size:
        from cudacore_handles._memory.buffer import empty_buffer
        from cudacore_handles._stream.stream import Stream_accept

        Stream_accept(stream, allow_stream_protocol=True)
        buffer = empty_buffer(cls, resource)
    else:
        try:
            pool = resource._pool if resource._is_imported else None  # None: the buffer of this process was sent back
            buffer = _native.import_memory(cls, pool, offset, size, stream, resource, name)
        except GoneError:
            if resource._is_imported:
                raise
            raise ValueError("ipc_descriptor is of memory of this process, which has freed it") from None
        except CUDAError as error:
            if error.code_name == "CUDA_ERROR_INVALID_VALUE":
                error.hint = (
                    "ipc_descriptor must be of a buffer of this pool that the process which made it has not freed"
                )
            elif error.code_name == "CCH_EMISMATCH":
                error.hint = _OUT_OF_RANGE
            elif error.code_name == "CCH_EINVAL":
                raise ValueError(
                    f"mr is of device {resource.device_id}, but its memory is of another one: import the pool for that"
                ) from error
            raise
    buffer._descriptor = descriptor
    return buffer


@public
def receive_buffer(resource: SharedPool, descriptor: IPCBufferDescriptor) -> Buffer:
    """Return the buffer that another process pickled. It is freed on the default stream."""
    from cudacore_handles._memory.buffer import Buffer
    from cudacore_handles._stream.stream import default_stream

    return Buffer.from_ipc_descriptor(resource, descriptor, stream=default_stream())  # type: ignore[arg-type]


# ---- between processes


def _reduce_resource(resource: SharedPool) -> tuple[Any, ...]:
    resource._open_handle("pickled")
    return _receive_resource, (type(resource), resource._shared_devices(), resource.allocation_handle)


def _receive_resource(cls: Any, devices: tuple[str, ...], handle: IPCAllocationHandle) -> Any:
    try:
        own = _find(handle.uuid, own=True)
        return cls.from_allocation_handle(*map(find_device, devices), handle) if own is None else own
    finally:
        handle.close()  # the resource has a handle of its own
