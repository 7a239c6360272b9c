# SPDX-License-Identifier: Apache-2.0
"""RMM's memory resources, in both directions."""

from __future__ import annotations

from typing import Any

from cudacore.interop._resources import check_buffer, check_resource, made_current, on_device, resource_for
from cudacore_handles import (
    Buffer,
    CUDAError,
    Device,
    DeviceMemoryResource,
    IsStreamType,
    MemoryResource,
    Stream,
)
from cudacore_handles._sdk.memory import (
    AccessibleMemoryResource,
    Allocator,
    Stream_accept,
    check_size,
    collect_garbage,
    empty_buffer,
    make_allocator,
    without_collection,
)


def rmm_resource(memory_resource: MemoryResource | None = None) -> Any:
    """Return a memory resource of RMM that allocates from a memory resource of cudacore.

    Pass it to ``rmm.mr.set_current_device_resource``. For a :class:`DeviceMemoryResource`, the result is a
    ``rmm.mr.CudaAsyncViewMemoryResource`` of its pool: RMM itself allocates from the pool, without Python code. The
    pool is kept as long as the result is, even if the memory resource is closed. For other resources, such as adaptors,
    the result is a ``rmm.mr.CallbackMemoryResource``, which calls Python for each allocation and free. Allocations and
    frees are ordered on the streams that are passed to RMM.

    Pools of RMM hold a lock while they allocate from this resource. So no garbage is collected if memory runs out:
    finalizers could free memory of that pool, and wait for the lock forever. Python code of the memory resource, such
    as the function of a :class:`FailureCallbackResourceAdaptor`, must not collect garbage either.

    If a free fails, for example because the address was not allocated here, RMM cannot pass the exception on. The
    exception goes to ``sys.unraisablehook``.

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

    device_id = Device().device_id
    mr = resource_for(check_resource(memory_resource), device_id)
    if type(mr) is DeviceMemoryResource:
        return _view_of(mr)
    functions = _functions_of(mr)

    def allocate(size: int, stream: Any) -> int:
        try:
            return functions.allocate(size, stream)
        except CUDAError as error:
            if not made_current(error, device_id):
                raise
            return functions.allocate(size, stream)

    def deallocate(ptr: int, size: int, stream: Any) -> None:
        # RMM does not expect an exception here. The exception would be raised later, by an unrelated call.
        try:
            if ptr:  # memory of 0 bytes has no address
                functions.free(ptr, stream)
        except BaseException as error:
            _Unraisable(error)

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def _functions_of(mr: MemoryResource) -> _FromC | _FromPython:
    try:
        return _FromC(make_allocator(mr))
    except TypeError:  # allocations of this resource need Python code
        return _FromPython(mr)


class _FromC:
    """The allocation functions of an RMM resource, which use an allocator of the C library."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator

    def allocate(self, size: int, stream: Any) -> int:
        return self._allocator.allocate(size, stream.__cuda_stream__()[1]) if size else 0

    def free(self, ptr: int, stream: Any) -> None:
        self._allocator.free(ptr, stream.__cuda_stream__()[1])


class _FromPython:
    """The allocation functions of an RMM resource, which call a memory resource in Python and keep its buffers."""

    def __init__(self, mr: MemoryResource) -> None:
        self._mr = mr
        self._buffers: dict[int, Buffer] = {}

    def allocate(self, size: int, stream: Any) -> int:
        with without_collection():
            buffer = check_buffer(self._mr, self._mr.allocate(size, stream=stream))
        if buffer.handle:
            self._buffers[buffer.handle] = buffer
        return buffer.handle

    def free(self, ptr: int, stream: Any) -> None:
        buffer = self._buffers.pop(ptr, None)
        if buffer is None:
            raise ValueError(f"{ptr:#x} is not an address that {self._mr!r} has allocated for RMM, or is free already")
        buffer.close(stream)


def _view_of(mr: DeviceMemoryResource) -> Any:
    import rmm.mr

    class PoolView(rmm.mr.CudaAsyncViewMemoryResource):  # type: ignore[misc, unused-ignore]
        """A memory resource of RMM that allocates from a pool of cudacore."""

    view = PoolView(mr.handle)
    view._keeps = make_allocator(mr)  # keeps the pool alive
    return view


class _Unraisable:
    """An object that raises an exception in its finalizer, so that Python passes it to ``sys.unraisablehook``."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


_MANAGED = {"ManagedMemoryResource", "CudaAsyncManagedMemoryResource"}
_OF_HOST = {"PinnedHostMemoryResource", "SystemMemoryResource", "SamHeadroomMemoryResource"}


def _name_of_innermost(rmm_mr: Any) -> str:
    """Return the class name of the RMM resource that allocates, below all adaptors and pools."""
    while (upstream := getattr(rmm_mr, "upstream_mr", None)) is not None:
        rmm_mr = upstream
    return type(rmm_mr).__name__


class RMMMemoryResource(AccessibleMemoryResource):
    """A memory resource that allocates from a memory resource of RMM.

    RMM allocates a buffer in the order of the given stream, and frees it in the order of the stream on which it is
    closed. The current device must be the one for which the resource of RMM was made.

    Parameters
    ----------
    rmm_mr : rmm.mr.DeviceMemoryResource, optional
        The resource of RMM. Default: ``rmm.mr.get_current_device_resource()``.
    is_host_accessible : bool, optional
        Whether the host can use the memory, as is the case for ``rmm.mr.ManagedMemoryResource``. Default False.

    Raises
    ------
    ImportError
        If RMM is not installed.
    """

    def __init__(self, rmm_mr: Any = None, *, is_host_accessible: bool | None = None) -> None:
        import rmm.mr
        from rmm.pylibrmm.stream import Stream as RMMStream

        if rmm_mr is None:
            rmm_mr = rmm.mr.get_current_device_resource()
        if not isinstance(rmm_mr, rmm.mr.DeviceMemoryResource):
            raise TypeError(f"rmm_mr must be a memory resource of RMM, not {type(rmm_mr).__name__}")
        self._rmm_mr, self._stream_type = rmm_mr, RMMStream
        kind = _name_of_innermost(rmm_mr)
        self._is_managed = kind in _MANAGED
        known = self._is_managed or kind in _OF_HOST
        self._is_host_accessible = known if is_host_accessible is None else bool(is_host_accessible)
        self._device_id = Device().device_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._rmm_mr!r}>"

    def allocate(self, size: int, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate from the resource of RMM.

        Parameters
        ----------
        size : int
            Bytes; a buffer of 0 bytes has no memory.
        stream : Stream
            The stream on which the allocation, and later the free, is ordered.

        Raises
        ------
        MemoryError
            If RMM has no memory left, even after garbage was collected; see :attr:`MemoryResource.collects_garbage`.
        """
        nbytes, accepted = check_size(size), Stream_accept(stream, allow_stream_protocol=True)
        if nbytes == 0:
            return empty_buffer(Buffer, self)
        try:
            ptr = self._allocate(nbytes, accepted)
        except MemoryError:
            if not collect_garbage(self, accepted):
                raise
            ptr = self._allocate(nbytes, accepted)
        try:
            return Buffer.from_handle(ptr, nbytes, mr=self, stream=accepted)
        except BaseException:
            self.deallocate(ptr, nbytes, stream=accepted)
            raise

    def _allocate(self, size: int, stream: Stream) -> int:
        ptr: int = on_device(self._device_id, self._rmm_mr.allocate, size, self._stream_type(stream))
        return ptr

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Make RMM free memory, ordered on a stream."""
        on_device(self._device_id, self._rmm_mr.deallocate, ptr, size, self._stream_type(stream))

    @property
    def is_managed(self) -> bool:
        """bool: Whether the RMM resource is of a class that allocates managed memory."""
        return self._is_managed

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that was current when this object was made."""
        return self._device_id
