# SPDX-License-Identifier: Apache-2.0
"""The operations of stress.py: what a thread does with a shared object."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

from kernel_sources import PTX
from stress_world import INVALID_HANDLE, NOT_READY, ONE_BLOCK, PINNED, POOL, SIZE, TIMING, Lane, Owner, Tensor, World

import cudacore_handles as ch

Operation = Callable[[World, random.Random, Lane], object]
OPERATIONS: dict[str, Operation] = {}

# Error codes that an operation may fail with, by the operation's name.
ANSWERS = {"event elapsed": (INVALID_HANDLE, NOT_READY)}


def operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__.replace("_", " ")] = function
    return function


def replace(slots: list[Any], rng: random.Random, new: object) -> object:
    """Put an object into a slot; return the old object, which the caller drops."""
    index = rng.randrange(len(slots))
    old, slots[index] = slots[index], new
    return old


def some_size(rng: random.Random) -> int:
    return rng.choice((1, 2, SIZE, 4096))


# ---- streams


@operation
def stream_borrow(world: World, rng: random.Random, lane: Lane) -> None:
    foreign = world.device.create_stream(lane.foreign)
    assert foreign == lane.keeper
    replace(lane.faces, rng, rng.choice((foreign, lane.face())))


@operation
def stream_wait_stream(world: World, rng: random.Random, lane: Lane) -> None:
    other = rng.choice((world.any_stream(rng), lane.foreign))
    world.any_stream(rng).wait(other)


@operation
def stream_properties(world: World, rng: random.Random, lane: Lane) -> None:
    stream = world.any_stream(rng)
    repr(stream), hash(stream), stream == world.any_stream(rng)
    assert stream.__cuda_stream__()[0] == 0
    assert stream.is_nonblocking in (True, False)
    assert stream.priority <= 0
    assert stream.device == world.device
    world.exports.append((stream.context, stream.handle))


# ---- events


@operation
def event_properties(world: World, rng: random.Random, lane: Lane) -> None:
    event = rng.choice(world.events)
    repr(event), hash(event), event == rng.choice(world.events)
    assert event.is_timing_enabled in (True, False)
    assert not event.is_ipc_enabled
    assert event.device == world.device
    world.exports.append((event.context, event.handle))


# ---- contexts


@operation
def context_get(world: World, rng: random.Random, lane: Lane) -> object:
    makers = (
        lambda: world.device.context,
        lambda: world.any_stream(rng).context,
        lambda: rng.choice(world.events).context,
    )
    return replace(world.contexts, rng, rng.choice(makers)())


@operation
def context_make_green(world: World, rng: random.Random, lane: Lane) -> object:
    (group,), _ = world.device.resources.sm.split(ch.SMResourceOptions(count=8))
    return replace(world.contexts, rng, world.device.create_context(ch.ContextOptions([group])))


@operation
def context_resources(world: World, rng: random.Random, lane: Lane) -> None:
    resources = rng.choice((rng.choice(world.contexts), rng.choice(world.streams))).resources
    assert resources.sm.sm_count >= 8
    world.exports.append(resources)


@operation
def context_set_current(world: World, rng: random.Random, lane: Lane) -> None:
    world.exports.append(world.device.set_current(rng.choice(world.contexts)))
    world.device.set_current()


@operation
def context_properties(world: World, rng: random.Random, lane: Lane) -> None:
    context = rng.choice(world.contexts)
    repr(context), hash(context), context == rng.choice(world.contexts)
    world.exports.append(context.handle)
    assert context.device == world.device


# ---- memory resources


@operation
def pool_allocate(world: World, rng: random.Random, lane: Lane) -> object:
    buffer = rng.choice(world.pools).allocate(some_size(rng), stream=world.idle_stream)
    world.idle_stream.sync()
    return replace(world.idle, rng, buffer)


@operation
def pool_properties(world: World, rng: random.Random, lane: Lane) -> None:
    pool = rng.choice(world.pools)
    repr(pool)
    world.exports.append(pool.handle)
    assert pool.attributes.used_mem_current >= 0
    assert pool.attributes.release_threshold >= 0


# ---- idle buffers, which no kernel or copy uses


@operation
def idle_allocate(world: World, rng: random.Random, lane: Lane) -> object:
    buffer = world.device.allocate(some_size(rng), stream=world.idle_stream)
    world.idle_stream.sync()
    return replace(world.idle, rng, buffer)


@operation
def idle_of_an_owner(world: World, rng: random.Random, lane: Lane) -> object:
    memory = lane.total.handle
    return replace(world.idle, rng, ch.Buffer.from_handle(memory, 4, owner=Owner(world.device)))


@operation
def idle_part(world: World, rng: random.Random, lane: Lane) -> object:
    start = rng.randrange(8)
    return replace(world.idle, rng, rng.choice(world.idle)[start : rng.choice((None, start + 1))])


@operation
def idle_of_a_buffer(world: World, rng: random.Random, lane: Lane) -> object:
    owner = rng.choice(world.idle)
    address = owner.handle  # 0 if the owner is closed or empty
    return replace(world.idle, rng, ch.Buffer.from_handle(address, 1, owner=owner)) if address else None


@operation
def idle_properties(world: World, rng: random.Random, lane: Lane) -> None:
    buffer = rng.choice(world.idle)
    repr(buffer), hash(buffer), buffer == rng.choice(world.idle)
    assert buffer.size >= 0  # 0 if another thread has closed the buffer
    assert buffer.handle >= 0
    world.exports.append((buffer.owner, buffer.memory_resource))
    assert buffer.is_device_accessible
    assert not buffer.is_managed
    assert buffer.device_id == 0


# ---- host memory, which only the host reads and writes


@operation
def host_allocate(world: World, rng: random.Random, lane: Lane) -> object:
    stream = rng.choice((None, lane.keeper))
    memory = rng.choice((world.host_memory, PINNED))
    return replace(world.hosts, rng, memory.allocate(SIZE, stream=stream))


@operation
def host_part(world: World, rng: random.Random, lane: Lane) -> None:
    part = rng.choice(world.hosts)[SIZE // 2 :]
    world.exports.append((part, part.__buffer__()))


@operation
def host_view(world: World, rng: random.Random, lane: Lane) -> None:
    view = rng.choice(world.hosts).__buffer__()
    world.exports.append(view)
    byte = rng.randrange(256)
    view[: SIZE // 2] = bytes([byte]) * (SIZE // 2)
    assert len(set(bytes(view[: SIZE // 2]))) == 1


# ---- idle buffers and host memory


def export(buffers: list[ch.Buffer], world: World, rng: random.Random) -> None:
    world.exports.append(rng.choice(buffers).__dlpack__(max_version=rng.choice((None, (1, 0)))))


def close(buffers: list[ch.Buffer], stream: ch.Stream, rng: random.Random) -> None:
    rng.choice(buffers).close(rng.choice((None, stream)))


@operation
def exports_drop(world: World, rng: random.Random, lane: Lane) -> None:
    for _ in range(rng.randrange(10)):
        try:
            world.exports.popleft()
        except IndexError:
            return


# ---- code


@operation
def code_create(world: World, rng: random.Random, lane: Lane) -> object:
    code = ch.ObjectCode.from_ptx(PTX)
    return replace(world.codes, rng, pickle.loads(pickle.dumps(code)) if rng.random() < 0.3 else code)


@operation
def code_properties(world: World, rng: random.Random, lane: Lane) -> None:
    code = rng.choice(world.codes)
    repr(code), hash(code)
    world.exports.append(code._raw())


@operation
def kernel_borrow(world: World, rng: random.Random, lane: Lane) -> object:
    kernel = rng.choice(world.kernels)
    same = ch.Kernel.from_handle(int(kernel.handle))
    assert same == kernel
    return replace(world.kernels, rng, same)


@operation
def kernel_properties(world: World, rng: random.Random, lane: Lane) -> None:
    kernel = rng.choice(world.kernels)
    repr(kernel), hash(kernel), kernel == rng.choice(world.kernels)
    assert kernel.num_arguments == 2
    assert kernel.attributes.max_threads_per_block > 0


# ---- work that is ordered on the stream of a lane (class Lane)


@operation
def lane_set_deallocation_stream(world: World, rng: random.Random, lane: Lane) -> None:
    stream = rng.choice((rng.choice(lane.faces), lane.foreign))
    rng.choice(rng.choice((lane.buffers, lane.pinned))).set_deallocation_stream(stream)


@operation
def lane_fill(world: World, rng: random.Random, lane: Lane) -> None:
    stream = rng.choice((rng.choice(lane.faces), lane.foreign))
    rng.choice(lane.buffers).fill(rng.choice((rng.randrange(256), b"\1\2", b"\1\2\3\4")), stream=stream)


@operation
def lane_copy(world: World, rng: random.Random, lane: Lane) -> None:
    one, other = rng.choice(lane.buffers), rng.choice(lane.pinned)
    stream = rng.choice((rng.choice(lane.faces), lane.foreign))
    if rng.random() < 0.5:
        one.copy_to(other, stream=stream)
    else:
        one.copy_from(other, stream=stream)


@operation
def lane_launch(world: World, rng: random.Random, lane: Lane) -> None:
    stream, amount = rng.choice((rng.choice(lane.faces), lane.foreign)), rng.randrange(1000)
    ch.launch(stream, ONE_BLOCK, rng.choice(world.kernels), lane.total, amount)
    lane.added.append(amount)


@operation
def lane_launch_with_buffers(world: World, rng: random.Random, lane: Lane) -> None:
    buffer = rng.choice(lane.buffers)
    argument = rng.choice((buffer, buffer, Tensor(buffer), lane.array))
    ch.launch(rng.choice(lane.faces), ONE_BLOCK, rng.choice(world.kernels), argument, 1)


@operation
def lane_prepare(world: World, rng: random.Random, lane: Lane) -> object:
    argument = rng.choice((rng.choice(lane.buffers), lane.array))
    prepared = rng.choice(world.kernels).prepare(rng.choice(lane.faces), ONE_BLOCK, argument, 1)
    return replace(lane.prepared, rng, prepared)


@operation
def lane_prepared_launch(world: World, rng: random.Random, lane: Lane) -> None:
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


# ---- operations of one expression

SIMPLE: dict[str, Operation] = {  # w: the world, r: random numbers
    "stream create": lambda w, r, lane: replace(w.streams, r, w.device.create_stream()),
    "stream create in context": lambda w, r, lane: replace(w.streams, r, r.choice(w.contexts).create_stream()),
    "stream sync": lambda w, r, lane: w.any_stream(r).sync(),
    "stream record": lambda w, r, lane: w.any_stream(r).record(r.choice(w.events)),
    "stream record new": lambda w, r, lane: replace(
        w.events, r, w.any_stream(r).record(options=r.choice((None, TIMING)))
    ),
    "stream wait event": lambda w, r, lane: w.any_stream(r).wait(r.choice(w.events)),
    "event create": lambda w, r, lane: replace(w.events, r, w.device.create_event(r.choice((None, TIMING)))),
    "event close": lambda w, r, lane: r.choice(w.events).close(),
    "event sync": lambda w, r, lane: r.choice(w.events).sync(),
    "context close": lambda w, r, lane: r.choice(w.contexts).close(),
    "pool create": lambda w, r, lane: replace(w.pools, r, ch.DeviceMemoryResource(w.device, POOL)),
    "pool close": lambda w, r, lane: r.choice(w.pools).close(),
    "host close": lambda w, r, lane: r.choice(w.hosts).close(),
    "idle set deallocation stream": lambda w, r, lane: r.choice(w.idle).set_deallocation_stream(w.any_stream(r)),
    "host set deallocation stream": lambda w, r, lane: r.choice(w.hosts).set_deallocation_stream(w.any_stream(r)),
    "idle export": lambda w, r, lane: export(w.idle, w, r),
    "host export": lambda w, r, lane: export(w.hosts, w, r),
    "code get kernel": lambda w, r, lane: replace(w.kernels, r, r.choice(w.codes).get_kernel("add")),
    "event query": lambda w, r, lane: r.choice(w.events).is_done,
    "event elapsed": lambda w, r, lane: r.choice(w.events) - r.choice(w.events),
    "idle close": lambda w, r, lane: close(w.idle, w.any_stream(r), r),
    "lane close": lambda w, r, lane: close(r.choice((lane.buffers, lane.pinned)), r.choice(lane.faces), r),
    "stream close": lambda w, r, lane: r.choice(r.choice((w.streams, lane.faces))).close(),
    "lane allocate": lambda w, r, lane: replace(lane.buffers, r, w.device.allocate(SIZE, stream=r.choice(lane.faces))),
    "lane allocate pinned": lambda w, r, lane: replace(
        lane.pinned, r, PINNED.allocate(SIZE, stream=r.choice(lane.faces))
    ),
    "lane copy to new": lambda w, r, lane: replace(
        lane.buffers, r, r.choice(lane.buffers).copy_to(stream=r.choice(lane.faces))
    ),
    "lane export": lambda w, r, lane: w.exports.append(r.choice(lane.buffers).__dlpack__()),
}

OPERATIONS.update(SIMPLE)
