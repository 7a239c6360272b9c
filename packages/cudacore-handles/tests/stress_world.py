# SPDX-License-Identifier: Apache-2.0
"""The objects that the threads of stress.py share, for as long as a round lasts."""

from __future__ import annotations

import collections
import os
import random
from typing import Any, ClassVar

from foreign_objects import HostMemory
from kernel_sources import PTX

import cudacore_handles as ch

SIZE = 64  # bytes of a buffer
SLOTS = 6  # the number of objects of each kind; small, so that threads often use the same object
INVALID_HANDLE, NOT_READY = 400, 600  # error codes that measuring the time between two events may return

SIMULATED = os.environ.get("CUDACORE_DRIVER", "").lower() == "sim"
if SIMULATED:
    import cudacore_sim

    cudacore_sim.load()

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)
CODE = ch.ObjectCode.from_ptx(PTX)


# ---- replacements for objects of other libraries


class ForeignStream:
    """A stream of another library."""

    def __init__(self, stream: ch.Stream) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.stream.__cuda_stream__()


class Tensor:
    """An array of another library, with DLPack."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer

    def __dlpack__(self, **options: Any) -> Any:
        return self.buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()


class Array:
    """An array of another library, with the CUDA array interface. It keeps its own buffer."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer
        data = (buffer.handle, False)
        self.__cuda_array_interface__ = {"shape": (SIZE,), "typestr": "|u1", "data": data, "version": 3}


class Owner:
    """An owner of foreign memory. The owner is in a reference cycle, and its finalizer uses the library."""

    alive: ClassVar[collections.deque[int]] = collections.deque()  # changes of a deque need no lock

    def __init__(self, device: ch.Device) -> None:
        self.device, self.me = device, self
        Owner.alive.append(1)

    def __del__(self) -> None:
        self.device.create_event().close()
        Owner.alive.pop()


# ---- the objects that the threads share


class Lane:
    """A stream that exists for the whole round, faces of the stream, and the objects that are used in stream order."""

    def __init__(self, device: ch.Device) -> None:
        self.keeper = device.create_stream()
        self.faces = [self.face() for _ in range(SLOTS)]
        self.foreign = ForeignStream(self.keeper)
        self.buffers = [device.allocate(SIZE, stream=self.keeper) for _ in range(SLOTS)]
        self.pinned = [PINNED.allocate(SIZE, stream=self.keeper) for _ in range(SLOTS)]
        self.array = Array(device.allocate(SIZE, stream=self.keeper))
        kernel = CODE.get_kernel("add")
        self.prepared = [kernel.prepare(self.keeper, ONE_BLOCK, self.buffers[i], i) for i in range(SLOTS)]
        # Each launch adds a number to `total` on the device. The check at the end compares it with the sum of `added`.
        self.total = device.allocate(4, stream=self.keeper)
        self.total.fill(0, stream=self.keeper)
        self.added: list[int] = []

    def face(self) -> ch.Stream:
        return ch.Stream.from_handle(int(self.keeper.handle))


class World:
    """The objects that the threads of a round share."""

    def __init__(self, device: ch.Device) -> None:
        self.device = device
        self.lanes = [Lane(device) for _ in range(2)]
        self.streams = [device.create_stream() for _ in range(SLOTS)]
        self.events = [device.create_event(TIMING) for _ in range(SLOTS)]
        self.contexts = [device.context for _ in range(SLOTS)]
        self.codes = [ch.ObjectCode.from_ptx(PTX) for _ in range(SLOTS)]
        self.kernels = [CODE.get_kernel("add") for _ in range(SLOTS)]
        self.pools = [ch.DeviceMemoryResource(device, POOL) for _ in range(SLOTS)]
        self.host_memory = HostMemory()
        self.hosts = [self.host_memory.allocate(SIZE) for _ in range(SLOTS)]
        # Idle buffers are those that no work uses. So they can have any deallocation stream.
        self.idle_stream = device.create_stream()
        self.idle = [device.allocate(SIZE, stream=self.idle_stream) for _ in range(SLOTS)]
        self.exports: collections.deque[object] = collections.deque(maxlen=50)
        self.idle_stream.sync()

    def any_stream(self, rng: random.Random) -> ch.Stream:
        lane = rng.choice(self.lanes)
        return rng.choice([rng.choice(self.streams), rng.choice(lane.faces), ch.PER_THREAD_DEFAULT_STREAM])

    def errors(self) -> list[str]:
        """Check the results at the end of a round, when no work is running. Return the errors."""
        found = []
        for lane in self.lanes:
            host = PINNED.allocate(4)
            lane.total.copy_to(host, stream=lane.keeper)
            lane.keeper.sync()
            total, added = int.from_bytes(bytes(host.__buffer__()), "little"), sum(lane.added) % 2**32
            if total != added:
                found.append(f"launches have added {total}, not {added}")
        return found


TIMING = ch.EventOptions(timing_enabled=True)
POOL = ch.DeviceMemoryResourceOptions(max_size=1 << 20)
PINNED = ch.LegacyPinnedMemoryResource()
