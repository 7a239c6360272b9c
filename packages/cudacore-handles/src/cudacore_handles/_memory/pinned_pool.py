# SPDX-License-Identifier: Apache-2.0
"""Pools of page-locked host memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudacore_handles._base.address import check_int
from cudacore_handles._base.driver_calls import driver_version, need_driver
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import Options, as_options
from cudacore_handles._base.suggest import options_apart
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.host import check_node
from cudacore_handles._memory.ipc import (
    IPCAllocationHandle,
    SharedPool,
    check_pools,
    import_pool,
)
from cudacore_handles._memory.peer_access import NO_ACCESS, READ_WRITE
from cudacore_handles._memory.pool import Pool, PooledMemoryResource

if TYPE_CHECKING:
    from cudacore_handles._option_dicts import PinnedMemoryResourceOptionsDict

_HOST_POOLS = "That version has pools of host memory; LegacyPinnedMemoryResource has page-locked memory without one"


@public
@dataclass
class PinnedMemoryResourceOptions(Options):
    """Options of a new pool of host memory.

    Attributes
    ----------
    ipc_enabled : bool, optional
        Whether the memory can be shared with other processes. Default False.
    max_size : int, optional
        Maximum size of the pool in bytes; 0 for the system's limit. Default 0.
    numa_id : int, optional
        NUMA node of the memory. Default None: any node; for shared memory, the node closest to the current device.
    """

    ipc_enabled: bool = False
    max_size: int = 0
    numa_id: int | None = None


@public
class PinnedMemoryResource(SharedPool, PooledMemoryResource):
    """A memory resource that allocates page-locked host memory from a pool, in the order of streams.

    Devices can access the memory too. The host must wait for the stream before it uses memory that was allocated on it.
    Needs a driver for CUDA 12.6.

    Parameters
    ----------
    options : PinnedMemoryResourceOptions, optional
        Options of a new pool, which all devices can use. Default: the host's shared pool (CUDA 13), or a new one with
        an older driver.

    Examples
    --------
    >>> pinned = core.PinnedMemoryResource()
    >>> buffer = pinned.allocate(16, stream=stream)
    >>> stream.sync()  # then the host can use it
    >>> array = np.asarray(buffer.view("float32", (4,)))
    """

    _is_host_accessible = True
    _numa_id = -1

    @options_apart("PinnedMemoryResourceOptions")
    def __init__(self, options: PinnedMemoryResourceOptions | PinnedMemoryResourceOptionsDict | None = None) -> None:
        given = None if options is None else as_options(PinnedMemoryResourceOptions, options)
        if given is None and driver_version() >= 13000:
            self._open(lib.cch_pool_of, lib.CCH_LOCATION_HOST, 0, lib.CCH_ALLOCATION_PINNED)
        else:
            given = given or PinnedMemoryResourceOptions()
            location, shared = (lib.CCH_LOCATION_HOST, 0), bool(given.ipc_enabled)
            numa_id = given.numa_id
            if shared:
                check_pools(Device())
                if numa_id is None:  # only memory of a single node can be shared between processes
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
            If the pool has device memory.
        """
        return import_pool(cls, None, alloc_handle)

    @classmethod
    def _init(cls, pool: Pool) -> PinnedMemoryResource:
        """Make a memory resource for an existing pool that other code created."""
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
        """Give access to all devices: no device can access a new pool of host memory."""
        out = ffi.new("int *")
        check(lib.cch_device_count(out))
        closed_to = []
        for ordinal in range(out[0]):
            check(lib.cch_pool_access(out, hold(self._pool), ordinal))
            if out[0] == NO_ACCESS:
                closed_to.append(ordinal)
        if closed_to:
            access = [READ_WRITE] * len(closed_to)
            check(lib.cch_pool_set_access(hold(self._pool), closed_to, access, len(closed_to)))

    @property
    def _where(self) -> str:
        return "the host" if self._numa_id < 0 else f"NUMA node {self._numa_id} of the host"

    @property
    def device_id(self) -> int:
        """int: -1, because it is host memory."""
        return -1

    @property
    def numa_id(self) -> int:
        """int: NUMA node of the host; -1 for any, or if the pool was imported by the number of a file descriptor."""
        return self._numa_id


def _check_numa_id(numa_id: object) -> int:
    number = check_int("numa_id", numa_id, "an int, the number of a NUMA node")
    if not 0 <= number < 2**31:
        raise ValueError(f"numa_id must be >= 0, got {number}: the number of a NUMA node")
    return check_node(number, "numa_id")
