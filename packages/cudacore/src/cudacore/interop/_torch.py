# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pluggable allocator."""

from __future__ import annotations

from typing import Any

from cudacore.interop._resources import check_resource, resource_for
from cudacore_handles import Device, MemoryResource
from cudacore_handles._sdk.memory import make_allocator, set_torch_allocator


def torch_allocator(memory_resource: MemoryResource | None = None) -> Any:
    """Return an allocator for PyTorch that allocates from a memory resource.

    The result is a ``torch.cuda.memory.CUDAPluggableAllocator``. There are two ways to use it:

    - ``torch.cuda.MemPool(allocator.allocator())``: PyTorch's own allocator takes large blocks from the memory
      resource, keeps them, and gives parts of them to tensors. This is as fast as PyTorch itself.
    - ``torch.cuda.memory.change_current_allocator(allocator)``, before PyTorch has used CUDA: each tensor is an
      allocation of the memory resource, in the order of PyTorch's current stream, and its memory is freed in the order
      of that stream. Adaptors see each tensor.

    The functions that PyTorch calls are in C. All allocators of a device share one memory resource, that of the last
    call of this function for the device; earlier allocations are freed as they were made.

    Parameters
    ----------
    memory_resource : MemoryResource, optional
        A resource of a pool whose memory kernels can use, or an adaptor of one that counts, limits or logs. Default:
        that of the current device, ``Device().memory_resource``.

    Raises
    ------
    TypeError
        If the memory resource needs Python code for an allocation, such as a :class:`TrackingResourceAdaptor`.
    ImportError
        If PyTorch is not installed.
    """
    import torch

    mr = check_resource(memory_resource)
    device_id = mr.device_id if mr is not None and mr.device_id >= 0 else Device().device_id
    path, allocate, free, record = set_torch_allocator(device_id, make_allocator(resource_for(mr, device_id)))
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, allocate, free)
    set_record = getattr(allocator._allocator, "set_record_stream_fn", None)
    if set_record is not None:
        set_record(record)
    return allocator
