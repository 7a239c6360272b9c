# SPDX-License-Identifier: Apache-2.0
"""Functions for the tests of shared memory and events: some run in the test's process, the others in child processes.

The child processes import this module, so importing it has no effects.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import cudacore_handles as ch
from cudacore_handles._base.ipc import Descriptors
from cudacore_handles._sdk.testing import count_helper_streams

SIZE = 1 << 12
TIMEOUT = 120  # seconds; a child that takes longer is deadlocked


# ---- functions that run in the test's process


def joined(process: Any) -> int | None:
    process.join(TIMEOUT)
    return process.exitcode  # type: ignore[no-any-return]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def copied(handle: ch.IPCAllocationHandle) -> ch.IPCAllocationHandle:
    return type(handle)._init(Descriptors.copies([int(handle)]), handle.uuid, None)


# ---- functions that run in other processes


def run(function: Callable[..., object], args: list[Any]) -> None:
    """Call a function of this module in a child. If the simulator reports misuse, the child fails.

    The arguments are in a list, because multiprocessing would otherwise keep references to them.
    """
    faulthandler.dump_traceback_later(60, exit=True)  # prints the stack of a test that hangs
    ch.Device.get_all_devices()  # loads the driver, even if the function does not use it
    function(*[args.pop(0) for _ in range(len(args))])
    gc.collect()
    if os.environ.get("CUDACORE_DRIVER") == "sim":
        import cudacore_sim as sim

        assert not sim.reports(), sim.reports()
        live = sim.live()
        live["stream"] -= count_helper_streams()  # these remain, like the contexts
        left = {kind: count for kind, count in live.items() if count and kind != "context"}
        assert not left, sim.describe_live()
    assert not any(count for kind, count in ch.live_counts().items() if kind != "context"), ch.live_counts()


def new_pool(device: int = 0) -> ch.DeviceMemoryResource:
    return ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions(ipc_enabled=True))


def read(buffer: ch.Buffer, stream: Any) -> bytes:
    into = bytearray(buffer.size)
    buffer.copy_to(into, stream=stream)
    return bytes(into)


def fill(buffer: ch.Buffer, event: ch.Event, value: int) -> None:
    """Check a received buffer, and fill it."""
    mr = buffer.memory_resource
    assert isinstance(mr, ch.DeviceMemoryResource)
    assert mr.is_mapped
    assert mr.is_ipc_enabled
    assert buffer.is_mapped
    assert "is_mapped=True" in repr(buffer)
    assert event.is_ipc_enabled
    assert event.device == mr_device(mr)
    assert mr.from_registry(mr.uuid) is mr  # type: ignore[arg-type]
    stream = ch.Device(mr.device_id).create_stream()
    stream.wait(event)
    assert set(read(buffer, stream)) == {value}
    buffer.fill(value + 1, stream=stream)
    stream.record(event)
    stream.sync()


def fill_pinned(buffer: ch.Buffer, value: int) -> None:
    """Check received host memory, on the host and on a device, and write to it."""
    mr = buffer.memory_resource
    assert isinstance(mr, ch.PinnedMemoryResource)
    assert (mr.is_mapped, mr.is_host_accessible, mr.device_id) == (True, True, -1)
    bytes_ = buffer.__buffer__()
    assert set(bytes_) == {value}
    stream = ch.Device(0).create_stream()
    again = ch.Buffer.from_ipc_descriptor(mr, buffer.ipc_descriptor, stream=stream)
    again.fill(value + 1, stream=stream)
    stream.sync()
    assert set(bytes_) == {value + 1}


def mr_device(mr: ch.DeviceMemoryResource) -> ch.Device:
    return ch.Device(mr.device_id)


def fill_from(channel: Any) -> None:
    """Receive a buffer, an event and a value through a queue or a pipe; call fill() with them."""
    receive = channel.get if hasattr(channel, "get") else channel.recv
    fill(*receive())


def export(channel: Any, count: int = 1) -> None:
    """Export a pool and buffers of it, and keep them until the other process sends a message or ends."""
    mr = new_pool()
    stream = ch.Device(0).create_stream()
    buffers = [mr.allocate(SIZE, stream=stream) for _ in range(count)]
    for number, buffer in enumerate(buffers):
        buffer.fill(number + 1, stream=stream)
    event = stream.record(options=ch.EventOptions(ipc_enabled=True))
    stream.sync()
    channel.send((mr, buffers, event))
    try:
        channel.recv()
    except EOFError:
        pass


def export_each(channel: Any) -> None:
    """Export two buffers of each of two devices, and keep them until the other process sends a message or ends."""
    made = []
    for ordinal in range(2):
        ch.Device(ordinal).set_current()
        stream = ch.Device(ordinal).create_stream()
        mr = new_pool(ordinal)
        made.append([mr.allocate(SIZE, stream=stream) for _ in range(2)])
        stream.sync()
    channel.send(made)
    try:
        channel.recv()
    except EOFError:
        pass


def hold_until_killed(channel: Any, buffer: ch.Buffer) -> None:
    """Import a buffer, report it, and wait to be killed."""
    channel.send(buffer.size)
    threading.Event().wait()


def use(buffer: ch.Buffer, offset: int) -> None:
    """Import and release a buffer on three threads at once; one of the threads also writes to a part of the buffer."""
    mr = buffer.memory_resource
    descriptor = buffer.ipc_descriptor

    def work(number: int) -> None:
        stream = ch.Device(0).create_stream()
        for round_ in range(3):
            with ch.Buffer.from_ipc_descriptor(mr, descriptor, stream=stream) as mine:  # type: ignore[arg-type]
                assert mine == buffer
                if number == 0:
                    part = ch.Buffer.from_handle(int(mine.handle) + offset, 4)
                    part.fill(round_ + 1, stream=stream)
                    stream.sync()
                    assert read(part, stream) == bytes([round_ + 1]) * 4

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream = ch.Device(0).create_stream()
    read(buffer, stream)


def receive_twice(channel: Any) -> None:
    """Unpickle a message twice, although its file descriptor arrives only once."""
    message = channel.recv_bytes()
    pickle.loads(message).close()
    try:
        pickle.loads(message)
    except RuntimeError as error:
        channel.send(str(error))


def send_back(channel: Any, rounds: int = 1) -> None:
    for _ in range(rounds):
        channel.send(channel.recv())
    channel.recv()


def use_parts(channel: Any, *parts: ch.Buffer) -> None:
    """Write to parts of a buffer, report their offsets, and pass one part on to two more processes."""
    assert all(part.is_mapped for part in parts)
    first = parts[0].handle - 64
    channel.send([(part.handle - first, part.size) for part in parts])
    stream = ch.Device(0).create_stream()
    parts[0].fill(2, stream=stream)
    parts[1].fill(3, stream=stream)
    within = parts[0][6:16]
    assert within == parts[2]
    assert within.ipc_descriptor == parts[2].ipc_descriptor
    again = pickle.loads(pickle.dumps(within))
    for part in parts:
        part.close(stream)
    within.close()
    assert read(again, stream) == b"\2" * 10
    again.fill(4, stream=stream)
    again.close(stream)
    stream.sync()


def import_pinned(channel: Any, handle: ch.IPCAllocationHandle) -> None:
    """Check that a host pool cannot be imported as a device pool; then import it, by its handle and by a descriptor."""
    try:
        ch.DeviceMemoryResource.from_allocation_handle(0, handle)
    except ValueError as error:
        message = str(error)
    mr = ch.PinnedMemoryResource.from_allocation_handle(handle)
    number, of_handle = os.dup(int(handle)), mr.numa_id
    mr.close()
    del mr
    of_number = ch.PinnedMemoryResource.from_allocation_handle(number).numa_id
    os.close(number)
    channel.send((message, of_handle, of_number))


def use_virtual(buffer: ch.Buffer, value: int) -> None:
    """Check the virtual memory that this process received, and fill it."""
    mr = buffer.memory_resource
    assert isinstance(mr, ch.VirtualMemoryResource)
    assert buffer.is_mapped
    stream = ch.Device(0).create_stream()
    assert set(read(buffer, stream)) == {value}
    buffer.fill(value + 1, stream=stream)
    stream.sync()
    mr.allocate(1).close()


def use_virtual_from(channel: Any, value: int) -> None:
    """Receive virtual memory through a pipe and use it."""
    use_virtual(channel.recv(), value)
    channel.send(True)
