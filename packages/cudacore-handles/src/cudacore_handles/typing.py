# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that memory, contexts and textures take and return.

Each member is the string that it stands for; those of tensor maps are the driver's numbers.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TypeVar

__all__ = [
    "AddressModeType",
    "ArrayFormatType",
    "FilterModeType",
    "ManagedMemoryLocationType",
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "ProcessStateType",
    "ReadModeType",
    "TensorMapDataType",
    "TensorMapIm2ColWideMode",
    "TensorMapInterleave",
    "TensorMapL2Promotion",
    "TensorMapOOBFill",
    "TensorMapSwizzle",
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


class AddressModeType(_Name):
    """The result of reading outside of a texture."""

    WRAP = "wrap"
    CLAMP = "clamp"
    MIRROR = "mirror"
    BORDER = "border"


class ArrayFormatType(_Name):
    """The type of a channel of a texel."""

    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class FilterModeType(_Name):
    """How a texture combines texels."""

    POINT = "point"
    LINEAR = "linear"


class ReadModeType(_Name):
    """The type of a texture's integers in kernels."""

    ELEMENT_TYPE = "element_type"
    NORMALIZED_FLOAT = "normalized_float"


class ManagedMemoryLocationType(_Name):
    """The type of a preferred location of managed memory."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"


class MemcpySrcAccessOrder(_Name):
    """When a copy reads its source."""

    STREAM = "stream"
    DURING_API_CALL = "during_api_call"
    ANY = "any"


class MemcpyOverlapMode(_Name):
    """Whether a copy should overlap with kernels."""

    DEFAULT = "default"
    PREFER_OVERLAP_WITH_COMPUTE = "prefer_overlap_with_compute"


class ProcessStateType(_Name):
    """The state of a process with respect to checkpoints."""

    RUNNING = "running"
    LOCKED = "locked"
    CHECKPOINTED = "checkpointed"
    FAILED = "failed"
    CHECKPOINTING = "checkpointing"
    RESTORING = "restoring"


class VirtualMemoryAllocationType(_Name):
    """The type of physical memory of virtual memory."""

    PINNED = "pinned"
    MANAGED = "managed"


class VirtualMemoryLocationType(_Name):
    """The location of physical memory."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"
    HOST_NUMA_CURRENT = "host_numa_current"


class VirtualMemoryHandleType(_Name):
    """The type of handle by which physical memory can be shared with other processes."""

    POSIX_FD = "posix_fd"
    WIN32_KMT = "win32_kmt"
    FABRIC = "fabric"


class VirtualMemoryGranularityType(_Name):
    """The granularity of sizes."""

    MINIMUM = "minimum"
    RECOMMENDED = "recommended"


class VirtualMemoryAccessType(_Name):
    """The access to memory."""

    READ_WRITE = "rw"
    READ = "r"


class WorkqueueSharingScopeType(_Name):
    """Which contexts share work queues."""

    DEVICE_CTX = "device_ctx"
    GREEN_CTX_BALANCED = "green_ctx_balanced"


class TensorMapDataType(IntEnum):
    """The type of a tensor's elements, for copies (``CUtensorMapDataType``)."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    INT32 = 3
    UINT64 = 4
    INT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    #: Subnormal numbers become zero.
    FLOAT32_FTZ = 10
    #: 32 bits, rounded to the precision of TF32.
    TFLOAT32 = 11
    TFLOAT32_FTZ = 12


class TensorMapInterleave(IntEnum):
    """How channels lie in memory (``CUtensorMapInterleave``): together, or in slices such as those of NC/8HWC8."""

    NONE = 0
    INTERLEAVE_16B = 1
    INTERLEAVE_32B = 2


class TensorMapSwizzle(IntEnum):
    """How pieces of 16 bytes are permuted in shared memory against bank conflicts (``CUtensorMapSwizzle``)."""

    NONE = 0
    SWIZZLE_32B = 1
    SWIZZLE_64B = 2
    SWIZZLE_128B = 3


class TensorMapL2Promotion(IntEnum):
    """How much at a time is fetched into the L2 cache (``CUtensorMapL2promotion``)."""

    NONE = 0
    L2_64B = 1
    L2_128B = 2
    L2_256B = 3


class TensorMapOOBFill(IntEnum):
    """The value of elements outside of the tensor: zero, or a special NaN (``CUtensorMapFloatOOBfill``)."""

    NONE = 0
    NAN_REQUEST_ZERO_FMA = 1


class TensorMapIm2ColWideMode(IntEnum):
    """How many pixels an im2col-wide copy moves (``CUtensorMapIm2ColWideMode``): a chosen number, or 128."""

    W = 0
    W128 = 1


_N = TypeVar("_N", bound=_Name)


def _as_name(cls: type[_N], value: object, opening: str) -> _N:
    """Return the member of a closed set for a value or a name. Otherwise raise an error that begins with `opening`."""
    try:
        return cls(value)
    except ValueError:
        names = ", ".join(repr(str(member)) for member in cls)
        raise ValueError(f"{opening}; it must be one of {names}") from None
