# SPDX-License-Identifier: Apache-2.0
"""Attributes of memory pools."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from cuda.bindings import driver

from cudacore_handles import ClosedError, Device, DeviceMemoryResource, DeviceMemoryResourceOptions
from cudacore_handles._base.attribute import Attribute
from cudacore_handles._memory.pool_attributes import MemPoolAttributes

TABLE = {name: value for name, value in vars(MemPoolAttributes).items() if isinstance(value, Attribute)}
MIB = 1 << 20


@pytest.fixture
def resource(device: Device) -> Iterator[DeviceMemoryResource]:
    """A new pool."""
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    yield mr
    mr.close()


def test_numbers_are_cudas() -> None:
    """A property would return the value of another attribute."""
    known = {
        member.name.removeprefix("CU_MEMPOOL_ATTR_").lower(): member.value
        for member in driver.CUmemPool_attribute
        if member.value <= 8
    }
    assert {name: attribute.number for name, attribute in TABLE.items()} == known


def test_instantiation() -> None:
    """Attributes of no pool would be made."""
    with pytest.raises(RuntimeError, match="memory resource's attributes"):
        MemPoolAttributes(None)


def set_attribute(mr: DeviceMemoryResource, name: str, value: object) -> None:
    attribute = getattr(driver.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name.upper()}")
    assert driver.cuMemPoolSetAttribute(mr.handle, attribute, value) == (0,)


def test_release_threshold(resource: DeviceMemoryResource) -> None:
    """A number of 64 bits would be cut down."""
    set_attribute(resource, "release_threshold", driver.cuuint64_t(2**40 + 1))
    assert resource.attributes.release_threshold == 2**40 + 1


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("reuse_")])
def test_reuse_flags(resource: DeviceMemoryResource, name: str) -> None:
    """A flag would be wrong, a number, or outdated."""
    attributes = resource.attributes
    for value in (1, 0, 1):
        set_attribute(resource, name, value)
        assert getattr(attributes, name) is bool(value)


def test_reuse_is_enabled_at_first(resource: DeviceMemoryResource) -> None:
    """A new pool would not be as CUDA describes it."""
    assert resource.attributes.reuse_follow_event_dependencies is True
    assert resource.attributes.reuse_allow_opportunistic is True
    assert resource.attributes.reuse_allow_internal_dependencies is True


def test_usage(resource: DeviceMemoryResource, device: Device) -> None:
    """The memory in use would be wrong."""
    attributes = resource.attributes
    assert (attributes.used_mem_current, attributes.used_mem_high) == (0, 0)
    stream = device.create_stream()
    first = resource.allocate(2 * MIB, stream=stream)
    second = resource.allocate(MIB, stream=stream)
    assert (attributes.used_mem_current, attributes.used_mem_high) == (3 * MIB, 3 * MIB)
    assert attributes.reserved_mem_high >= attributes.reserved_mem_current >= 3 * MIB
    first.close()
    stream.sync()
    assert (attributes.used_mem_current, attributes.used_mem_high) == (MIB, 3 * MIB)
    second.close()
    stream.sync()
    assert attributes.used_mem_current == 0


def test_attributes_are_read_only(resource: DeviceMemoryResource) -> None:
    """An assignment would be accepted silently, and change nothing."""
    with pytest.raises(AttributeError, match="release_threshold is read-only"):
        resource.attributes.release_threshold = 0


def test_attributes_keep_the_pool(device: Device) -> None:
    """Attributes would be asked of a pool that is destroyed."""
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    attributes, alive = mr.attributes, weakref.ref(mr)
    assert repr(attributes).startswith("MemPoolAttributes(release_threshold=")
    del mr
    gc.collect()
    assert attributes.used_mem_current == 0
    del attributes
    assert alive() is None


def test_closed_resource(resource: DeviceMemoryResource) -> None:
    """Attributes would be read from a destroyed pool, or exist for a resource without a pool."""
    attributes = resource.attributes
    resource.close()
    assert attributes.used_mem_current == 0
    with pytest.raises(ClosedError, match="closed"):
        _ = resource.attributes
