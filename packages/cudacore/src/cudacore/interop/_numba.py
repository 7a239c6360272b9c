# SPDX-License-Identifier: Apache-2.0
"""Numba's external memory management."""

from __future__ import annotations

from typing import Any

from cudacore.interop._resources import check_buffer, check_resource, resource_for
from cudacore_handles import LEGACY_DEFAULT_STREAM, Device, MemoryResource, Stream


class _Address(int):
    """An address: an int, as new versions of Numba expect, with a pointer's attribute ``value``, for old versions."""

    @property
    def value(self) -> int:
        """int: The address."""
        return int(self)


def numba_memory_manager(memory_resource: MemoryResource | None = None, *, stream: Stream | None = None) -> type[Any]:
    """Return a memory manager class for Numba that allocates from a memory resource.

    Pass it to ``numba.cuda.set_memory_manager`` before Numba has used CUDA. Numba still manages page-locked host memory
    itself.

    Numba does not report on which stream an array will be used. The manager allocates and frees all memory on one
    stream, by default the legacy default stream. Streams of ``numba.cuda.stream()`` are ordered with the legacy default
    stream. A non-blocking stream must wait for the manager's stream before it uses a new array. The manager's stream
    must wait for the non-blocking stream before the array is collected.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        A resource of memory that kernels can use, such as an adaptor. Default: that of Numba's current device,
        ``Device(...).memory_resource``.
    stream : Stream, optional
        The stream that orders allocations and frees. Default: the legacy default stream.

    Raises
    ------
    ImportError
        If Numba is not installed.
    """
    from numba import cuda

    mr, ordered_on = check_resource(memory_resource), LEGACY_DEFAULT_STREAM if stream is None else stream

    class CudacoreMemoryManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc, name-defined, unused-ignore]
        """The memory manager, which allocates Numba's arrays from a memory resource of cudacore."""

        def initialize(self) -> None:
            """Prepare the management of host memory. Numba calls this often."""
            super().initialize()

        def memalloc(self, size: int) -> Any:
            """Allocate device memory; it is freed when the result is collected."""
            resource = resource_for(mr, self.context.device.id)
            buffer = check_buffer(resource, resource.allocate(size, stream=ordered_on))
            return cuda.MemoryPointer(self.context, _Address(buffer.handle), size, finalizer=buffer.close)

        def get_memory_info(self) -> Any:
            """Return the free and the total memory of the device."""
            return cuda.MemoryInfo(*Device(self.context.device.id).memory_info)

        def get_ipc_handle(self, memory: Any) -> Any:
            """Raise an error, because the driver has no IPC handles for memory of pools."""
            raise NotImplementedError(
                "memory of a cudacore resource has no IPC handle for Numba: share a Buffer of an IPC-enabled "
                "DeviceMemoryResource, and use numba.cuda.as_cuda_array(buffer.view(...)) in the other process"
            )

        @property
        def interface_version(self) -> int:
            """int: The version of Numba's interface."""
            return 1

    return CudacoreMemoryManager
