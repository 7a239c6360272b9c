# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that cudacore's functions take and return, and the types of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_compile.typing import (
    CompilerBackendName,
    CompilerBackendType,
    CompileTargetName,
    LinkTargetName,
    ObjectCodeFormatType,
    PCHStatusType,
    SourceCodeName,
    SourceCodeType,
)
from cudacore_graph.typing import CaptureModeName, GraphConditionalType, GraphMemoryName, GraphMemoryType
from cudacore_handles import DeviceResourcesType, IsStreamType, ParamKind
from cudacore_handles._sdk import make_getattr as _make_getattr
from cudacore_handles._sdk import public_names as _public_names
from cudacore_handles.typing import (
    AddressModeName,
    AddressModeType,
    AnyArrayType,
    ArrayFormatName,
    ArrayFormatType,
    ExtentsType,
    FillValueType,
    FilterModeName,
    FilterModeType,
    GraphicsFlagName,
    HostArrayType,
    IsDType,
    KernelArgumentType,
    ManagedMemoryLocationName,
    ManagedMemoryLocationType,
    ProcessStateType,
    ReadModeName,
    ReadModeType,
    SupportsArrayInterface,
    SupportsBuffer,
    SupportsCUDAArrayInterface,
    SupportsDLPack,
    TensorMapDataType,
    TensorMapIm2ColWideMode,
    TensorMapInterleave,
    TensorMapL2Promotion,
    TensorMapOOBFill,
    TensorMapSwizzle,
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

if TYPE_CHECKING:
    from typing import SupportsInt, TypeAlias

    # For type checkers, this stands for ``CUdeviceptr | int | None``, because cuda.bindings has no types.
    DevicePointerType: TypeAlias = SupportsInt | None

__all__ = [
    "AddressModeName",
    "AddressModeType",
    "AnyArrayType",
    "ArrayFormatName",
    "ArrayFormatType",
    "CaptureModeName",
    "CompileTargetName",
    "CompilerBackendName",
    "CompilerBackendType",
    "DevicePointerType",
    "DeviceResourcesType",
    "ExtentsType",
    "FillValueType",
    "FilterModeName",
    "FilterModeType",
    "GraphConditionalType",
    "GraphMemoryName",
    "GraphMemoryType",
    "GraphicsFlagName",
    "HostArrayType",
    "IsDType",
    "IsStreamType",
    "KernelArgumentType",
    "LinkTargetName",
    "ManagedMemoryLocationName",
    "ManagedMemoryLocationType",
    "ObjectCodeFormatType",
    "PCHStatusType",
    "ParamKind",
    "ProcessStateType",
    "ReadModeName",
    "ReadModeType",
    "SourceCodeName",
    "SourceCodeType",
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


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    _get = _make_getattr(__name__, {}, globals())

    def __dir__() -> list[str]:
        return _public_names(globals())

    def __getattr__(name: str) -> object:
        if name == "DevicePointerType":  # importing cudacore does not import cuda.bindings
            from cuda.bindings import driver

            globals()[name] = driver.CUdeviceptr | int | None
            return globals()[name]
        return _get(name)
