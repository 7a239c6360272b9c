# SPDX-License-Identifier: Apache-2.0
"""Memory resources that take memory from the driver's pools, in the order of streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudacore_handles import _native
from cudacore_handles._base.address import as_address, as_integer
from cudacore_handles._base.driver_version import driver_version, need_driver
from cudacore_handles._base.errors import CUDAError, call_driver, check, closed
from cudacore_handles._base.handle import adopt, hold
from cudacore_handles._base.options import as_options, check_flags
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.buffer import Buffer, check_size, empty_buffer
from cudacore_handles._memory.host import check_node
from cudacore_handles._memory.ipc import (
    POSIX_FILE_DESCRIPTOR,
    IPCAllocationHandle,
    SharedPool,
    check_pools,
    import_pool,
)
from cudacore_handles._memory.resource import MemoryResource
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept
from cudacore_handles.typing import ManagedMemoryLocationType, _as_name

if TYPE_CHECKING:
    from uuid import UUID

    from cuda.bindings import driver

    from cudacore_handles._memory.managed import ManagedBuffer
    from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy
    from cudacore_handles._memory.pool_attributes import _MemPoolAttributes

_MOST_BYTES = 2**63
_HOST_POOLS = "That version has pools of host memory; LegacyPinnedMemoryResource has page-locked memory without one"
_NO_ACCESS, _READ_WRITE = 0, 3  # of CUmemAccess_flags


class Pool(_native.Handle):
    """Hold a memory pool. A class of Python, which tells the collector of itself; nobody would ever collect it else."""

    __slots__ = ("__weakref__",)


class _MemPool(MemoryResource):
    """Allocate memory from a pool, in the order of streams.

    Notes
    -----
    Keep a pool of your own as long as other threads work with CUDA: driver 580 (CUDA 13.0) can hang or crash where a
    pool is destroyed (``cuMemPoolDestroy``) while another thread waits for a stream.
    """

    _pool = Pool()  # closed: until there is one, and where a subclass makes none
    _is_handle_owned = False
    _buffer_class: type[Buffer] = Buffer

    def __init__(self) -> None:
        raise TypeError("_MemPool is what memory resources of pools have in common; make one of these")

    def __cudacore_handle__(self) -> object:
        """Return the pool for extension modules: a capsule with a reference of its own."""
        if self.is_closed:
            raise closed(self)
        return self._pool.__cudacore_handle__()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: processes do not share such memory")

    def __repr__(self) -> str:
        state = " closed" if self.is_closed else f" of {self._where}"
        return f"<{type(self).__name__}{state}>"

    def _repr_html_(self) -> str | None:
        from cudacore_handles._base.html import attributes_table

        return None if self.is_closed else attributes_table(f"{type(self).__name__} of {self._where}", self.attributes)

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
            Stream_accept(stream, allow_stream_protocol=True)
            return empty_buffer(self._buffer_class, self)
        try:
            return _native.allocate(self._buffer_class, self._pool, size, stream, self)
        except CUDAError as error:
            if self.is_mapped:
                raise TypeError(
                    "Cannot allocate from a mapped IPC-enabled memory resource: the process that made it allocates, "
                    "and sends its buffers"
                ) from error
            if error.code_name == "CUDA_ERROR_NOT_SUPPORTED" and self.is_ipc_enabled:
                error.hint = "a pool that processes share has no memory for a graph: allocate before the capture"
            error.hint = error.hint or f"{size:,} bytes were asked of {self._where}"
            raise

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Free memory that was allocated from a pool by other means (cuMemFreeAsync)."""
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        call_driver("cuMemFreeAsync", as_address(ptr, "ptr must be an int, the memory's address"), accepted.handle)

    def trim(self, min_bytes_to_keep: int = 0) -> None:
        """Give memory that no buffer has back to the system (cuMemPoolTrimTo).

        Memory whose free still waits for its stream stays. It is the program's only way to have a pool give back less,
        or more, than its :attr:`attributes` say it keeps.

        Parameters
        ----------
        min_bytes_to_keep : int, optional
            Bytes that the pool keeps at least, used ones included. Default 0.
        """
        keep = check_size(min_bytes_to_keep, "min_bytes_to_keep")
        if self.is_closed:
            raise closed(self)
        check(lib.cch_pool_trim(hold(self._pool), keep))

    def close(self) -> None:
        """Give up the pool. Calling it again does nothing; it goes when its last buffer does (cuMemPoolDestroy)."""
        self._pool.close()

    def _take(self, box: Any, *, owned: bool) -> None:
        """Take over a pool. It keeps what is freed, unless somebody has set how much it keeps."""
        self._pool = adopt(Pool, box)
        self._is_handle_owned = owned
        attributes = self.attributes
        if attributes.release_threshold == 0:
            attributes._set_release_threshold(2**64 - 1)

    def _create(self, location: tuple[int, int], kind: int, max_size: int = 0, *, shared: bool = False) -> None:
        """Make a pool."""
        out = ffi.new("cch_pool **")
        config = ffi.new("cch_pool_config *")
        config.size = ffi.sizeof("cch_pool_config")
        config.location_type, config.location_id = location
        config.alloc_type = kind
        config.max_size = max_size
        config.handle_types = POSIX_FILE_DESCRIPTOR if shared else 0
        check(lib.cch_pool_create(out, config), hint=f"a pool of {self._where} was asked for")
        self._take(out[0], owned=True)

    @property
    def _where(self) -> str:
        """Whose memory it is, for messages."""
        return f"device {self.device_id}"

    @property
    def attributes(self) -> _MemPoolAttributes:
        """Attributes of the pool (cuMemPoolGetAttribute)."""
        from cudacore_handles._memory.pool_attributes import _MemPoolAttributes

        if self.is_closed:
            raise closed(self)
        return _MemPoolAttributes._init(self)

    @property
    def handle(self) -> driver.CUmemoryPool:
        """cuda.bindings.driver.CUmemoryPool: The pool for ``cuda.bindings``."""
        if self.is_closed:
            raise closed(self)
        from cuda.bindings import driver

        return driver.CUmemoryPool(self._pool._raw)

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._pool.is_closed

    @property
    def is_handle_owned(self) -> bool:
        """bool: Whether the pool is this object's own, not everybody's."""
        return self._is_handle_owned

    @property
    def is_ipc_enabled(self) -> bool:
        """bool: Whether the memory can be shared with other processes."""
        return False

    @property
    def is_mapped(self) -> bool:
        """bool: Whether the pool is another process's."""
        return False

    @property
    def uuid(self) -> UUID | None:
        """uuid.UUID or None: Identity between processes, for a pool that can be shared."""
        return None


# ---- of a device


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


class DeviceMemoryResource(SharedPool, _MemPool):
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

    def __init__(
        self,
        device_id: Device | int,
        options: DeviceMemoryResourceOptions | Mapping[str, Any] | None = None,
    ) -> None:
        self._device_id = Device(device_id).device_id
        if options is None:
            out = ffi.new("cch_pool **")
            check(lib.cch_pool_current(out, self._device_id))
            self._take(out[0], owned=False)
        else:
            given = as_options(DeviceMemoryResourceOptions, options)
            if given.ipc_enabled:
                check_pools(Device(self._device_id))
            location = (lib.CCH_LOCATION_DEVICE, self._device_id)
            max_size = check_size(given.max_size, "max_size")
            self._create(location, lib.CCH_ALLOCATION_PINNED, max_size, shared=bool(given.ipc_enabled))
            if given.ipc_enabled:
                self._share()

    @classmethod
    def _init(cls, pool: Pool) -> DeviceMemoryResource:
        """Make one of a pool that somebody else made."""
        self = cls.__new__(cls)
        self._pool = pool
        self._device_id = lib.cch_pool_device(hold(pool))
        if self._device_id < 0:
            raise TypeError("the pool is of host memory; a DeviceMemoryResource is made of a device's")
        return self

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

        Raises
        ------
        ValueError
            When the pool is of the memory of another device, or of the host.
        """
        return import_pool(cls, Device(device_id), alloc_handle)

    def _shared_devices(self) -> tuple[str, ...]:
        return (Device(self._device_id).uuid,)

    @property
    def peer_accessible_by(self) -> PeerAccessibleBySetProxy:
        """Set of the other devices whose kernels can use the memory; can be assigned (cuMemPoolSetAccess)."""
        from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy

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
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: False."""
        return False


# ---- of the host


@dataclass
class PinnedMemoryResourceOptions:
    """Say how a new pool of host memory behaves.

    Attributes
    ----------
    ipc_enabled : bool, optional
        Whether the memory can be shared with other processes. Default False.
    max_size : int, optional
        Most bytes that the pool may hold; 0 for the system's limit. Default 0.
    numa_id : int, optional
        NUMA node of the host that the memory is on. Default None: any; of memory that is shared, the one that is
        closest to the current device.
    """

    ipc_enabled: bool = False
    max_size: int = 0
    numa_id: int | None = None

    def __post_init__(self) -> None:
        check_flags(self)


class PinnedMemoryResource(SharedPool, _MemPool):
    """Allocate page-locked host memory, which devices can reach too, from a pool, in the order of streams.

    The host must wait for the stream before it uses memory that was allocated on it. Needs a driver for CUDA 12.6.

    Parameters
    ----------
    options : PinnedMemoryResourceOptions, optional
        Options of a new pool, which all devices can use. Default: no new pool, but the host's own (CUDA 13); with an
        older driver a new one.
    """

    _numa_id = -1

    def __init__(self, options: PinnedMemoryResourceOptions | Mapping[str, Any] | None = None) -> None:
        given = None if options is None else as_options(PinnedMemoryResourceOptions, options)
        if given is None and driver_version() >= 13000:
            out = ffi.new("cch_pool **")
            check(lib.cch_pool_of(out, lib.CCH_LOCATION_HOST, 0, lib.CCH_ALLOCATION_PINNED))
            self._take(out[0], owned=False)
        else:
            given = given or PinnedMemoryResourceOptions()
            location, shared = (lib.CCH_LOCATION_HOST, 0), bool(given.ipc_enabled)
            numa_id = given.numa_id
            if shared:
                check_pools(Device())
                if numa_id is None:  # processes share memory of a node only
                    numa_id = max(Device().properties.host_numa_id, 0)
            if numa_id is not None:
                self._numa_id = _check_numa_id(numa_id)
                location = (lib.CCH_LOCATION_HOST_NUMA, self._numa_id)
            need_driver(12060, "cuMemPoolCreate", _HOST_POOLS)
            self._create(location, lib.CCH_ALLOCATION_PINNED, check_size(given.max_size, "max_size"), shared=shared)
            if shared:
                self._share()
        self._open_to_devices()

    @classmethod
    def from_allocation_handle(cls, alloc_handle: int | IPCAllocationHandle) -> PinnedMemoryResource:
        """Import the pool of another process; see :meth:`DeviceMemoryResource.from_allocation_handle`.

        Raises
        ------
        ValueError
            When the pool is of a device's memory.
        """
        return import_pool(cls, None, alloc_handle)

    @classmethod
    def _init(cls, pool: Pool) -> PinnedMemoryResource:
        """Make one of a pool that somebody else made."""
        self = cls.__new__(cls)
        self._pool = pool
        place = ffi.new("int[2]")
        lib.cch_pool_location(place, place + 1, hold(pool))
        if place[0] == lib.CCH_LOCATION_HOST_NUMA:
            self._numa_id = place[1]
        self._open_to_devices()
        return self

    def _shared_devices(self) -> tuple[str, ...]:
        return ()

    def _open_to_devices(self) -> None:
        """Give all devices access: of itself, a pool of the host gives it to none."""
        out = ffi.new("int *")
        check(lib.cch_device_count(out))
        closed_to = []
        for ordinal in range(out[0]):
            check(lib.cch_pool_access(out, hold(self._pool), ordinal))
            if out[0] == _NO_ACCESS:
                closed_to.append(ordinal)
        if closed_to:
            access = [_READ_WRITE] * len(closed_to)
            check(lib.cch_pool_set_access(hold(self._pool), closed_to, access, len(closed_to)))

    @property
    def _where(self) -> str:
        return "the host" if self._numa_id < 0 else f"NUMA node {self._numa_id} of the host"

    @property
    def device_id(self) -> int:
        """int: -1: it is host memory."""
        return -1

    @property
    def numa_id(self) -> int:
        """int: NUMA node of the host; -1 for any, or of a pool that was imported by the number of a file descriptor."""
        return self._numa_id

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: True."""
        return True


# ---- managed


@dataclass
class ManagedMemoryResourceOptions:
    """Say where the memory of a new pool of managed memory had better be.

    Attributes
    ----------
    preferred_location : int, optional
        Ordinal of the device, or the NUMA node of the host. Default None.
    preferred_location_type : ManagedMemoryLocationType or str, optional
        ``"device"``, ``"host"``, or ``"host_numa"``, where `preferred_location` is a node, or None for that which is
        closest to the current device. Default None: `preferred_location` is a device, or -1 for the host, or None for
        no place.
    """

    preferred_location: int | None = None
    preferred_location_type: ManagedMemoryLocationType | str | None = None


class ManagedMemoryResource(_MemPool):
    """Allocate managed memory, which goes where it is used, from a pool, in the order of streams.

    Its buffers are :class:`ManagedBuffer` objects. Needs a driver for CUDA 13. The host must wait for the stream before
    it uses memory that was allocated on it; and for all work of a device that cannot share the memory, about which a
    warning is given.

    Parameters
    ----------
    options : ManagedMemoryResourceOptions, optional
        Options of a new pool. Default: no new pool, but everybody's.
    """

    _preferred: tuple[ManagedMemoryLocationType, int | None] | None = None

    def __init__(self, options: ManagedMemoryResourceOptions | Mapping[str, Any] | None = None) -> None:
        from cudacore_handles._memory.managed import ManagedBuffer, warn_of_no_concurrent_access

        given = None if options is None else as_options(ManagedMemoryResourceOptions, options)
        self._buffer_class = ManagedBuffer
        place = (0, 0)
        if given is not None:
            self._preferred, place = _preferred_location(given)
        need_driver(13000, "cuMemPoolCreate", "That version has pools of managed memory")
        if given is None:
            out = ffi.new("cch_pool **")
            check(lib.cch_pool_of(out, *place, lib.CCH_ALLOCATION_MANAGED))
            self._take(out[0], owned=False)
        else:
            self._create(place, lib.CCH_ALLOCATION_MANAGED)
        warn_of_no_concurrent_access(stacklevel=2)

    if TYPE_CHECKING:

        def allocate(self, size: int, *, stream: Stream | IsStreamType) -> ManagedBuffer: ...

    @property
    def _where(self) -> str:
        return "managed memory"

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that the memory had better be on; -1 for the host, or no place."""
        if self._preferred is not None and self._preferred[0] is ManagedMemoryLocationType.DEVICE:
            return self._preferred[1]  # type: ignore[return-value]
        return -1

    @property
    def preferred_location(self) -> tuple[ManagedMemoryLocationType, int | None] | None:
        """tuple or None: Where the memory had better be: what sort of place, and its number; None for no place."""
        return self._preferred

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_managed(self) -> bool:
        """bool: True."""
        return True


# ---- what is asked for


def _check_int(name: str, value: Any, what: str) -> int:
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} must be {what}, not {type(value).__name__}")
    return number


def _check_numa_id(numa_id: object) -> int:
    number = _check_int("numa_id", numa_id, "an int, the number of a NUMA node")
    if not 0 <= number < 2**31:
        raise ValueError(f"numa_id must be >= 0, got {number}: the number of a NUMA node")
    return check_node(number, "numa_id")


def _preferred_location(
    options: ManagedMemoryResourceOptions,
) -> tuple[tuple[ManagedMemoryLocationType, int | None] | None, tuple[int, int]]:
    """Return a preferred location as it is told, and as a ``CCH_LOCATION_*`` with its id."""
    number, given = options.preferred_location, options.preferred_location_type
    if number is not None:
        number = _check_int("preferred_location", number, "an int or None")
    if given is not None:
        kind = _as_name(
            ManagedMemoryLocationType, given, f"preferred_location_type: {given!r} is not a valid place, or None"
        )
    elif number is None:
        return None, (0, 0)
    else:
        kind = ManagedMemoryLocationType.HOST if number == -1 else ManagedMemoryLocationType.DEVICE
        number = None if number == -1 else number
    if kind is ManagedMemoryLocationType.HOST:
        if number is not None:
            raise ValueError(
                f"preferred_location must be None when preferred_location_type is 'host', got {number}; 'host_numa' "
                "takes a node"
            )
        return (kind, None), (lib.CCH_LOCATION_HOST, 0)
    if kind is ManagedMemoryLocationType.HOST_NUMA:
        if number is None:
            number = max(Device().properties.host_numa_id, 0)
        elif number < 0:
            raise ValueError(f"preferred_location must be a NUMA node (>= 0) or None, got {number}")
        number = check_node(number, "preferred_location")
        return (kind, number), (lib.CCH_LOCATION_HOST_NUMA, number)
    if number is None or number < 0:
        raise ValueError(
            f"preferred_location must be a device ordinal (>= 0) when preferred_location_type is 'device', got {number}"
        )
    ordinal = Device(number).device_id
    return (kind, ordinal), (lib.CCH_LOCATION_DEVICE, ordinal)
