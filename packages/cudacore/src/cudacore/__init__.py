# SPDX-License-Identifier: Apache-2.0
"""One namespace for the cudacore packages, compatible with ``cuda.core`` 1.2.

A program written for ``cuda.core`` imports this package with ``import cudacore as core``. ``cudacore.as_cuda_core`` is
for programs that cannot be changed. ``__all__`` lists the names of this release. Reading a name that exists only in
``cuda.core`` raises an error that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore._version import CUDA_CORE_VERSION
from cudacore._version import __version__ as __version__  # first, because it checks the other packages' versions

# isort: split
import cudacore_handles as _handles
from cudacore_handles import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Buffer,
    ClosedError,
    Context,
    CUDAError,
    Device,
    Event,
    GoneError,
    Kernel,
    LaunchConfig,
    LegacyManagedMemoryResource,
    LegacyPinnedMemoryResource,
    MemoryInfo,
    MemoryResource,
    ObjectCode,
    OutOfMemoryError,
    Stream,
    TensorMapDescriptor,
    UnsupportedCodeError,
    launch,
    set_array_type_checks,
)
from cudacore_handles._sdk import finish_module as _finish_module

if TYPE_CHECKING:
    from cudacore import checkpoint, graph, interop, system, texture, typing, utils
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
    from cudacore_handles import (
        Allocation,
        AllocationCounts,
        ContextOptions,
        DeviceMemoryResource,
        DeviceMemoryResourceOptions,
        DeviceResources,
        EventOptions,
        FailureCallbackResourceAdaptor,
        GraphicsResource,
        Host,
        IPCVirtualMemoryDescriptor,
        LimitingResourceAdaptor,
        LoggingResourceAdaptor,
        ManagedBuffer,
        ManagedMemoryResource,
        ManagedMemoryResourceOptions,
        Measurement,
        PinnedMemoryResource,
        PinnedMemoryResourceOptions,
        ResourceAdaptor,
        SMResource,
        SMResourceOptions,
        StatisticsResourceAdaptor,
        StreamOptions,
        TensorMapDescriptorOptions,
        TrackingResourceAdaptor,
        VirtualMemoryResource,
        VirtualMemoryResourceOptions,
        WorkqueueResource,
        WorkqueueResourceOptions,
        register_host_memory,
        set_printf_to_stdout,
    )

__all__ = [
    "CUDA_CORE_VERSION",
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Allocation",
    "AllocationCounts",
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
    "FailureCallbackResourceAdaptor",
    "GoneError",
    "GraphMemoryResource",
    "GraphicsResource",
    "Host",
    "IPCVirtualMemoryDescriptor",
    "Kernel",
    "LaunchConfig",
    "LegacyManagedMemoryResource",
    "LegacyPinnedMemoryResource",
    "LimitingResourceAdaptor",
    "Linker",
    "LinkerOptions",
    "LoggingResourceAdaptor",
    "ManagedBuffer",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "Measurement",
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
    "ResourceAdaptor",
    "SMResource",
    "SMResourceOptions",
    "StatisticsResourceAdaptor",
    "Stream",
    "StreamOptions",
    "TensorMapDescriptor",
    "TensorMapDescriptorOptions",
    "TrackingResourceAdaptor",
    "UncacheableError",
    "UnsupportedCodeError",
    "VirtualMemoryResource",
    "VirtualMemoryResourceOptions",
    "WorkqueueResource",
    "WorkqueueResourceOptions",
    "checkpoint",
    "graph",
    "interop",
    "launch",
    "register_host_memory",
    "set_array_type_checks",
    "set_printf_to_stdout",
    "system",
    "texture",
    "typing",
    "utils",
]


# Imported at first use, because a program that runs compiled code does not need the compilers.
_LAZY = {
    "cudacore_compile": __all__,  # what no other package has
    "cudacore_graph": ("GraphMemoryResource",),
    "cudacore_handles": set(__all__).intersection(_handles.__all__),
    # Modules; cudacore_handles has a module `typing`, too.
    "": ("checkpoint", "graph", "interop", "system", "texture", "typing", "utils"),
}


# What to use instead of names of CuPy, PyCUDA, Numba, PyTorch and the CUDA runtime, which newcomers try.
_PROGRAM = "write Program(code, 'c++').compile('cubin').get_kernel(name)"
_COPY = "use Buffer.copy_from(array, stream=stream) and copy_to(array, stream=stream)"
_INSTEAD = {
    **dict.fromkeys(("malloc", "mem_alloc", "alloc", "empty", "zeros", "allocate"), "use Device.allocate()"),
    **dict.fromkeys(("array", "asarray", "to_device"), "use Device.to_device(array, stream=stream)"),
    **dict.fromkeys(("memcpy", "memcpy_htod", "memcpy_dtoh", "copy", "asnumpy"), _COPY),
    **dict.fromkeys(("RawKernel", "RawModule", "SourceModule", "ElementwiseKernel", "compile", "jit"), _PROGRAM),
    **dict.fromkeys(("synchronize", "sync"), "use Device.sync(), Stream.sync() or Event.sync()"),
    **dict.fromkeys(("device_count", "get_device_count", "getDeviceCount"), "use len(Device.get_all_devices())"),
    **dict.fromkeys(("is_available",), "use Device.get_all_devices(); it fails if there is no driver"),
    **dict.fromkeys(("current_device", "get_current_device"), "Device() is the current device"),
    **dict.fromkeys(("set_device", "init"), "use Device(number).set_current()"),
    **dict.fromkeys(("current_stream", "default_stream"), "use Device().default_stream, or Device.create_stream()"),
}

_finish_module(globals(), _LAZY, _INSTEAD)
