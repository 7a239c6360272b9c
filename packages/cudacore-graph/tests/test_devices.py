# SPDX-License-Identifier: Apache-2.0
"""Graphs and two devices: objects of one device are used while the other one is current."""

from __future__ import annotations

from typing import Any

import pytest
from graph_tools import ONE, PTX, Numbers

import cudacore_graph as cg
import cudacore_handles as ch


class Remote:
    """A graph with nodes of the second device only. It is made while that device is current."""

    def __init__(self, device: ch.Device, other: ch.Device) -> None:
        other.set_current()
        self.stream = other.create_stream()
        self.memory = other.allocate(64, stream=self.stream)
        self.stream.sync()
        self.kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
        self.definition = cg.GraphDefinition()
        self.fill = self.definition.memset(self.memory, 0, 64)
        self.launch: Any = self.fill.launch(ONE, self.kernel, self.memory, 1)
        self.numbers = Numbers(1)
        self.copy = self.launch.memcpy(self.numbers.buffer, self.memory, 4)
        device.set_current()

    def result(self, graph: cg.Graph, stream: ch.Stream) -> int:
        graph.launch(stream)
        stream.sync()
        return self.numbers[0]


@pytest.fixture
def remote(device: ch.Device, other_device: ch.Device) -> Remote:
    """Give a graph of the second device; the first one is current."""
    return Remote(device, other_device)


def kernel_context(node: cg.GraphNode) -> int:
    """Query the driver for the context of a kernel node."""
    from cuda.bindings import driver

    return int(driver.cuGraphKernelNodeGetParams(node.handle)[1].ctx)


def test_launched_from_the_other(remote: Remote, stream: ch.Stream, device: ch.Device) -> None:
    """A graph could only be launched on the device of its nodes."""
    graph = remote.definition.instantiate()
    assert remote.result(graph, stream) == remote.result(graph, remote.stream) == 1
    assert ch.Device() == device


def test_updated_from_the_other(remote: Remote, stream: ch.Stream, device: ch.Device, other_device: ch.Device) -> None:
    """An update would move a node to the current device, or would refuse memory of the node's own device."""
    context = int(other_device.context.handle)
    remote.launch.update(config=ONE)
    remote.launch.update(args=(remote.memory, 2))
    remote.launch.update(config=ch.LaunchConfig(grid=1, block=1, shmem_size=60000), args=(remote.memory, 3))
    remote.fill.update(width=32)
    remote.copy.update(size=2)
    assert kernel_context(remote.launch) == context
    assert ch.Device() == device
    assert remote.result(remote.definition.instantiate(), stream) == 3


def test_executable_updated_from_the_other(remote: Remote, stream: ch.Stream, device: ch.Device) -> None:
    """The driver would refuse the update of a node on another device than the current one."""
    graph = remote.definition.instantiate()
    views: Any = [graph[node] for node in (remote.fill, remote.launch, remote.copy)]
    views[0].update(dst=remote.memory, value=1, width=1)
    views[1].update(config=ONE, kernel=remote.kernel, args=(remote.memory, 4))
    views[2].update(dst=remote.numbers.buffer, src=remote.memory, size=1)
    assert remote.result(graph, stream) == 5
    assert ch.Device() == device
    with pytest.raises(TypeError):
        views[1].update(config=ONE, kernel=remote.kernel, args=(remote.memory, "x"))
    assert ch.Device() == device


def test_captured_in_a_green_context(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """Captures of streams of a green context would not run, or would end with the context."""
    (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
    context = device.create_context(ch.ContextOptions([group]))
    green = context.create_stream()
    builder = green.create_graph_builder().begin_building()
    ch.launch(builder, ONE, add, numbers.buffer, 1)
    first, second = builder.split(2)
    ch.launch(second, ONE, add, numbers.buffer, 0)
    builder = cg.GraphBuilder.join(first, second)
    graph = builder.end_building().complete()
    graph.launch(green)
    green.sync()
    for closed in (builder, first, second, green, context):
        closed.close()
    graph.launch(stream)
    stream.sync()
    assert numbers[0] == 2


def test_views_of_what_a_green_context_captured(device: ch.Device, stream: ch.Stream, numbers: Numbers) -> None:
    """Copies and fills would be changed in the current context, which the driver refuses: it does not report theirs."""
    (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
    context = device.create_context(ch.ContextOptions([group]))
    green = context.create_stream()
    memory = device.allocate(8, stream=green)
    with green.create_graph_builder() as builder:
        memory.fill(1, stream=builder)
        memory[:4].copy_to(numbers.buffer[:4], stream=builder)
    copied, _ = builder.graph_definition.clone()
    for definition in (builder.graph_definition, copied):
        graph = definition.instantiate()
        nodes = {type(node): node for node in definition.nodes()}
        views: Any = [graph[nodes[kind]] for kind in (cg.MemsetNode, cg.MemcpyNode)]
        views[0].update(dst=memory, value=3, width=8)
        views[1].update(dst=numbers.buffer, src=memory[4:], size=4)
        graph.launch(green)
        green.sync()
        assert numbers[0] == 0x03030303
        numbers.buffer.fill(0, stream=stream)
        stream.sync()


def test_views_of_what_a_fork_of_another_context_captured(
    device: ch.Device, stream: ch.Stream, numbers: Numbers
) -> None:
    """Fills of a fork could not be changed if its context is not that of the capture, not even in their context."""
    (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
    context = device.create_context(ch.ContextOptions([group]))
    green = context.create_stream()
    for own, fork in ((stream, green), (green, stream)):
        with own.create_graph_builder() as builder:
            fork.wait(builder.stream)
            numbers.buffer.fill(1, stream=fork)
            builder.stream.wait(fork)
        graph = builder.complete()
        (node,) = builder.graph_definition.nodes()
        view: Any = graph[node]
        device.set_current(fork.context)
        view.update(dst=numbers.buffer, value=3, width=4)
        device.set_current()
        graph.launch(own)
        own.sync()
        assert numbers[0] == 0x03030303
        numbers[0] = 0


def test_updated_from_another_context(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """The error would not name the contexts if an update fails because a kernel belongs to another one."""

    def capture(where: ch.Stream) -> cg.GraphBuilder:
        with where.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
        return builder

    (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
    green = device.create_context(ch.ContextOptions([group]))
    its_stream = green.create_stream()
    names = {stream: repr(device.context), its_stream: f"green {green!r}"}
    for first, second in ((stream, its_stream), (its_stream, stream)):
        builder = capture(first)
        graph = builder.complete()
        with pytest.raises(ch.CUDAError) as caught:
            graph.update(capture(second))
        assert (
            f"they belong to different contexts, {names[second]} and {names[first]}: "
            "capture or define both in the same context. Make a new executable graph"
        ) in str(caught.value)
        graph.update(capture(first))
        graph.launch(first)
        first.sync()
    assert numbers[0] == 2


@pytest.mark.cuda_sim
def test_failed_queries_after_an_update(device: ch.Device, stream: ch.Stream, add: ch.Kernel, cuda_sim: Any) -> None:
    """If a query for the description of the nodes failed, its error would be raised instead of that of the update."""
    (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
    builders = []
    for where in (stream, device.create_context(ch.ContextOptions([group])).create_stream()):
        with where.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, None, 1)
        builders.append(builder)
    graph = builders[0].complete()
    for _ in range(2):  # the first time, queries are made whose results are kept
        with cuda_sim.logging() as calls, pytest.raises(ch.CUDAError):
            graph.update(builders[1])
    names = [call.name for call in calls]
    for place in range(names.index("cuGraphExecUpdate_v2") + 1, len(names)):
        name = names[place]
        with cuda_sim.failing(name, nth=names[: place + 1].count(name)), pytest.raises(ch.CUDAError) as caught:
            graph.update(builders[1])
        assert caught.value.operation == "cuGraphExecUpdate", f"call {place} of {name} replaces the error"


def test_memory_of_the_other(definition: cg.GraphDefinition, add: ch.Kernel, remote: Remote) -> None:
    """Memory that the current device cannot access would be passed to a kernel on that device."""
    with pytest.raises(ch.CUDAError, match="is memory of device 1, and the current device is 0"):
        definition.launch(ONE, add, remote.memory, 1)
    assert not definition.nodes()


def test_allocation_on_the_other(definition: cg.GraphDefinition, other_device: ch.Device) -> None:
    """A graph would always allocate on the current device, even if another one is given."""
    node = definition.allocate(64, device=other_device, peer_access=[0, 1, 0])
    assert (node.device_id, node.peer_access) == (1, (0,))


def test_copies_between_devices(
    definition: cg.GraphDefinition, device: ch.Device, other_device: ch.Device, remote: Remote, stream: ch.Stream
) -> None:
    """A node would copy on the current device although only the other device has access to the memory."""
    if not other_device.can_access_peer(device):
        pytest.skip("needs a second device that can reach the first one's memory")
    resource = ch.DeviceMemoryResource(device, {})
    resource.peer_accessible_by = {other_device}
    here = resource.allocate(64, stream=stream)
    here.fill(3, stream=stream)
    stream.sync()
    # Copies from this device to the other one, from there to the host, and of rows between the devices.
    node = definition.memcpy(remote.memory, here, 16)
    node = node.memcpy(remote.numbers.buffer, remote.memory, 4)
    node.memcpy(remote.memory, here, 4, height=2, dst_pitch=8, src_pitch=8)
    graph = definition.instantiate()
    assert remote.result(graph, stream) == 0x03030303
    node.update(size=2)
    assert ch.Device() == device


@pytest.mark.cuda_sim
def test_copies_of_buffers_ask_for_no_places(
    definition: cg.GraphDefinition, device: ch.Device, other_device: ch.Device, stream: ch.Stream, cuda_sim: Any
) -> None:
    """Adding a copy would query the driver for locations that are already known, which takes 100 ns per operand."""
    dst, src = (device.allocate(64, stream=stream) for _ in range(2))
    stream.sync()
    asked = cuda_sim.calls("cuPointerGetAttributes")
    definition.memcpy(dst, src, 64).memcpy(dst[16:], src[16:32], 16)
    assert cuda_sim.calls("cuPointerGetAttributes") == asked
    definition.memcpy(dst.handle, src, 64)
    assert cuda_sim.calls("cuPointerGetAttributes") == asked + 1


def test_copies_between_devices_without_access(
    definition: cg.GraphDefinition, device: ch.Device, remote: Remote, stream: ch.Stream
) -> None:
    """The error for a copy between devices without access would not name the devices, or how to give access."""
    here = ch.DeviceMemoryResource(device, {}).allocate(64, stream=stream)
    stream.sync()
    for dst, src in ((remote.memory, here), (here, remote.memory)):
        with pytest.raises(
            ch.CUDAError, match=r"INVALID_VALUE.*is on device \d and device \d; give it access \(peer_acc"
        ):
            definition.memcpy(dst, src, 64)
    assert not definition.nodes()
    assert ch.Device() == device
