# SPDX-License-Identifier: Apache-2.0
"""GraphMemoryResource: memory that a captured graph allocates."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph import _memory


def test_allocation_becomes_a_node(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """Memory would be allocated at once, or be freed outside of the graph."""
    resource = cg.GraphMemoryResource(device)
    with stream.create_graph_builder() as builder:
        memory = resource.allocate(64, stream=builder)
        assert memory.memory_resource is resource
        memory.fill(0, stream=builder)
        ch.launch(builder, ONE, add, memory, 3)
        ch.launch(builder, ONE, add, numbers.buffer, 1)
        memory.close(builder)
    kinds = sorted(type(node).__name__ for node in builder.graph_definition.nodes())
    assert kinds == ["AllocNode", "FreeNode", "KernelNode", "KernelNode", "MemsetNode"]
    graph = builder.complete()
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    assert numbers[0] == 2


def test_one_for_a_device(device: ch.Device) -> None:
    """Each call would return a new resource instead of the one of the device."""
    resource = cg.GraphMemoryResource(device)
    assert resource is cg.GraphMemoryResource(device.device_id)
    assert pickle.loads(pickle.dumps(resource)) is resource
    assert (resource.device_id, resource.is_device_accessible, resource.is_host_accessible) == (0, True, False)
    assert repr(resource) == "<GraphMemoryResource of device 0>"
    resource.close()


def test_of_a_class_of_ones_own(device: ch.Device) -> None:
    """A subclass would return the existing resource of another class."""

    class Mine(cg.GraphMemoryResource): ...

    try:
        resource = Mine(device)
        assert type(resource) is Mine
        assert resource is Mine(0) is copy.copy(resource)
        assert type(cg.GraphMemoryResource(device)) is cg.GraphMemoryResource
    finally:
        _memory._resources.pop((Mine, 0))


def test_outside_of_a_capture(device: ch.Device, stream: ch.Stream) -> None:
    """Memory would be allocated outside of a graph."""
    resource = cg.GraphMemoryResource(device)
    with pytest.raises(RuntimeError, match="allocates while a graph is captured, and this stream is not"):
        resource.allocate(64, stream=stream)
    with stream.create_graph_builder() as builder, pytest.raises(ValueError, match="size is 0"):
        resource.allocate(0, stream=builder)


def test_attributes(device: ch.Device, stream: ch.Stream) -> None:
    """The amount of graph memory could not be read, or the memory not be returned to the system."""
    resource = cg.GraphMemoryResource(device)
    attributes = resource.attributes
    definition = cg.GraphDefinition()
    memory = definition.allocate(1 << 20)
    memory.deallocate(memory.dptr)
    graph = definition.instantiate()
    graph.launch(stream)
    stream.sync()
    assert attributes.used_mem_high >= 1 << 20
    assert attributes.reserved_mem_high >= attributes.used_mem_high
    with pytest.raises(ValueError, match=r"attributes\.used_mem_high is 5; it can be set to 0"):
        attributes.used_mem_high = 5
    graph.close()
    resource.trim()
    assert attributes.used_mem_current == 0
    assert attributes.reserved_mem_current == 0
    attributes.used_mem_high = 0
    attributes.reserved_mem_high = 0
    assert attributes.used_mem_high == 0
    assert repr(attributes).startswith("GraphMemoryResourceAttributes(reserved_mem_current=0, ")
    with pytest.raises(RuntimeError, match="cannot be instantiated directly"):
        cg.GraphMemoryResourceAttributes()
    wrong: Any = "x"
    with pytest.raises(TypeError):
        cg.GraphMemoryResource(wrong)
