# SPDX-License-Identifier: Apache-2.0
"""Access of devices to memory pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Set
from typing import TYPE_CHECKING, Any

from cudacore_handles._base.errors import check, closed
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Made
from cudacore_handles._cffi import ffi, lib

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device
    from cudacore_handles._memory.device_pool import DeviceMemoryResource

NO_ACCESS, READ, READ_WRITE = 0, 1, 3  # CUmemAccess_flags


class PeerAccessibleBySetProxy(MutableSet["Device"], Made):
    """The other devices whose kernels can use the memory of a pool (cuMemPoolGetAccess, cuMemPoolSetAccess).

    :attr:`DeviceMemoryResource.peer_accessible_by` returns it. It is a set of :class:`Device` that accepts ordinals
    too. Its contents are read from the driver each time. Changes take effect at once, even for memory that is already
    allocated. Each method makes its change in one call of the driver, for all devices or for none. The pool's own
    device always has access: it is not in the set, and adding or discarding it does nothing.

    Raises
    ------
    TypeError, ValueError
        If an added object is not a device, or is a device that cannot access the pool's memory (cuDeviceCanAccessPeer).
    """

    __slots__ = ("_resource",)
    _made_by = "DeviceMemoryResource.peer_accessible_by"
    _resource: DeviceMemoryResource

    def __contains__(self, value: object) -> bool:
        try:
            ordinal = _ordinal(value)
        except (TypeError, ValueError):
            return False
        return ordinal != self._resource.device_id and self._has_access(ordinal)

    def __iter__(self) -> Iterator[Device]:
        from cudacore_handles._driver.device import Device

        return iter([Device(ordinal) for ordinal in sorted(self._ordinals())])

    def __len__(self) -> int:
        return len(self._ordinals())

    def __ior__(self, other: Set[Any]) -> PeerAccessibleBySetProxy:  # type: ignore[misc]
        self.update(other)
        return self

    def __iand__(self, other: Set[Any]) -> PeerAccessibleBySetProxy:
        self.intersection_update(other)
        return self

    def __isub__(self, other: Set[Any]) -> PeerAccessibleBySetProxy:
        self.difference_update(other)
        return self

    def __ixor__(self, other: Set[Any]) -> PeerAccessibleBySetProxy:  # type: ignore[misc]
        self.symmetric_difference_update(other)
        return self

    def __repr__(self) -> str:
        return f"PeerAccessibleBySetProxy({{{', '.join(map(repr, self))}}})"

    @classmethod
    def _init(cls, resource: DeviceMemoryResource) -> PeerAccessibleBySetProxy:
        self = cls.__new__(cls)
        self._resource = resource
        return self

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        # The results of the binary operators are ordinary sets.
        return set(it)

    def add(self, value: Device | int) -> None:
        """Give a device access."""
        self._change(gained={_ordinal(value)} - self._ordinals(), lost=set())

    def discard(self, value: Device | int) -> None:
        """Remove a device's access, if it has any. Objects that are not devices are ignored."""
        if value in self:
            self._change(gained=set(), lost={_ordinal(value)})

    def clear(self) -> None:
        """Remove the access of all other devices."""
        self._replace(())

    def update(self, *others: Iterable[Device | int]) -> None:
        """Give access to the devices in `others`."""
        self._change(gained=_union(others) - self._ordinals(), lost=set())

    def difference_update(self, *others: Iterable[Device | int]) -> None:
        """Remove the access of the devices in `others`."""
        self._change(gained=set(), lost=_union(others) & self._ordinals())

    def intersection_update(self, *others: Iterable[Device | int]) -> None:
        """Remove the access of the devices that are not in all of `others`."""
        current = self._ordinals()
        self._change(gained=set(), lost=current - current.intersection(*map(_ordinals, others)))

    def symmetric_difference_update(self, other: Iterable[Device | int]) -> None:
        """For each device in `other`, remove its access if it has access, and otherwise give access to it."""
        given, current = _ordinals(other), self._ordinals()
        self._change(gained=given - current, lost=given & current)

    def _replace(self, devices: Iterable[Device | int]) -> None:
        """Give access to the given devices only."""
        wanted, current = _ordinals(devices), self._ordinals()
        self._change(gained=wanted - current, lost=current - wanted)

    def _ordinals(self) -> set[int]:
        out = ffi.new("int *")
        check(lib.cch_device_count(out))
        return {i for i in range(out[0]) if i != self._resource.device_id and self._has_access(i)}

    def _has_access(self, ordinal: int) -> bool:
        out = ffi.new("int *")
        check(lib.cch_pool_access(out, self._pool(), ordinal))
        return bool(out[0] != NO_ACCESS)

    def _pool(self) -> Any:
        if self._resource.is_closed:
            raise closed(self._resource)
        return hold(self._resource._pool)

    def _change(self, *, gained: set[int], lost: set[int]) -> None:
        from cudacore_handles._driver.device import Device

        own = self._resource.device_id
        changed = sorted((gained | lost) - {own})
        for ordinal in changed:
            if ordinal in gained and not Device(ordinal).can_access_peer(own):
                raise ValueError(
                    f"device {ordinal} cannot reach the memory of device {own}: "
                    f"Device({ordinal}).can_access_peer({own}) is False"
                )
        access = [READ_WRITE if ordinal in gained else NO_ACCESS for ordinal in changed]
        if changed:
            check(lib.cch_pool_set_access(self._pool(), changed, access, len(changed)))


def device_given(device: object) -> Device:
    """Return the device for a Device or an ordinal. None is an error, because it must not mean the current device."""
    from cudacore_handles._driver.device import Device

    if device is None:
        raise TypeError("a Device or an int is needed, not None")
    return Device(device)  # type: ignore[arg-type]


def _ordinal(device: object) -> int:
    return device_given(device).device_id


def _ordinals(devices: Iterable[object]) -> set[int]:
    if not isinstance(devices, Iterable) or isinstance(devices, (str, bytes)):
        raise TypeError(f"an iterable of Device or int is needed, not {type(devices).__name__}")
    return {_ordinal(device) for device in devices}


def _union(others: tuple[Iterable[object], ...]) -> set[int]:
    return set().union(*map(_ordinals, others))
