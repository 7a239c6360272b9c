# SPDX-License-Identifier: Apache-2.0
"""Pools of device memory."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cudacore_handles._base.errors import closed
from cudacore_handles._base.handle import hold
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import as_options
from cudacore_handles._base.suggest import options_apart
from cudacore_handles._cffi import lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.ipc import (
    IPCAllocationHandle,
    SharedPool,
    check_pools,
    import_pool,
)

if TYPE_CHECKING:
    from cudacore_handles._memory.device_pool_options import DeviceMemoryResourceOptions
    from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy
    from cudacore_handles._option_dicts import DeviceMemoryResourceOptionsDict
from cudacore_handles._memory.pool import Pool, PooledMemoryResource


@public
class DeviceMemoryResource(SharedPool, PooledMemoryResource):
    """A memory resource that allocates device memory from a pool, in the order of streams.

    Parameters
    ----------
    device_id : int or Device
        The device.
    options : DeviceMemoryResourceOptions, optional
        Options of a new pool. Default: the device's current pool is used. It is set to keep freed memory for reuse,
        unless its release threshold was set before.

    Notes
    -----
    Keep a new pool as long as other threads use CUDA. Driver 580 (CUDA 13.0) can hang or crash if a pool is destroyed
    (``cuMemPoolDestroy``) while another thread waits for a stream.

    Examples
    --------
    >>> pool = core.DeviceMemoryResource(device)
    >>> buffer = pool.allocate(1024, stream=stream)
    >>> buffer.memory_resource is pool
    True
    """

    @options_apart("DeviceMemoryResourceOptions")
    def __init__(
        self,
        device_id: Device | int,
        options: DeviceMemoryResourceOptions | DeviceMemoryResourceOptionsDict | None = None,
    ) -> None:
        self._device_id = Device(device_id).device_id
        if options is None:
            self._open(lib.cch_pool_current, self._device_id)
        else:
            from cudacore_handles._memory.device_pool_options import DeviceMemoryResourceOptions

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
        """Make a memory resource for an existing pool that other code created."""
        self = cls.__new__(cls)
        self._pool = pool
        self._device_id = lib.cch_pool_device(hold(pool))
        if self._device_id < 0:
            raise TypeError("the pool is of host memory; a DeviceMemoryResource needs a pool of a device")
        return self

    @classmethod
    def from_allocation_handle(
        cls, device_id: Device | int, alloc_handle: int | IPCAllocationHandle
    ) -> DeviceMemoryResource:
        """Import the pool of another process (cuMemPoolImportFromShareableHandle).

        Parameters
        ----------
        device_id : int or Device
            The device of the memory. Each process has its own ordinals.
        alloc_handle : IPCAllocationHandle or int
            The other process's :attr:`allocation_handle`, or a file descriptor, which the caller must close.

        Returns
        -------
        DeviceMemoryResource
            The resource of the pool. If this process created or imported the pool before, the existing resource is
            returned.

        Raises
        ------
        ValueError
            If the pool has memory of another device, or of the host.
        """
        return import_pool(cls, Device(device_id), alloc_handle)

    def _shared_devices(self) -> tuple[str, ...]:
        return (Device(self._device_id).uuid,)

    @property
    def peer_accessible_by(self) -> PeerAccessibleBySetProxy:
        """The other devices whose kernels can use the memory; can be assigned (cuMemPoolSetAccess)."""
        if self._pool.is_closed:
            raise closed(self)
        return _peers_class()._with(_resource=self)

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[Device | int]) -> None:
        self.peer_accessible_by._replace(devices)

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device."""
        return self._device_id


@functools.cache
def _peers_class() -> type[PeerAccessibleBySetProxy]:
    from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy

    return PeerAccessibleBySetProxy
