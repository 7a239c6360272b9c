# SPDX-License-Identifier: Apache-2.0
"""Attributes of memory pools, and the set of devices that can use a pool's memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver

from cudacore_handles import Device, DeviceMemoryResource, DeviceMemoryResourceOptions, _device, _pool_attributes
from cudacore_handles._device_properties import Attribute
from cudacore_handles._pool_attributes import PeerAccessibleBySetProxy, _MemPoolAttributes

TABLE = {name: value for name, value in vars(_MemPoolAttributes).items() if isinstance(value, Attribute)}
READ_WRITE, NONE = 3, 0
MIB = 1 << 20


@pytest.fixture
def resource(device: Device) -> Iterator[DeviceMemoryResource]:
    """A pool that nobody else uses."""
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    yield mr
    mr.close()


def test_numbers_are_cudas() -> None:
    """A property would tell the value of another attribute."""
    known = {
        member.name.removeprefix("CU_MEMPOOL_ATTR_").lower(): member.value
        for member in driver.CUmemPool_attribute
        if member.value <= 8
    }
    assert {name: attribute.number for name, attribute in TABLE.items()} == known


def test_instantiation() -> None:
    """Attributes of no pool would be made."""
    with pytest.raises(RuntimeError, match="memory resource's attributes"):
        _MemPoolAttributes(None)
    with pytest.raises(RuntimeError, match=r"use DeviceMemoryResource\.peer_accessible_by"):
        PeerAccessibleBySetProxy(None)


def set_attribute(mr: DeviceMemoryResource, name: str, value: object) -> None:
    attribute = getattr(driver.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name.upper()}")
    assert driver.cuMemPoolSetAttribute(mr.handle, attribute, value) == (0,)


def test_release_threshold(resource: DeviceMemoryResource) -> None:
    """A number of 64 bits would be cut down."""
    set_attribute(resource, "release_threshold", driver.cuuint64_t(2**40 + 1))
    assert resource.attributes.release_threshold == 2**40 + 1


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("reuse_")])
def test_reuse_flags(resource: DeviceMemoryResource, name: str) -> None:
    """A flag would be told wrong, as a number, or as it was earlier."""
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
    """The memory in use would be told wrong."""
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
    """An assignment would be accepted in silence and change nothing."""
    with pytest.raises(AttributeError, match="release_threshold is read-only"):
        resource.attributes.release_threshold = 0


def test_attributes_keep_the_pool(device: Device) -> None:
    """Attributes would be asked of a pool that is destroyed."""
    mr = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    attributes, alive = mr.attributes, weakref.ref(mr)
    assert repr(attributes) == f"<attributes of {mr!r}>"
    del mr
    gc.collect()
    assert attributes.used_mem_current == 0
    del attributes
    assert alive() is None


def test_closed_pool(resource: DeviceMemoryResource) -> None:
    """The driver would be given no pool."""
    attributes = resource.attributes
    resource.close()
    with pytest.raises(ValueError, match="closed"):
        _ = attributes.used_mem_current


# ---- the set of peers, with four devices that are not there: 0 has the pool, and 3 reaches only itself


class FakeDevice:
    """What the set needs of a Device."""

    def __new__(cls, device: Any) -> FakeDevice:
        if isinstance(device, FakeDevice):
            return device
        if not isinstance(device, int):
            raise TypeError(f"device_id must be an int or a Device, not {type(device).__name__}")
        if not 0 <= device < 4:
            raise ValueError(f"device_id must be within [0, 4), got {device}: this machine has 4 devices")
        self = super().__new__(cls)
        self.device_id = device
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeDevice) and self.device_id == other.device_id

    def __hash__(self) -> int:
        return hash(self.device_id)

    def __repr__(self) -> str:
        return f"<Device {self.device_id}>"

    def can_access_peer(self, peer: int) -> bool:
        assert peer == 0
        return self.device_id != 3


class Pool:
    """The driver's side: who has access, and the calls that changed it."""

    def __init__(self) -> None:
        self.access = {0: READ_WRITE, 1: NONE, 2: NONE, 3: NONE}
        self.calls: list[list[tuple[int, int]]] = []

    def get(self, handle: object, location: driver.CUmemLocation) -> tuple[int, int]:
        assert handle == "pool"
        assert location.type == driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        return 0, self.access[location.id]

    def set(self, handle: object, descriptors: list[driver.CUmemAccessDesc], count: int) -> tuple[int]:
        assert handle == "pool"
        assert count == len(descriptors)
        assert all(d.location.type == driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE for d in descriptors)
        changes = [(d.location.id, int(d.flags)) for d in descriptors]
        self.calls.append(changes)
        self.access.update(changes)
        return (0,)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    pool = Pool()

    def cch_device_count(out: list[int]) -> int:
        out[0] = 4
        return 0

    monkeypatch.setattr(_pool_attributes, "lib", SimpleNamespace(cch_device_count=cch_device_count))
    monkeypatch.setattr(_device, "Device", FakeDevice)
    monkeypatch.setattr(driver, "cuMemPoolGetAccess", pool.get)
    monkeypatch.setattr(driver, "cuMemPoolSetAccess", pool.set)
    return pool


@pytest.fixture
def peers(pool: Pool) -> PeerAccessibleBySetProxy:
    return PeerAccessibleBySetProxy._init(SimpleNamespace(handle="pool", device_id=0))


def ordinals(peers: Any) -> list[int]:
    return [device.device_id for device in peers]


def test_peers_begin_empty(peers: PeerAccessibleBySetProxy) -> None:
    """The pool's own device would be taken for a peer."""
    assert len(peers) == 0
    assert ordinals(peers) == []
    assert 0 not in peers
    assert repr(peers) == "PeerAccessibleBySetProxy({})"


def test_add_and_discard(peers: PeerAccessibleBySetProxy, pool: Pool) -> None:
    """Access would not be given, not be taken away, or the driver be called for nothing."""
    peers.add(1)
    peers.add(FakeDevice(2))
    peers.add(1)
    assert ordinals(peers) == [1, 2]
    assert 1 in peers
    assert FakeDevice(2) in peers
    assert 3 not in peers
    assert repr(peers) == "PeerAccessibleBySetProxy({<Device 1>, <Device 2>})"
    peers.discard(FakeDevice(1))
    peers.discard(1)
    assert ordinals(peers) == [2]
    assert pool.calls == [[(1, READ_WRITE)], [(2, READ_WRITE)], [(1, NONE)]]


def test_the_set_is_what_the_driver_says(peers: PeerAccessibleBySetProxy, pool: Pool) -> None:
    """Another object's change to the same pool would not be seen."""
    pool.access[2] = READ_WRITE
    assert ordinals(peers) == [2]


@pytest.mark.parametrize(
    ("change", "result"),
    [
        (lambda s: s.update([2], (FakeDevice(1),)), [[(2, READ_WRITE)]]),
        (lambda s: s.update(), []),
        (lambda s: s.difference_update([1, 2], []), [[(1, NONE)]]),
        (lambda s: s.difference_update(), []),
        (lambda s: s.intersection_update([1, 2], [2]), [[(1, NONE)]]),
        (lambda s: s.intersection_update([1, 2]), []),
        (lambda s: s.intersection_update(), []),
        (lambda s: s.symmetric_difference_update([1, FakeDevice(2)]), [[(1, NONE), (2, READ_WRITE)]]),
        (lambda s: s.clear(), [[(1, NONE)]]),
        (lambda s: s._replace([2]), [[(1, NONE), (2, READ_WRITE)]]),
        (lambda s: s._replace([2, 1, 0]), [[(2, READ_WRITE)]]),
        (lambda s: s._replace(s), []),
        (lambda s: s.add(0), []),
        (lambda s: s.discard(0), []),
        (lambda s: s.remove(1), [[(1, NONE)]]),
        (lambda s: s.pop(), [[(1, NONE)]]),
        (lambda s: s.__ior__({2}), [[(2, READ_WRITE)]]),
        (lambda s: s.__iand__({2}), [[(1, NONE)]]),
        (lambda s: s.__isub__({1, 2}), [[(1, NONE)]]),
        (lambda s: s.__ixor__({1, 2}), [[(1, NONE), (2, READ_WRITE)]]),
        (lambda s: s.__isub__(s), [[(1, NONE)]]),
        (lambda s: s.__ixor__(s), [[(1, NONE)]]),
    ],
)
def test_changes(
    peers: PeerAccessibleBySetProxy, pool: Pool, change: Callable[[Any], object], result: list[list[tuple[int, int]]]
) -> None:
    """A change would have the wrong effect, or reach the driver in pieces, of which a later one can fail."""
    peers.add(1)
    pool.calls.clear()
    change(peers)
    assert pool.calls == result


def test_operators_with_assignment_keep_the_set(peers: PeerAccessibleBySetProxy) -> None:
    """After ``mr.peer_accessible_by |= {...}`` the name would hold an ordinary set."""
    same = peers
    peers |= {1, 2}
    peers -= {FakeDevice(1)}
    peers ^= {1}
    peers &= {1}
    assert peers is same
    assert ordinals(peers) == [1]
    with pytest.raises(TypeError, match="iterable of Device or int is needed, not int"):
        peers |= 2


def test_set_operations_give_ordinary_sets(peers: PeerAccessibleBySetProxy, pool: Pool) -> None:
    """An expression with the set would change access, or fail."""
    peers.update([1, 2])
    pool.calls.clear()
    one, two = FakeDevice(1), FakeDevice(2)
    assert peers == {one, two}
    assert peers - {one} == {two}
    assert peers & {one} == {one}
    assert peers | {FakeDevice(0)} == {FakeDevice(0), one, two}
    assert type(peers | {one}) is set
    assert peers >= {one}
    assert pool.calls == []


def test_a_device_with_no_peer_connection(peers: PeerAccessibleBySetProxy, pool: Pool) -> None:
    """The driver would refuse with a bare code, or change some of the devices only."""
    with pytest.raises(ValueError, match=r"device 3 cannot reach .* device 0: .*can_access_peer\(0\) is False"):
        peers.update([1, 3])
    assert pool.calls == []
    assert ordinals(peers) == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s: s.add(4), ValueError, "device_id must be .*, got 4"),
        (lambda s: s.add("1"), TypeError, "not str"),
        (lambda s: s.add(None), TypeError, "not None"),
        (lambda s: s.discard(-1), ValueError, "device_id must be .*, got -1"),
        (lambda s: s.remove(1), KeyError, "1"),
        (lambda s: s.pop(), KeyError, None),
        (lambda s: s.update(1), TypeError, "iterable of Device or int is needed, not int"),
        (lambda s: s.update("12"), TypeError, "iterable of Device or int is needed, not str"),
        (lambda s: s.update([1], [None]), TypeError, "not None"),
        (lambda s: s.intersection_update(None), TypeError, "not NoneType"),
        (lambda s: s.symmetric_difference_update([9]), ValueError, "device_id must be .*, got 9"),
        (lambda s: s._replace(1), TypeError, "iterable"),
        (lambda s: s._replace([1.0]), TypeError, "not float"),
    ],
)
def test_bad_input(
    peers: PeerAccessibleBySetProxy,
    pool: Pool,
    change: Callable[[Any], object],
    error: type[Exception],
    message: str | None,
) -> None:
    """What is no device would reach the driver, or change some of the devices only."""
    with pytest.raises(error, match=message):
        change(peers)
    assert pool.calls == []


@pytest.mark.parametrize("value", ["1", None, 1.5, 4, -1, object()])
def test_what_is_no_device_is_not_in_the_set(peers: PeerAccessibleBySetProxy, value: object) -> None:
    """``in`` would raise where an ordinary set says False."""
    peers.add(1)
    assert value not in peers


# ---- and with the devices that are there


def test_own_device(resource: DeviceMemoryResource, device: Device) -> None:
    """The driver would be asked to change the access of the pool's own device, which it refuses."""
    resource.peer_accessible_by = [device]
    resource.peer_accessible_by.add(device)
    resource.peer_accessible_by.clear()
    assert resource.peer_accessible_by == set()
    assert device not in resource.peer_accessible_by


def test_access_between_devices(resource: DeviceMemoryResource, device: Device) -> None:
    """A device would have no access to memory that it was given access to."""
    others = [d for d in Device.get_all_devices() if d != device and d.can_access_peer(device)]
    if not others:
        pytest.skip("needs a second device that can reach the first one's memory")
    peers = resource.peer_accessible_by
    peers |= others
    assert set(resource.peer_accessible_by) == set(others)
    other = others[0]
    peers.remove(other)
    assert set(resource.peer_accessible_by) == set(others[1:])
    resource.peer_accessible_by = [other.device_id]
    assert set(resource.peer_accessible_by) == {other}
    resource.peer_accessible_by = []
    assert len(resource.peer_accessible_by) == 0
