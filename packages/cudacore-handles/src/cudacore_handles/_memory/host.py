# SPDX-License-Identifier: Apache-2.0
"""The host as a location of memory."""

from __future__ import annotations

import os
from typing import Any

from cudacore_handles._base.address import as_integer
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import as_flag
from cudacore_handles._cffi import lib
from cudacore_handles._driver.device import Device

_NODES = "/sys/devices/system/node"

_hosts: dict[tuple[int | None, bool], Host] = {}


@public
class Host:
    """The host as a location of memory, used where a :class:`Device` could be given.

    There is one object for each location. Such objects can be used without a driver.

    Parameters
    ----------
    numa_id : int, optional
        NUMA node of the host. Default: memory of any node.
    is_numa_current : bool, optional
        Whether the location is the NUMA node of the calling thread; see :meth:`numa_current`. Default False.
    """

    __slots__ = ("_is_numa_current", "_numa_id")
    _numa_id: int | None
    _is_numa_current: bool

    def __new__(cls, numa_id: int | None = None, *, is_numa_current: bool = False) -> Host:
        current = as_flag("is_numa_current", is_numa_current)
        if numa_id is not None:
            number = as_integer(numa_id)
            if number is None or not 0 <= number < 2**31:
                raise ValueError(f"numa_id must be a non-negative int, got {numa_id!r}: NUMA nodes are numbered")
            if current:
                raise ValueError(
                    "numa_id and is_numa_current are mutually exclusive: name a node, or the calling thread's"
                )
            numa_id = number
        self = object.__new__(cls)
        self._numa_id, self._is_numa_current = numa_id, current
        # There is no lock, because a garbage collection while a thread holds it could run code that needs the object,
        # too. setdefault() returns the same object to all threads.
        return _hosts.setdefault((numa_id, current), self)

    @classmethod
    def numa_current(cls) -> Host:
        """Return the location for the NUMA node of the calling thread, determined at each use."""
        return cls(is_numa_current=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Host.numa_current, ()) if self._is_numa_current else (Host, (self._numa_id,))

    def __repr__(self) -> str:
        if self._is_numa_current:
            return "Host.numa_current()"
        return "Host()" if self._numa_id is None else f"Host(numa_id={self._numa_id})"

    @property
    def numa_id(self) -> int | None:
        """int or None: The NUMA node."""
        return self._numa_id

    @property
    def is_numa_current(self) -> bool:
        """bool: Whether the location is the NUMA node of the calling thread."""
        return self._is_numa_current


def place_of(location: object, name: str) -> tuple[int, int]:
    """Return the ``CCH_LOCATION_*`` and the id of a device or the host; raise an error if it is invalid.

    Parameters
    ----------
    location : Device or Host
        The location.
    name : str
        The name of the argument, for the error.
    """
    if isinstance(location, Device):
        return lib.CCH_LOCATION_DEVICE, location.device_id
    if not isinstance(location, Host):
        raise TypeError(f"{name} must be a Device or a Host, got {type(location).__name__}: {location!r}")
    if location.is_numa_current:
        return lib.CCH_LOCATION_HOST_NUMA_CURRENT, 0
    if location.numa_id is None:
        return lib.CCH_LOCATION_HOST, 0
    return lib.CCH_LOCATION_HOST_NUMA, check_node(location.numa_id, name)


def check_node(numa_id: int, name: str) -> int:
    """Return the number of a NUMA node; raise an error if this machine has no such node."""
    if os.path.isdir(_NODES) and not os.path.isdir(f"{_NODES}/node{numa_id}"):
        nodes = sorted(int(entry[4:]) for entry in os.listdir(_NODES) if entry[:4] == "node" and entry[4:].isdigit())
        if nodes:
            raise ValueError(f"{name} is on NUMA node {numa_id}; this machine has nodes {', '.join(map(str, nodes))}")
    return numa_id


def location_of(place: int, number: int) -> Device | Host | None:
    """Return the device or host for a ``CCH_LOCATION_*`` and an id; None for no location."""
    if place == lib.CCH_LOCATION_DEVICE:
        return Device(number)
    if place == lib.CCH_LOCATION_HOST:
        return Host()
    if place == lib.CCH_LOCATION_HOST_NUMA:
        return Host(number)
    return Host.numa_current() if place == lib.CCH_LOCATION_HOST_NUMA_CURRENT else None
