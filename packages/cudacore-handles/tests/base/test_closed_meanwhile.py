# SPDX-License-Identifier: Apache-2.0
"""Another thread can close an object between any two bytecodes of a call that uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import kernel_sources
import numpy as np
import pytest

import cudacore_handles as ch
from interrupts import check_closing_meanwhile

# The uses make thousands of pools and of mappings, for which a GPU takes minutes. What can fail is in Python.
pytestmark = pytest.mark.cuda_sim


class _World:
    """The objects that the uses need beside the one that is closed."""

    def __init__(self, device: ch.Device, stream: ch.Stream) -> None:
        self.device, self.stream = device, stream
        self.virtual = ch.VirtualMemoryResource(device)
        self.shared = ch.DeviceMemoryResource(device, {"ipc_enabled": True})
        self.code = ch.ObjectCode.from_ptx(kernel_sources.PTX)
        self.buffer = device.allocate(64, stream=stream)


_ONE = ch.LaunchConfig(grid=1, block=1)
_MAKERS: dict[str, Callable[[_World], Any]] = {
    "stream": lambda w: w.device.create_stream(),
    "event": lambda w: w.stream.record(),
    "kernel": lambda w: w.code.get_kernel("nothing"),
    "buffer": lambda w: w.device.allocate(64, stream=w.stream),
    "virtual memory": lambda w: w.virtual.allocate(64),
    "shared memory": lambda w: w.shared.allocate(64, stream=w.stream),
    "pool": lambda w: ch.DeviceMemoryResource(w.device, {"ipc_enabled": True}),
}
_USES: dict[str, list[Callable[[_World, Any], object]]] = {
    "stream": [
        lambda w, s: s.wait(w.stream),
        lambda w, s: w.stream.wait(s),
        lambda w, s: w.device.allocate(64, stream=s),
        lambda w, s: (s.priority, s.is_nonblocking, s.device, s.context, s.handle),
    ],
    "event": [
        lambda w, e: w.stream.record(e),
        lambda w, e: w.stream.wait(e),
        lambda w, e: (e.is_done, e.context, e.device, e.handle),
    ],
    "kernel": [
        lambda w, k: ch.launch(w.stream, _ONE, k),
        lambda w, k: k.prepare(w.stream, _ONE)(),
        lambda w, k: (k.arguments_info, k.attributes.num_regs, k.handle),
    ],
    "buffer": [
        lambda w, b: b.copy_to(w.buffer, stream=w.stream),
        lambda w, b: b.copy_to(stream=w.stream),
        lambda w, b: b.copy_from(w.buffer, stream=w.stream),
        lambda w, b: b[:16],
        lambda w, b: (b.device_id, b.is_device_accessible, b.is_host_accessible, b.is_managed),
        lambda w, b: b.__dlpack__(stream=-1),
    ],
    "virtual memory": [
        lambda w, b: w.virtual.modify_allocation(b, 8 << 20),
        lambda w, b: w.virtual.export_allocation(b),
        lambda w, b: b.__reduce__(),
    ],
    "shared memory": [lambda w, b: b.ipc_descriptor, lambda w, b: b.__reduce__()],
    "pool": [
        lambda w, p: p.allocate(64, stream=w.stream),
        lambda w, p: p.allocate(0, stream=w.stream),
        lambda w, p: p.trim(),
        lambda w, p: repr(p.attributes),
        lambda w, p: p.allocation_handle,
        lambda w, p: p.__reduce__(),
    ],
}


@pytest.mark.parametrize(("kind", "number"), [(kind, i) for kind, uses in _USES.items() for i in range(len(uses))])
def test_the_error_says_so(device: ch.Device, stream: ch.Stream, kind: str, number: int) -> None:
    """The use would fail with an error about something else, such as an attribute of None or a memory resource."""
    world = _World(device, stream)
    check_closing_meanwhile(lambda: _MAKERS[kind](world), lambda face: _USES[kind][number](world, face), ch)


def test_memory_that_is_closed_while_it_becomes_larger(device: ch.Device, stream: ch.Stream) -> None:
    """The larger memory would be new, without the contents."""
    virtual = ch.VirtualMemoryResource(device)
    found = np.zeros(64, np.uint8)

    def filled() -> ch.Buffer:
        buffer = virtual.allocate(64)
        buffer.fill(7, stream=stream)
        stream.sync()
        return buffer

    def grow(buffer: ch.Buffer) -> None:
        larger = virtual.modify_allocation(buffer, 3 << 20)
        sys.settrace(None)  # nothing is closed any more
        larger[:64].copy_to(found, stream=stream)
        assert set(found) == {7}
        found.fill(0)

    check_closing_meanwhile(filled, grow, ch)
