# SPDX-License-Identifier: Apache-2.0
"""Objects of resources are only made by the functions that create the resources, and stay in their process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from kernel_sources import PTX

import cudacore_handles as ch
from cudacore_handles._code.kernel_attributes import KernelAttributes, KernelOccupancy
from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy
from cudacore_handles._memory.pool_attributes import MemPoolAttributes
from cudacore_handles.texture import MipmappedArray, OpaqueArray

MADE_BY: dict[type, str] = {
    ch.Buffer: "Device.allocate()",
    ch.Context: "Device(...).context",
    ch.DeviceProperties: "Device.properties",
    ch.DeviceResources: "Device.resources",
    ch.Event: "Device.create_event()",
    ch.Kernel: "ObjectCode.get_kernel()",
    KernelAttributes: "Kernel.attributes",
    KernelOccupancy: "Kernel.occupancy",
    MemPoolAttributes: "the memory resource's attributes",
    MipmappedArray: "Device.create_mipmapped_array()",
    ch.ObjectCode: "Program.compile()",
    OpaqueArray: "Device.create_opaque_array()",
    PeerAccessibleBySetProxy: "DeviceMemoryResource.peer_accessible_by",
    ch.SMResource: "Device.resources.sm",
    ch.Stream: "Device.create_stream()",
    ch.WorkqueueResource: "Device.resources.workqueue",
}


@pytest.mark.parametrize(("cls", "function"), MADE_BY.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_cannot_be_made_directly(cls: type, function: str) -> None:
    """An object could be made that stands for no resource, or the error would not name the function to call."""
    with pytest.raises(RuntimeError) as caught:
        cls()
    assert str(caught.value).startswith(f"{cls.__name__} objects cannot be instantiated directly; use {function}")


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda device, stream: device.context, "cannot be pickled or copied: pickle the Device"),
        (lambda device, stream: device.create_event(), r"made with EventOptions\(ipc_enabled=True\) can be pickled"),
        (lambda device, stream: stream, "a Stream cannot be pickled or copied: "),
        (lambda device, stream: device.allocate(64, stream=stream), "not IPC-enabled: it cannot be pickled"),
        (
            lambda device, stream: ch.ObjectCode.from_ptx(PTX).get_kernel("add"),
            "cannot be pickled or copied: pickle the ObjectCode",
        ),
    ],
)
def test_cannot_be_pickled(
    device: ch.Device, stream: ch.Stream, make: Callable[[ch.Device, ch.Stream], Any], advice: str
) -> None:
    """An object would arrive in another process as an address that means nothing there."""
    with pytest.raises(TypeError, match=advice):
        pickle.dumps(make(device, stream))
