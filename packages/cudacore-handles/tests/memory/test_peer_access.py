# SPDX-License-Identifier: Apache-2.0
"""The set of devices that can use a pool's memory.

Most tests use four imaginary devices: 0 has the pool, and 3 can access only its own memory.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cudacore_handles import ClosedError, Device, DeviceMemoryResource
from cudacore_handles._driver import device as device_module
from cudacore_handles._memory import peer_access
from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy

READ_WRITE, NONE = 3, 0


class FakeDevice:
    """The parts of a Device that the set needs."""

    def __new__(cls, device: Any) -> FakeDevice:
        if isinstance(device, FakeDevice):
            return device
        if not isinstance(device, int):
            raise TypeError(f"device_id must be an int or a Device, not {type(device).__name__}")
        if not 0 <= device < 4:
            raise ValueError(f"device_id is {device}, and this machine has 4 devices, 0 to 3")
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
    """Replaces the driver's pool. It records the access of each device, and the calls that changed the access."""

    def __init__(self) -> None:
        self.access = {0: READ_WRITE, 1: NONE, 2: NONE, 3: NONE}
        self.calls: list[list[tuple[int, int]]] = []

    def cch_device_count(self, out: Any) -> int:
        out[0] = 4
        return 0

    def cch_pool_access(self, out: Any, pool: object, device: int) -> int:
        assert pool == "pool"
        out[0] = self.access[device]
        return 0

    def cch_pool_set_access(self, pool: object, devices: list[int], access: list[int], count: int) -> int:
        assert pool == "pool"
        assert count == len(devices)
        changes = list(zip(devices, access, strict=True))
        self.calls.append(changes)
        self.access.update(changes)
        return 0


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    pool = Pool()
    monkeypatch.setattr(peer_access, "lib", pool)
    monkeypatch.setattr(peer_access, "hold", lambda face: face)
    monkeypatch.setattr(device_module, "Device", FakeDevice)
    return pool


@pytest.fixture
def peers(pool: Pool) -> PeerAccessibleBySetProxy:
    return PeerAccessibleBySetProxy._init(SimpleNamespace(_pool="pool", is_closed=False, device_id=0))


def ordinals(peers: Any) -> list[int]:
    return [device.device_id for device in peers]


def test_peers_begin_empty(peers: PeerAccessibleBySetProxy) -> None:
    """The pool's own device would be mistaken for a peer."""
    assert len(peers) == 0
    assert ordinals(peers) == []
    assert 0 not in peers
    assert repr(peers) == "PeerAccessibleBySetProxy({})"


def test_add_and_discard(peers: PeerAccessibleBySetProxy, pool: Pool) -> None:
    """Access would not be given or not be revoked, or the driver would be called needlessly."""
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
    """If the pool's access is changed elsewhere, the set would not show the change."""
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
        (lambda s: s.discard(-1), []),
        (lambda s: s.discard("x"), []),
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
    """An operation would have the wrong effect, or make several driver calls, so that a failure leaves it half done."""
    peers.add(1)
    pool.calls.clear()
    change(peers)
    assert pool.calls == result


def test_set_operations_give_ordinary_sets(peers: PeerAccessibleBySetProxy, pool: Pool) -> None:
    """An expression with the set, such as a union, would change access, or fail."""
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
    """The error would only have the driver's code, or only some of the devices would change."""
    with pytest.raises(ValueError, match=r"device 3 cannot reach .* device 0: .*can_access_peer\(0\) is False"):
        peers.update([1, 3])
    assert pool.calls == []
    assert ordinals(peers) == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s: s.add(4), ValueError, "device_id is 4"),
        (lambda s: s.add("1"), TypeError, "not str"),
        (lambda s: s.add(None), TypeError, "not None"),
        (lambda s: s.remove(1), KeyError, "1"),
        (lambda s: s.pop(), KeyError, None),
        (lambda s: s.update(1), TypeError, "iterable of Device or int is needed, not int"),
        (lambda s: s.update("12"), TypeError, "iterable of Device or int is needed, not str"),
        (lambda s: s.update([1], [None]), TypeError, "not None"),
        (lambda s: s.intersection_update(None), TypeError, "not NoneType"),
        (lambda s: s.symmetric_difference_update([9]), ValueError, "device_id is 9"),
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
    """An invalid device would reach the driver, or only some of the devices would change."""
    with pytest.raises(error, match=message):
        change(peers)
    assert pool.calls == []


@pytest.mark.parametrize("value", ["1", None, 1.5, 4, -1, object()])
def test_what_is_no_device_is_not_in_the_set(peers: PeerAccessibleBySetProxy, value: object) -> None:
    """``in`` would raise where an ordinary set returns False."""
    peers.add(1)
    assert value not in peers


# ---- real devices


def test_own_device(resource: DeviceMemoryResource, device: Device) -> None:
    """The access of the pool's own device would be changed, which the driver refuses."""
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


def test_closed_resource(resource: DeviceMemoryResource, other_device: Device) -> None:
    """The set of a closed resource would call the driver with a pool that no longer exists."""
    peers = resource.peer_accessible_by
    resource.close()
    for use in (lambda: len(peers), lambda: other_device in peers, lambda: peers.add(other_device)):
        with pytest.raises(ClosedError, match="closed"):
            use()
