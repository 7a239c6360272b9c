#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Use, export, close and drop shared objects from many threads at once, for some seconds.

Every object is in a slot that all threads see. A thread takes the object, does something with it, closes it while
others use it, or puts a new object in its place. The only error that may result is that an object is closed. There are
rounds of a few seconds, each with new threads. At the end of each, everything is dropped, nothing may be left alive,
and launches must have done all their work.

The seed decides what each thread does, not how the threads interleave. The driver is chosen by ``$CUDACORE_DRIVER``,
as for any program: ``sim`` is the simulated one. All work on a memory is ordered on one stream, that of its lane. So a
kernel that uses freed memory is a defect of the library.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import os
import pickle
import random
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, ClassVar

from foreign_objects import HostMemory
from kernel_sources import PTX

import cudacore_handles as ch

SIZE = 64  # bytes of a buffer
SLOTS = 6  # the number of objects of each kind; it is small, so that threads use the same objects
ROUND = 2.0  # seconds
HANGS = 60.0  # after so many seconds beyond a round's end, its threads count as deadlocked
INVALID_HANDLE, NOT_READY = 400, 600  # the possible results of measuring the time between two events
FAULTS = range(700, 720)  # after these, a context returns no other result

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
    """An array of another library, by DLPack."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer

    def __dlpack__(self, **options: Any) -> Any:
        return self.buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()


class Array:
    """An array of another library, by the CUDA array interface; its memory is its own."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer
        data = (buffer.handle, False)
        self.__cuda_array_interface__ = {"shape": (SIZE,), "typestr": "|u1", "data": data, "version": 3}


class Owner:
    """The owner of foreign memory, in a cycle and with a finalizer that uses the library."""

    alive: ClassVar[collections.deque[int]] = collections.deque()  # a deque counts without a lock

    def __init__(self, device: ch.Device) -> None:
        self.device, self.me = device, self
        Owner.alive.append(1)

    def __del__(self) -> None:
        self.device.create_event().close()
        Owner.alive.pop()


# ---- the objects that the threads share


class Lane:
    """A stream that lives as long as the round, with faces of it, and the objects that are used in its order."""

    def __init__(self, device: ch.Device) -> None:
        self.keeper = device.create_stream()
        self.faces = [self.face() for _ in range(SLOTS)]
        self.foreign = ForeignStream(self.keeper)
        self.buffers = [device.allocate(SIZE, stream=self.keeper) for _ in range(SLOTS)]
        self.pinned = [PINNED.allocate(SIZE, stream=self.keeper) for _ in range(SLOTS)]
        self.array = Array(device.allocate(SIZE, stream=self.keeper))
        kernel = CODE.get_kernel("add")
        self.prepared = [kernel.prepare(self.keeper, ONE_BLOCK, self.buffers[i], i) for i in range(SLOTS)]
        # Launches add numbers to `total` on the device. `added` has the same numbers, for the check at the end.
        self.total = device.allocate(4, stream=self.keeper)
        self.total.fill(0, stream=self.keeper)
        self.added: list[int] = []

    def face(self) -> ch.Stream:
        return ch.Stream.from_handle(int(self.keeper.handle))


class World:
    """All that a round's threads share."""

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
        # Buffers that nothing works on: their deallocation streams can be any.
        self.idle_stream = device.create_stream()
        self.idle = [device.allocate(SIZE, stream=self.idle_stream) for _ in range(SLOTS)]
        self.exports: collections.deque[object] = collections.deque(maxlen=50)
        self.idle_stream.sync()

    def any_stream(self, rng: random.Random) -> ch.Stream:
        lane = rng.choice(self.lanes)
        return rng.choice([rng.choice(self.streams), rng.choice(lane.faces), ch.PER_THREAD_DEFAULT_STREAM])

    def errors(self) -> list[str]:
        """Check the results at the end, when no work is running."""
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

Operation = Callable[[World, random.Random], object]
OPERATIONS: dict[str, Operation] = {}

# Driver 580 (CUDA 13.0) hangs or crashes in cuStreamSynchronize while another thread destroys a pool: a plain C program
# does, too. See docs/conventions.rst.
NOT_ON_A_GPU = "^(?!pool)"
# Codes of CUDAError that are expected results, by operation.
ANSWERS: dict[str, tuple[int, ...]] = {}


def operation(*answers: int) -> Callable[[Operation], Operation]:
    def register(function: Operation) -> Operation:
        name = function.__name__.replace("_", " ")
        OPERATIONS[name] = function
        ANSWERS[name] = answers
        return function

    return register


def replace(slots: list[Any], rng: random.Random, new: object) -> object:
    """Put an object into a slot; the old one is returned, to be dropped by the caller."""
    index = rng.randrange(len(slots))
    old, slots[index] = slots[index], new
    return old


def some_size(rng: random.Random) -> int:
    return rng.choice((1, 2, SIZE, 4096))


# ---- streams


@operation()
def stream_create(world: World, rng: random.Random) -> object:
    return replace(world.streams, rng, world.device.create_stream())


@operation()
def stream_create_in_context(world: World, rng: random.Random) -> object:
    return replace(world.streams, rng, rng.choice(world.contexts).create_stream())


@operation()
def stream_borrow(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    foreign = world.device.create_stream(lane.foreign)
    assert foreign == lane.keeper
    replace(lane.faces, rng, rng.choice((foreign, lane.face())))


@operation()
def stream_close(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    rng.choice(rng.choice((world.streams, lane.faces))).close()


@operation()
def stream_sync(world: World, rng: random.Random) -> None:
    world.any_stream(rng).sync()


@operation()
def stream_record(world: World, rng: random.Random) -> None:
    world.any_stream(rng).record(rng.choice(world.events))


@operation()
def stream_record_new(world: World, rng: random.Random) -> None:
    replace(world.events, rng, world.any_stream(rng).record(options=rng.choice((None, TIMING))))


@operation()
def stream_wait_event(world: World, rng: random.Random) -> None:
    world.any_stream(rng).wait(rng.choice(world.events))


@operation()
def stream_wait_stream(world: World, rng: random.Random) -> None:
    other = rng.choice((world.any_stream(rng), rng.choice(world.lanes).foreign))
    world.any_stream(rng).wait(other)


@operation()
def stream_properties(world: World, rng: random.Random) -> None:
    stream = world.any_stream(rng)
    repr(stream), hash(stream), stream == world.any_stream(rng)
    assert stream.__cuda_stream__()[0] == 0
    assert stream.is_nonblocking in (True, False)
    assert stream.priority <= 0
    assert stream.device == world.device
    world.exports.append((stream.context, stream.handle))


# ---- events


@operation()
def event_create(world: World, rng: random.Random) -> object:
    return replace(world.events, rng, world.device.create_event(rng.choice((None, TIMING))))


@operation()
def event_close(world: World, rng: random.Random) -> None:
    rng.choice(world.events).close()


@operation()
def event_sync(world: World, rng: random.Random) -> None:
    rng.choice(world.events).sync()


@operation()
def event_query(world: World, rng: random.Random) -> None:
    assert rng.choice(world.events).is_done in (True, False)


@operation(INVALID_HANDLE, NOT_READY)
def event_elapsed(world: World, rng: random.Random) -> None:
    assert isinstance(rng.choice(world.events) - rng.choice(world.events), float)


@operation()
def event_properties(world: World, rng: random.Random) -> None:
    event = rng.choice(world.events)
    repr(event), hash(event), event == rng.choice(world.events)
    assert event.is_timing_enabled in (True, False)
    assert not event.is_ipc_enabled
    assert event.device == world.device
    world.exports.append((event.context, event.handle))


# ---- contexts


@operation()
def context_get(world: World, rng: random.Random) -> object:
    makers = (
        lambda: world.device.context,
        lambda: world.any_stream(rng).context,
        lambda: rng.choice(world.events).context,
    )
    return replace(world.contexts, rng, rng.choice(makers)())


@operation()
def context_make_green(world: World, rng: random.Random) -> object:
    (group,), _ = world.device.resources.sm.split(ch.SMResourceOptions(count=8))
    return replace(world.contexts, rng, world.device.create_context(ch.ContextOptions([group])))


@operation()
def context_resources(world: World, rng: random.Random) -> None:
    resources = rng.choice((rng.choice(world.contexts), rng.choice(world.streams))).resources
    assert resources.sm.sm_count >= 8
    world.exports.append(resources)


@operation()
def context_close(world: World, rng: random.Random) -> None:
    rng.choice(world.contexts).close()


@operation()
def context_set_current(world: World, rng: random.Random) -> None:
    world.exports.append(world.device.set_current(rng.choice(world.contexts)))
    world.device.set_current()


@operation()
def context_properties(world: World, rng: random.Random) -> None:
    context = rng.choice(world.contexts)
    repr(context), hash(context), context == rng.choice(world.contexts)
    world.exports.append(context.handle)
    assert context.device == world.device


# ---- memory resources


@operation()
def pool_create(world: World, rng: random.Random) -> object:
    return replace(world.pools, rng, ch.DeviceMemoryResource(world.device, POOL))


@operation()
def pool_close(world: World, rng: random.Random) -> None:
    rng.choice(world.pools).close()


@operation()
def pool_allocate(world: World, rng: random.Random) -> object:
    buffer = rng.choice(world.pools).allocate(some_size(rng), stream=world.idle_stream)
    world.idle_stream.sync()
    return replace(world.idle, rng, buffer)


@operation()
def pool_properties(world: World, rng: random.Random) -> None:
    pool = rng.choice(world.pools)
    repr(pool)
    world.exports.append(pool.handle)
    assert pool.attributes.used_mem_current >= 0
    assert pool.attributes.release_threshold >= 0


# ---- buffers that nothing works on


@operation()
def idle_allocate(world: World, rng: random.Random) -> object:
    buffer = world.device.allocate(some_size(rng), stream=world.idle_stream)
    world.idle_stream.sync()
    return replace(world.idle, rng, buffer)


@operation()
def idle_of_an_owner(world: World, rng: random.Random) -> object:
    memory = rng.choice(world.lanes).total.handle
    return replace(world.idle, rng, ch.Buffer.from_handle(memory, 4, owner=Owner(world.device)))


@operation()
def idle_part(world: World, rng: random.Random) -> object:
    start = rng.randrange(8)
    return replace(world.idle, rng, rng.choice(world.idle)[start : rng.choice((None, start + 1))])


@operation()
def idle_of_a_buffer(world: World, rng: random.Random) -> object:
    owner = rng.choice(world.idle)
    address = owner.handle  # 0 if the owner is closed or empty
    return replace(world.idle, rng, ch.Buffer.from_handle(address, 1, owner=owner)) if address else None


@operation()
def idle_set_deallocation_stream(world: World, rng: random.Random) -> None:
    rng.choice(world.idle).set_deallocation_stream(world.any_stream(rng))


@operation()
def idle_close(world: World, rng: random.Random) -> None:
    buffer = rng.choice(world.idle)
    if rng.random() < 0.5:
        buffer.close(world.any_stream(rng))
    else:
        buffer.close()


@operation()
def idle_export(world: World, rng: random.Random) -> None:
    buffer = rng.choice(world.idle)
    world.exports.append(buffer.__dlpack__(max_version=rng.choice((None, (1, 0)))))


@operation()
def idle_properties(world: World, rng: random.Random) -> None:
    buffer = rng.choice(world.idle)
    repr(buffer), hash(buffer), buffer == rng.choice(world.idle)
    assert buffer.size >= 0  # 0 when closed
    assert buffer.handle >= 0
    world.exports.append((buffer.owner, buffer.memory_resource))
    assert buffer.is_device_accessible
    assert not buffer.is_managed
    assert buffer.device_id == 0


# ---- host memory: read and written by the host alone


@operation()
def host_allocate(world: World, rng: random.Random) -> object:
    stream = rng.choice((None, rng.choice(world.lanes).keeper))
    memory = rng.choice((world.host_memory, PINNED))
    return replace(world.hosts, rng, memory.allocate(SIZE, stream=stream))


@operation()
def host_part(world: World, rng: random.Random) -> None:
    part = rng.choice(world.hosts)[SIZE // 2 :]
    world.exports.append((part, part.__buffer__()))


@operation()
def host_close(world: World, rng: random.Random) -> None:
    rng.choice(world.hosts).close()


@operation()
def host_set_deallocation_stream(world: World, rng: random.Random) -> None:
    rng.choice(world.hosts).set_deallocation_stream(world.any_stream(rng))


@operation()
def host_view(world: World, rng: random.Random) -> None:
    view = rng.choice(world.hosts).__buffer__()
    world.exports.append(view)
    byte = rng.randrange(256)
    view[: SIZE // 2] = bytes([byte]) * (SIZE // 2)
    assert len(set(bytes(view[: SIZE // 2]))) == 1


@operation()
def host_export(world: World, rng: random.Random) -> None:
    buffer = rng.choice(world.hosts)
    world.exports.append(buffer.__dlpack__(max_version=rng.choice((None, (1, 0)))))


@operation()
def exports_drop(world: World, rng: random.Random) -> None:
    for _ in range(rng.randrange(10)):
        try:
            world.exports.popleft()
        except IndexError:
            return


# ---- code


@operation()
def code_create(world: World, rng: random.Random) -> object:
    code = ch.ObjectCode.from_ptx(PTX)
    return replace(world.codes, rng, pickle.loads(pickle.dumps(code)) if rng.random() < 0.3 else code)


@operation()
def code_get_kernel(world: World, rng: random.Random) -> object:
    return replace(world.kernels, rng, rng.choice(world.codes).get_kernel("add"))


@operation()
def code_properties(world: World, rng: random.Random) -> None:
    code = rng.choice(world.codes)
    repr(code), hash(code)
    world.exports.append(code._library())


@operation()
def kernel_borrow(world: World, rng: random.Random) -> object:
    kernel = rng.choice(world.kernels)
    same = ch.Kernel.from_handle(int(kernel.handle))
    assert same == kernel
    return replace(world.kernels, rng, same)


@operation()
def kernel_properties(world: World, rng: random.Random) -> None:
    kernel = rng.choice(world.kernels)
    repr(kernel), hash(kernel), kernel == rng.choice(world.kernels)
    assert kernel.num_arguments == 2
    assert kernel.attributes.max_threads_per_block > 0


# ---- work in the order of a lane


@operation()
def lane_allocate(world: World, rng: random.Random) -> object:
    lane = rng.choice(world.lanes)
    return replace(lane.buffers, rng, world.device.allocate(SIZE, stream=rng.choice(lane.faces)))


@operation()
def lane_allocate_pinned(world: World, rng: random.Random) -> object:
    lane = rng.choice(world.lanes)
    return replace(lane.pinned, rng, PINNED.allocate(SIZE, stream=rng.choice(lane.faces)))


@operation()
def lane_close(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    buffer = rng.choice(rng.choice((lane.buffers, lane.pinned)))
    if rng.random() < 0.5:
        buffer.close(rng.choice(lane.faces))
    else:
        buffer.close()


@operation()
def lane_set_deallocation_stream(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    stream = rng.choice((rng.choice(lane.faces), lane.foreign))
    rng.choice(rng.choice((lane.buffers, lane.pinned))).set_deallocation_stream(stream)


@operation()
def lane_fill(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    stream = rng.choice((rng.choice(lane.faces), lane.foreign))
    rng.choice(lane.buffers).fill(rng.choice((rng.randrange(256), b"\1\2", b"\1\2\3\4")), stream=stream)


@operation()
def lane_copy(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    one, other = rng.choice(lane.buffers), rng.choice(lane.pinned)
    stream = rng.choice((rng.choice(lane.faces), lane.foreign))
    if rng.random() < 0.5:
        one.copy_to(other, stream=stream)
    else:
        one.copy_from(other, stream=stream)


@operation()
def lane_copy_to_new(world: World, rng: random.Random) -> object:
    lane = rng.choice(world.lanes)
    return replace(lane.buffers, rng, rng.choice(lane.buffers).copy_to(stream=rng.choice(lane.faces)))


@operation()
def lane_export(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    world.exports.append(rng.choice(lane.buffers).__dlpack__())


@operation()
def lane_launch(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    stream, amount = rng.choice((rng.choice(lane.faces), lane.foreign)), rng.randrange(1000)
    ch.launch(stream, ONE_BLOCK, rng.choice(world.kernels), lane.total, amount)
    lane.added.append(amount)


@operation()
def lane_launch_with_buffers(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    buffer = rng.choice(lane.buffers)
    argument = rng.choice((buffer, buffer, Tensor(buffer), lane.array))
    ch.launch(rng.choice(lane.faces), ONE_BLOCK, rng.choice(world.kernels), argument, 1)


@operation()
def lane_prepare(world: World, rng: random.Random) -> object:
    lane = rng.choice(world.lanes)
    argument = rng.choice((rng.choice(lane.buffers), lane.array))
    prepared = rng.choice(world.kernels).prepare(rng.choice(lane.faces), ONE_BLOCK, argument, 1)
    return replace(lane.prepared, rng, prepared)


@operation()
def lane_prepared_launch(world: World, rng: random.Random) -> None:
    lane = rng.choice(world.lanes)
    prepared, buffer = rng.choice(lane.prepared), rng.choice(lane.buffers)
    match rng.randrange(4):
        case 0:
            prepared()
        case 1:
            prepared(buffer, rng.randrange(1000))
        case 2:
            prepared[0] = buffer
        case _:
            world.exports.append(prepared.block)
            prepared[1] = 7


# ---- the rounds


class Findings:
    """The unexpected results, and how often each occurred."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.first: dict[str, str] = {}
        self.fault = False

    def add(self, what: str, details: str = "") -> None:
        key = re.sub(r"0x[0-9a-f]+|\d+", "#", what)
        self.first.setdefault(key, details or what)
        self.counts[key] += 1

    def add_error(self, where: str, error: BaseException) -> None:
        self.fault = self.fault or (isinstance(error, ch.CUDAError) and error.code in FAULTS)
        self.add(f"{where}: {type(error).__name__}: {error}", "".join(traceback.format_exception(error)))

    def add_unraisable(self, unraisable: Any) -> None:
        """Take the place of ``sys.unraisablehook``."""
        self.add_error(f"in a finalizer, {unraisable.err_msg or unraisable.object!r}", unraisable.exc_value)

    def print(self) -> None:
        for key, count in self.counts.most_common(10):
            print(f"\n{count} x {key}\n{self.first[key]}", flush=True)


def hammer(
    world: World, rng: random.Random, names: list[str], end: float, done: collections.Counter[str], found: Findings
) -> None:
    """Do one operation after another. Errors about closed objects are expected."""
    world.device.set_current()
    while time.monotonic() < end and not found.fault:
        name = rng.choice(names)
        try:
            OPERATIONS[name](world, rng)
        except ch.ClosedError:
            name = f"{name}: closed"
        except Exception as error:
            if isinstance(error, ch.CUDAError) and error.code in ANSWERS[name]:
                name = f"{name}: {error.code_name}"
            else:
                found.add_error(name, error)
        done[name] += 1


def play(
    device: ch.Device, seed: str, names: list[str], threads: int, seconds: float, found: Findings
) -> collections.Counter[str]:
    """Play one round; return how often each operation was done."""
    world = World(device)
    end = time.monotonic() + seconds
    tallies = [collections.Counter[str]() for _ in range(threads)]
    workers = [
        threading.Thread(target=hammer, args=(world, random.Random(f"{seed}/{i}"), names, end, tallies[i], found))
        for i in range(threads)
    ]
    faulthandler.dump_traceback_later(seconds + HANGS, exit=True)
    for worker in workers:
        worker.start()
    while time.monotonic() < end and not found.fault:
        gc.collect()
        time.sleep(0.01)
    for worker in workers:
        worker.join()
    if not found.fault:
        for error in world.errors():
            found.add(error)
        host_memory = world.host_memory
        del world, workers
        device.sync()
        while gc.collect():  # objects that garbage referred to may be garbage only now
            device.sync()
        if host_memory.blocks:
            found.add(f"a memory resource in Python was not asked to free {len(host_memory.blocks)} blocks")
        if Owner.alive:
            found.add(f"{len(Owner.alive)} owners were not released")
    faulthandler.cancel_dump_traceback_later()
    return sum(tallies, collections.Counter())


def live() -> dict[str, int]:
    """Count live objects: our handles and, on the simulated driver, its objects."""
    counts = collections.Counter(ch.live_counts())
    if SIMULATED:
        counts.update({f"simulated {kind}": count for kind, count in cudacore_sim.live().items()})
    return {kind: count for kind, count in counts.items() if count}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--only", metavar="PATTERN", default="", help="only operations with names that match it")
    parser.add_argument("--list", action="store_true", help="print the operations' names")
    options = parser.parse_args(arguments)
    only = options.only or ("" if SIMULATED else NOT_ON_A_GPU)
    names = [name for name in OPERATIONS if re.search(only, name)]
    if options.threads < 1 or options.seconds <= 0 or not names:
        parser.error("--threads and --seconds must be positive, and --only must match the name of an operation")
    if options.list:
        print("\n".join(names))
        return 0

    faulthandler.enable()
    sys.setswitchinterval(1e-5)
    found, done = Findings(), collections.Counter[str]()
    sys.unraisablehook = found.add_unraisable
    device = ch.Device(0)
    device.set_current()
    # Once for objects that are made at first use and kept.
    play(device, "", names[:1], 1, 0.01, found)
    before = live()
    start, number = time.monotonic(), 0
    while (left := start + options.seconds - time.monotonic()) > 0 and not found.counts:
        done += play(device, f"{options.seed}/{number}", names, options.threads, min(left, ROUND), found)
        if not found.fault and (after := live()) != before:
            found.add(f"left alive after round {number}: {after}, and {before} before")
        for report in cudacore_sim.reports() if SIMULATED else ():
            found.add(report)
        number += 1

    width = max(map(len, done))
    for name, count in sorted(done.items()):
        print(f"{name:{width}} {count:9,}")
    found.print()
    seconds = time.monotonic() - start
    verdict = f"{len(found.counts)} findings" if found.counts else "nothing found"
    print(f"\nseed {options.seed}: {sum(done.values()):,} operations, {number} rounds, {seconds:.1f} s: {verdict}")
    return 1 if found.counts else 0


if __name__ == "__main__":
    sys.exit(main())
