# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that memory and contexts take and return. Each member is the string that it stands for."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

__all__ = [
    "ManagedMemoryLocationType",
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "ProcessStateType",
    "VirtualMemoryAccessType",
    "VirtualMemoryAllocationType",
    "VirtualMemoryGranularityType",
    "VirtualMemoryHandleType",
    "VirtualMemoryLocationType",
    "WorkqueueSharingScopeType",
]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


class _Name(str, Enum):
    """Do what enum.StrEnum does, which Python 3.10 lacks."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


class ManagedMemoryLocationType(_Name):
    """Where managed memory had better be."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"


class MemcpySrcAccessOrder(_Name):
    """When a copy reads its source."""

    STREAM = "stream"
    DURING_API_CALL = "during_api_call"
    ANY = "any"


class MemcpyOverlapMode(_Name):
    """Whether a copy had better run beside kernels."""

    DEFAULT = "default"
    PREFER_OVERLAP_WITH_COMPUTE = "prefer_overlap_with_compute"


class ProcessStateType(_Name):
    """What the state of a process is, as checkpoints see it."""

    RUNNING = "running"
    LOCKED = "locked"
    CHECKPOINTED = "checkpointed"
    FAILED = "failed"
    CHECKPOINTING = "checkpointing"
    RESTORING = "restoring"


class VirtualMemoryAllocationType(_Name):
    """What physical memory virtual memory has."""

    PINNED = "pinned"
    MANAGED = "managed"


class VirtualMemoryLocationType(_Name):
    """Where the physical memory is."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"
    HOST_NUMA_CURRENT = "host_numa_current"


class VirtualMemoryHandleType(_Name):
    """By what physical memory can be shared with other processes."""

    POSIX_FD = "posix_fd"
    WIN32_KMT = "win32_kmt"
    FABRIC = "fabric"


class VirtualMemoryGranularityType(_Name):
    """What sizes are multiples of."""

    MINIMUM = "minimum"
    RECOMMENDED = "recommended"


class VirtualMemoryAccessType(_Name):
    """What may be done with memory."""

    READ_WRITE = "rw"
    READ = "r"


class WorkqueueSharingScopeType(_Name):
    """Who shares the queues of work."""

    DEVICE_CTX = "device_ctx"
    GREEN_CTX_BALANCED = "green_ctx_balanced"


_N = TypeVar("_N", bound=_Name)


def _as_name(cls: type[_N], value: object, opening: str) -> _N:
    """Return the member of a closed set that a value is or names; or say, behind `opening`, what it could be."""
    try:
        return cls(value)
    except ValueError:
        names = ", ".join(repr(str(member)) for member in cls)
        raise ValueError(f"{opening}; it must be one of {names}") from None
