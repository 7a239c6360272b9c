# SPDX-License-Identifier: Apache-2.0
"""The set of devices that can use a pool's memory, and the operations of all sets that are in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from cudacore_handles import ClosedError, Device, DeviceMemoryResource
from cudacore_handles._base.live_set import LiveSet


class Letters(LiveSet[str]):
    """A set of letters, which records the changes. Its members in the driver are the numbers of the letters."""

    def __init__(self) -> None:
        self.numbers = {ord("a")}
        self.changes: list[tuple[str, str]] = []

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and ord(value) in self.numbers

    def __iter__(self) -> Iterator[str]:
        return iter([chr(number) for number in sorted(self.numbers)])

    def add(self, value: str) -> None:
        self.update([value])

    def discard(self, value: str) -> None:
        self.difference_update([value])

    def _current(self) -> set[int]:
        return set(self.numbers)

    def _members(self, values: Iterable[str]) -> set[int]:
        return {ord(value) for value in values}

    def _change(self, *, gained: Iterable[int] = (), lost: Iterable[int] = ()) -> None:
        if gained or lost:
            self.changes.append(tuple("".join(map(chr, sorted(numbers))) for numbers in (gained, lost)))  # type: ignore[arg-type]
        self.numbers = self.numbers.union(gained).difference(lost)


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        (lambda s: s.update("b", ("a",)), [("b", "")]),
        (lambda s: s.update(), []),
        (lambda s: s.difference_update("ab", []), [("", "a")]),
        (lambda s: s.difference_update(), []),
        (lambda s: s.intersection_update("ab", "b"), [("", "a")]),
        (lambda s: s.intersection_update("ab"), []),
        (lambda s: s.intersection_update(), []),
        (lambda s: s.symmetric_difference_update("ab"), [("b", "a")]),
        (lambda s: s.clear(), [("", "a")]),
        (lambda s: s._replace("b"), [("b", "a")]),
        (lambda s: s._replace("ba"), [("b", "")]),
        (lambda s: s._replace(s), []),
        (lambda s: s.remove("a"), [("", "a")]),
        (lambda s: s.pop(), [("", "a")]),
        (lambda s: s.__ior__({"b"}), [("b", "")]),
        (lambda s: s.__iand__({"b"}), [("", "a")]),
        (lambda s: s.__isub__({"a", "b"}), [("", "a")]),
        (lambda s: s.__ixor__({"a", "b"}), [("b", "a")]),
        (lambda s: s.__isub__(s), [("", "a")]),
        (lambda s: s.__ixor__(s), [("", "a")]),
    ],
)
def test_changes(change: Callable[[Any], object], changes: list[tuple[str, str]]) -> None:
    """An operation would have the wrong effect, or make several changes, so that a failure leaves it half done."""
    letters = Letters()
    change(letters)
    assert letters.changes == changes


def test_set_operations_give_ordinary_sets() -> None:
    """An expression with the set, such as a union, would change it, or fail."""
    letters = Letters()
    letters.update("b")
    assert letters == {"a", "b"}
    assert letters - {"a"} == {"b"}
    assert letters & {"a"} == {"a"}
    assert letters | {"c"} == {"a", "b", "c"}
    assert type(letters | {"a"}) is set
    assert letters >= {"a"}
    assert (len(letters), repr(letters)) == (2, "Letters({'a', 'b'})")
    assert letters.changes == [("b", "")]
    with pytest.raises(KeyError, match="c"):
        letters.remove("c")
    letters.clear()
    with pytest.raises(KeyError):
        letters.pop()


# ---- devices


def test_own_device(resource: DeviceMemoryResource, device: Device) -> None:
    """The access of the pool's own device would be changed, which the driver refuses, or it would count as a peer."""
    resource.peer_accessible_by = [device]
    resource.peer_accessible_by.add(device)
    resource.peer_accessible_by.discard(device)
    resource.peer_accessible_by.clear()
    assert resource.peer_accessible_by == set()
    assert device not in resource.peer_accessible_by
    assert repr(resource.peer_accessible_by) == "PeerAccessibleBySetProxy({})"


def test_access_between_devices(resource: DeviceMemoryResource, device: Device) -> None:
    """A device would have no access to memory that it was given access to."""
    others = [d for d in Device.get_all_devices() if d != device and d.can_access_peer(device)]
    if not others:
        pytest.skip("needs a second device that can reach the first one's memory")
    peers = resource.peer_accessible_by
    peers |= others
    assert list(resource.peer_accessible_by) == others
    assert repr(peers) == f"PeerAccessibleBySetProxy({{{', '.join(map(repr, others))}}})"
    other = others[0]
    assert other in peers
    assert other.device_id in peers
    peers.remove(other)
    assert set(resource.peer_accessible_by) == set(others[1:])
    resource.peer_accessible_by = [other.device_id]
    assert set(resource.peer_accessible_by) == {other}
    for value in ("1", None, 1.5, 99, -1, object()):
        assert value not in peers
        peers.discard(value)  # type: ignore[arg-type]
    resource.peer_accessible_by = []
    assert len(resource.peer_accessible_by) == 0
    resource.close()
    assert "has been closed" in repr(peers)  # a debugger shows it


@pytest.mark.cuda_sim
def test_calls(resource: DeviceMemoryResource, other_device: Device, cuda_sim: Any) -> None:
    """The driver would be called although nothing changes, or more than once for a change."""
    peers = resource.peer_accessible_by
    for use, count in ((peers.add, 1), (peers.add, 0), (peers.discard, 1), (peers.discard, 0)):
        with cuda_sim.logging() as made:
            use(other_device)
        assert [call.name for call in made].count("cuMemPoolSetAccess") == count
    with cuda_sim.logging() as made:
        peers.update([0, other_device, 1])
    assert [call.name for call in made].count("cuMemPoolSetAccess") == 1


def test_a_device_with_no_peer_connection(
    resource: DeviceMemoryResource, other_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error would only have the driver's code, or only some of the devices would change."""
    monkeypatch.setattr(Device, "can_access_peer", lambda device, peer: False)
    with pytest.raises(ValueError, match=r"device 1 cannot reach .* device 0: .*can_access_peer\(0\) is False"):
        resource.peer_accessible_by.update([0, other_device])
    assert not resource.peer_accessible_by


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s: s.add(99), ValueError, "device_id must be within"),
        (lambda s: s.add("1"), TypeError, "not str"),
        (lambda s: s.add(None), TypeError, "not None"),
        (lambda s: s.update(1), TypeError, "iterable of Device or int is needed, not int"),
        (lambda s: s.update("12"), TypeError, "iterable of Device or int is needed, not str"),
        (lambda s: s.update([0], [None]), TypeError, "not None"),
        (lambda s: s.intersection_update(None), TypeError, "not NoneType"),
        (lambda s: s.symmetric_difference_update([99]), ValueError, "device_id must be within"),
        (lambda s: s._replace([1.0]), TypeError, "not float"),
    ],
)
def test_bad_input(
    resource: DeviceMemoryResource, change: Callable[[Any], object], error: type[Exception], message: str
) -> None:
    """An invalid device would reach the driver, or only some of the devices would change."""
    with pytest.raises(error, match=message):
        change(resource.peer_accessible_by)
    assert not resource.peer_accessible_by


def test_closed_resource(resource: DeviceMemoryResource, other_device: Device) -> None:
    """The set of a closed resource would call the driver with a pool that no longer exists."""
    peers = resource.peer_accessible_by
    resource.close()
    for use in (lambda: len(peers), lambda: other_device in peers, lambda: peers.add(other_device)):
        with pytest.raises(ClosedError, match="closed"):
            use()
