# SPDX-License-Identifier: Apache-2.0
"""A KeyboardInterrupt can arrive between any two bytecodes, also between a call and the use of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernel_sources
import pytest

import cudacore_handles as ch
from cudacore_handles._base.handle import hold
from interrupts import check_interrupts


class _World:
    """The objects that the operations use."""

    def __init__(self, device: ch.Device, stream: ch.Stream) -> None:
        self.device, self.stream = device, stream
        self.pool = ch.DeviceMemoryResource(device)
        self.limited = ch.LimitingResourceAdaptor(self.pool, 1 << 20)
        self.virtual = ch.VirtualMemoryResource(device)
        self.code = ch.ObjectCode.from_ptx(kernel_sources.PTX)
        self.kernel = self.code.get_kernel("nothing")
        self.buffer = device.allocate(64, stream=stream)
        self.memory = bytearray(4096)
        self.whole = self.virtual.allocate(64)
        self.exported = self.virtual.export_allocation(self.whole)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.stream._raw


_OPERATIONS: dict[str, Callable[[_World], Any]] = {
    "stream": lambda w: w.device.create_stream(),
    "foreign stream": lambda w: w.stream.wait(w),
    "event": lambda w: w.stream.record(options={"blocking_sync": True}),
    "pool memory": lambda w: w.device.allocate(64, stream=w.stream),
    "legacy pinned memory": lambda w: ch.LegacyPinnedMemoryResource().allocate(64, stream=w.stream),
    "legacy managed memory": lambda w: ch.LegacyManagedMemoryResource().allocate(64),
    "limited memory": lambda w: w.limited.allocate(64, stream=w.stream),
    "virtual memory": lambda w: w.virtual.allocate(64),
    "larger memory": lambda w: w.virtual.modify_allocation(w.virtual.allocate(64, stream=w.stream), 8 << 20),
    "pool": lambda w: ch.DeviceMemoryResource(w.device, ch.DeviceMemoryResourceOptions(max_size=1 << 20)),
    "exported memory": lambda w: w.virtual.export_allocation(w.whole),
    "file descriptors": lambda w: ch.IPCVirtualMemoryDescriptor(w.exported.descriptors, w.exported.sizes),
    "adaptor": lambda w: ch.LimitingResourceAdaptor(w.pool, 1 << 20),
    "registered memory": lambda w: ch.register_host_memory(w.memory),
    "borrowed memory": lambda w: ch.Buffer.from_handle(w.buffer.handle, 64, owner=w.buffer),
    "part": lambda w: w.buffer[16:32],
    "context": lambda w: w.device.context.device,
    "current context": lambda w: w.device.set_current(w.device.context),
    "loaded code": lambda w: ch.ObjectCode.from_ptx(w.code.code).get_kernel("nothing"),
    "borrowed kernel": lambda w: ch.Kernel.from_handle(w.kernel._raw, w.code).attributes.num_regs,
    "capsule": lambda w: ch.from_capsule(w.buffer.__cudacore_handle__()),
    "DLPack tensor": lambda w: w.buffer.__dlpack__(stream=1, dl_device=(2, 0)),
    "interface": lambda w: w.buffer.__cuda_array_interface__,
    "pointer": lambda w: hold(w.stream),
}


@pytest.mark.parametrize("operation", _OPERATIONS)
def test_nothing_is_lost(device: ch.Device, stream: ch.Stream, operation: str) -> None:
    """Ctrl-C between a call of the library and the next line would leak what the call made."""
    world = _World(device, stream)
    check_interrupts(lambda: (_OPERATIONS[operation](world), None)[1], ch)
