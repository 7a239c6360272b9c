# SPDX-License-Identifier: Apache-2.0
"""One namespace for the cudacore packages, compatible with ``cuda.core`` 1.2.

``import cudacore as core`` serves a program written for ``cuda.core``; ``cudacore.as_cuda_core`` serves one that
cannot be changed. ``__all__`` is what this release has; asking for a name that ``cuda.core`` has and this release does
not have yet is an error that says so.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cudacore._version import CUDA_CORE_VERSION
from cudacore._version import __version__ as __version__  # before all else: it sees that what is installed fits

# isort: split
from cudacore_handles import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Buffer,
    ClosedError,
    Context,
    ContextOptions,
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    DeviceResources,
    Event,
    EventOptions,
    GoneError,
    GraphicsResource,
    Host,
    IPCVirtualMemoryDescriptor,
    Kernel,
    LaunchConfig,
    LegacyManagedMemoryResource,
    LegacyPinnedMemoryResource,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    MemoryInfo,
    MemoryResource,
    ObjectCode,
    OutOfMemoryError,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    SMResource,
    SMResourceOptions,
    Stream,
    StreamOptions,
    TensorMapDescriptor,
    TensorMapDescriptorOptions,
    UnsupportedCodeError,
    VirtualMemoryResource,
    VirtualMemoryResourceOptions,
    WorkqueueResource,
    WorkqueueResourceOptions,
    launch,
    register_host_memory,
)

if TYPE_CHECKING:
    from cudacore import checkpoint, graph, system, texture, typing, utils
    from cudacore_compile import (
        BatchError,
        CompilerError,
        Linker,
        LinkerOptions,
        NVFatbinError,
        NVJitLinkError,
        NVRTCError,
        NVVMError,
        Program,
        ProgramOptions,
        UncacheableError,
    )
    from cudacore_graph import GraphMemoryResource

__all__ = [
    "CUDA_CORE_VERSION",
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "BatchError",
    "Buffer",
    "CUDAError",
    "ClosedError",
    "CompilerError",
    "Context",
    "ContextOptions",
    "Device",
    "DeviceMemoryResource",
    "DeviceMemoryResourceOptions",
    "DeviceResources",
    "Event",
    "EventOptions",
    "GoneError",
    "GraphMemoryResource",
    "GraphicsResource",
    "Host",
    "IPCVirtualMemoryDescriptor",
    "Kernel",
    "LaunchConfig",
    "LegacyManagedMemoryResource",
    "LegacyPinnedMemoryResource",
    "Linker",
    "LinkerOptions",
    "ManagedBuffer",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "MemoryInfo",
    "MemoryResource",
    "NVFatbinError",
    "NVJitLinkError",
    "NVRTCError",
    "NVVMError",
    "ObjectCode",
    "OutOfMemoryError",
    "PinnedMemoryResource",
    "PinnedMemoryResourceOptions",
    "Program",
    "ProgramOptions",
    "SMResource",
    "SMResourceOptions",
    "Stream",
    "StreamOptions",
    "TensorMapDescriptor",
    "TensorMapDescriptorOptions",
    "UncacheableError",
    "UnsupportedCodeError",
    "VirtualMemoryResource",
    "VirtualMemoryResourceOptions",
    "WorkqueueResource",
    "WorkqueueResourceOptions",
    "checkpoint",
    "graph",
    "launch",
    "register_host_memory",
    "system",
    "texture",
    "typing",
    "utils",
]


# What is imported when it is asked for: a program that runs what is compiled needs nothing of the compilers.
_LATER = {
    "BatchError": "cudacore_compile",
    "CompilerError": "cudacore_compile",
    "GraphMemoryResource": "cudacore_graph",
    "Linker": "cudacore_compile",
    "LinkerOptions": "cudacore_compile",
    "NVFatbinError": "cudacore_compile",
    "NVJitLinkError": "cudacore_compile",
    "NVRTCError": "cudacore_compile",
    "NVVMError": "cudacore_compile",
    "Program": "cudacore_compile",
    "ProgramOptions": "cudacore_compile",
    "UncacheableError": "cudacore_compile",
}


if not TYPE_CHECKING:  # to which any name would be one that there is

    def __getattr__(name: str) -> object:
        if name in ("checkpoint", "graph", "system", "texture", "typing", "utils"):
            return importlib.import_module(f"cudacore.{name}")
        if name in _LATER:
            globals()[name] = value = getattr(importlib.import_module(_LATER[name]), name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
