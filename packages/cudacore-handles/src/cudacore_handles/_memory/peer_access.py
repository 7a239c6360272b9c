# SPDX-License-Identifier: Apache-2.0
"""Access of devices to memory pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cudacore_handles._base.errors import check, check_open
from cudacore_handles._base.handle import hold
from cudacore_handles._base.live_set import LiveSet
from cudacore_handles._base.made import Made
from cudacore_handles._cffi import ffi, lib

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device
    from cudacore_handles._memory.device_pool import DeviceMemoryResource

NO_ACCESS, READ, READ_WRITE = 0, 1, 3  # CUmemAccess_flags


class PeerAccessibleBySetProxy(LiveSet["Device"], Made):
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

        return iter([Device(ordinal) for ordinal in sorted(self._current())])

    def add(self, value: Device | int) -> None:
        """Give a device access."""
        self._change(gained={_ordinal(value)} - self._current())

    def discard(self, value: Device | int) -> None:
        """Remove a device's access, if it has any. Objects that are not devices are ignored."""
        if value in self:
            self._change(lost={_ordinal(value)})

    def _current(self) -> set[int]:
        out = ffi.new("int *")
        check(lib.cch_device_count(out))
        return {i for i in range(out[0]) if i != self._resource.device_id and self._has_access(i)}

    def _members(self, values: Iterable[object]) -> set[int]:
        if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
            raise TypeError(f"an iterable of Device or int is needed, not {type(values).__name__}")
        return {_ordinal(device) for device in values}

    def _has_access(self, ordinal: int) -> bool:
        out = ffi.new("int *")
        check(lib.cch_pool_access(out, self._pool(), ordinal))
        return bool(out[0] != NO_ACCESS)

    def _pool(self) -> Any:
        check_open(self._resource)
        return hold(self._resource._pool)

    def _change(self, *, gained: Iterable[int] = (), lost: Iterable[int] = ()) -> None:
        from cudacore_handles._driver.device import Device

        own = self._resource.device_id
        gained = set(gained)
        changed = sorted(gained.union(lost) - {own})
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
