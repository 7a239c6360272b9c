# SPDX-License-Identifier: Apache-2.0
"""Memory and events that processes send to each other."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import ipc_children as children
import pytest
from ipc_children import SIZE, TIMEOUT, copied, descriptors, joined, new_pool, read

import cudacore_handles as ch
from cudacore_handles._driver import device as device_module

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes share memory on Linux")

PROCESSES = int(os.environ.get("CUDACORE_IPC_PROCESSES", "6"))
SHARED_EVENT = ch.EventOptions(ipc_enabled=True)


@pytest.mark.parametrize("kind", ["queue", "pipe"])
def test_messages(device: ch.Device, stream: ch.Stream, start: Callable[..., Any], context: Any, kind: str) -> None:
    """An object that is sent to a running process would not arrive."""
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
    """A queue's own thread, which has no current context, could not send objects that other threads put into it."""
    buffer = new_pool().allocate(SIZE, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    assert in_new_thread(lambda: pickle.dumps((buffer, event)))


def test_pinned_memory(device: ch.Device, stream: ch.Stream, start: Callable[..., Any], context: Any) -> None:
    """Pinned memory could not be shared, would arrive as device memory, or be mapped twice, which CUDA refuses."""
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
    descriptor = buffers[0].ipc_descriptor
    message = f"alloc_handle is not of a pool of the memory of device {number}"
    of_first.peer_accessible_by.add(other_device)
    with pytest.raises(ValueError, match=message):
        ch.DeviceMemoryResource.from_allocation_handle(other_device, handle)
    buffers.clear()
    of_first.close()

    def import_both() -> None:
        wrong = ch.DeviceMemoryResource.from_allocation_handle(other_device, handle)
        ch.Buffer.from_ipc_descriptor(wrong, descriptor, stream=stream)

    # The driver may remember the access. Then only memory of the pool shows the device.
    with pytest.raises(ValueError, match=f"{message}|mr is of device {number}, but its memory is of another"):
        import_both()
    os.close(handle)


def test_processes_come_and_go(device: ch.Device, stream: ch.Stream, in_children: None) -> None:
    """Processes that import, use and drop a pool at the same time would leak memory, or unmap another's memory.

    CUDACORE_IPC_PROCESSES=200 runs 200 processes.
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

    end(begin(0))  # creates the objects and files that are created only once
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
    """When a child is killed, memory would be freed while other processes use it, or would never be freed."""
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
    """When the process that allocated memory ends, the memory would be freed while another process uses it."""
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
    """A deep copy of a buffer would share the buffer's memory, and change with the buffer."""
    buffer, event = new_pool().allocate(SIZE, stream=stream), stream.record(options=SHARED_EVENT)
    for one, message in ((buffer, r"use buffer\.copy_to\(stream=stream\)"), (event, "record another one")):
        with pytest.raises(TypeError, match=message):
            copy.deepcopy({"one": [one]})
    assert copy.copy(buffer) == buffer


def test_what_comes_back_to_a_closed_pool(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """A process that gets its own closed pool back would import the pool, and map its own memory a second time."""
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


def test_threads_import_an_event(
    device: ch.Device, exporter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that import the same event would get events that are not equal."""
    _, _, event, _ = exporter()
    descriptor = event.ipc_descriptor
    event.close()
    gate = threading.Barrier(2)
    find_device = device_module.find_device

    def find_together(name: str | None) -> ch.Device:
        """Wait, at most 0.2 seconds, until both threads are about to open the event; then find the device."""
        with suppress(threading.BrokenBarrierError):
            gate.wait(0.2)
        return find_device(name)

    monkeypatch.setattr(device_module, "find_device", find_together)
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
        import pytest
        import cudacore_handles as ch
        from cudacore_handles._base import ipc

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
    """A message that is unpickled twice would use a file descriptor that now means another file."""
    mr = new_pool()
    ours, theirs = multiprocessing.Pipe()
    process = start(children.receive_twice, theirs)
    ours.send(mr.allocation_handle)
    assert ours.poll(TIMEOUT)
    assert "they can be received once" in ours.recv()
    assert joined(process) == 0


def test_exit_with_all_alive(run_on_driver: Callable[..., str]) -> None:
    """A process that ends with shared objects in globals and cycles would crash, or print something."""
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
        MALLOC_PERTURB_="170",  # freed memory is overwritten, so that its use is noticed
    )
