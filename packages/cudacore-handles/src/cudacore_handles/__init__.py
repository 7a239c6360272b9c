# SPDX-License-Identifier: Apache-2.0
"""CUDA driver objects. Each one is a face of a reference-counted handle in a small C library.

Importing this package loads neither the driver nor ``cuda.bindings``: that happens at the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_handles import _other_names as _other_names
from cudacore_handles import typing
from cudacore_handles._base.declarations import live_counts
from cudacore_handles._base.drivers import selected_driver as _selected_driver
from cudacore_handles._base.errors import ClosedError, CUDAError, GoneError, OutOfMemoryError, UnsupportedCodeError
from cudacore_handles._base.module_attributes import finish_module as _finish_module
from cudacore_handles._base.module_attributes import publish as _publish
from cudacore_handles._base.paths import get_cmake_dir, get_include, get_library, get_pkgconfig_dir
from cudacore_handles._capsule import from_capsule
from cudacore_handles._cffi import lib as _lib
from cudacore_handles._code.kernel import Kernel
from cudacore_handles._code.object_code import ObjectCode
from cudacore_handles._code.param_kinds import ParamInfo, ParamKind
from cudacore_handles._driver.context import Context
from cudacore_handles._driver.device import ComputeCapability, Device, MemoryInfo
from cudacore_handles._launch.launch import PreparedLaunch, launch, set_array_type_checks
from cudacore_handles._launch.launch_config import LaunchConfig
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.ipc import IPCAllocationHandle, IPCBufferDescriptor
from cudacore_handles._memory.resource import (
    LegacyManagedMemoryResource,
    LegacyPinnedMemoryResource,
    MemoryResource,
)
from cudacore_handles._native import api
from cudacore_handles._stream.event import Event
from cudacore_handles._stream.ipc import IPCEventDescriptor
from cudacore_handles._stream.stream import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    IsStreamType,
    Stream,
    default_stream,
)
from cudacore_handles._views.tensor_map import TensorMapDescriptor
from cudacore_handles._views.view import StridedMemoryView
from cudacore_handles.typing import MemcpyOverlapMode, MemcpySrcAccessOrder

if TYPE_CHECKING:
    from cudacore_handles._code.info import GlobalInfo, KernelInfo
    from cudacore_handles._driver.device_properties import DeviceProperties
    from cudacore_handles._driver.device_resources import (
        ContextOptions,
        DeviceResources,
        DeviceResourcesType,
        SMResource,
        SMResourceOptions,
        WorkqueueResource,
        WorkqueueResourceOptions,
    )
    from cudacore_handles._memory.adaptors.base import AllocationCounts, ResourceAdaptor
    from cudacore_handles._memory.adaptors.counting import (
        LimitingResourceAdaptor,
        LoggingResourceAdaptor,
        Measurement,
        StatisticsResourceAdaptor,
    )
    from cudacore_handles._memory.adaptors.failure_callback import FailureCallbackResourceAdaptor
    from cudacore_handles._memory.adaptors.tracking import Allocation, TrackingResourceAdaptor
    from cudacore_handles._memory.copy import CopyOptions, copy_batch
    from cudacore_handles._memory.device_pool import DeviceMemoryResource
    from cudacore_handles._memory.device_pool_options import DeviceMemoryResourceOptions
    from cudacore_handles._memory.graphics import GraphicsResource
    from cudacore_handles._memory.host import Host
    from cudacore_handles._memory.managed import (
        ManagedBuffer,
        discard_batch,
        discard_prefetch_batch,
        prefetch_batch,
        reset_concurrent_access_warning,
    )
    from cudacore_handles._memory.managed_pool import ManagedMemoryResource, ManagedMemoryResourceOptions
    from cudacore_handles._memory.pinned_pool import PinnedMemoryResource, PinnedMemoryResourceOptions
    from cudacore_handles._memory.registered import register_host_memory
    from cudacore_handles._memory.virtual_ipc import IPCVirtualMemoryDescriptor
    from cudacore_handles._memory.virtual_memory import VirtualMemoryResource, VirtualMemoryResourceOptions
    from cudacore_handles._stream.options import EventOptions, StreamOptions
    from cudacore_handles._stream.printed import set_printf_to_stdout
    from cudacore_handles._views.tensor_map_options import TensorMapDescriptorOptions
    from cudacore_handles._views.viewable import args_viewable_as_strided_memory

__version__ = "0.1.0"

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Allocation",
    "AllocationCounts",
    "Buffer",
    "CUDAError",
    "ClosedError",
    "ComputeCapability",
    "Context",
    "ContextOptions",
    "CopyOptions",
    "Device",
    "DeviceMemoryResource",
    "DeviceMemoryResourceOptions",
    "DeviceProperties",
    "DeviceResources",
    "DeviceResourcesType",
    "Event",
    "EventOptions",
    "FailureCallbackResourceAdaptor",
    "GlobalInfo",
    "GoneError",
    "GraphicsResource",
    "Host",
    "IPCAllocationHandle",
    "IPCBufferDescriptor",
    "IPCEventDescriptor",
    "IPCVirtualMemoryDescriptor",
    "IsStreamType",
    "Kernel",
    "KernelInfo",
    "LaunchConfig",
    "LegacyManagedMemoryResource",
    "LegacyPinnedMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedBuffer",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "Measurement",
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "MemoryInfo",
    "MemoryResource",
    "ObjectCode",
    "OutOfMemoryError",
    "ParamInfo",
    "ParamKind",
    "PinnedMemoryResource",
    "PinnedMemoryResourceOptions",
    "PreparedLaunch",
    "ResourceAdaptor",
    "SMResource",
    "SMResourceOptions",
    "StatisticsResourceAdaptor",
    "Stream",
    "StreamOptions",
    "StridedMemoryView",
    "TensorMapDescriptor",
    "TensorMapDescriptorOptions",
    "TrackingResourceAdaptor",
    "UnsupportedCodeError",
    "VirtualMemoryResource",
    "VirtualMemoryResourceOptions",
    "WorkqueueResource",
    "WorkqueueResourceOptions",
    "api",
    "args_viewable_as_strided_memory",
    "copy_batch",
    "default_stream",
    "discard_batch",
    "discard_prefetch_batch",
    "from_capsule",
    "get_cmake_dir",
    "get_include",
    "get_library",
    "get_pkgconfig_dir",
    "launch",
    "live_counts",
    "prefetch_batch",
    "register_host_memory",
    "reset_concurrent_access_warning",
    "set_array_type_checks",
    "set_printf_to_stdout",
    "typing",
]


# These names are imported at first use, so that a program that launches one kernel starts faster. The classes among
# them have the decorator @public.
_LAZY = {
    "._code.info": (
        "GlobalInfo",
        "KernelInfo",
    ),
    "._driver.device_properties": ("DeviceProperties",),
    "._driver.device_resources": (
        "ContextOptions",
        "DeviceResources",
        "DeviceResourcesType",
        "SMResource",
        "SMResourceOptions",
        "WorkqueueResource",
        "WorkqueueResourceOptions",
    ),
    "._memory.adaptors.base": (
        "AllocationCounts",
        "ResourceAdaptor",
    ),
    "._memory.adaptors.counting": (
        "LimitingResourceAdaptor",
        "LoggingResourceAdaptor",
        "Measurement",
        "StatisticsResourceAdaptor",
    ),
    "._memory.adaptors.failure_callback": ("FailureCallbackResourceAdaptor",),
    "._memory.adaptors.tracking": (
        "Allocation",
        "TrackingResourceAdaptor",
    ),
    "._memory.copy": (
        "CopyOptions",
        "copy_batch",
    ),
    "._memory.device_pool": ("DeviceMemoryResource",),
    "._memory.device_pool_options": ("DeviceMemoryResourceOptions",),
    "._memory.graphics": ("GraphicsResource",),
    "._memory.host": ("Host",),
    "._memory.ipc": ("receive_buffer",),  # pickles name it
    "._memory.managed": (
        "ManagedBuffer",
        "discard_batch",
        "discard_prefetch_batch",
        "prefetch_batch",
        "reset_concurrent_access_warning",
    ),
    "._memory.managed_pool": (
        "ManagedMemoryResource",
        "ManagedMemoryResourceOptions",
    ),
    "._memory.pinned_pool": (
        "PinnedMemoryResource",
        "PinnedMemoryResourceOptions",
    ),
    "._memory.registered": ("register_host_memory",),
    "._memory.virtual_ipc": ("IPCVirtualMemoryDescriptor", "receive_virtual_buffer"),
    "._memory.virtual_memory": (
        "VirtualMemoryResource",
        "VirtualMemoryResourceOptions",
    ),
    "._stream.options": (
        "EventOptions",
        "StreamOptions",
    ),
    "._stream.printed": ("set_printf_to_stdout",),
    "._views.tensor_map_options": ("TensorMapDescriptorOptions",),
    "._views.viewable": ("args_viewable_as_strided_memory",),
}
_finish_module(globals(), _LAZY)


_publish(__name__, __all__, globals())
_selected_driver()

# The compiled module was built against one version of the library and may be loaded with another.
if _lib.cch_version() >> 16 != _lib.CCH_VERSION >> 16 or _lib.cch_version() < _lib.CCH_VERSION:
    raise ImportError(
        f"libcudacore_handles is of version {_lib.cch_version():#08x}, but cudacore_handles was built for "
        f"{_lib.CCH_VERSION:#08x}: reinstall cudacore-handles"
    )
