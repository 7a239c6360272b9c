# SPDX-License-Identifier: Apache-2.0
"""The types of options that are given as dicts, for type checkers. A test compares them with the dataclasses."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from cudacore_handles._driver.device import Device
from cudacore_handles.typing import (
    ManagedMemoryLocationName,
    ManagedMemoryLocationType,
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
    WorkqueueSharingScopeName,
    WorkqueueSharingScopeType,
)

class StreamOptionsDict(TypedDict, total=False):
    """The fields of :class:`StreamOptions`."""

    nonblocking: bool
    priority: int | None

class EventOptionsDict(TypedDict, total=False):
    """The fields of :class:`EventOptions`."""

    timing_enabled: bool | None
    blocking_sync: bool | None
    ipc_enabled: bool | None

class SMResourceOptionsDict(TypedDict, total=False):
    """The fields of :class:`SMResourceOptions`."""

    count: int | Sequence[int | None] | None
    coscheduled_sm_count: int | Sequence[int | None] | None
    preferred_coscheduled_sm_count: int | Sequence[int | None] | None
    backfill: bool | Sequence[bool]

class WorkqueueResourceOptionsDict(TypedDict, total=False):
    """The fields of :class:`WorkqueueResourceOptions`."""

    sharing_scope: WorkqueueSharingScopeType | WorkqueueSharingScopeName | None
    concurrency_limit: int | None

class DeviceMemoryResourceOptionsDict(TypedDict, total=False):
    """The fields of :class:`DeviceMemoryResourceOptions`."""

    ipc_enabled: bool
    max_size: int

class PinnedMemoryResourceOptionsDict(TypedDict, total=False):
    """The fields of :class:`PinnedMemoryResourceOptions`."""

    ipc_enabled: bool
    max_size: int
    numa_id: int | None

class ManagedMemoryResourceOptionsDict(TypedDict, total=False):
    """The fields of :class:`ManagedMemoryResourceOptions`."""

    preferred_location: int | None
    preferred_location_type: ManagedMemoryLocationType | ManagedMemoryLocationName | None

class VirtualMemoryResourceOptionsDict(TypedDict, total=False):
    """The fields of :class:`VirtualMemoryResourceOptions`."""

    allocation_type: VirtualMemoryAllocationType | VirtualMemoryAllocationName
    location_type: VirtualMemoryLocationType | VirtualMemoryLocationName
    handle_type: VirtualMemoryHandleType | VirtualMemoryHandleName | None
    granularity: VirtualMemoryGranularityType | VirtualMemoryGranularityName
    gpu_direct_rdma: bool
    addr_hint: int | None
    addr_align: int | None
    peers: Iterable[Device | int]
    self_access: VirtualMemoryAccessType | VirtualMemoryAccessName | None
    peer_access: VirtualMemoryAccessType | VirtualMemoryAccessName | None
