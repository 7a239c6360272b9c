# SPDX-License-Identifier: Apache-2.0
"""Functions that all modules of this package use, for memory resources and for the current context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cudacore_handles import Buffer, CUDAError, Device, MemoryResource
from cudacore_handles._sdk import lib
from cudacore_handles._sdk.memory import current_context, current_device, no_buffer

_T = TypeVar("_T")


def check_resource(memory_resource: MemoryResource | None) -> MemoryResource | None:
    """Return the argument if it is None or a memory resource for devices; raise an error otherwise."""
    if memory_resource is None:
        return None
    if not isinstance(memory_resource, MemoryResource):
        raise TypeError(f"memory_resource must be a MemoryResource, not {type(memory_resource).__name__}")
    if not memory_resource.is_device_accessible:
        raise ValueError(f"memory_resource is {memory_resource!r}, whose memory kernels cannot use")
    return memory_resource


def resource_for(memory_resource: MemoryResource | None, device_id: int) -> MemoryResource:
    """Return the resource that allocates for a device: the given one, or the device's own if none is given."""
    if memory_resource is None:
        return Device(device_id).memory_resource
    if memory_resource.device_id not in (device_id, -1):
        raise ValueError(
            f"{memory_resource!r} has memory of device {memory_resource.device_id}, and the current device is "
            f"{device_id}: give no memory resource, so that Device({device_id}).memory_resource is used there"
        )
    return memory_resource


def made_current(error: CUDAError, device_id: int) -> bool:
    """Make a device current if an allocation failed because nothing has used CUDA on this thread yet.

    Returns
    -------
    bool
        Whether to try again.
    """
    if error.code != lib.CCH_INVALID_CONTEXT:
        return False
    Device(device_id).set_current()
    return True


def check_buffer(resource: MemoryResource, made: object) -> Buffer:
    """Return the object that a memory resource has allocated; raise an error if it is not a buffer."""
    if not isinstance(made, Buffer):
        raise no_buffer(resource, made)
    return made


def on_device(device_id: int, function: Callable[..., _T], *args: Any) -> _T:
    """Call a function of a library that uses the current device, with the given device as the current one."""
    if current_device() == device_id:
        return function(*args)
    device, previous = Device(device_id), current_context()
    device.set_current()
    try:
        return function(*args)
    finally:
        if previous is not None:
            previous.device.set_current(previous)
