# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pluggable allocator."""

from __future__ import annotations

from typing import Any

from cudacore.interop._resources import check_resource, resource_for
from cudacore_handles import Device, MemoryResource
from cudacore_handles._sdk.memory import make_allocator, set_torch_allocator


def torch_allocator(memory_resource: MemoryResource | None = None) -> Any:
    """Return an allocator for PyTorch that allocates from a memory resource.

    Pass it to ``torch.cuda.memory.change_current_allocator`` before PyTorch has used CUDA. Each tensor is then an
    allocation of the memory resource, in the order of PyTorch's current stream, and its memory is freed in the order of
    that stream. ``Tensor.record_stream`` makes the free wait for the other stream, too. If a tensor is allocated while
    its stream is captured, the allocation becomes a part of the graph. If no memory is left, PyTorch raises a
    ``RuntimeError`` with the reason.

    The functions that PyTorch calls are in C. All tensors of a device come from one memory resource: the one given in
    the last call of this function or of :func:`torch_pool` for the device. Tensors that were allocated before that call
    are freed by their own memory resource. To use several devices, call this function once for each device, with a
    memory resource of the device, before PyTorch allocates on it. All calls return the same object. PyTorch has no
    statistics of such an allocator (``torch.cuda.memory_allocated``); use a :class:`StatisticsResourceAdaptor` instead.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        A resource of a pool whose memory kernels can use, or an adaptor of such a resource that counts, limits or logs.
        Default: that of the current device, ``Device().memory_resource``.

    Returns
    -------
    torch.cuda.memory.CUDAPluggableAllocator
        The allocator.

    Raises
    ------
    TypeError
        If the memory resource needs Python code for an allocation, such as a :class:`TrackingResourceAdaptor`.
    ImportError
        If PyTorch is not installed.
    """
    return _allocator(memory_resource, throws=True)


def torch_pool(memory_resource: MemoryResource | None = None, **options: Any) -> Any:
    """Return a pool of PyTorch that takes its blocks from a memory resource.

    Use it by ``with torch.cuda.use_mem_pool(pool):``. PyTorch's own allocator takes large blocks from the memory
    resource, keeps them, and allocates tensors in them, as fast as without cudacore. Adaptors see the blocks, not the
    tensors. PyTorch orders the use of the blocks itself. If memory runs out, PyTorch releases blocks that are not used,
    tries once more, and raises ``torch.OutOfMemoryError``. The blocks are returned to the memory resource when the pool
    is collected and ``torch.cuda.empty_cache()`` is called.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        As for :func:`torch_allocator`. All pools of a device use the memory resource that was given last.
    **options
        Further arguments of ``torch.cuda.MemPool``.

    Returns
    -------
    torch.cuda.MemPool
        The pool.

    Raises
    ------
    TypeError
        If the memory resource needs Python code for an allocation, such as a :class:`TrackingResourceAdaptor`.
    ImportError
        If PyTorch is not installed.
    """
    import torch

    return torch.cuda.MemPool(_allocator(memory_resource, throws=False).allocator(), **options)


def _allocator(memory_resource: MemoryResource | None, *, throws: bool) -> Any:
    import torch

    mr = check_resource(memory_resource)
    device_id = mr.device_id if mr is not None and mr.device_id >= 0 else Device().device_id
    functions = set_torch_allocator(device_id, make_allocator(resource_for(mr, device_id)))
    cls = torch.cuda.memory.CUDAPluggableAllocator
    allocator = _allocators.get((cls, throws))
    if allocator is None:
        alloc = functions.alloc if throws else functions.try_alloc
        allocator = cls(functions.path, alloc, functions.free)
        allocator._allocator.set_record_stream_fn(functions.record_stream)
        _keep_forever(allocator)
        _allocators[cls, throws] = allocator
    return allocator


# Allocators are kept, because PyTorch's pools and their blocks hold a pointer to an allocator, but no reference. One
# allocator of each kind is enough, because all allocators of a kind call the same functions.
_allocators: dict[tuple[type, bool], Any] = {}


def _keep_forever(allocator: Any) -> None:
    """Keep an allocator until the process ends: the last pools use it after modules have been cleared."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(allocator))
