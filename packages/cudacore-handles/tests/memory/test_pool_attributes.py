# SPDX-License-Identifier: Apache-2.0
"""Attributes of memory pools."""

from __future__ import annotations

import gc
import weakref

import pytest
from attribute_tables import attributes_of, cuda_attributes
from cuda.bindings import driver

from cudacore_handles import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
from cudacore_handles._memory.pool_attributes import MemPoolAttributes

TABLE = attributes_of(MemPoolAttributes)
MIB = 1 << 20


def test_numbers_are_cudas() -> None:
    """A property would return the value of another attribute."""
    numbers = {name: attribute.number for name, attribute in TABLE.items()}
    assert numbers == cuda_attributes(driver.CUmemPool_attribute, "CU_MEMPOOL_ATTR_", newest=8)


def test_reuse_is_enabled_at_first(resource: DeviceMemoryResource) -> None:
    """A new pool would not have the attributes that CUDA documents."""
    assert resource.attributes.reuse_follow_event_dependencies is True
    assert resource.attributes.reuse_allow_opportunistic is True
    assert resource.attributes.reuse_allow_internal_dependencies is True


def test_usage(resource: DeviceMemoryResource, device: Device) -> None:
    """The reported amount of used memory would be wrong."""
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


def test_settings(resource: DeviceMemoryResource) -> None:
    """A setting of a pool could not be changed, or another setting would be changed."""
    attributes = resource.attributes
    settings = ("reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies")
    for name in settings:
        setattr(attributes, name, False)
        assert [each for each in settings if not getattr(attributes, each)] == [name]
        setattr(attributes, name, 1)
        assert getattr(attributes, name) is True
    for threshold in (0, 2**40 + 1, 2**64 - 1):
        attributes.release_threshold = threshold
        assert attributes.release_threshold == threshold


def test_maxima_can_be_reset(resource: DeviceMemoryResource, device: Device) -> None:
    """The peak memory of one part of a program could not be measured, because the peak before it is included."""
    attributes, stream = resource.attributes, device.create_stream()
    resource.allocate(3 * MIB, stream=stream).close()
    stream.sync()
    attributes.used_mem_high = 0
    resource.allocate(MIB, stream=stream).close()
    stream.sync()
    assert attributes.used_mem_high == MIB
    resource.trim()
    attributes.reserved_mem_high = 0
    assert attributes.reserved_mem_high == attributes.reserved_mem_current


def test_default_threshold(resource: DeviceMemoryResource, device: Device) -> None:
    """A pool would return its memory at each wait, or a threshold that the program has set would be changed."""
    assert resource.attributes.release_threshold == 2**64 - 1
    stream = device.create_stream()
    resource.allocate(MIB, stream=stream).close()
    stream.sync()
    assert resource.attributes.reserved_mem_current > 0
    resource.attributes.release_threshold = 0
    resource.allocate(MIB, stream=stream).close()
    stream.sync()
    assert resource.attributes.reserved_mem_current == 0


def test_attributes_keep_the_pool(device: Device) -> None:
    """Attributes would not keep their pool alive, and would query a destroyed pool."""
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    attributes, alive = mr.attributes, weakref.ref(mr)
    assert repr(attributes).startswith("MemPoolAttributes(release_threshold=")
    mr.close()
    assert attributes.used_mem_current == 0
    del mr
    gc.collect()
    assert attributes.used_mem_current == 0
    del attributes
    assert alive() is None


@pytest.mark.parametrize("keep", [1, 31 * MIB, 33 * MIB, 64 * MIB])
def test_what_is_kept(resource: DeviceMemoryResource, device: Device, keep: int) -> None:
    """A trimmed pool would keep other amounts in the simulator than on a GPU, which keeps whole blocks (13.0, H200)."""
    stream, attributes = device.create_stream(), resource.attributes
    resource.allocate(40 * MIB, stream=stream).close()
    stream.sync()
    reserved = attributes.reserved_mem_current
    resource.trim(keep)
    kept = attributes.reserved_mem_current
    assert kept % (2 * MIB) == 0
    assert min(keep, reserved) <= kept <= reserved
    attributes.release_threshold = keep
    resource.allocate(40 * MIB, stream=stream).close()
    stream.sync()
    assert attributes.reserved_mem_current % (2 * MIB) == 0
    assert attributes.reserved_mem_current <= keep
