# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that cudacore's functions take and return, and the protocols that they accept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, PCHStatusType, SourceCodeType
from cudacore_graph.typing import GraphConditionalType, GraphMemoryType
from cudacore_handles import DeviceResourcesType, IsStreamType, ParamKind
from cudacore_handles.typing import (
    AddressModeType,
    ArrayFormatType,
    FilterModeType,
    ManagedMemoryLocationType,
    ProcessStateType,
    ReadModeType,
    TensorMapDataType,
    TensorMapIm2ColWideMode,
    TensorMapInterleave,
    TensorMapL2Promotion,
    TensorMapOOBFill,
    TensorMapSwizzle,
    VirtualMemoryAccessType,
    VirtualMemoryAllocationType,
    VirtualMemoryGranularityType,
    VirtualMemoryHandleType,
    VirtualMemoryLocationType,
    WorkqueueSharingScopeType,
)

if TYPE_CHECKING:
    from typing import SupportsInt, TypeAlias

    # What type checkers see of ``CUdeviceptr | int | None``: cuda.bindings has no types.
    DevicePointerType: TypeAlias = SupportsInt | None

__all__ = [
    "AddressModeType",
    "ArrayFormatType",
    "CompilerBackendType",
    "DevicePointerType",
    "DeviceResourcesType",
    "FilterModeType",
    "GraphConditionalType",
    "GraphMemoryType",
    "IsStreamType",
    "ManagedMemoryLocationType",
    "ObjectCodeFormatType",
    "PCHStatusType",
    "ParamKind",
    "ProcessStateType",
    "ReadModeType",
    "SourceCodeType",
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


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name == "DevicePointerType":  # importing cudacore imports nothing of cuda.bindings
            from cuda.bindings import driver

            globals()[name] = driver.CUdeviceptr | int | None
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
