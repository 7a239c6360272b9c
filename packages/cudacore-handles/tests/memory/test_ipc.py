# SPDX-License-Identifier: Apache-2.0
"""Memory and events that processes share."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import ipc_children as children
import pytest
from ipc_children import SIZE, TIMEOUT, new_pool, read

import cudacore_handles as ch
from cudacore_handles._stream import ipc as event_ipc
from threads_at_once import in_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes share memory on Linux")

PROCESSES = int(os.environ.get("CUDACORE_IPC_PROCESSES", "6"))
SHARED_EVENT = ch.EventOptions(ipc_enabled=True)


@pytest.fixture
def exporter(start: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Return an export of a process that lives until the end of the test."""
    channels: list[Any] = []

    def receive(count: int = 1) -> tuple[ch.DeviceMemoryResource, list[ch.Buffer], ch.Event, Any]:
        ours, theirs = multiprocessing.Pipe()
        process = start(children.export, theirs, count)
        theirs.close()
        channels.append(ours)
        assert ours.poll(TIMEOUT)
        return (*ours.recv(), process)

    yield receive
    for channel in channels:
        channel.close()


def joined(process: Any) -> int | None:
    process.join(TIMEOUT)
    return process.exitcode  # type: ignore[no-any-return]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- processes


def test_arguments_of_a_process(device: ch.Device, stream: ch.Stream, start: Callable[..., Any], context: Any) -> None:
    """An object that is passed to a new process would be lost, or have other memory."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    assert joined(start(children.fill, buffer, event, 3, context=context)) == 0
    stream.wait(event)
    assert set(read(buffer, stream)) == {4}


@pytest.mark.parametrize("kind", ["queue", "pipe"])
def test_messages(device: ch.Device, stream: ch.Stream, start: Callable[..., Any], context: Any, kind: str) -> None:
    """An object that is sent to a running process would be lost."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    if kind == "queue":
        ours = theirs = context.Queue()
        send = ours.put
    else:
        ours, theirs = context.Pipe()
        send = ours.send
    process = start(children.fill_from, theirs, context=context)
    send((buffer, event, 3))
    assert joined(process) == 0
    assert set(read(buffer, stream)) == {4}
    if kind == "queue":
        ours.close()
        ours.join_thread()


def test_a_thread_that_sends(device: ch.Device, stream: ch.Stream, in_new_thread: Any) -> None:
    """The thread of a queue, which has no current context, could not send objects of other threads."""
    buffer = new_pool().allocate(SIZE, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    assert in_new_thread(lambda: pickle.dumps((buffer, event)))


def test_descriptors(device: ch.Device, stream: ch.Stream, start: Callable[..., Any], tmp_path: Path) -> None:
    """A process that is neither a parent nor a child could not get the memory."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        server.settimeout(TIMEOUT)
        process = start(children.fill_by_descriptors, address)
        channel, _ = server.accept()
        with channel:
            message = pickle.dumps((mr.uuid, buffer.ipc_descriptor, event.ipc_descriptor, 3))
            socket.send_fds(channel, [message], [int(mr.allocation_handle)])
    assert joined(process) == 0
    assert set(read(buffer, stream)) == {4}


def test_pinned_memory(device: ch.Device, stream: ch.Stream, start: Callable[..., Any], context: Any) -> None:
    """Host memory would be shared as a device's, not be shared, or be mapped twice, which the driver refuses."""
    mr = ch.PinnedMemoryResource(ch.PinnedMemoryResourceOptions(ipc_enabled=True))
    assert mr.numa_id >= 0
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()
    assert joined(start(children.fill_pinned, buffer, 3, context=context)) == 0
    assert set(buffer.__buffer__()) == {4}
    with pytest.raises(ValueError, match=r"alloc_handle is of .* not of a DeviceMemoryResource of device 0"):
        ch.DeviceMemoryResource.from_allocation_handle(0, mr.allocation_handle)
    assert ch.PinnedMemoryResource.from_allocation_handle(mr.allocation_handle) is mr


def test_another_device(
    device: ch.Device, other_device: ch.Device, start: Callable[..., Any], context: Any, exporter: Callable[..., Any]
) -> None:
    """An object would be assigned to the wrong device, or would need its device to be current."""
    number = other_device.device_id
    mr = new_pool(number)
    stream = other_device.create_stream()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    assert joined(start(children.fill, buffer, event, 3, context=context)) == 0
    assert set(read(buffer, stream)) == {4}
    with pytest.raises(ValueError, match=f"not of a DeviceMemoryResource of device {device.device_id}"):
        ch.DeviceMemoryResource.from_allocation_handle(device, mr.allocation_handle)
    of_first, buffers, _, _ = exporter()
    handle = os.dup(int(of_first.allocation_handle))
    message = f"alloc_handle is not of a pool of the memory of device {number}"
    of_first.peer_accessible_by.add(other_device)
    with pytest.raises(ValueError, match=message):
        ch.DeviceMemoryResource.from_allocation_handle(other_device, handle)
    buffers.clear()
    of_first.close()
    with pytest.raises(ValueError, match=message):
        ch.DeviceMemoryResource.from_allocation_handle(other_device, handle)
    os.close(handle)


def test_processes_come_and_go(device: ch.Device, stream: ch.Stream, in_children: None) -> None:
    """Processes that import, use and drop a pool at the same time would leak, or unmap each other's memory.

    CUDACORE_IPC_PROCESSES=200 runs 200 of them.
    """
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(0, stream=stream)
    stream.sync()
    maker = multiprocessing.get_context("forkserver")

    def begin(offset: int) -> Any:
        process = maker.Process(target=children.run, args=(children.use, [buffer, offset]))
        process.start()
        return process

    def end(process: Any) -> None:
        assert joined(process) == 0
        process.close()

    end(begin(0))  # makes the objects and files that are made only once
    gc.collect()
    opened = descriptors()
    running: list[Any] = []
    for number in range(PROCESSES):
        if len(running) == 3:
            end(running.pop(0))
        running.append(begin(4 * number % SIZE))
    while running:
        end(running.pop())
    gc.collect()
    assert descriptors() == opened
    assert mr.attributes.used_mem_current >= SIZE
    assert read(buffer, stream)[: 4 * min(PROCESSES, SIZE // 4)] == b"\3" * (4 * min(PROCESSES, SIZE // 4))


def test_a_child_that_is_killed(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A child that ends would take the memory of other processes with it, or keep it forever."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    stream.sync()
    ours, theirs = multiprocessing.Pipe()
    victim = start(children.hold_until_killed, theirs, buffer)
    assert ours.poll(TIMEOUT)
    assert ours.recv() == SIZE
    victim.kill()
    victim.join()
    assert joined(start(children.use, buffer, 0)) == 0
    buffer.close()
    mr.close()
    stream.sync()


def test_an_exporter_that_ends_first(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """Memory would be freed with the process that allocated it, while another one uses it."""
    mr, (buffer,), event, process = exporter()
    process.kill()
    process.join()
    event.sync()
    assert set(read(buffer, stream)) == {1}
    buffer.fill(2, stream=stream)
    mr.close()
    assert set(read(buffer, stream)) == {2}
    buffer.close(stream)
    stream.sync()


def test_what_comes_back(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """The process that made memory would import it from itself, which the driver refuses."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    ours, theirs = multiprocessing.Pipe()
    process = start(children.send_back, theirs)
    ours.send((mr, buffer, event))
    assert ours.poll(TIMEOUT)
    same_mr, same_buffer, same_event = ours.recv()
    assert same_mr is mr
    assert same_buffer == buffer
    assert not same_buffer.is_mapped
    assert same_event == event
    same_buffer.close()
    same_event.close()
    buffer.fill(1, stream=stream)
    stream.record(event)
    event.sync()
    ours.send(None)
    assert joined(process) == 0


@pytest.mark.parametrize("end", ["close", "collect", "stay"])
def test_what_came_back_can_be_sent_again(
    device: ch.Device, stream: ch.Stream, start: Callable[..., Any], end: str
) -> None:
    """A buffer or an event that another process sends back could not be sent again."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    ours, theirs = multiprocessing.Pipe()
    process = start(children.send_back, theirs, 3)
    sent: list[Any] = [buffer, event, buffer[16:32]]
    address = buffer.handle
    del buffer, event
    for _ in range(3):
        ours.send((mr, *sent))
        assert ours.poll(TIMEOUT)
        came = ours.recv()
        if end == "close":
            for one in sent:
                one.close()
        elif end == "stay":
            came = (*came, *sent)
        sent = list(came[1:4])
        gc.collect()
        assert pickle.loads(pickle.dumps(sent)) == sent
    whole, event, part = sent
    assert (whole.handle, part.handle, part.size, part.is_mapped) == (address, address + 16, 16, False)
    whole.fill(1, stream=stream)
    part.fill(2, stream=stream)
    stream.record(event)
    event.sync()
    assert read(whole, stream)[15:33] == b"\1" + b"\2" * 16 + b"\1"
    ours.send(None)
    assert joined(process) == 0
    one = None
    del came, sent, whole, event, part, one
    gc.collect()
    from cudacore_handles._memory import ipc
    from cudacore_handles._stream.ipc import _events

    assert not ipc._own_buffers._references
    assert not _events._references


def test_parts(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A part would arrive as the whole buffer, or end the mapping that other parts use."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(1, stream=stream)
    parts = [buffer[64:128], buffer[128:], buffer[70:80]]
    stream.sync()
    ours, theirs = multiprocessing.Pipe()
    process = start(children.use_parts, theirs, *parts)
    assert ours.poll(TIMEOUT)
    assert ours.recv() == [(64, 64), (128, SIZE - 128), (70, 10)]
    assert joined(process) == 0
    assert read(buffer, stream) == b"\1" * 64 + b"\2" * 6 + b"\4" * 10 + b"\2" * 48 + b"\3" * (SIZE - 128)
    assert parts[0].ipc_descriptor != buffer.ipc_descriptor
    assert parts[0].ipc_descriptor == buffer[64:128].ipc_descriptor
    assert buffer[:].ipc_descriptor == buffer.ipc_descriptor


def test_empty_buffers(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A message with a buffer of no bytes could not be sent."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    ours, theirs = multiprocessing.Pipe()
    process = start(children.send_back, theirs)
    ours.send((mr.allocate(0, stream=stream), buffer[3:3]))
    assert ours.poll(TIMEOUT)
    for empty in ours.recv():
        assert (empty.size, empty.handle, empty.memory_resource, empty.is_mapped) == (0, 0, mr, False)
        empty.copy_from(b"", stream=stream)
    ours.send(None)
    assert joined(process) == 0


def test_no_deep_copies(device: ch.Device, stream: ch.Stream) -> None:
    """A deep copy would be the same memory, and change with the original."""
    buffer, event = new_pool().allocate(SIZE, stream=stream), stream.record(options=SHARED_EVENT)
    for one, message in ((buffer, r"use buffer\.copy_to\(stream=stream\)"), (event, "record another one")):
        with pytest.raises(TypeError, match=message):
            copy.deepcopy({"one": [one]})
    assert copy.copy(buffer) == buffer


def test_what_comes_back_to_a_closed_pool(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A process would import its own pool, and its own memory as another's, at another address."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    ours, theirs = multiprocessing.Pipe()
    process = start(children.send_back, theirs)
    ours.send((mr, buffer))
    handle = copied(mr.allocation_handle)
    mr.close()
    assert ours.poll(TIMEOUT)
    same_mr, same_buffer = ours.recv()
    assert same_mr is mr
    assert same_buffer == buffer
    assert (same_mr.is_closed, same_buffer.is_mapped, same_buffer.memory_resource) == (True, False, mr)
    for use in (
        lambda: ch.DeviceMemoryResource.from_allocation_handle(device, handle),
        lambda: pickle.dumps(buffer),
    ):
        with pytest.raises(ch.ClosedError, match="DeviceMemoryResource has been closed"):
            use()
    handle.close()
    ours.send(None)
    assert joined(process) == 0


def test_through_several_hands(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A process could not pass on an object that it has received."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    pipes = [multiprocessing.Pipe() for _ in range(3)]
    first = start(children.pass_on, pipes[0][1], pipes[1][0])
    second = start(children.pass_on, pipes[1][1], pipes[2][0])
    pipes[0][0].send((mr, buffer, buffer[8:16], event))
    assert pipes[2][1].poll(TIMEOUT)
    assert pipes[2][1].recv() == (mr, buffer, buffer[8:16], event)
    for end in (pipes[0][0], pipes[1][0]):
        end.send(None)
    assert joined(first) == joined(second) == 0


def test_an_event_that_comes_twice(device: ch.Device, exporter: Callable[..., Any]) -> None:
    """Two objects of the same event would not be equal."""
    _, _, event, _ = exporter()
    again = ch.Event.from_ipc_descriptor(event.ipc_descriptor)
    assert again == event
    assert hash(again) == hash(event)
    event.close()
    again.sync()
    assert ch.Event.from_ipc_descriptor(again.ipc_descriptor) == again


def test_threads_import_an_event(
    device: ch.Device, exporter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that import one event would get events that are not equal."""
    _, _, event, _ = exporter()
    descriptor = event.ipc_descriptor
    event.close()
    gate = threading.Barrier(2)
    find_device = event_ipc.find_device

    def find_together(name: str | None) -> ch.Device:
        """Wait until both threads are about to open the event, or 0.2 seconds; then find the device."""
        with suppress(threading.BrokenBarrierError):
            gate.wait(0.2)
        return find_device(name)

    monkeypatch.setattr(event_ipc, "find_device", find_together)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ch.Event.from_ipc_descriptor, [descriptor] * 2)
    assert first == second


def test_no_memory_for_a_graph(device: ch.Device, stream: ch.Stream) -> None:
    """The error would not say why a shared pool cannot allocate in a capture."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    mr = new_pool()
    builder = stream.create_graph_builder().begin_building("relaxed")
    with pytest.raises(ch.CUDAError, match="a pool that processes share has no memory for a graph"):
        mr.allocate(SIZE, stream=builder)
    builder.close()


def test_a_child_of_fork(run_on_driver: Callable[..., str]) -> None:
    """A forked child would wait forever for a lock that a thread of its parent held, or free its parent's memory."""
    run_on_driver(
        """
        import faulthandler
        import gc
        import os
        import pickle
        import threading
        import warnings
        import pytest
        import cudacore_handles as ch
        from cudacore_handles._base import ipc

        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which this is about
        device = ch.Device(0)
        device.set_current()
        stream = device.create_stream()
        mr = ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions(ipc_enabled=True))
        buffer = mr.allocate(64, stream=stream)
        part = buffer[8:16]
        event = stream.record(options=ch.EventOptions(ipc_enabled=True))
        pickle.dumps((buffer, part, event))
        held, done = threading.Event(), threading.Event()

        def hold():
            with ipc.lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(30, exit=True)
            for use in (lambda: buffer[:4], lambda: part.fill(1, stream=stream), lambda: mr.allocate(1, stream=stream)):
                with pytest.raises(ch.CUDAError, match="forked"):
                    use()
            part.close()
            del buffer, part, event, mr, use
            gc.collect()
            os._exit(0)
        done.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
        buffer.fill(1, stream=stream)
        stream.sync()
        """
    )


def test_a_handle_is_received_once(device: ch.Device, start: Callable[..., Any]) -> None:
    """A message that is read again would give a descriptor of something else."""
    mr = new_pool()
    ours, theirs = multiprocessing.Pipe()
    process = start(children.receive_twice, theirs)
    ours.send(mr.allocation_handle)
    assert ours.poll(TIMEOUT)
    assert "it is received once" in ours.recv()
    assert joined(process) == 0


def test_exit_with_all_alive(run_on_driver: Callable[..., str]) -> None:
    """A process that ends with shared objects in globals and cycles would crash, or complain."""
    run_on_driver(
        """
        import multiprocessing
        import ipc_children as children

        def child(mr, buffers, event):
            global kept
            kept = [mr, buffers, event]
            kept.append(kept)

        if __name__ == "__main__":
            import cudacore_handles as ch
            context = multiprocessing.get_context("spawn")
            mr = children.new_pool()
            stream = ch.Device(0).create_stream()
            buffers = [mr.allocate(64, stream=stream) for _ in range(3)]
            event = stream.record(options=ch.EventOptions(ipc_enabled=True))
            process = context.Process(target=child, args=(mr, buffers, event))
            process.start()
            process.join()
            assert process.exitcode == 0
            cycle = [mr, buffers, event]
            cycle.append(cycle)
            stream.sync()
        """,
        MALLOC_PERTURB_="170",  # use after free is detected
    )


# ---- one mapping


def test_one_mapping(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """If two buffers have the same descriptor, closing one would unmap the memory of the other."""
    mr, (buffer,), _, _ = exporter()
    descriptor = buffer.ipc_descriptor
    again = ch.Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    copied = copy.copy(again)
    assert again == buffer == copied
    assert again.ipc_descriptor == descriptor
    buffer.close()
    copied.close()
    assert set(read(again, stream)) == {1}
    again.close()
    once_more = ch.Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    assert set(read(once_more, stream)) == {1}
    once_more.close()
    stream.sync()


def test_threads(device: ch.Device, exporter: Callable[..., Any]) -> None:
    """Threads that import buffers while other threads drop them would get freed memory, or map it twice."""
    mr, buffers, _, _ = exporter(3)
    named = [buffer.ipc_descriptor for buffer in buffers]
    for buffer in buffers:
        buffer.close()

    def work(number: int) -> None:
        stream = device.create_stream()
        for round_ in range(30):
            which = (number + round_) % len(named)
            mine = ch.Buffer.from_ipc_descriptor(mr, named[which], stream=stream)
            cycle: list[Any] = [mine]
            cycle.append(cycle)
            assert set(read(mine, stream)) == {which + 1}
            if round_ % 3:
                mine.close()
            if round_ % 10 == 0:
                gc.collect()
        stream.sync()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    gc.collect()


def test_threads_import_the_pool(device: ch.Device, exporter: Callable[..., Any]) -> None:
    """Threads that import one pool would get several resources, which do not find each other's memory."""
    mr, (buffer,), _, _ = exporter()
    handle = copied(mr.allocation_handle)
    buffer.close()
    mr.close()
    found = in_threads(lambda _: ch.DeviceMemoryResource.from_allocation_handle(device, handle), range(4))
    assert len({id(resource) for resource in found}) == 1
    handle.close()


def copied(handle: ch.IPCAllocationHandle) -> ch.IPCAllocationHandle:
    return type(handle)._init(os.dup(int(handle)), handle.uuid)


def test_handle_that_is_closed_during_an_import(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another thread closes the handle, a new file with the same descriptor number would be imported."""
    mr = new_pool()
    handle = type(mr.allocation_handle)._init(os.dup(int(mr.allocation_handle)), None)
    dup = os.dup

    def close_and_dup(number: int) -> int:
        handle.close()  # as another thread does
        return dup(number)

    monkeypatch.setattr(os, "dup", close_and_dup)
    with pytest.raises(ValueError, match="alloc_handle is not of a pool of the host's memory"):
        ch.PinnedMemoryResource.from_allocation_handle(handle)
    assert handle.is_closed
    assert (handle.handle, repr(handle)) == (-1, "<IPCAllocationHandle closed>")
    mr.close()


def test_order_of_closing(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """Memory would be lost if its pool is closed first."""
    mr, (buffer, other), event, _ = exporter(2)
    mr.close()
    assert (mr.is_mapped, mr.is_ipc_enabled, mr.uuid) == (False, False, None)
    for use in (lambda: mr.allocation_handle, lambda: pickle.dumps(mr), lambda: mr.register(uuid.uuid4())):
        with pytest.raises(ch.ClosedError):
            use()
    assert set(read(buffer, stream)) == {1}
    buffer.close()
    assert not buffer.is_mapped
    with pytest.raises(ch.ClosedError):
        buffer.ipc_descriptor  # noqa: B018
    assert set(read(other, stream)) == {2}
    event.close()
    with pytest.raises(ch.ClosedError):
        event.ipc_descriptor  # noqa: B018
    other.close()
    stream.sync()


# ---- invalid descriptors


def test_damaged_descriptors(device: ch.Device, stream: ch.Stream) -> None:
    """The driver would get 64 bytes that were changed, or a size that the memory does not have."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    for named in (buffer.ipc_descriptor, event.ipc_descriptor):
        restore, fields = named.__reduce__()  # type: ignore[misc]
        assert restore(*fields) == named  # type: ignore[operator]
        assert hash(pickle.loads(pickle.dumps(named))) == hash(named)
        data = fields[0]  # type: ignore[index]
        for bad in (data[:-1], data + b"x", bytes([data[0] ^ 1]) + data[1:], None, "x" * 64):
            with pytest.raises(ValueError, match="was damaged on its way"):
                restore(bad, *fields[1:])  # type: ignore[index,operator]
        whole = pickle.dumps(named)
        for end in range(len(whole)):
            with pytest.raises((EOFError, pickle.UnpicklingError)):
                pickle.loads(whole[:end])
    restore, (data, size, pool, offset, checksum) = buffer.ipc_descriptor.__reduce__()  # type: ignore[misc]
    for fields in ((data, size + 1, pool, offset), (data, size, pool, offset + 1)):
        with pytest.raises(ValueError, match="was damaged on its way"):
            restore(*fields, checksum)  # type: ignore[operator]


def test_descriptors_of_others(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """A descriptor would be accepted for another pool, process or machine."""
    mr, (buffer,), event, _ = exporter()
    own = new_pool()
    mine = own.allocate(SIZE, stream=stream)
    with pytest.raises(ValueError, match=f"ipc_descriptor is of memory resource {own.uuid}, and mr is {mr.uuid}"):
        ch.Buffer.from_ipc_descriptor(mr, mine.ipc_descriptor, stream=stream)
    with pytest.raises(ValueError, match="ipc_descriptor is of memory resource"):
        ch.Buffer.from_ipc_descriptor(own, buffer.ipc_descriptor, stream=stream)
    named = mine.ipc_descriptor
    mine.close()
    with pytest.raises(ValueError, match="which has closed that buffer"):
        ch.Buffer.from_ipc_descriptor(own, named, stream=stream)
    bad = type(named)._init(bytes(64), SIZE, None)
    with pytest.raises(ch.CUDAError, match=r"cuMemPoolImportPointer.*that the process which made it has not freed"):
        ch.Buffer.from_ipc_descriptor(mr, bad, stream=stream)
    elsewhere = "00000000-1111-2222-3333-444444444444"
    with pytest.raises(RuntimeError, match=f"device {elsewhere} is not there: .* of this machine"):
        ch.Event.from_ipc_descriptor(type(event.ipc_descriptor)._init(bytes(64), False, elsewhere))
    with pytest.raises(ch.CUDAError, match=r"cuIpcOpenEventHandle.*must be of this machine"):
        ch.Event.from_ipc_descriptor(type(event.ipc_descriptor)._init(bytes(64), False, device.uuid))
    with pytest.raises(TypeError, match="stream is required"):
        ch.Buffer.from_ipc_descriptor(mr, buffer.ipc_descriptor, stream=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="mr must be a memory resource that processes share"):
        ch.Buffer.from_ipc_descriptor(3, named, stream=stream)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ipc_descriptor must be an IPCBufferDescriptor"):
        ch.Buffer.from_ipc_descriptor(mr, 3, stream=stream)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ipc_descriptor must be an IPCEventDescriptor"):
        ch.Event.from_ipc_descriptor(3)  # type: ignore[arg-type]
    assert set(read(buffer, stream)) == {1}


def test_sizes_that_are_not_true(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """The size of a buffer would be that in its descriptor, even if it exceeds the memory."""
    mr, (buffer,), _, _ = exporter()
    named = buffer.ipc_descriptor
    own = new_pool()
    mine = own.allocate(SIZE, stream=stream)
    for first in (False, True):
        if first:
            buffer.close()
            stream.sync()
        for of, name in ((mr, named._data), (own, mine.ipc_descriptor._data)):
            for size, offset in ((SIZE + 1, 0), (SIZE, 1), (1, SIZE), (1 << 30, 0), (1, 1 << 40), (2**63, 2**63)):
                lying = type(named)._init(name, size, of.uuid, offset)
                message = f"{size} bytes from byte {offset} on are not within the 4096 .*: it is not as the other"
                with pytest.raises(ch.CUDAError, match=message):
                    ch.Buffer.from_ipc_descriptor(of, lying, stream=stream)
    with ch.Buffer.from_ipc_descriptor(mr, named, stream=stream) as again:
        assert set(read(again, stream)) == {1}


def test_pools_of_another_place(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """The host would read a device's memory like its own and crash, or a device's pool would become a host's."""
    mr, buffers, _, _ = exporter()
    on_device, name = os.dup(int(mr.allocation_handle)), mr.uuid
    handle = copied(mr.allocation_handle)
    with pytest.raises(ValueError, match=r"alloc_handle is of .* not of a PinnedMemoryResource$"):
        ch.PinnedMemoryResource.from_allocation_handle(handle)
    for pools in ("known", "not known"):
        with pytest.raises(ValueError, match="alloc_handle is not of a pool of the host's memory"):
            ch.PinnedMemoryResource.from_allocation_handle(on_device)
        if pools == "known":
            buffers.clear()
            mr.close()
    with pytest.raises(ValueError, match="alloc_handle is not of a pool of the host's memory"):
        ch.PinnedMemoryResource.from_allocation_handle(handle)
    with pytest.raises(RuntimeError, match=f"Memory resource {name} was not found"):
        ch.PinnedMemoryResource.from_registry(name)  # type: ignore[arg-type]
    os.close(on_device)
    handle.close()


def test_pools_of_the_host(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A host pool would become a device pool in the other process, or lose its node."""
    mr = ch.PinnedMemoryResource(ch.PinnedMemoryResourceOptions(ipc_enabled=True))
    ours, theirs = multiprocessing.Pipe()
    process = start(children.import_pinned, theirs, mr.allocation_handle)
    assert ours.poll(TIMEOUT)
    message, of_handle, of_number = ours.recv()
    assert message.startswith("alloc_handle is not of a pool of the memory of device 0: DeviceMemoryResource imports")
    assert (of_handle, of_number) == (mr.numa_id, -1)
    assert joined(process) == 0


def test_bad_handles(device: ch.Device, stream: ch.Stream, tmp_path: Path) -> None:
    """A number that is not a pool's descriptor would be accepted, or leak."""
    mr = new_pool()
    handle = mr.allocation_handle
    assert handle is mr.allocation_handle
    assert int(handle) == handle.handle >= 0
    gc.collect()
    before = descriptors()
    near, far = socket.socketpair()
    with near, far, (tmp_path / "file").open("w") as file:
        for other in (near.fileno(), file.fileno()):
            with pytest.raises(ch.CUDAError, match=f"file descriptor {other} must be one that a process"):
                ch.DeviceMemoryResource.from_allocation_handle(device, other)
    for closed_one in (file.fileno() if not file.closed else 9999, -1):
        with pytest.raises(OSError, match="Bad file descriptor"):
            ch.DeviceMemoryResource.from_allocation_handle(device, closed_one)
    for bad in (None, "3", 3.0, True):
        with pytest.raises(TypeError, match="alloc_handle must be an IPCAllocationHandle or an int"):
            ch.DeviceMemoryResource.from_allocation_handle(device, bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="which is not a file descriptor"):
        ch.DeviceMemoryResource.from_allocation_handle(device, 1 << 40)
    gc.collect()
    assert descriptors() == before
    with pytest.raises(TypeError, match="an IPCAllocationHandle has a file descriptor"):
        pickle.dumps(handle)
    handle.close()
    handle.close()
    assert (handle.is_closed, handle.handle, handle.uuid) == (True, -1, mr.uuid)
    with pytest.raises(ch.ClosedError):
        int(handle)
    with pytest.raises(ch.ClosedError):
        ch.DeviceMemoryResource.from_allocation_handle(device, handle)
    assert not mr.allocation_handle.is_closed
    assert descriptors() == before


def test_handles_are_closed_once(device: ch.Device) -> None:
    """Two threads that close a handle would close a descriptor that other code has opened meanwhile."""
    mr = new_pool()
    for _ in range(50):
        handle = copied(mr.allocation_handle)
        in_threads(ch.IPCAllocationHandle.close, (handle, handle))  # a second close would be an OSError


def test_registry(device: ch.Device) -> None:
    """A resource would be found by a wrong identity, or a closed resource would be found."""
    mr = new_pool()
    assert mr.uuid is not None
    known = mr.uuid
    assert pickle.loads(pickle.dumps(mr)) is mr
    assert mr.from_registry(known) is mr
    assert mr.register(known) is mr
    with pytest.raises(ValueError, match=f"and the memory resource is {known}"):
        mr.register(uuid.uuid4())
    with pytest.raises(TypeError, match="uuid must be of type UUID, not str"):
        mr.register("x")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Memory resource x was not found"):
        mr.from_registry("x")  # type: ignore[arg-type]
    whole = pickle.dumps(mr)
    mr.close()
    for find in (lambda: ch.DeviceMemoryResource.from_registry(known), lambda: pickle.loads(whole)):
        with pytest.raises(RuntimeError, match=f"Memory resource {known} was not found"):
            find()


def test_without_identity(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """A resource that was imported by a file descriptor would be pickled without an identity, or could not get one."""
    mr, (buffer,), _, _ = exporter()
    named, identity = buffer.ipc_descriptor, mr.uuid
    number = os.dup(int(mr.allocation_handle))
    buffer.close()
    mr.close()
    imported = ch.DeviceMemoryResource.from_allocation_handle(device, number)
    os.close(number)
    assert (imported.uuid, imported.is_mapped, imported.is_handle_owned) == (None, True, True)
    with pytest.raises(RuntimeError, match=r"call register\(uuid\)"):
        pickle.dumps(imported)
    with pytest.raises(TypeError, match="Cannot allocate from a mapped IPC-enabled memory resource"):
        imported.allocate(64, stream=stream)
    assert set(read(ch.Buffer.from_ipc_descriptor(imported, named, stream=stream), stream)) == {1}
    assert identity is not None
    assert imported.register(identity) is imported
    assert imported.uuid == identity
    assert pickle.loads(pickle.dumps(imported)) is imported


def test_not_enabled(device: ch.Device, stream: ch.Stream) -> None:
    """Objects that cannot be shared would be sent, and fail in the other process."""
    mr = ch.DeviceMemoryResource(device, {})
    buffer, event = mr.allocate(64, stream=stream), device.create_event()
    foreign = ch.Buffer.from_handle(int(buffer.handle), 64)
    for use in (
        lambda: mr.allocation_handle,
        lambda: mr.register(uuid.uuid4()),
        lambda: buffer.ipc_descriptor,
        lambda: foreign.ipc_descriptor,
        lambda: event.ipc_descriptor,
    ):
        with pytest.raises(RuntimeError, match="is not IPC-enabled"):
            use()
    for thing in (mr, buffer, foreign):
        with pytest.raises(TypeError, match="is not IPC-enabled: it cannot be pickled"):
            pickle.dumps(thing)
    for cls in (ch.IPCAllocationHandle, ch.IPCBufferDescriptor, ch.IPCEventDescriptor):
        with pytest.raises(RuntimeError, match="cannot be instantiated directly"):
            cls()


def test_not_supported(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a platform or a device cannot share memory, the error would be INVALID_VALUE."""
    from cudacore_handles._driver.device_properties import DeviceProperties

    monkeypatch.setattr(DeviceProperties, "mempool_supported_handle_types", 0)
    with pytest.raises(RuntimeError, match="has no memory pools that processes can share"):
        new_pool()
    monkeypatch.setattr(DeviceProperties, "ipc_event_supported", False)
    with pytest.raises(RuntimeError, match="has no events that processes can share"):
        device.create_event(SHARED_EVENT)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RuntimeError, match="which win32 does not have"):
        new_pool()


def test_a_mapping_that_a_capture_keeps(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """An import that is not possible at present would be reported as memory that the exporter has freed."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    mr, (buffer,), _, _ = exporter()
    descriptor = buffer.ipc_descriptor
    buffer.close()
    stream.sync()
    builder = stream.create_graph_builder().begin_building("relaxed")
    ch.Buffer.from_ipc_descriptor(mr, descriptor, stream=stream).close()
    with pytest.raises(ch.CUDAError, match="it was given up before, and that ends only when a capture") as caught:
        ch.Buffer.from_ipc_descriptor(mr, descriptor, stream=stream)
    assert "has not freed" not in str(caught.value)
    builder.end_building()
    with ch.Buffer.from_ipc_descriptor(mr, descriptor, stream=stream) as again:
        assert set(read(again, stream)) == {1}


@pytest.mark.cuda_sim
def test_failures(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """A failing driver call would leak, or leave an incomplete object."""
    import cudacore_sim as sim

    mr, (buffer,), event, _ = exporter()
    named, event_named = buffer.ipc_descriptor, event.ipc_descriptor
    number = os.dup(int(mr.allocation_handle))
    own = new_pool()
    mine, shared = own.allocate(64, stream=stream), device.create_event(SHARED_EVENT)
    buffer.close()
    event.close()
    mr.close()
    stream.sync()
    imported = ch.DeviceMemoryResource.from_allocation_handle(device, number)
    open_files = descriptors()
    handles, objects = ch.live_counts(), sim.live()
    cases: dict[str, Callable[[], Any]] = {
        "cuMemPoolExportToShareableHandle": new_pool,
        "cuMemPoolImportFromShareableHandle": lambda: ch.DeviceMemoryResource.from_allocation_handle(device, number),
        "cuMemPoolGetAccess": lambda: ch.DeviceMemoryResource.from_allocation_handle(device, number),
        "cuMemPoolExportPointer": lambda: mine.ipc_descriptor,
        "cuMemPoolImportPointer": lambda: ch.Buffer.from_ipc_descriptor(imported, named, stream=stream),
        "cuIpcGetEventHandle": lambda: shared.ipc_descriptor,
        "cuIpcOpenEventHandle": lambda: ch.Event.from_ipc_descriptor(event_named),
    }
    for name, call in cases.items():
        with sim.failing(name), pytest.raises(ch.CUDAError, match=f"{name}: CUDA_ERROR_UNKNOWN"):
            call()
        gc.collect()
        assert (ch.live_counts(), sim.live(), descriptors()) == (handles, objects, open_files), name
        made = call()
        del made
        gc.collect()
    os.close(number)
