# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that memory, contexts and textures take and return, and types of arguments.

Each member of an enumeration is the string that it stands for; members for tensor maps are the driver's numbers. The
types ``...Name`` are the strings that stand for members. Type checkers refuse other strings.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeVar, Union, runtime_checkable

from cudacore_handles._base.module_attributes import finish_module as _finish_module
from cudacore_handles._native import TensorMapHandle as _TensorMap

if TYPE_CHECKING:
    import cudacore_graph
    import cudacore_handles.texture

__all__ = [
    "AddressModeName",
    "AddressModeType",
    "AnyArrayType",
    "ArrayFormatName",
    "ArrayFormatType",
    "ExtentsType",
    "FillValueType",
    "FilterModeName",
    "FilterModeType",
    "GraphicsFlagName",
    "HostArrayType",
    "IsDType",
    "KernelArgumentType",
    "ManagedMemoryLocationName",
    "ManagedMemoryLocationType",
    "MemcpyOverlapMode",
    "MemcpyOverlapModeName",
    "MemcpySrcAccessOrder",
    "MemcpySrcAccessOrderName",
    "ProcessStateType",
    "ReadModeName",
    "ReadModeType",
    "SupportsArrayInterface",
    "SupportsBuffer",
    "SupportsCUDAArrayInterface",
    "SupportsDLPack",
    "TensorMapDataType",
    "TensorMapIm2ColWideMode",
    "TensorMapInterleave",
    "TensorMapL2Promotion",
    "TensorMapOOBFill",
    "TensorMapSwizzle",
    "VirtualMemoryAccessName",
    "VirtualMemoryAccessType",
    "VirtualMemoryAllocationName",
    "VirtualMemoryAllocationType",
    "VirtualMemoryGranularityName",
    "VirtualMemoryGranularityType",
    "VirtualMemoryHandleName",
    "VirtualMemoryHandleType",
    "VirtualMemoryLocationName",
    "VirtualMemoryLocationType",
    "WorkqueueSharingScopeName",
    "WorkqueueSharingScopeType",
]

_finish_module(globals())


class _Name(str, Enum):
    """A string enumeration, like enum.StrEnum, which Python 3.10 lacks."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


class AddressModeType(_Name):
    """The values that are read outside of a texture."""

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
    """The way in which a texture combines texels."""

    POINT = "point"
    LINEAR = "linear"


class ReadModeType(_Name):
    """The way in which kernels read the integers of a texture: unchanged, or as floating-point numbers."""

    ELEMENT_TYPE = "element_type"
    NORMALIZED_FLOAT = "normalized_float"


class ManagedMemoryLocationType(_Name):
    """The type of a preferred location of managed memory."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"


class MemcpySrcAccessOrder(_Name):
    """The time at which a copy reads its source."""

    STREAM = "stream"
    DURING_API_CALL = "during_api_call"
    ANY = "any"


class MemcpyOverlapMode(_Name):
    """The preference of a copy for overlapping with kernels."""

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
    """The type of the physical memory that backs virtual memory."""

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
    """The contexts that share work queues."""

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
    """The layout of channels (``CUtensorMapInterleave``): together, or in slices, as in the format NC/8HWC8."""

    NONE = 0
    INTERLEAVE_16B = 1
    INTERLEAVE_32B = 2


class TensorMapSwizzle(IntEnum):
    """The permutation of pieces of 16 bytes in shared memory, against bank conflicts (``CUtensorMapSwizzle``)."""

    NONE = 0
    SWIZZLE_32B = 1
    SWIZZLE_64B = 2
    SWIZZLE_128B = 3


class TensorMapL2Promotion(IntEnum):
    """The amount of memory that is fetched into the L2 cache at a time (``CUtensorMapL2promotion``)."""

    NONE = 0
    L2_64B = 1
    L2_128B = 2
    L2_256B = 3


class TensorMapOOBFill(IntEnum):
    """The value of elements outside of the tensor: zero, or a special NaN (``CUtensorMapFloatOOBfill``)."""

    NONE = 0
    NAN_REQUEST_ZERO_FMA = 1


class TensorMapIm2ColWideMode(IntEnum):
    """The number of pixels that an im2col-wide copy moves (``CUtensorMapIm2ColWideMode``): a chosen number, or 128."""

    W = 0
    W128 = 1


# The strings that stand for the members. Type checkers cannot compute them from the enumerations; a test compares them.
AddressModeName = Literal["wrap", "clamp", "mirror", "border"]
ArrayFormatName = Literal["uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32"]
FilterModeName = Literal["point", "linear"]
ReadModeName = Literal["element_type", "normalized_float"]
ManagedMemoryLocationName = Literal["device", "host", "host_numa"]
MemcpySrcAccessOrderName = Literal["stream", "during_api_call", "any"]
MemcpyOverlapModeName = Literal["default", "prefer_overlap_with_compute"]
VirtualMemoryAllocationName = Literal["pinned", "managed"]
VirtualMemoryLocationName = Literal["device", "host", "host_numa", "host_numa_current"]
VirtualMemoryHandleName = Literal["posix_fd", "win32_kmt", "fabric"]
VirtualMemoryGranularityName = Literal["minimum", "recommended"]
VirtualMemoryAccessName = Literal["rw", "r"]
WorkqueueSharingScopeName = Literal["device_ctx", "green_ctx_balanced"]
# Closed sets that have no enumeration.
GraphicsFlagName = Literal["none", "read_only", "write_discard", "surface_load_store", "texture_gather"]


class SupportsBuffer(Protocol):
    """An object with the buffer protocol, such as ``bytes``, ``memoryview``, and arrays in host memory."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class SupportsArrayInterface(Protocol):
    """An array in host memory, by NumPy's ``__array_interface__``."""

    @property
    def __array_interface__(self) -> Any: ...


class SupportsCUDAArrayInterface(Protocol):
    """An array in device memory, by the CUDA Array Interface."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class SupportsDLPack(Protocol):
    """An array of any library that supports DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


@runtime_checkable
class IsStreamType(Protocol):
    """An object that provides a CUDA stream by the ``__cuda_stream__`` protocol."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version, 0, and the stream's address."""
        ...


class IsDType(Protocol):
    """A dtype of NumPy."""

    @property
    def kind(self) -> str:
        """str: The letter of the type's kind."""

    @property
    def itemsize(self) -> int:
        """int: Size of an element in bytes."""


#: An array in host memory.
HostArrayType = Union[SupportsBuffer, SupportsArrayInterface, SupportsDLPack]  # noqa: UP007
#: An array in host or device memory.
AnyArrayType = Union[HostArrayType, SupportsCUDAArrayInterface]  # noqa: UP007
#: A value that memory is filled with. An int fills bytes; other values have a definite size, such as ``np.float32(1)``.
FillValueType = Union[int, HostArrayType]  # noqa: UP007
#: A value that kernels take, such as a number, an array, bytes of a struct, or None for a null pointer.
KernelArgumentType = Union[
    float, complex, SupportsIndex, None, AnyArrayType, _TensorMap, "cudacore_handles.texture.TextureObject",
    "cudacore_handles.texture.SurfaceObject", "cudacore_graph.GraphCondition",
]  # fmt: skip

#: The extents of a grid, a cluster or a block in x, y and z, or only in x. The integers can be NumPy's.
ExtentsType = Union[SupportsIndex, tuple[SupportsIndex, ...], list[int], list[SupportsIndex]]  # noqa: UP007

_N = TypeVar("_N", bound=_Name)


def _as_name(cls: type[_N], value: object, opening: str) -> _N:
    """Return the member of a closed set for a value or a name. Otherwise raise an error that begins with `opening`."""
    try:
        return cls(value)
    except ValueError:
        names = ", ".join(repr(str(member)) for member in cls)
        raise ValueError(f"{opening}; it must be one of {names}") from None
