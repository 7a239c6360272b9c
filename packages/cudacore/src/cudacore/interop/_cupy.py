# SPDX-License-Identifier: Apache-2.0
"""CuPy's allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudacore.interop._resources import check_buffer, check_resource, made_current, resource_for
from cudacore_handles import Buffer, CUDAError, Device, MemoryResource, Stream

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


def cupy_allocator(memory_resource: MemoryResource | None = None) -> Callable[[int], Any]:
    """Return an allocator for CuPy that allocates from a memory resource.

    Pass it to ``cupy.cuda.set_allocator`` or ``cupy.cuda.using_allocator``. Each array is then an allocation of the
    memory resource. The allocator can be used by many threads.

    An array is allocated on CuPy's current stream at that time. It is freed on the same stream when the last array that
    uses the memory is collected. As with CuPy's own pool, the program must wait for work on other streams before that.
    If the stream is captured, the allocation becomes a part of the graph, and the memory exists only while the graph
    runs. A launch of cudacore in the same capture must be given the address, ``array.data.ptr``: the graph would keep
    the array itself, could not free its memory, and could run only once.

    Errors of the memory resource are raised unchanged. If no memory is left, that is an
    :class:`OutOfMemoryError`, which is a ``MemoryError`` like CuPy's own error.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        A resource of memory that kernels can use, such as an adaptor. Default: that of CuPy's current device,
        ``Device(...).memory_resource``.

    Returns
    -------
    callable
        The allocator: it takes a size and returns a ``cupy.cuda.MemoryPointer``.

    Raises
    ------
    ImportError
        If CuPy is not installed.
    """
    import cupy

    mr = check_resource(memory_resource)
    home = None if mr is None else mr.device_id
    devices: dict[int, Device] = {}
    memory, unowned = cupy.cuda.MemoryPointer, cupy.cuda.UnownedMemory
    current_device, current_stream = cupy.cuda.runtime.getDevice, cupy.cuda.get_current_stream
    last: tuple[Any, Stream | None] = (None, None)  # the last stream of CuPy, and the cudacore Stream for it

    def allocate(size: int) -> Any:
        nonlocal last
        device_id = current_device()
        given = current_stream()
        known, stream = last
        if stream is None or known is not given:
            stream = _stream_of(given)
            last = (given, stream)
        if mr is not None:
            resource = mr if home == device_id else resource_for(mr, device_id)
        else:
            device = devices.get(device_id)
            if device is None:
                device = devices[device_id] = Device(device_id)
            resource = device.memory_resource
        try:
            buffer = resource.allocate(size, stream=stream)
        except CUDAError as error:
            if not made_current(error, device_id):
                raise
            buffer = resource.allocate(size, stream=stream)
        if type(buffer) is not Buffer:
            buffer = check_buffer(resource, buffer)
        return memory(unowned(buffer.handle, size, buffer, device_id), 0)

    return allocate


def cupy_pool(memory_resource: MemoryResource | None = None) -> Any:
    """Return a pool of CuPy that takes its blocks from a memory resource.

    Pass its method ``malloc`` to ``cupy.cuda.set_allocator`` or ``cupy.cuda.using_allocator``. CuPy keeps freed memory
    in the pool and reuses it, as fast as without cudacore. Adaptors see the blocks of the pool, not the arrays. Blocks
    are allocated on CuPy's current stream at that time, and kept for that stream. If no memory is left, CuPy releases
    blocks that are not used, tries again, and raises ``cupy.cuda.memory.OutOfMemoryError``.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        As for :func:`cupy_allocator`.

    Returns
    -------
    cupy.cuda.MemoryPool
        The pool. Its method ``free_all_blocks`` returns unused blocks to the memory resource.

    Raises
    ------
    ImportError
        If CuPy is not installed.
    """
    import cupy

    allocate = cupy_allocator(memory_resource)
    failed = cupy.cuda.runtime.CUDARuntimeError

    def allocate_block(size: int) -> Any:
        try:
            return allocate(size)
        except MemoryError as error:
            raise failed(_OUT_OF_MEMORY) from error  # the error that CuPy's pool expects

    return cupy.cuda.MemoryPool(allocate_block)


def _stream_of(stream: Any) -> Stream:
    """Return a stream of cudacore for a stream of CuPy. The result keeps CuPy's stream alive."""
    if hasattr(stream, "__cuda_stream__"):
        return Device().create_stream(stream)
    return Device().create_stream(_WithProtocol(stream))


class _WithProtocol:
    """A stream of CuPy before version 14."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream.ptr
