# SPDX-License-Identifier: Apache-2.0
"""Descriptors and handles of shared memory: several imports, invalid and closed descriptors, and the registry."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import socket
import sys
import uuid
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ipc_children as children
import pytest
from ipc_children import SIZE, TIMEOUT, copied, descriptors, joined, new_pool, read

import cudacore_handles as ch
from cudacore_handles._base.ipc import Descriptors
from threads_at_once import in_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes share memory on Linux")
SHARED_EVENT = ch.EventOptions(ipc_enabled=True)


# ---- one mapping for all imports


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
    """Threads that import buffers while other threads drop them would get freed memory, or map memory twice."""
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
    """Threads that import one pool would get several memory resources instead of one."""
    mr, (buffer,), _, _ = exporter()
    handle = copied(mr.allocation_handle)
    buffer.close()
    mr.close()
    found = in_threads(lambda _: ch.DeviceMemoryResource.from_allocation_handle(device, handle), range(4))
    assert len({id(resource) for resource in found}) == 1
    handle.close()


def test_handle_that_is_closed_during_an_import(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another thread closes the handle, a new file with the same descriptor number would be imported."""
    mr = new_pool()
    handle = type(mr.allocation_handle)._init(Descriptors.copies([int(mr.allocation_handle)]), None, None)
    dup = os.dup

    def close_and_dup(number: int) -> int:
        handle.close()  # as another thread could do
        return dup(number)

    monkeypatch.setattr(os, "dup", close_and_dup)
    with pytest.raises(ValueError, match="alloc_handle is not of a pool of the host's memory"):
        ch.PinnedMemoryResource.from_allocation_handle(handle)
    assert handle.is_closed
    assert (handle.handle, repr(handle)) == (-1, "<IPCAllocationHandle closed>")
    mr.close()


def test_order_of_closing(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """Memory could not be used after its pool is closed."""
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
    """A damaged handle, or a size that is too large for the memory, would reach the driver."""
    mr = new_pool()
    buffer = mr.allocate(SIZE, stream=stream)
    event = stream.record(options=SHARED_EVENT)
    for named in (buffer.ipc_descriptor, event.ipc_descriptor):
        restore, fields = named.__reduce__()  # type: ignore[misc]
        assert restore(*fields) == named  # type: ignore[operator]
        assert hash(pickle.loads(pickle.dumps(named))) == hash(named)
        data = fields[0]  # type: ignore[index]
        for bad in (data[:-1], data + b"x", bytes([data[0] ^ 1]) + data[1:], None, "x" * 64):
            with pytest.raises(ValueError, match="was damaged, or was pickled by another release"):
                restore(bad, *fields[1:])  # type: ignore[index,operator]
        with pytest.raises(ValueError, match="was pickled by another release"):
            restore(*fields[:-2], zlib.crc32(repr(fields[:-2]).encode()))  # type: ignore[index,operator]
        whole = pickle.dumps(named)
        for end in range(len(whole)):
            with pytest.raises((EOFError, pickle.UnpicklingError)):
                pickle.loads(whole[:end])
    restore, (data, size, pool, offset, checksum) = buffer.ipc_descriptor.__reduce__()  # type: ignore[misc]
    for fields in ((data, size + 1, pool, offset), (data, size, pool, offset + 1)):
        with pytest.raises(ValueError, match="was damaged, or was pickled by another release"):
            restore(*fields, checksum)  # type: ignore[operator]


def test_parts_that_come_back(device: ch.Device, stream: ch.Stream) -> None:
    """A part that was sent to another process and came back would not be found, because only its whole is open."""
    mr = new_pool()
    whole = mr.allocate(SIZE, stream=stream)
    whole.fill(3, stream=stream)
    sent = pickle.dumps(whole[64:128])  # as queue.put(whole[64:128]) does
    back = pickle.loads(sent)
    assert (back.handle, back.size, back.is_mapped) == (whole.handle + 64, 64, False)
    whole.close()
    again = pickle.loads(sent)
    named = back.ipc_descriptor
    back.close()
    mr.close()
    assert again.copy_to(bytearray(64), stream=stream) == b"\3" * 64
    assert ch.Buffer.from_ipc_descriptor(mr, named, stream=stream) == again
    again.close()
    with pytest.raises(ValueError, match="of this process, which has freed it"):
        ch.Buffer.from_ipc_descriptor(mr, named, stream=stream)


def test_one_event_of_many_objects(device: ch.Device, stream: ch.Stream) -> None:
    """An import would look at all objects of the event, or fail because one of them was closed."""
    event = stream.record(options=SHARED_EVENT)
    named = event.ipc_descriptor
    objects = [ch.Event.from_ipc_descriptor(named) for _ in range(100)]
    event.close()
    for each in objects[:-1]:
        each.close()
    assert ch.Event.from_ipc_descriptor(named) == objects[-1]


def test_descriptors_of_others(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """A descriptor of another pool, process or machine would be accepted."""
    mr, (buffer,), event, _ = exporter()
    own = new_pool()
    mine = own.allocate(SIZE, stream=stream)
    with pytest.raises(ValueError, match=f"ipc_descriptor is of memory resource {own.uuid}, and mr is {mr.uuid}"):
        ch.Buffer.from_ipc_descriptor(mr, mine.ipc_descriptor, stream=stream)
    with pytest.raises(ValueError, match="ipc_descriptor is of memory resource"):
        ch.Buffer.from_ipc_descriptor(own, buffer.ipc_descriptor, stream=stream)
    named = mine.ipc_descriptor
    mine.close()
    with pytest.raises(ValueError, match="of this process, which has freed it"):
        ch.Buffer.from_ipc_descriptor(own, named, stream=stream)
    bad = type(named)._init(bytes(64), SIZE, None, 0)
    with pytest.raises(ValueError, match="of this process, which has freed it"):
        ch.Buffer.from_ipc_descriptor(own, bad, stream=stream)
    with pytest.raises(ch.CUDAError, match=r"cuMemPoolImportPointer.*that the process which made it has not freed"):
        ch.Buffer.from_ipc_descriptor(mr, bad, stream=stream)
    elsewhere = "00000000-1111-2222-3333-444444444444"
    with pytest.raises(RuntimeError, match=f"device {elsewhere} was not found: .* on one machine"):
        ch.Event.from_ipc_descriptor(type(event.ipc_descriptor)._init(bytes(64), False, elsewhere))
    with pytest.raises(ch.CUDAError, match=r"cuIpcOpenEventHandle.*event must belong to a process of this machine"):
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
    """The size of an imported buffer would be taken from its descriptor, even if the memory is smaller."""
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
                message = f"{size} bytes from byte {offset} on are not within the 4096 .* are outside of the memory"
                with pytest.raises(ch.CUDAError, match=message):
                    ch.Buffer.from_ipc_descriptor(of, lying, stream=stream)
    with ch.Buffer.from_ipc_descriptor(mr, named, stream=stream) as again:
        assert set(read(again, stream)) == {1}


def test_pools_of_another_place(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """A device pool could be imported as a host pool, and the host would crash when it reads the memory."""
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
    """A host pool would become a device pool in the other process, or lose its NUMA node."""
    mr = ch.PinnedMemoryResource(ch.PinnedMemoryResourceOptions(ipc_enabled=True))
    ours, theirs = multiprocessing.Pipe()
    process = start(children.import_pinned, theirs, mr.allocation_handle)
    assert ours.poll(TIMEOUT)
    message, of_handle, of_number = ours.recv()
    assert message.startswith("alloc_handle is not of a pool of the memory of device 0: DeviceMemoryResource imports")
    assert (of_handle, of_number) == (mr.numa_id, -1)
    assert joined(process) == 0


def test_bad_handles(device: ch.Device, stream: ch.Stream, tmp_path: Path) -> None:
    """A number that is not a pool's file descriptor would be accepted, or a file would stay open."""
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
    with pytest.raises(TypeError, match="an IPCAllocationHandle has file descriptors"):
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
        # Closing the descriptor a second time would raise an OSError.
        in_threads(ch.IPCAllocationHandle.close, (handle, handle))


def test_registry(device: ch.Device) -> None:
    """A resource would be found by a wrong UUID, or a closed resource would be found."""
    mr = new_pool()
    assert mr.uuid is not None
    known = mr.uuid
    assert pickle.loads(pickle.dumps(mr)) is mr
    assert mr.from_registry(known) is mr
    assert mr.register(known) is mr
    with pytest.raises(ValueError, match=f"and the memory resource is {known}"):
        mr.register(uuid.uuid4())
    with pytest.raises(TypeError, match="uuid must be a UUID, not str"):
        mr.register("x")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Memory resource x was not found"):
        mr.from_registry("x")  # type: ignore[arg-type]
    whole = pickle.dumps(mr)
    mr.close()
    for find in (lambda: ch.DeviceMemoryResource.from_registry(known), lambda: pickle.loads(whole)):
        with pytest.raises(RuntimeError, match=f"Memory resource {known} was not found"):
            find()


def test_without_identity(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """A resource imported by a file descriptor could be pickled without a UUID, or could not be given a UUID."""
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
    properties = vars(device.properties)
    monkeypatch.setitem(properties, "mempool_supported_handle_types", 0)
    with pytest.raises(RuntimeError, match="has no memory pools that processes can share"):
        new_pool()
    monkeypatch.setitem(properties, "ipc_event_supported", False)
    with pytest.raises(RuntimeError, match="has no events that processes can share"):
        device.create_event(SHARED_EVENT)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RuntimeError, match="which win32 does not have"):
        new_pool()


def test_a_mapping_that_a_capture_keeps(device: ch.Device, stream: ch.Stream, exporter: Callable[..., Any]) -> None:
    """If a capture keeps a mapping, the error for importing the memory again would say that the memory was freed."""
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
    """A failing driver call would leak an object, or leave an incomplete one."""
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
