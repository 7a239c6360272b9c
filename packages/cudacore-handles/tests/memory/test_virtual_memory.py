# SPDX-License-Identifier: Apache-2.0
"""Virtual memory: physical memory that is mapped to reserved addresses, and can grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cudacore_handles as ch
from cudacore_handles import VirtualMemoryResource, VirtualMemoryResourceOptions

Pinned = Callable[[int], ch.Buffer]


@pytest.fixture
def resource(device: ch.Device) -> VirtualMemoryResource:
    return VirtualMemoryResource(device)


def content(buffer: ch.Buffer, place: int, pinned: Pinned, stream: ch.Stream) -> int:
    """Return the byte at an offset of a buffer."""
    out = pinned(1)
    out.copy_part_from(buffer, 1, src_offset=place, stream=stream)
    stream.sync()
    return out.__buffer__()[0]


def test_allocate(resource: VirtualMemoryResource, stream: ch.Stream, pinned: Pinned) -> None:
    """Memory would be missing, smaller than requested, or not usable."""
    unit = resource.granularity
    for size in (1, unit, unit + 1):
        buffer = resource.allocate(size)
        assert buffer.size == -(-size // unit) * unit
        assert buffer.memory_resource is resource
        buffer.fill(size % 251, stream=stream)
        assert content(buffer, buffer.size - 1, pinned, stream) == size % 251
        buffer.close()
    assert resource.allocate(0).size == 0
    small = VirtualMemoryResource(0, VirtualMemoryResourceOptions(granularity="minimum"))
    assert small.granularity <= unit
    assert small.allocate(1).size == small.granularity


def test_who_can_use_it(device: ch.Device) -> None:
    """A resource would report the wrong device, or wrong access from device or host."""
    on_device = VirtualMemoryResource(device)
    assert (on_device.device_id, on_device.is_device_accessible, on_device.is_host_accessible) == (0, True, False)
    assert not on_device.is_managed
    assert on_device.device is device
    assert repr(on_device) == f"<VirtualMemoryResource device={device!r}>"
    on_host = VirtualMemoryResource(device, {"location_type": "host", "handle_type": None})
    assert (on_host.device_id, on_host.is_device_accessible, on_host.is_host_accessible) == (-1, True, True)
    nobody = VirtualMemoryResource(device, {"self_access": None})
    assert not nobody.is_device_accessible
    assert nobody.allocate(1).size


@pytest.mark.parametrize("place", ["host", "host_numa"])
def test_memory_of_the_host(device: ch.Device, stream: ch.Stream, place: str) -> None:
    """The host or the device could not access virtual memory of the host."""
    buffer = VirtualMemoryResource(device, {"location_type": place, "handle_type": None}).allocate(64)
    buffer.fill(5, stream=stream)
    stream.sync()
    view = buffer.__buffer__()
    assert view[63] == 5
    view.release()
    assert buffer.__dlpack_device__() == (3, 0)


def test_a_buffer_grows(resource: VirtualMemoryResource, stream: ch.Stream, pinned: Pinned) -> None:
    """When a buffer grows, its contents would be lost or copied, or be freed when the old buffer is closed."""
    unit = resource.granularity
    first = resource.allocate(unit)
    first.fill(1, stream=stream)
    grown = resource.modify_allocation(first, unit + 1)
    assert (first.size, grown.size) == (unit, 2 * unit)
    assert content(grown, unit - 1, pinned, stream) == 1
    grown.fill(2, stream=stream)
    assert content(first, 0, pinned, stream) == 2
    first.close()
    more = resource.modify_allocation(grown, 4 * unit)
    grown.close()
    assert content(more, 2 * unit - 1, pinned, stream) == 2
    more.fill(3, stream=stream)
    assert content(more, 4 * unit - 1, pinned, stream) == 3


def test_a_buffer_grows_in_place_or_elsewhere(
    resource: VirtualMemoryResource, stream: ch.Stream, pinned: Pinned
) -> None:
    """A buffer would grow over other memory, at the addresses after its own."""
    unit = resource.granularity
    first = resource.allocate(unit)
    hint = VirtualMemoryResource(0, VirtualMemoryResourceOptions(addr_hint=first.handle + unit))
    behind = hint.allocate(unit)
    first.fill(1, stream=stream)
    grown = resource.modify_allocation(first, 2 * unit)
    if behind.handle == first.handle + unit:  # the driver followed the address hint
        assert grown.handle != first.handle
    behind.fill(9, stream=stream)
    assert content(grown, 0, pinned, stream) == 1
    assert content(behind, 0, pinned, stream) == 9


@pytest.mark.cuda_sim
def test_a_buffer_of_no_bytes_grows(resource: VirtualMemoryResource, stream: ch.Stream) -> None:
    """An empty buffer would grow into memory that has other options than requested, or that is freed too early."""
    import cudacore_sim as sim

    empty = resource.allocate(0)
    empty.set_deallocation_stream(stream)
    with sim.logging() as made:
        buffer = resource.modify_allocation(empty, 1, {"self_access": None})
    assert "cuMemSetAccess" not in [call.name for call in made]
    with sim.logging() as made:
        buffer.close()
    assert "cuStreamSynchronize" in [call.name for call in made]


def test_what_does_not_grow(resource: VirtualMemoryResource, stream: ch.Stream) -> None:
    """A request for a smaller size would shrink a buffer that is in use."""
    buffer = resource.allocate(1, stream=stream)
    for size in (0, 1, buffer.size):
        assert resource.modify_allocation(buffer, size) is buffer
    assert resource.modify_allocation(resource.allocate(0), 1).size == buffer.size


@pytest.mark.cuda_sim
@pytest.mark.parametrize("moves", [True, False])
def test_a_stream_is_waited_for(resource: VirtualMemoryResource, stream: ch.Stream, moves: bool) -> None:
    """Freeing memory that has grown, in place or by moving, would not wait for the buffer's stream."""
    import cudacore_sim as sim

    buffer = resource.allocate(1, stream=stream)
    # A neighbour at the next addresses leaves the buffer no room to grow.
    neighbour = resource.allocate(1, stream=stream) if moves else None
    grown = resource.modify_allocation(buffer, buffer.size + 1)
    assert (grown.handle == buffer.handle) != moves
    unmapped = 0
    for one in (buffer, grown):
        with sim.logging() as made:
            one.close()
        names = [call.name for call in made]
        if "cuMemUnmap" in names:
            unmapped += 1
            assert names.index("cuStreamSynchronize") < names.index("cuMemUnmap")
    assert unmapped == (2 if moves else 1)
    if neighbour is not None:
        neighbour.close()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"allocation_type": "managed"}, ValueError, "allocation_type is 'managed', which CUDA does not"),
        ({"allocation_type": "x"}, ValueError, "Unsupported allocation_type: 'x'; it must be one of 'pinned'"),
        ({"location_type": "x"}, ValueError, "Unsupported location_type: 'x'"),
        ({"handle_type": "x"}, ValueError, "Unsupported handle_type: 'x'; it must be one of 'posix_fd'"),
        ({"handle_type": "win32_kmt"}, ValueError, "which only Windows has"),
        ({"granularity": "x"}, ValueError, "Unsupported granularity: 'x'"),
        ({"self_access": "x"}, ValueError, "Unsupported self_access: 'x'; it must be one of 'rw', 'r'"),
        ({"peer_access": 3}, ValueError, "Unsupported peer_access: 3"),
        ({"addr_hint": -1}, ValueError, "addr_hint"),
        ({"addr_hint": 1.5}, TypeError, "addr_hint must be an int"),
        ({"addr_align": 3}, ValueError, "addr_align is 3; it must be a power of two"),
        ({"addr_align": -4}, ValueError, "addr_align is -4"),
        ({"addr_align": "4"}, TypeError, "addr_align must be an int"),
        ({"gpu_direct_rdma": "x"}, TypeError, "gpu_direct_rdma must be True or False"),
        ({"peers": 1}, TypeError, "peers must be an iterable of Device or int, not int"),
        ({"peers": [None]}, TypeError, "a Device or an int is needed, not None"),
        ({"peers": ["1"]}, TypeError, "device_id must be an int or a Device, not str"),
        ({"peers": [99]}, ValueError, "device_id must be within"),
        ({"size": 1}, TypeError, "unexpected keyword argument 'size'"),
        ("x", TypeError, "config must be provided as an object of type VirtualMemoryResourceOptions"),
    ],
)
def test_bad_options(device: ch.Device, options: Any, error: type[Exception], message: str) -> None:
    """Invalid options would reach the driver, or be ignored."""
    with pytest.raises(error, match=message):
        VirtualMemoryResource(device, options)
    if isinstance(options, dict) and "size" not in options:
        resource = VirtualMemoryResource(device)
        buffer = resource.allocate(1)
        with pytest.raises(error, match=message):
            resource.modify_allocation(buffer, buffer.size + 1, options)


def test_a_device_that_lacks_it(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error would not say that the device lacks virtual memory, or one of its options."""
    properties = vars(device.properties)
    for name, options, error, message in (
        ("virtual_memory_management_supported", {}, RuntimeError, "requires CUDA VMM API support, which device 0"),
        ("gpu_direct_rdma_with_cuda_vmm_supported", {"gpu_direct_rdma": True}, RuntimeError, "GPU Direct RDMA is not"),
        ("handle_type_fabric_supported", {"handle_type": "fabric"}, ValueError, "handle_type is 'fabric', which"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(properties, name, False)
            with pytest.raises(error, match=message):
                VirtualMemoryResource(device, options)
    with monkeypatch.context() as patch:
        patch.setitem(properties, "host_numa_id", -1)
        with pytest.raises(ValueError, match="location_type is 'host_numa', and no NUMA node is closest"):
            VirtualMemoryResource(device, {"location_type": "host_numa"})


def test_peers(device: ch.Device, other_device: ch.Device, pinned: Pinned) -> None:
    """Another device could not use the memory, or a device without access would be considered to have it."""
    if not other_device.can_access_peer(device):
        with pytest.raises(ValueError, match=r"peers has device 1, which cannot reach the memory of device 0"):
            VirtualMemoryResource(device, {"peers": [other_device]})
        return
    resource = VirtualMemoryResource(device, {"peers": [0, other_device, 1]})
    buffer = resource.allocate(1)
    stream = other_device.create_stream()
    buffer.fill(7, stream=stream)
    stream.sync()
    assert content(buffer, 0, pinned, device.create_stream()) == 7


def test_peers_are_read_once(device: ch.Device) -> None:
    """The first use would exhaust an iterator of peers, so that no peer gets access."""
    options = ch.VirtualMemoryResourceOptions(peers=iter([0]))
    assert [list(options.peers) for _ in range(2)] == [[0], [0]]
