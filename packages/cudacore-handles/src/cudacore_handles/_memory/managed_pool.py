# SPDX-License-Identifier: Apache-2.0
"""Pools of managed memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

from cudacore_handles._base.address import check_int
from cudacore_handles._base.driver_calls import need_driver
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import as_options
from cudacore_handles._base.suggest import options_apart
from cudacore_handles._cffi import lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.host import Host, place_of
from cudacore_handles._stream.stream import IsStreamType, Stream
from cudacore_handles.typing import ManagedMemoryLocationName, ManagedMemoryLocationType, _as_name

if TYPE_CHECKING:
    from cudacore_handles._memory.managed import ManagedBuffer
    from cudacore_handles._option_dicts import ManagedMemoryResourceOptionsDict
from cudacore_handles._memory.pool import PooledMemoryResource


@public
@dataclass
class ManagedMemoryResourceOptions:
    """Options of a new pool of managed memory.

    Attributes
    ----------
    preferred_location : int, optional
        Ordinal of the device, or the NUMA node of the host. Default None.
    preferred_location_type : ManagedMemoryLocationType or str, optional
        ``"device"``, ``"host"`` or ``"host_numa"``. With ``"host_numa"``, `preferred_location` is a node, or None for
        the node closest to the current device. Default None: then `preferred_location` is a device, -1 for the host, or
        None for no preference.
    """

    preferred_location: int | None = None
    preferred_location_type: ManagedMemoryLocationType | ManagedMemoryLocationName | None = None


@public
class ManagedMemoryResource(PooledMemoryResource):
    """A memory resource that allocates managed memory from a pool, in the order of streams.

    The buffers are :class:`ManagedBuffer` objects. Needs a driver for CUDA 13. The host must wait for the stream before
    it uses memory that was allocated on it. If a device cannot share the memory with the host, the host must also wait
    for all work of that device; a warning is given then.

    Parameters
    ----------
    options : ManagedMemoryResourceOptions, optional
        Options of a new pool. Default: the shared pool of the process.

    Examples
    --------
    >>> managed = core.ManagedMemoryResource()
    >>> buffer = managed.allocate(1024, stream=stream)
    >>> buffer.prefetch(device, stream=stream)
    """

    _is_host_accessible = True
    _preferred: Device | Host | None = None

    @options_apart("ManagedMemoryResourceOptions")
    def __init__(self, options: ManagedMemoryResourceOptions | ManagedMemoryResourceOptionsDict | None = None) -> None:
        from cudacore_handles._memory.managed import ManagedBuffer, warn_of_no_concurrent_access

        given = None if options is None else as_options(ManagedMemoryResourceOptions, options)
        self._buffer_class = ManagedBuffer
        if given is not None:
            self._preferred = _preferred_location(given)
        place = (0, 0) if self._preferred is None else place_of(self._preferred, "preferred_location")
        need_driver(13000, "cuMemPoolCreate", "That version has pools of managed memory")
        if given is None:
            self._open(lib.cch_pool_of, *place, lib.CCH_ALLOCATION_MANAGED)
        else:
            self._create(place, lib.CCH_ALLOCATION_MANAGED)
        warn_of_no_concurrent_access(stacklevel=3)

    if TYPE_CHECKING:

        def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType) -> ManagedBuffer: ...

    @property
    def _where(self) -> str:
        return "managed memory"

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that the memory prefers; -1 for the host, or no preference."""
        return self._preferred.device_id if isinstance(self._preferred, Device) else -1

    @property
    def preferred_location(self) -> tuple[ManagedMemoryLocationType, int | None] | None:
        """tuple or None: The preferred location of the memory: its type and number; None for no preference."""
        at = self._preferred
        if at is None:
            return None
        if isinstance(at, Device):
            return ManagedMemoryLocationType.DEVICE, at.device_id
        kind = ManagedMemoryLocationType.HOST if at.numa_id is None else ManagedMemoryLocationType.HOST_NUMA
        return kind, at.numa_id

    @property
    def is_managed(self) -> bool:
        """bool: True."""
        return True


def _preferred_location(options: ManagedMemoryResourceOptions) -> Device | Host | None:
    number, given = options.preferred_location, options.preferred_location_type
    if number is not None:
        number = check_int("preferred_location", number, "an int or None")
    if given is not None:
        kind = _as_name(
            ManagedMemoryLocationType, given, f"preferred_location_type: {given!r} is not a valid place, or None"
        )
    elif number is None or number == -1:
        return None if number is None else Host()
    else:
        kind = ManagedMemoryLocationType.DEVICE
    if kind is ManagedMemoryLocationType.HOST:
        if number is not None:
            raise ValueError(
                f"preferred_location must be None when preferred_location_type is 'host', got {number}; 'host_numa' "
                "takes a node"
            )
        return Host()
    if kind is ManagedMemoryLocationType.HOST_NUMA:
        if number is not None and not 0 <= number < 2**31:
            raise ValueError(f"preferred_location must be a NUMA node (>= 0) or None, got {number}")
        return Host(max(Device().properties.host_numa_id, 0) if number is None else number)
    if number is None or number < 0:
        raise ValueError(
            f"preferred_location must be a device ordinal (>= 0) when preferred_location_type is 'device', got {number}"
        )
    return Device(number)
