# SPDX-License-Identifier: Apache-2.0
"""Memory that is made of addresses and physical memory, and can grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.address import as_address
from cudacore_handles._base.driver_calls import call_driver
from cudacore_handles._base.errors import CUDAError, check, check_open
from cudacore_handles._base.handle import address, hold, out_box
from cudacore_handles._base.ipc import teach_multiprocessing
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.names import check_type
from cudacore_handles._base.options import as_options, check_flags
from cudacore_handles._base.suggest import options_apart
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import Buffer, empty_buffer
from cudacore_handles._memory.out_of_memory import allocate_with
from cudacore_handles._memory.peer_access import READ, READ_WRITE, device_given
from cudacore_handles._memory.resource import MemoryResource, allocate_now
from cudacore_handles._memory.virtual_ipc import (
    IPCVirtualMemoryDescriptor,
    export_buffer,
    import_pieces,
    reduce_buffer,
)
from cudacore_handles._stream.stream import IsStreamType, Stream, accept_if_given
from cudacore_handles.typing import (
    VirtualMemoryAccessName,
    VirtualMemoryAccessType,
    VirtualMemoryAllocationName,
    VirtualMemoryAllocationType,
    VirtualMemoryGranularityName,
    VirtualMemoryGranularityType,
    VirtualMemoryHandleName,
    VirtualMemoryHandleType,
    VirtualMemoryLocationName,
    VirtualMemoryLocationType,
    _as_name,
    _Name,
)

if TYPE_CHECKING:
    from cudacore_handles._option_dicts import VirtualMemoryResourceOptionsDict

_E = TypeVar("_E", bound=_Name)
_LOCATIONS = {
    VirtualMemoryLocationType.DEVICE: lib.CCH_LOCATION_DEVICE,
    VirtualMemoryLocationType.HOST: lib.CCH_LOCATION_HOST,
    VirtualMemoryLocationType.HOST_NUMA: lib.CCH_LOCATION_HOST_NUMA,
    VirtualMemoryLocationType.HOST_NUMA_CURRENT: lib.CCH_LOCATION_HOST_NUMA_CURRENT,
}
# CUmemAllocationHandleType
_HANDLES = {None: 0, VirtualMemoryHandleType.POSIX_FD: 1, VirtualMemoryHandleType.FABRIC: 8}
# Result codes with which drivers refuse memory with fabric handles (NOT_PERMITTED: CUDA 13.0, H200).
_REFUSED = (results.NOT_PERMITTED, results.NOT_SUPPORTED)
# CUmemAccess_flags
_ACCESSES = {VirtualMemoryAccessType.READ: READ, VirtualMemoryAccessType.READ_WRITE: READ_WRITE}


@public
@dataclass
class VirtualMemoryResourceOptions:
    """Properties of the memory of a :class:`VirtualMemoryResource`, and who can access it.

    Attributes
    ----------
    allocation_type : VirtualMemoryAllocationType or str, optional
        The type of physical memory. CUDA supports only ``"pinned"``; for managed memory see
        :class:`ManagedMemoryResource`.
    location_type : VirtualMemoryLocationType or str, optional
        The location: ``"device"``, ``"host"``, or the host's NUMA node that is closest to the device (``"host_numa"``).
        Default ``"device"``. CUDA also defines ``"host_numa_current"``, but cannot create such memory.
    handle_type : VirtualMemoryHandleType, str or None, optional
        The type of handle with which the physical memory can be shared with other processes; None if it cannot be
        shared. Default ``"posix_fd"``, which is the type that :meth:`VirtualMemoryResource.export_allocation` supports.
    granularity : VirtualMemoryGranularityType or str, optional
        The granularity of sizes: ``"minimum"`` or ``"recommended"``. Default ``"recommended"``.
    gpu_direct_rdma : bool, optional
        Whether other devices of the machine, such as network cards, can access the memory. Default False.
    addr_hint : int, optional
        Preferred address. Default 0: any.
    addr_align : int, optional
        Alignment of the address, a power of two. Default None: the driver's default.
    peers : iterable of Device or int, optional
        Other devices that can access the memory. Default: none.
    self_access : VirtualMemoryAccessType, str or None, optional
        The access of the device, and of the host if the memory is there: ``"rw"``, ``"r"`` or None. Default ``"rw"``.
    peer_access : VirtualMemoryAccessType, str or None, optional
        The access of `peers`.
    """

    allocation_type: VirtualMemoryAllocationType | VirtualMemoryAllocationName = VirtualMemoryAllocationType.PINNED
    location_type: VirtualMemoryLocationType | VirtualMemoryLocationName = VirtualMemoryLocationType.DEVICE
    handle_type: VirtualMemoryHandleType | VirtualMemoryHandleName | None = VirtualMemoryHandleType.POSIX_FD
    granularity: VirtualMemoryGranularityType | VirtualMemoryGranularityName = VirtualMemoryGranularityType.RECOMMENDED
    gpu_direct_rdma: bool = False
    addr_hint: int | None = 0
    addr_align: int | None = None
    peers: Iterable[Device | int] = field(default_factory=tuple)
    self_access: VirtualMemoryAccessType | VirtualMemoryAccessName | None = VirtualMemoryAccessType.READ_WRITE
    peer_access: VirtualMemoryAccessType | VirtualMemoryAccessName | None = VirtualMemoryAccessType.READ_WRITE

    def __post_init__(self) -> None:
        check_flags(self)
        if isinstance(self.peers, Iterator):  # an iterator can be read only once, but each allocation reads the peers
            self.peers = tuple(self.peers)


@public
class VirtualMemoryResource(MemoryResource):
    """A memory resource whose buffers can grow: addresses, mapped to physical memory (cuMemCreate, cuMemMap).

    Allocation is synchronous. Sizes are rounded up to the granularity of the memory. Before the memory is freed, the
    library waits for the stream of :meth:`Buffer.set_deallocation_stream`, or the one given to :meth:`allocate`,
    because CUDA itself does not wait.

    Parameters
    ----------
    device_id : int or Device
        The device.
    config : VirtualMemoryResourceOptions, optional
        Properties of the memory, and who can access it.

    Raises
    ------
    RuntimeError
        If the device does not support such memory.

    Attributes
    ----------
    config : VirtualMemoryResourceOptions
        As given.

    Examples
    --------
    >>> resource = core.VirtualMemoryResource(device)
    >>> buffer = resource.allocate(1 << 20)
    >>> larger = resource.modify_allocation(buffer, 2 * buffer.size)
    >>> larger.size >= 2 << 20
    True
    """

    @options_apart("VirtualMemoryResourceOptions")
    def __init__(
        self,
        device_id: Device | int,
        config: VirtualMemoryResourceOptions | VirtualMemoryResourceOptionsDict | None = None,
    ) -> None:
        self._device = Device(device_id)
        self.config: VirtualMemoryResourceOptions = as_options(VirtualMemoryResourceOptions, config, "config")
        if not self._device.properties.virtual_memory_management_supported:
            raise RuntimeError(
                f"VirtualMemoryResource requires CUDA VMM API support, which device {self._device.device_id} does not "
                "have (virtual_memory_management_supported is False); use a DeviceMemoryResource"
            )
        _read(self._device, self.config)
        if self.config.handle_type is not None:
            teach_multiprocessing(IPCVirtualMemoryDescriptor)

    def __repr__(self) -> str:
        return f"<VirtualMemoryResource device={self._device!r}>"

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate memory.

        If the driver refuses a step, the earlier steps are undone.

        Parameters
        ----------
        size : int
            Size in bytes, which is rounded up; a buffer of 0 bytes has no memory.
        stream : Stream, optional
            A stream to wait for before the memory is freed. Default None.
        """
        config, _keep = _read(self._device, self.config)
        try:
            return allocate_now(
                Buffer,
                self,
                size,
                stream,
                lambda out, nbytes: lib.cch_virtual_alloc(out, config, nbytes),
                f"device {self._device.device_id}",
            )
        except CUDAError as error:
            if config.handle_types & _HANDLES[VirtualMemoryHandleType.FABRIC] and error.code in _REFUSED:
                error.hint = (
                    "The device has fabric handles, but this process may not create them: they need NVIDIA's IMEX "
                    "service and a channel of it (/dev/nvidia-caps-imex-channels). Use handle_type='posix_fd', or None"
                )
            raise

    def modify_allocation(
        self,
        buf: Buffer,
        new_size: int,
        config: VirtualMemoryResourceOptions | VirtualMemoryResourceOptionsDict | None = None,
    ) -> Buffer:
        """Make a buffer larger.

        The memory keeps its contents and address, and new memory is added at its end. If the addresses there are not
        free, all of the memory is also mapped at another address. Nothing is copied, and there is no wait. If the
        driver refuses a step, nothing changes.

        Parameters
        ----------
        buf : Buffer
            A buffer of this memory resource, not one that was allocated through an adaptor.
        new_size : int
            Size in bytes, which is rounded up.
        config : VirtualMemoryResourceOptions, optional
            Properties of the new memory, and who can access all of the memory from now on. Default: the resource's.

        Returns
        -------
        Buffer
            A new buffer, or `buf` if that is large enough. `buf` remains valid: both buffers share the memory, which is
            freed after both are closed.

        Raises
        ------
        ValueError
            If `buf` is a part of a buffer, or was not allocated through this resource.
        """
        check_type("buf", buf, Buffer)
        nbytes = check_size(new_size, "new_size")
        mr = self._check_own(buf, "make it larger")
        if mr is not self:
            raise ValueError(
                f"buf was allocated through {mr!r}, which counts it with its present size: to make it "
                "larger, allocate a new buffer there, or use this memory resource without an adaptor"
            )
        given = self.config if config is None else as_options(VirtualMemoryResourceOptions, config, "config")
        settings, _keep = _read(self._device, given)
        if nbytes <= buf.size:
            return buf
        old = hold(buf)
        if lib.cch_deviceptr_whole(old) != old:
            raise ValueError("buf is a part of a buffer, and only a whole one can be made larger")
        out, moved = out_box("cch_deviceptr"), ffi.new("int *")
        where = f"device {self._device.device_id}; the buffer is as it was"
        if not lib.cch_deviceptr_size(old):
            allocate_with(self, nbytes, None, where, lambda: lib.cch_virtual_alloc(out, settings, nbytes))
        else:
            allocate_with(self, nbytes, None, where, lambda: lib.cch_virtual_grow(out, moved, old, settings, nbytes))
        return Buffer._adopt_memory(address(out), self, None, _native.deallocation_stream(address(old)))

    def export_allocation(self, buf: Buffer) -> IPCVirtualMemoryDescriptor:
        """Return file descriptors with which another process maps a buffer (cuMemExportToShareableHandle).

        ``multiprocessing`` also sends the buffer itself. The memory lives as long as any process has it mapped, or has
        its descriptors open. This needs ``handle_type="posix_fd"``, which is the default.

        Parameters
        ----------
        buf : Buffer
            A buffer of this memory resource, or a part of one.

        Returns
        -------
        IPCVirtualMemoryDescriptor
            The file descriptors, which are closed with the object.
        """
        check_type("buf", buf, Buffer)
        self._check_own(buf, "export it")
        return export_buffer(buf, self.config)

    def import_allocation(
        self, descriptor: IPCVirtualMemoryDescriptor, *, stream: Stream | IsStreamType | None = None
    ) -> Buffer:
        """Map memory of another process (cuMemImportFromShareableHandle, cuMemMap).

        Each import is a separate mapping at its own address, even in the process that exported the memory. The
        resource's options determine who can access the memory.

        Parameters
        ----------
        descriptor : IPCVirtualMemoryDescriptor
            The result of :meth:`export_allocation` in the other process. It can be closed afterwards.
        stream : Stream, optional
            A stream to wait for before the memory is unmapped. Default None.

        Returns
        -------
        Buffer
            The memory.
        """
        check_type("descriptor", descriptor, IPCVirtualMemoryDescriptor)
        accepted = accept_if_given(stream)
        if not descriptor.size:
            return empty_buffer(Buffer, self)
        config, _keep = _read(self._device, self.config)
        out = import_pieces(config, descriptor)
        buffer = Buffer._adopt_memory(address(out), self, None, accepted)
        if descriptor.size == buffer.size:
            return buffer
        with buffer:
            return buffer[descriptor.offset : descriptor.offset + descriptor.size]

    def _check_own(self, buf: Buffer, what: str) -> MemoryResource:
        mr = buf.memory_resource
        check_open(buf)  # last, because another thread can close it
        if mr is None or mr._origin is not self:
            raise ValueError(f"buf is of another memory resource, and only that one can {what}")
        return mr

    def _reduce_buffer(self, buffer: Buffer) -> tuple[Any, ...]:
        return reduce_buffer(self, buffer)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType | None = None) -> None:
        """Free memory that other code mapped, after the stream's work is done (cuMemUnmap, cuMemAddressFree)."""
        where, nbytes = as_address(ptr, "ptr must be an int, the memory's address"), check_size(size)
        accepted = accept_if_given(stream)
        if accepted is not None:
            accepted.sync()
        call_driver("cuMemUnmap", where, nbytes)
        call_driver("cuMemAddressFree", where, nbytes)

    @property
    def device(self) -> Device:
        """Device: The device."""
        return self._device

    @property
    def granularity(self) -> int:
        """int: Granularity of sizes in bytes (cuMemGetAllocationGranularity)."""
        config, _keep = _read(self._device, self.config)
        out = ffi.new("size_t *")
        check(lib.cch_virtual_granularity(out, config))
        return int(out[0])

    @property
    def is_device_accessible(self) -> bool:
        """bool: Whether kernels of the device can use the memory."""
        return self.config.self_access is not None

    @property
    def is_host_accessible(self) -> bool:
        """bool: Whether the memory is on the host, which can then use it."""
        return self.is_device_accessible and self.config.location_type != VirtualMemoryLocationType.DEVICE

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device; -1 for memory of the host."""
        return self._device.device_id if self.config.location_type == VirtualMemoryLocationType.DEVICE else -1


def _read(device: Device, options: VirtualMemoryResourceOptions) -> tuple[Any, Any]:
    """Return options as a ``cch_virtual_config``, and the arrays it points to; raise an error if they are invalid."""
    if _choice(VirtualMemoryAllocationType, options, "allocation_type") is not VirtualMemoryAllocationType.PINNED:
        raise ValueError(
            "allocation_type is 'managed', which CUDA does not support for virtual memory: use 'pinned', or a "
            "ManagedMemoryResource"
        )
    location = _choice(VirtualMemoryLocationType, options, "location_type")
    granularity = _choice(VirtualMemoryGranularityType, options, "granularity")
    number = _number_of(device, location)
    if location is VirtualMemoryLocationType.HOST and options.handle_type is not None:
        raise ValueError(
            f"location_type is 'host', which other processes cannot share, and handle_type is {options.handle_type!r}: "
            "give handle_type=None, or location_type='host_numa'"
        )
    config = ffi.new("cch_virtual_config *")
    config.location_type, config.location_id = _LOCATIONS[location], number
    config.alloc_type = lib.CCH_ALLOCATION_PINNED
    config.handle_types = _handle_type(device, options)
    if granularity is VirtualMemoryGranularityType.MINIMUM:
        config.flags |= lib.CCH_VIRTUAL_MINIMUM
    if options.gpu_direct_rdma:
        if not device.properties.gpu_direct_rdma_with_cuda_vmm_supported:
            raise RuntimeError(
                "GPU Direct RDMA is not supported on this device: gpu_direct_rdma_with_cuda_vmm_supported is False"
            )
        config.flags |= lib.CCH_VIRTUAL_RDMA
    config.address_hint = 0 if options.addr_hint is None else as_address(options.addr_hint, "addr_hint must be an int")
    align = 0 if options.addr_align is None else check_size(options.addr_align, "addr_align")
    if align & (align - 1):
        raise ValueError(f"addr_align is {align}; it must be a power of two, or None")
    config.address_alignment = align
    accesses = _accesses(device, options, (_LOCATIONS[location], number))
    keep = ffi.new("cch_access[]", accesses)
    config.accesses, config.access_count = keep, len(accesses)
    return config, keep


def _choice(enum: type[_E], options: VirtualMemoryResourceOptions, name: str) -> _E:
    """Return an option as a member of its enumeration."""
    given = getattr(options, name)
    return _as_name(enum, given, f"Unsupported {name}: {given!r}")


def _number_of(device: Device, location: VirtualMemoryLocationType) -> int:
    if location is VirtualMemoryLocationType.DEVICE:
        return device.device_id
    if location is VirtualMemoryLocationType.HOST_NUMA_CURRENT:
        raise ValueError(
            "location_type is 'host_numa_current', which CUDA does not support for virtual memory: use 'host_numa', "
            "or 'host'"
        )
    if location is VirtualMemoryLocationType.HOST:
        return 0
    node = device.properties.host_numa_id
    if node < 0:
        raise ValueError(
            f"location_type is 'host_numa', and no NUMA node is closest to device {device.device_id} (host_numa_id is "
            f"{node}): use 'host'"
        )
    return node


def _handle_type(device: Device, options: VirtualMemoryResourceOptions) -> int:
    if options.handle_type is None:
        return 0
    kind = _choice(VirtualMemoryHandleType, options, "handle_type")
    if kind is VirtualMemoryHandleType.WIN32_KMT:
        raise ValueError("handle_type is 'win32_kmt', which only Windows has: use 'posix_fd', or None")
    if kind is VirtualMemoryHandleType.FABRIC and not device.properties.handle_type_fabric_supported:
        raise ValueError(
            f"handle_type is 'fabric', which device {device.device_id} does not have (handle_type_fabric_supported is "
            "False): use 'posix_fd', or None"
        )
    return _HANDLES[kind]


def _accesses(
    device: Device, options: VirtualMemoryResourceOptions, place: tuple[int, int]
) -> list[tuple[int, int, int]]:
    own, other = (
        None if getattr(options, name) is None else _ACCESSES[_choice(VirtualMemoryAccessType, options, name)]
        for name in ("self_access", "peer_access")
    )
    peers = options.peers
    if not isinstance(peers, Iterable) or isinstance(peers, (str, bytes)):
        raise TypeError(f"peers must be an iterable of Device or int, not {type(peers).__name__}")
    found: list[tuple[int, int, int]] = []
    if own is not None:
        found.append((lib.CCH_LOCATION_DEVICE, device.device_id, own))
        if place[0] != lib.CCH_LOCATION_DEVICE:
            found.append((lib.CCH_LOCATION_HOST, 0, own))
    for peer in dict.fromkeys(map(device_given, peers)):
        if peer is device:
            continue
        if place[0] == lib.CCH_LOCATION_DEVICE and not peer.can_access_peer(device):
            raise ValueError(
                f"peers has device {peer.device_id}, which cannot reach the memory of device {device.device_id}: "
                f"Device({peer.device_id}).can_access_peer({device.device_id}) is False"
            )
        if other is not None:
            found.append((lib.CCH_LOCATION_DEVICE, peer.device_id, other))
    return found
