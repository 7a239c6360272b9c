# SPDX-License-Identifier: Apache-2.0
"""Pools of host memory and of managed memory. test_memory.py tests what all memory resources have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from closing import check_closing
from memory_kinds import POOLS, RESOURCES

import cudacore_handles as ch
from cudacore_handles.typing import ManagedMemoryLocationType


@pytest.fixture(params=POOLS)
def made(request: pytest.FixtureRequest, device: ch.Device) -> Any:
    return RESOURCES[request.param].make(device)


def test_what_pools_say(made: Any) -> None:
    """A new pool would count as shared, or would report wrong accessibility."""
    own = made.is_handle_owned
    assert type(own) is bool
    assert (made.is_ipc_enabled, made.is_mapped, made.uuid, made.is_closed) == (False, False, None, False)
    assert made.is_device_accessible is True
    assert made.is_host_accessible is (type(made) is not ch.DeviceMemoryResource)
    assert made.is_managed is (type(made) is ch.ManagedMemoryResource)
    assert made.device_id == (0 if type(made) is ch.DeviceMemoryResource else -1)
    assert int(made.handle) > 0
    assert made.attributes.release_threshold == 2**64 - 1
    assert type(made).__name__ in repr(made)
    made.close()
    assert "closed" in repr(made)
    assert ch.DeviceMemoryResource(0).is_handle_owned is False
    assert ch.PinnedMemoryResource({}).is_handle_owned is True


def test_closed(made: Any, stream: ch.Stream) -> None:
    """A closed pool would be used, or its live buffers would be freed with it."""
    buffer = made.allocate(64, stream=stream)
    uses = (lambda: made.allocate(64, stream=stream), made.trim, lambda: made.attributes, lambda: made.handle)
    check_closing(made, uses)
    buffer.fill(1, stream=stream)
    stream.sync()


@pytest.mark.cuda_sim
def test_attributes_do_not_keep_a_closed_pool(device: ch.Device, cuda_sim: Any) -> None:
    """A resource that remembers its attributes would keep its pool after it is closed."""
    resource = ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions(max_size=1 << 20))
    assert resource.attributes.used_mem_current == 0
    before = cuda_sim.calls("cuMemPoolDestroy")
    resource.close()
    assert cuda_sim.calls("cuMemPoolDestroy") == before + 1


def test_attributes_of_a_closed_resource(device: ch.Device) -> None:
    """Attributes would not be usable any more when the resource is closed, although they keep the pool."""
    resource = ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions(max_size=1 << 20))
    attributes = resource.attributes
    assert resource.attributes is attributes
    resource.close()
    assert attributes.used_mem_current == 0
    attributes.release_threshold = 1
    assert attributes.release_threshold == 1


def test_trim(made: Any, stream: ch.Stream) -> None:
    """Unused memory could not be returned to the system."""
    if not made.is_handle_owned:
        made.trim()
        return
    buffer = made.allocate(1 << 20, stream=stream)
    stream.sync()
    reserved = made.attributes.reserved_mem_current
    assert reserved >= 1 << 20
    buffer.close()
    stream.sync()
    made.trim(reserved)
    assert made.attributes.reserved_mem_current == reserved
    made.trim()
    assert made.attributes.reserved_mem_current == 0


# ---- host memory


def test_pinned_memory_is_everybodys(device: ch.Device, stream: ch.Stream) -> None:
    """Host or device could not use the memory, or the host would not see the device's writes in time."""
    for mr in (ch.PinnedMemoryResource(), ch.PinnedMemoryResource({"numa_id": 0})):
        buffer = mr.allocate(64, stream=stream)
        buffer.fill(7, stream=stream)
        stream.sync()
        view = buffer.__buffer__()
        assert bytes(view) == bytes([7]) * 64
        view[:] = bytes(range(64))
        other = device.allocate(64, stream=stream)
        other.copy_from(buffer, stream=stream)
        buffer.fill(0, stream=stream)
        other.copy_to(buffer, stream=stream)
        stream.sync()
        assert bytes(view) == bytes(range(64))
        assert buffer.__dlpack_device__() == (3, 0)
        view.release()


def test_numa_nodes(device: ch.Device) -> None:
    """Memory would be on another NUMA node than the requested one."""
    assert ch.PinnedMemoryResource().numa_id == -1
    mr = ch.PinnedMemoryResource(ch.PinnedMemoryResourceOptions(numa_id=0))
    assert mr.numa_id == 0
    assert repr(mr) == "<PinnedMemoryResource of NUMA node 0 of the host>"


def test_devices_are_given_access(device: ch.Device) -> None:
    """Devices could not access memory of a host pool, because the driver itself gives access only to the host."""
    from cudacore_handles._base.handle import hold
    from cudacore_handles._cffi import ffi, lib

    mr = ch.PinnedMemoryResource({})
    out = ffi.new("int *")
    for ordinal in range(len(ch.Device.get_all_devices())):
        assert lib.cch_pool_access(out, hold(mr._pool), ordinal) == 0
        assert out[0] == 3


# ---- managed memory


@pytest.mark.parametrize(
    ("options", "preferred", "ordinal"),
    [
        ({}, None, -1),
        ({"preferred_location": 0}, (ManagedMemoryLocationType.DEVICE, 0), 0),
        ({"preferred_location": -1}, (ManagedMemoryLocationType.HOST, None), -1),
        ({"preferred_location_type": "host"}, (ManagedMemoryLocationType.HOST, None), -1),
        ({"preferred_location": 0, "preferred_location_type": "device"}, (ManagedMemoryLocationType.DEVICE, 0), 0),
        (
            {"preferred_location": 0, "preferred_location_type": "host_numa"},
            (ManagedMemoryLocationType.HOST_NUMA, 0),
            -1,
        ),
    ],
)
def test_preferred_locations(
    device: ch.Device, stream: ch.Stream, options: dict[str, Any], preferred: Any, ordinal: int
) -> None:
    """Memory would have another preferred location than requested."""
    mr = ch.ManagedMemoryResource(options)
    assert (mr.preferred_location, mr.device_id) == (preferred, ordinal)
    buffer = mr.allocate(4096, stream=stream)
    assert type(buffer) is ch.ManagedBuffer
    buffer.fill(1, stream=stream)
    stream.sync()
    view = buffer.__buffer__()
    assert view[0] == 1
    view.release()


def test_the_closest_node(device: ch.Device) -> None:
    """The default NUMA node would not be the one that is nearest to the device."""
    mr = ch.ManagedMemoryResource(ch.ManagedMemoryResourceOptions(preferred_location_type="host_numa"))
    node = max(device.properties.host_numa_id, 0)
    assert mr.preferred_location == (ManagedMemoryLocationType.HOST_NUMA, node)


# ---- older drivers


@pytest.mark.cuda_sim
def test_what_a_driver_lacks(run_on_sim: Callable[..., str]) -> None:
    """If the driver lacks pools or moves of batches, other features would fail, or the error would be unspecific."""
    out = run_on_sim(
        """
        import cudacore_handles as ch
        import pytest
        device = ch.Device(0)
        device.set_current()
        stream = device.create_stream()
        assert ch.PinnedMemoryResource().is_handle_owned
        buffer = ch.PinnedMemoryResource().allocate(8, stream=stream)
        stream.sync()
        buffer.__buffer__()[0] = 1
        buffers = [ch.LegacyManagedMemoryResource().allocate(4096) for _ in range(2)]
        ch.prefetch_batch(stream, buffers, [device, ch.Host()])
        stream.sync()
        print(*(buffer.last_prefetch_location for buffer in buffers))
        for use in (
            lambda: ch.ManagedMemoryResource(),
            lambda: ch.ManagedMemoryResource({}),
            lambda: buffers[0].discard(stream=stream),
            lambda: ch.discard_prefetch_batch(stream, buffers, device),
        ):
            with pytest.raises(ch.CUDAError, match="CCH_ENOSYMBOL .* CUDA 13.0 or newer"):
                use()
        """,
        CUDACORE_SIM_DRIVER_VERSION="12.9",
    )
    assert out.endswith("Host()\n")
