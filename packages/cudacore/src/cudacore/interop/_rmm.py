# SPDX-License-Identifier: Apache-2.0
"""RMM's memory resources, in both directions."""

from __future__ import annotations

from typing import Any

from cudacore.interop._resources import check_resource, current_device, resource_for
from cudacore_handles import Buffer, Device, DeviceMemoryResource, IsStreamType, MemoryResource, Stream


def rmm_resource(memory_resource: MemoryResource | None = None) -> Any:
    """Return a memory resource of RMM that allocates from one of cudacore.

    Pass it to ``rmm.mr.set_current_device_resource``. For a :class:`DeviceMemoryResource`, the result is a
    ``rmm.mr.CudaAsyncViewMemoryResource`` of its pool: RMM itself allocates from the pool, without Python code. Keep
    the memory resource as long as RMM uses its pool. For other resources, such as adaptors, it is a
    ``rmm.mr.CallbackMemoryResource``, which calls Python for each allocation and free. Allocations and frees are
    ordered on the streams that RMM is given.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        A resource of memory that kernels can use. Default: that of the current device, ``Device().memory_resource``.

    Raises
    ------
    ImportError
        If RMM is not installed.
    """
    import rmm.mr

    mr = check_resource(memory_resource)
    mr = resource_for(mr, Device().device_id)
    if type(mr) is DeviceMemoryResource:
        return rmm.mr.CudaAsyncViewMemoryResource(mr.handle)
    buffers: dict[int, Buffer] = {}

    def allocate(size: int, stream: Any) -> int:
        buffer = mr.allocate(size, stream=stream)
        buffers[buffer.handle] = buffer
        return buffer.handle

    def deallocate(ptr: int, size: int, stream: Any) -> None:
        buffers.pop(ptr).close(stream)

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


class RMMMemoryResource(MemoryResource):
    """A memory resource that allocates from one of RMM.

    Buffers are allocated on the given stream, and freed on the stream on which they are closed, as RMM orders it. The
    current device must be that for which the resource of RMM was made.

    Parameters
    ----------
    rmm_mr : rmm.mr.DeviceMemoryResource, optional
        The resource of RMM. Default: ``rmm.mr.get_current_device_resource()``.
    is_host_accessible : bool, optional
        Whether the host can use the memory, as that of ``rmm.mr.ManagedMemoryResource``. Default False.

    Raises
    ------
    ImportError
        If RMM is not installed.
    """

    def __init__(self, rmm_mr: Any = None, *, is_host_accessible: bool = False) -> None:
        import rmm.mr
        from rmm.pylibrmm.stream import Stream as RMMStream

        if rmm_mr is None:
            rmm_mr = rmm.mr.get_current_device_resource()
        if not isinstance(rmm_mr, rmm.mr.DeviceMemoryResource):
            raise TypeError(f"rmm_mr must be a memory resource of RMM, not {type(rmm_mr).__name__}")
        self._rmm_mr, self._stream_type = rmm_mr, RMMStream
        self._is_host_accessible = bool(is_host_accessible)
        self._device_id = Device().device_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._rmm_mr!r}>"

    def allocate(self, size: int, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate from the resource of RMM.

        Parameters
        ----------
        size : int
            Bytes.
        stream : Stream
            The stream on which the allocation, and later the free, is ordered.
        """
        with current_device(self._device_id):
            ptr = self._rmm_mr.allocate(size, self._stream_type(stream))
        return Buffer.from_handle(ptr, size, mr=self, stream=stream)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Have RMM free memory, ordered on a stream."""
        with current_device(self._device_id):
            self._rmm_mr.deallocate(ptr, size, self._stream_type(stream))

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: As given."""
        return self._is_host_accessible

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that was current when this object was made."""
        return self._device_id
