# SPDX-License-Identifier: Apache-2.0
"""Makes every driver call of operations on memory fail once; base/test_failing_calls.py has the simplest of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from opengl import SimulatedBuffer

import cudacore_handles as ch
from failing_calls import ON_THE_WAY, Operation, fail_each, nothing

pytestmark = pytest.mark.cuda_sim

SIZE = 256

# Queries whose failure does not make the operation fail. If the query whether memory is managed fails, the copy
# queries the device's access instead.
ALSO_ON_THE_WAY = {"device 1: copy of views": ("cuPointerGetAttribute",)}


class World:
    """The objects of an operation. Each operation leaves them unchanged."""

    def __init__(self, device: ch.Device) -> None:
        self.device = device
        self.stream, self.other = device.create_stream(), device.create_stream()
        self.pool = ch.DeviceMemoryResource(device, {"max_size": 0})
        self.shared = ch.DeviceMemoryResource(device, {"ipc_enabled": True})
        self.managed_pool, self.pinned_pool = ch.ManagedMemoryResource(), ch.PinnedMemoryResource()
        self.legacy, self.virtual = ch.LegacyPinnedMemoryResource(), ch.VirtualMemoryResource(device)
        self.buffers = [device.allocate(SIZE, stream=self.stream) for _ in range(4)]
        self.sharable = self.shared.allocate(SIZE, stream=self.stream)
        self.managed = self.managed_pool.allocate(SIZE, stream=self.stream)
        self.legacy_managed = ch.LegacyManagedMemoryResource()
        self.advised = self.legacy_managed.allocate(SIZE)
        self.advised.accessed_by = {device}
        self.pinned = self.legacy.allocate(SIZE)
        self.mapped = self.virtual.allocate(SIZE)
        self.array = np.zeros(SIZE)
        self.gl = SimulatedBuffer(bytes(SIZE))
        self.mapped.fill(7, stream=self.stream)
        self.exported = self.virtual.export_allocation(self.mapped)
        self.adapted, self.adapted_virtual = adaptors(self.pool, SIZE), adaptors(self.virtual, self.mapped.size)

    def state(self) -> tuple[object, ...]:
        """Return everything that an operation must leave unchanged."""
        back = bytearray(SIZE)
        ch.Buffer.from_handle(self.mapped.handle, SIZE).copy_to(back, stream=self.stream)
        return (
            bytes(back),
            set(self.pool.peer_accessible_by),
            [each.allocated_bytes for each in (*self.adapted, *self.adapted_virtual)],
            (self.advised.read_mostly, self.advised.preferred_location, set(self.advised.accessed_by)),
            ch.Device().device_id,
            bool(self.stream.is_nonblocking),
        )


OPERATIONS: dict[str, Operation] = {}


def adaptors(mr: ch.MemoryResource, limit: int) -> tuple[Any, ...]:
    """Wrap a memory resource in one adaptor of each kind; return those that count the live bytes, the outermost first.

    The limit is that of one allocation, so a failed allocation must not count against it.
    """
    tracking = ch.TrackingResourceAdaptor(ch.LoggingResourceAdaptor(ch.StatisticsResourceAdaptor(mr), os.devnull))
    inner = ch.LimitingResourceAdaptor(ch.FailureCallbackResourceAdaptor(tracking, lambda size: False), limit)
    return ch.LimitingResourceAdaptor(ch.StatisticsResourceAdaptor(inner), limit), inner, tracking


def operation(name: str, do: Callable[[World], Any], undo: Callable[[World, Any], object] = nothing) -> None:
    quiet = (*ON_THE_WAY, *ALSO_ON_THE_WAY.get(name, ()))
    OPERATIONS[name] = Operation(name, lambda w, _: do(w), undo, quiet=quiet)


operation("allocate from a pool", lambda w: w.pool.allocate(SIZE, stream=w.stream))
operation("allocate through adaptors", lambda w: w.adapted[0].allocate(SIZE, stream=w.stream))
operation("allocate virtual memory through adaptors", lambda w: w.adapted_virtual[0].allocate(SIZE, stream=w.stream))
operation("memory info", lambda w: w.device.memory_info)
operation("allocate managed", lambda w: w.managed_pool.allocate(SIZE, stream=w.stream))
operation("allocate legacy managed", lambda w: w.legacy_managed.allocate(SIZE, stream=w.stream))
operation("allocate pinned", lambda w: w.pinned_pool.allocate(SIZE, stream=w.stream))
operation("register", lambda w: ch.register_host_memory(w.array))
operation("register read-only", lambda w: ch.register_host_memory(bytes(SIZE), stream=w.stream))
operation("allocate virtual", lambda w: w.virtual.allocate(SIZE, stream=w.stream))
operation("grow", lambda w: w.virtual.modify_allocation(w.mapped, w.mapped.size + 1))
operation("export virtual", lambda w: w.virtual.export_allocation(w.mapped))
operation("import virtual", lambda w: w.virtual.import_allocation(w.exported, stream=w.stream))
for place in ("host", "device"):
    operation(f"grow elsewhere, on the {place}", lambda w, place=place: grow_elsewhere(w, place))  # type: ignore[misc]
operation("pool", lambda w: ch.DeviceMemoryResource(w.device, {"max_size": 1 << 20}))
operation("shared pool", lambda w: ch.DeviceMemoryResource(w.device, {"ipc_enabled": True}))
operation("pinned pool", lambda w: ch.PinnedMemoryResource({"max_size": 1 << 20}))
operation("the host's pool", lambda w: ch.PinnedMemoryResource())
operation("shared pinned pool", lambda w: ch.PinnedMemoryResource({"ipc_enabled": True}))
operation("managed pool", lambda w: ch.ManagedMemoryResource({"preferred_location": 0}))
operation("attributes", lambda w: repr(w.pool.attributes))
operation("trim", lambda w: w.pool.trim())
operation("peer access", lambda w: set(w.pool.peer_accessible_by))
operation("descriptor", lambda w: w.shared.allocate(SIZE, stream=w.stream).ipc_descriptor)
operation(
    "copy with options",
    lambda w: w.pinned.copy_to(w.buffers[1], stream=w.stream, options=ch.CopyOptions("during_api_call")),
)
operation("copy from an array", lambda w: w.buffers[0].copy_from(bytes(SIZE), stream=w.stream))
operation("copy to an array", lambda w: w.buffers[0].copy_to(bytearray(SIZE), stream=w.stream))
operation("copy a part", lambda w: w.buffers[0].copy_part_from(w.buffers[1], 4, height=3, dst_pitch=8, stream=w.stream))
operation("copy_batch", lambda w: ch.copy_batch(w.stream, w.buffers[:2], w.buffers[2:]))
operation(
    "copy_batch on the legacy stream",
    lambda w: ch.copy_batch(ch.LEGACY_DEFAULT_STREAM, w.buffers[:2], w.buffers[2:]),
    lambda w, _: ch.LEGACY_DEFAULT_STREAM.sync(),  # the buffers are freed on another stream
)
operation("prefetch", lambda w: w.managed.prefetch(w.device, stream=w.stream))
operation("prefetch_batch", lambda w: ch.prefetch_batch(w.stream, [w.managed, w.managed], ch.Host()))
operation("discard", lambda w: w.managed.discard(stream=w.stream))
operation("discard_prefetch", lambda w: w.managed.discard_prefetch(w.device, stream=w.stream))
operation(
    "advice", lambda w: setattr(w.advised, "read_mostly", True), lambda w, _: setattr(w.advised, "read_mostly", False)
)
operation(
    "accessed_by",
    lambda w: setattr(w.advised, "accessed_by", {ch.Host()}),
    lambda w, _: setattr(w.advised, "accessed_by", {w.device}),
)
operation("view", lambda w: w.buffers[0].view("float32", (8, 8)))
operation("export", lambda w: w.buffers[0].__dlpack__(stream=int(w.other.handle)))
operation("export to a default stream", lambda w: w.buffers[0].__dlpack__(stream=2))
operation("cuda array interface", lambda w: w.buffers[0].__cuda_array_interface__)
operation("import", lambda w: ch.StridedMemoryView.from_any_interface(w.buffers[0], w.other))
operation("import by interface", lambda w: ch.StridedMemoryView.from_cuda_array_interface(w.buffers[0], w.other))
operation(
    "copy of views",
    lambda w: w.buffers[0].view("int8", (4, 4), (8, 1)).copy_from(w.buffers[1].view("int8", (4, 4), (1, 4)), w.stream),
)
operation(
    "copy of views of the host",
    lambda w: (
        w.buffers[0]
        .view("int8", (4, 4), (8, 1))
        .copy_from(ch.StridedMemoryView.from_any_interface(np.zeros((4, 8), "i1")[:, ::2], -1), w.stream)
    ),
)
operation("callback", lambda w: w.stream.callback(int), lambda w, _: w.stream.sync())
operation("close on another stream", lambda w: w.device.allocate(SIZE, stream=w.stream).close(w.other))
operation("register an image", lambda w: ch.GraphicsResource.from_gl_image(w.gl.name, 0x0DE1))
operation("unmap a resource", lambda w: map_and_end(w, lambda resource, buffer: resource.unmap()))
operation("close a mapped resource", lambda w: map_and_end(w, lambda resource, buffer: resource.close()))
operation("close a mapped buffer", lambda w: map_and_end(w, lambda resource, buffer: buffer.close()))


# Operations with a second device.
operation(
    "device 1: peer access",
    lambda w: w.pool.peer_accessible_by.add(1),
    lambda w, _: w.pool.peer_accessible_by.clear(),
)
operation("device 1: virtual memory of peers", lambda w: ch.VirtualMemoryResource(w.device, {"peers": [1]}).allocate(1))
operation("device 1: allocate", lambda w: ch.Device(1).allocate(SIZE, stream=ch.Device(1).create_stream()))
operation("device 1: copy", lambda w: w.buffers[0].copy_to(remote(w), stream=w.stream))
operation(
    "device 1: copy of views",
    lambda w: remote(w).view("i1", (4, 4), (1, 4)).copy_from(w.buffers[0].view("i1", (4, 4), (8, 1)), w.stream),
)
for pool in ({}, None):  # memory without and with access of device 0
    at = f"device 1: copy {'without' if pool is not None else 'with'} access"
    operation(at, lambda w, pool=pool: remote(w, pool).copy_from(w.buffers[0], stream=w.stream))  # type: ignore[misc]
    operation(
        f"{at}, of a part",
        lambda w, pool=pool: remote(w, pool).copy_part_from(w.buffers[0], SIZE, stream=w.stream),  # type: ignore[misc]
    )
    operation(
        f"{at}, in a batch",
        lambda w, pool=pool: ch.copy_batch(w.stream, [w.buffers[0]], [remote(w, pool)]),  # type: ignore[misc]
    )
operation("device 1: export", lambda w: remote(w).__dlpack__(stream=1))
operation("device 1: import", lambda w: ch.StridedMemoryView.from_any_interface(remote(w), w.other))


def remote(w: World, options: Any = None) -> ch.Buffer:
    device = ch.Device(1)
    stream = device.create_stream()
    buffer = ch.DeviceMemoryResource(device, options).allocate(SIZE, stream=stream)
    w.stream.wait(stream)
    buffer.set_deallocation_stream(w.stream)
    return buffer


def grow_elsewhere(w: World, place: str) -> ch.Buffer:
    resource = ch.VirtualMemoryResource(w.device, {"location_type": place, "handle_type": None})
    # The size is larger than any gap between allocations, so the memory lies after all others, and can grow in place.
    first = resource.allocate(74 << 20)
    second = resource.modify_allocation(first, 2 * first.size)  # memory in two pieces
    with first, second, resource.modify_allocation(second, second.size + 1):
        return resource.modify_allocation(second, second.size + 1)  # the addresses after `second` are taken now


def map_and_end(w: World, end: Callable[[ch.GraphicsResource, ch.Buffer], None]) -> None:
    with ch.GraphicsResource.from_gl_buffer(w.gl.name) as resource:
        buffer = resource.map(stream=w.stream)
        try:
            end(resource, buffer)
        except ch.CUDAError as error:
            if error.operation == "cuGraphicsUnmapResources" and (buffer.is_closed or not resource.is_mapped):
                raise AssertionError("the resource was unmapped in spite of the failure") from error
            raise
        assert buffer.is_closed


@pytest.fixture
def world(device: ch.Device) -> Iterator[World]:
    world = World(device)
    yield world
    world.gl.delete()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if not name.startswith("device 1")])
def test_each_call(device: ch.Device, world: World, cuda_sim: Any, name: str) -> None:
    """A driver call's failure would be ignored or changed, or would leave a leak or an incomplete object."""
    calls = fail_each(OPERATIONS[name], world, cuda_sim, device)
    assert calls or name in ("view", "cuda array interface")


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name.startswith("device 1")])
def test_each_call_with_two_devices(
    device: ch.Device, other_device: ch.Device, world: World, cuda_sim: Any, name: str
) -> None:
    """With another device current, a failure would be ignored, leave a leak, or change the current device."""
    access = other_device.memory_resource.peer_accessible_by  # type: ignore[attr-defined]
    access.add(device)
    try:
        fail_each(OPERATIONS[name], world, cuda_sim, device)  # can skip the test
    finally:
        for each in (device, other_device):
            each.sync()  # the last copies need the access
        access.discard(device)
