# SPDX-License-Identifier: Apache-2.0
"""Every kind of memory resource, and the function of the driver with which it allocates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cudacore_handles as ch
from cudacore_handles._memory.resource import _SynchronousMemoryResource

ON_HOST = {"location_type": "host", "handle_type": None}


class Kind(NamedTuple):
    """A kind of memory resource."""

    call: str  # the driver's function that allocates
    make: Callable[[ch.Device], Any]  # the resource of a device, or the resource that is used while it is current


RESOURCES = {
    "default pool": Kind("cuMemAllocFromPoolAsync", ch.DeviceMemoryResource),
    "pool": Kind("cuMemAllocFromPoolAsync", lambda device: ch.DeviceMemoryResource(device, {})),
    "pinned pool": Kind("cuMemAllocFromPoolAsync", lambda device: ch.PinnedMemoryResource()),
    "own pinned pool": Kind("cuMemAllocFromPoolAsync", lambda device: ch.PinnedMemoryResource({"numa_id": 0})),
    "managed pool": Kind("cuMemAllocFromPoolAsync", lambda device: ch.ManagedMemoryResource()),
    "pinned": Kind("cuMemHostAlloc", lambda device: ch.LegacyPinnedMemoryResource()),
    "managed": Kind("cuMemAllocManaged", lambda device: ch.LegacyManagedMemoryResource()),
    "synchronous": Kind("cuMemAlloc", _SynchronousMemoryResource),
    "virtual": Kind("cuMemCreate", ch.VirtualMemoryResource),
    "virtual host": Kind("cuMemCreate", lambda device: ch.VirtualMemoryResource(device, ON_HOST)),
}
POOLS = [name for name in RESOURCES if "pool" in name]
EXACT = [name for name in RESOURCES if "virtual" not in name]  # those that do not round sizes up
