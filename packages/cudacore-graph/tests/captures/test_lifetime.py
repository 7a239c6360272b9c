# SPDX-License-Identifier: Apache-2.0
"""Objects that are destroyed, or used for the first time, during a capture must not affect it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import graph_tools
import numpy as np
import pytest
from graph_tools import MODES, ONE, USES, Numbers, kinds_of, new_kernel, wait_until

import cudacore_graph as cg
import cudacore_handles as ch
import cudacore_handles.texture as ct
from bindings import call_bindings
from cudacore_handles._driver.device import _memory_resources
from cudacore_handles._memory.resource import _SynchronousMemoryResource
from pytest_cudacore import driver_version


class Made:
    """The objects that a test uses. They are made before the capture begins."""

    def __init__(self, device: ch.Device, stream: ch.Stream, numbers: Numbers) -> None:
        gc.collect()  # a test that was skipped left such an object, whose free of managed memory would end a capture
        self.device, self.numbers = device, numbers
        self.captured = stream
        self.other = device.create_stream()
        self.code = ch.ObjectCode.from_ptx(graph_tools.PTX)
        self.add = self.code.get_kernel("add")
        self.result = ch.Buffer.from_handle(numbers.at(16), 64)

        self.shared = ch.DeviceMemoryResource(device, {"ipc_enabled": True})
        self.sharable = self.shared.allocate(64, stream=self.other)
        address = int(call_bindings("cuMemAllocManaged", 64, 1))
        self.advised = ch.ManagedBuffer.from_handle(address, 64)
        weakref.finalize(self, call_bindings, "cuMemFree", address)
        self.managed = self.advised  # for drivers without pools of managed memory
        if driver_version() >= (13, 0):
            self.managed = ch.ManagedMemoryResource().allocate(64, stream=self.other)

    def advise(self) -> None:
        self.advised.read_mostly = True
        assert self.advised.read_mostly
        self.managed.prefetch(self.device, stream=self.other)

    def grow(self) -> ch.Buffer:
        resource = ch.VirtualMemoryResource(self.device)
        return resource.modify_allocation(resource.allocate(1), resource.granularity + 1)

    def definition(self) -> cg.GraphDefinition:
        memory = self.device.allocate(64, stream=self.other)
        definition = cg.GraphDefinition()
        definition.launch(ONE, self.add, memory, 1).callback(lambda: memory)
        return definition

    def in_flight(self) -> cg.Graph:
        graph = self.definition().instantiate()
        graph.launch(self.other)
        return graph

    def kernel(self) -> ch.Kernel:
        kernel = new_kernel()
        ch.launch(self.other, ONE, kernel, self.numbers.at(15), 0)
        return kernel

    def prepared(self) -> ch.PreparedLaunch:
        return self.kernel().prepare(self.other, ONE, self.device.allocate(64, stream=self.captured), 1)

    def pool(self) -> ch.DeviceMemoryResource:
        pool = ch.DeviceMemoryResource(self.device, {})
        pool.allocate(64, stream=self.other).close()
        return pool

    def resource(self) -> ch.Buffer:
        class Resource(ch.MemoryResource):
            def allocate(self, size: int, *, stream: Any) -> ch.Buffer:
                self.inner = ch.LegacyPinnedMemoryResource().allocate(size)
                return ch.Buffer.from_handle(self.inner.handle, size, mr=self)

            def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
                self.inner.close()

        return Resource().allocate(64, stream=self.other)

    def built(self) -> cg.GraphBuilder:
        with self.device.create_graph_builder() as builder:
            ch.launch(builder, ONE, self.add, self.device.allocate(64, stream=self.captured), 1)
        return builder

    def earlier(self) -> ch.Buffer:
        with self.captured.create_graph_builder() as builder:
            memory = self.device.allocate(64, stream=builder)
        builder.complete().launch(self.captured)
        return memory

    def array(self) -> ct.OpaqueArray:
        return self.device.create_opaque_array(ct.OpaqueArrayOptions((16, 4), "uint8", 1, is_surface_load_store=True))

    def levels(self) -> ct.MipmappedArray:
        return self.device.create_mipmapped_array(ct.MipmappedArrayOptions((16, 4), "uint8", 1, 2))

    def texture(self) -> ct.TextureObject:
        resource = ct.ResourceDescriptor.from_opaque_array(self.array())
        return self.device.create_texture_object(resource=resource, options=ct.TextureObjectOptions())

    def texture_of_memory(self) -> ct.TextureObject:
        memory = self.device.allocate(64, stream=self.captured)
        resource = ct.ResourceDescriptor.from_linear(memory, format="uint8", num_channels=1)
        return self.device.create_texture_object(resource=resource)

    def green(self) -> ch.Stream:
        if driver_version() < (12, 5):
            pytest.skip("needs a driver for CUDA 12.5: streams of green contexts")
        (group,), _ = self.device.resources.sm.split(ch.SMResourceOptions(count=16))
        return self.device.create_context(ch.ContextOptions([group])).create_stream()

    def building(self) -> cg.GraphBuilder:
        builder = self.device.create_graph_builder().begin_building()
        ch.launch(builder, ONE, self.add, self.numbers.buffer, 1)
        return builder


KINDS: dict[str, Callable[[Made], Any]] = {
    "buffer": lambda made: made.device.allocate(64, stream=made.other),
    "buffer of the captured stream": lambda made: made.device.allocate(64, stream=made.captured),
    "buffer of the legacy default stream": lambda made: made.device.allocate(64, stream=ch.LEGACY_DEFAULT_STREAM),
    "buffer of the per-thread default stream": lambda made: made.device.allocate(
        64, stream=ch.PER_THREAD_DEFAULT_STREAM
    ),
    "buffer of a pool": lambda made: made.pool().allocate(64, stream=made.captured),
    "pinned buffer": lambda made: ch.LegacyPinnedMemoryResource().allocate(64),
    "pinned buffer of a pool": lambda made: ch.PinnedMemoryResource({}).allocate(64, stream=made.captured),
    "managed buffer": lambda made: ch.ManagedMemoryResource().allocate(64, stream=made.captured),
    "virtual buffer": lambda made: ch.VirtualMemoryResource(0).allocate(64),
    "virtual buffer of the captured stream": lambda made: ch.VirtualMemoryResource(0).allocate(
        64, stream=made.captured
    ),
    "pinned buffer of the captured stream": lambda made: ch.LegacyPinnedMemoryResource().allocate(
        64, stream=made.captured
    ),
    "buffer without a pool": lambda made: _SynchronousMemoryResource(0).allocate(64, stream=made.captured),
    "buffer of a user's resource": Made.resource,
    "buffer of an earlier capture": Made.earlier,
    "borrowed buffer": lambda made: ch.Buffer.from_handle(made.numbers.buffer.handle, 4, owner=made.definition()),
    "event": lambda made: made.captured.record(),
    "event without work": lambda made: made.device.create_event(),
    "stream": lambda made: made.device.create_stream(),
    "kernel": Made.kernel,
    "object code": lambda made: ch.ObjectCode.from_ptx(graph_tools.PTX),
    "prepared launch": Made.prepared,
    "pool": Made.pool,
    "definition": Made.definition,
    "node": lambda made: next(iter(made.definition().nodes())),
    "condition": lambda made: cg.GraphDefinition().create_condition(),
    "graph": lambda made: made.definition().instantiate(),
    "graph in flight": Made.in_flight,
    "builder": lambda made: made.device.create_graph_builder(),
    "builder that has built": Made.built,
    "builder that is building": Made.building,
    "array": Made.array,
    "mipmapped array": Made.levels,
    "level": lambda made: made.levels().get_level(1),
    "texture": Made.texture,
    "texture of a buffer": Made.texture_of_memory,
    "surface": lambda made: made.device.create_surface_object(
        resource=ct.ResourceDescriptor.from_opaque_array(made.array())
    ),
    "registered memory": lambda made: ch.register_host_memory(np.zeros(64, np.uint8)),
    "view": lambda made: made.device.allocate(64, stream=made.captured).view("uint8"),
    "capsule": lambda made: made.device.allocate(64, stream=made.captured).__dlpack__(stream=-1),
    "green context": Made.green,
}


def close(thing: Any) -> None:
    if hasattr(thing, "close"):
        thing.close()


def drop(things: dict[str, list[Any]]) -> None:
    """Close one object. Drop the others: on this thread, on another thread, and in a reference cycle."""
    close(things["close"].pop())
    things["let go"].clear()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(things["elsewhere"].clear).result()
    things["cycle"].append(things["cycle"])
    del things["cycle"]
    gc.collect()


def begin_body(builder: cg.GraphBuilder, mode: str) -> cg.GraphBuilder:
    """Begin the body of a condition that is true. On a driver without conditional nodes, return the builder itself."""
    if driver_version() < (12, 3):
        return builder
    return builder.if_then(builder.create_condition(1)).begin_building(mode)


@pytest.mark.parametrize("nonblocking", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_drops(device: ch.Device, numbers: Numbers, kind: str, mode: str, nonblocking: bool) -> None:
    """Closing or collecting an object at some point of a capture would invalidate it, or the free would be captured."""
    # The legacy default stream waits for streams that are not non-blocking, and breaks their captures.
    stream = device.create_stream(options=ch.StreamOptions(nonblocking=nonblocking))
    made = Made(device, stream, numbers)
    make = KINDS[kind]
    points = iter([{way: [make(made)] for way in ("close", "let go", "elsewhere", "cycle")} for _ in range(5)])

    def point() -> None:
        drop(next(points))

    builder = stream.create_graph_builder().begin_building(mode)
    point()  # before the first node
    ch.launch(builder, ONE, made.add, numbers.at(0), 1)
    _, fork = builder.split(2)
    point()  # between forks
    ch.launch(fork, ONE, made.add, numbers.at(1), 1)
    body = begin_body(builder, mode)
    point()  # in a body
    ch.launch(body, ONE, made.add, numbers.at(2), 1)
    point()  # before the end of the body
    if body is not builder:
        body.end_building()
    builder.join(builder, fork)
    point()  # before the end of the capture
    builder.end_building()
    assert next(points, None) is None
    if body is not builder:
        assert kinds_of(builder.graph_definition) == ["IfNode", "KernelNode", "KernelNode"]
        assert [type(node) for node in body.graph_definition.nodes()] == [cg.KernelNode]
    builder.complete().launch(stream)
    stream.sync()
    assert [numbers[index] for index in range(3)] == [1, 1, 1]


MEMORY = {
    "pool": lambda device, stream: device.allocate(64, stream=stream),
    "own pool": lambda device, stream: ch.DeviceMemoryResource(device, {}).allocate(64, stream=stream),
    "pinned": lambda device, stream: ch.LegacyPinnedMemoryResource().allocate(64, stream=stream),
    "no pool": lambda device, stream: _SynchronousMemoryResource(0).allocate(64, stream=stream),
}


def launch_prepared_anew(on: cg.GraphBuilder, memory: ch.Buffer, out: ch.Buffer) -> None:
    prepared = new_kernel().prepare(on, ONE, out, 0)
    prepared(memory, 1)
    prepared[0] = out  # the graph must not depend on the test's reference


def embed(on: cg.GraphBuilder, memory: ch.Buffer, out: ch.Buffer) -> None:
    with ch.Device().create_graph_builder() as child:
        memory.fill(1, stream=child)
    on.embed(child)


USED = USES | {"prepared launch anew": launch_prepared_anew, "embedded graph": embed}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("use", sorted(USED.keys() - {"part", "batch", "view"}))
@pytest.mark.parametrize("kind", MEMORY)
def test_drops_of_what_is_used(
    device: ch.Device, stream: ch.Stream, numbers: Numbers, kind: str, use: str, mode: str
) -> None:
    """Objects that captured work uses would be destroyed before the graph runs, whichever builder captured the work."""
    made = Made(device, stream, numbers)
    things = [MEMORY[kind](device, stream) for _ in range(3)]
    for memory in things:
        memory.fill(0, stream=stream)
    stream.sync()

    def alive() -> tuple[int, int]:
        gc.collect()
        counts = ch.live_counts()
        return counts["deviceptr"], counts["kernel"]

    builder = stream.create_graph_builder().begin_building(mode)
    _, fork = builder.split(2)
    body = begin_body(builder, mode)
    memories, kernels = alive()
    kernels += 3 if "launch" in use else 0
    for on in (builder, fork, body):
        memory = things.pop()
        USED[use](on, memory, made.result)
        memory.close()
        del memory
    assert alive() == (memories, kernels)
    if body is not builder:
        body.end_building()
    builder.join(builder, fork)
    graph = builder.end_building().complete()
    builder.close()
    body.close()
    del builder, body, fork, on
    assert alive() == (memories, kernels)
    graph.launch(stream)
    stream.sync()


LARGE = ch.LaunchConfig(grid=1, block=1, shmem_size=60_000)  # the first launch must enable this much shared memory

FIRST_USES: dict[str, Callable[[Made, ch.DeviceMemoryResource], object]] = {
    "default memory resource": lambda made, pool: made.device.memory_resource,
    "current pool": lambda made, pool: ch.DeviceMemoryResource(made.device),
    "attributes of a pool": lambda made, pool: pool.attributes.used_mem_current,
    "threshold of a pool": lambda made, pool: pool.attributes.release_threshold,
    "peer access": lambda made, pool: set(pool.peer_accessible_by),
    "setting of peer access": lambda made, pool: setattr(pool, "peer_accessible_by", []),
    "graph memory": lambda made, pool: cg.GraphMemoryResource(made.device).attributes.used_mem_current,
    "pool of the host": lambda made, pool: ch.PinnedMemoryResource().trim(),
    "new pool of the host": lambda made, pool: ch.PinnedMemoryResource({}),
    "pool of managed memory": lambda made, pool: ch.ManagedMemoryResource(),
    "advice": lambda made, pool: made.advise(),
    "virtual memory": lambda made, pool: made.grow(),
    "properties": lambda made, pool: (made.device.properties.max_threads_per_block, made.device.name, made.device.uuid),
    "peers": lambda made, pool: made.device.can_access_peer(made.device),
    "stream": lambda made, pool: (made.device.create_stream().priority, made.device.create_stream().is_nonblocking),
    "event": lambda made, pool: made.device.create_stream().record(),
    "timed event": lambda made, pool: made.device.create_event(ch.EventOptions(timing_enabled=True)),
    "wait": lambda made, pool: made.device.create_stream().wait(made.device.create_stream()),
    "arguments": lambda made, pool: new_kernel().arguments_info,
    "attributes of a kernel": lambda made, pool: new_kernel().attributes.num_regs,
    "occupancy": lambda made, pool: new_kernel().occupancy.max_active_blocks_per_multiprocessor(128, 0),
    "launch": lambda made, pool: ch.launch(made.other, LARGE, new_kernel(), made.numbers.at(1), 1),
    "prepared launch": lambda made, pool: new_kernel().prepare(made.other, ONE, made.numbers.at(1), 1)(),
    "memory": lambda made, pool: ch.Buffer.from_handle(made.numbers.at(0), 4).is_device_accessible,
    "definition": lambda made, pool: cg.GraphDefinition().launch(ONE, new_kernel(), made.numbers.at(1), 0),
    "builder": lambda made, pool: made.device.create_graph_builder().begin_building().close(),
    "current context": lambda made, pool: made.device.set_current(),
    "sharing": lambda made, pool: (made.sharable.ipc_descriptor, made.shared.allocation_handle),
}
# Kinds of objects that older drivers lack.
NEWER = {
    "pool of the host": pytest.mark.needs_driver("12.6", "pools of host memory"),
    "new pool of the host": pytest.mark.needs_driver("12.6", "pools of host memory"),
    "pool of managed memory": pytest.mark.needs_driver("13.0", "pools of managed memory"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("use", [pytest.param(use, marks=NEWER[use]) if use in NEWER else use for use in FIRST_USES])
def test_first_uses(
    device: ch.Device, stream: ch.Stream, numbers: Numbers, use: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that are made at first use, and queries, would invalidate the capture, or become part of it."""
    made = Made(device, stream, numbers)
    pool = ch.DeviceMemoryResource(device, {})
    builder = stream.create_graph_builder().begin_building(mode)
    ch.launch(builder, ONE, made.add, numbers.at(0), 1)
    monkeypatch.delitem(_memory_resources, device.device_id)
    FIRST_USES[use](made, pool)
    ch.launch(builder, LARGE, new_kernel(), numbers.at(0), 1)
    builder.end_building()
    assert [type(node) for node in builder.graph_definition.nodes()] == [cg.KernelNode] * 2
    builder.complete().launch(stream)
    stream.sync()
    assert numbers[0] == 2


def test_many_arguments(device: ch.Device, stream: ch.Stream, numbers: Numbers) -> None:
    """A graph would keep only the first of a launch's many arguments."""
    count = 40
    parameters = ", ".join(f".param .u64 p{i}" for i in range(count))
    code = ch.ObjectCode.from_ptx(
        f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry last({parameters})
{{
  .reg .b64 %to, %from;
  .reg .b32 %value;
  ld.param.u64 %to, [p0];
  ld.param.u64 %from, [p{count - 1}];
  ld.global.u32 %value, [%from];
  st.global.u32 [%to], %value;
  ret;
}}
""".encode()
    )
    buffers = [device.allocate(64, stream=stream) for _ in range(count - 1)]
    buffers[-1].fill(5, stream=stream)
    stream.sync()
    live = ch.live_counts()["deviceptr"]
    with stream.create_graph_builder() as builder:
        ch.launch(builder, ONE, code.get_kernel("last"), numbers.at(0), *buffers)
    for buffer in buffers:
        buffer.close()
    assert ch.live_counts()["deviceptr"] == live
    graph = builder.complete()
    graph.launch(stream)
    stream.sync()
    assert numbers[0] == 0x05050505
    graph.close()


def test_arrays_of_others_that_are_copied(device: ch.Device, stream: ch.Stream, numbers: Numbers) -> None:
    """A graph would copy from an array's memory after another library has freed it and given it to other code."""

    class Array:
        """Device memory of another library, which is freed with the array."""

        def __init__(self) -> None:
            self.memory = device.allocate(64, stream=stream)
            self.memory.fill(5, stream=stream)
            self.__cuda_array_interface__ = self.memory.__cuda_array_interface__

    array = Array()
    alive = weakref.ref(array)
    with stream.create_graph_builder() as builder:
        ch.Buffer.from_handle(numbers.at(0), 64).copy_from(array, stream=builder)
    del array
    graph = builder.complete()
    assert alive() is not None
    graph.launch(stream)
    stream.sync()
    assert numbers[0] == 0x05050505
    builder.close()
    graph.close()
    del builder, graph
    assert wait_until(lambda: alive() is None)
