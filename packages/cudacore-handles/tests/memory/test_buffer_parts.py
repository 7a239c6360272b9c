# SPDX-License-Identifier: Apache-2.0
"""Buffers of parts of memory: ``buffer[a:b]``, and ``Buffer.from_handle`` with a buffer as the owner."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memory_kinds import RESOURCES

import cudacore_handles as ch
from threads_at_once import in_threads

Pinned = Callable[[int], ch.Buffer]
SIZE = 64


@pytest.fixture
def buffer(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    """Give 64 bytes of device memory, with the values 0 to 63."""
    made = device.allocate(SIZE, stream=stream)
    made.copy_from(bytes(range(SIZE)), stream=stream)
    return made


def content(buffer: ch.Buffer, stream: ch.Stream) -> bytes:
    into = bytearray(buffer.size)
    buffer.copy_to(into, stream=stream)
    return bytes(into)


def test_a_part(device: ch.Device, buffer: ch.Buffer, stream: ch.Stream) -> None:
    """A part would have other bytes than the same slice of bytes in Python, or would not be an ordinary buffer."""
    whole = bytes(range(SIZE))
    for part in (slice(8, 16), slice(8, None), slice(None, 8), slice(-8, None), slice(-200, 200), slice(5, -5, 1)):
        made = buffer[part]
        assert content(made, stream) == whole[part]
        assert (made.handle, made.size) == (buffer.handle + whole[part][0], len(whole[part]))
        assert type(made) is ch.Buffer
        assert made.memory_resource is buffer.memory_resource
        assert repr(made) == f"<Buffer ptr={made.handle:#x} size={made.size}>"
    part = buffer[8:24]
    assert part[4:8] == buffer[12:16]
    assert hash(part[4:8]) == hash(buffer[12:16])
    assert part != buffer[8:23]
    assert buffer[:] == buffer
    assert len({buffer, buffer[:], buffer[0:64]}) == 1
    assert (part.device_id, part.is_device_accessible, part.is_host_accessible) == (0, True, False)
    assert np.int64(8).__index__() == 8
    assert buffer[np.int64(8) : np.int64(24)] == part
    part[4:8].fill(255, stream=stream)
    assert content(buffer, stream) == whole[:12] + b"\xff" * 4 + whole[16:]
    assert content(part.copy_to(stream=stream), stream)[4:8] == b"\xff" * 4


def test_empty_parts(device: ch.Device, buffer: ch.Buffer, stream: ch.Stream) -> None:
    """An empty part would have an address, which can belong to other memory."""
    for part in (buffer[3:3], buffer[64:], buffer[70:80], buffer[8:4], device.allocate(0, stream=stream)[:]):
        assert (part.size, part.handle, part.is_closed) == (0, 0, False)
        assert part.memory_resource is buffer.memory_resource
        part.copy_from(b"", stream=stream)
        assert part[:] == part
        assert bool(part)


def test_empty_parts_of_memory_of_others(buffer: ch.Buffer) -> None:
    """An empty part of another library's device memory would become host memory."""
    part = ch.Buffer.from_handle(buffer.handle, SIZE, owner=buffer)[5:5]
    assert (part.device_id, part.is_device_accessible, part.is_host_accessible) == (0, True, False)
    assert part.owner is buffer


@pytest.mark.parametrize("first", ["whole", "part"])
def test_a_part_keeps_the_memory(device: ch.Device, stream: ch.Stream, first: str) -> None:
    """Memory would be freed when the first of several parts is closed."""
    mr = ch.DeviceMemoryResource(device, {})
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(7, stream=stream)
    part, other = buffer[8:16], buffer[8:16][2:4]
    if first == "whole":
        buffer.close()
        mr.close()
        part.close()
    else:
        part.close()
        assert content(buffer, stream) == b"\7" * SIZE
        buffer.close()
    next_ = device.allocate(SIZE, stream=stream)
    next_.fill(9, stream=stream)
    assert content(other, stream) == b"\7" * 2
    assert ch.live_counts()["deviceptr"] >= 3
    other.close()
    stream.sync()


def test_parts_for_the_host(pinned: Pinned) -> None:
    """The host would see bytes outside of the part, or freed memory."""
    buffer = pinned(SIZE)
    buffer.__buffer__()[:] = bytes(range(SIZE))
    part = buffer[8:16]
    view, array = part.__buffer__(), np.from_dlpack(part)
    assert bytes(np.asarray(part)) == bytes(range(8, 16))
    buffer.close()
    part.close()
    gc.collect()
    assert bytes(view) == array.tobytes() == bytes(range(8, 16))


def test_parts_as_arguments(device: ch.Device, stream: ch.Stream, code: ch.ObjectCode) -> None:
    """A kernel would get the whole buffer instead of the part, or memory would be freed while the kernel runs."""
    counts = device.allocate(SIZE, stream=stream)
    counts.fill(0, stream=stream)
    target = device.allocate(SIZE, stream=stream)
    target.fill(0, stream=stream)
    part = counts[4:8]
    part.copy_from(np.int32([5]), stream=stream)
    target[16:20].copy_from(part, stream=stream)
    ch.copy_batch(stream, [part, part], [target[0:4], target[4:8]])
    target.copy_part_from(counts, 4, src_offset=4, dst_offset=40, stream=stream)
    with pytest.raises(ValueError, match="the part ends 8 bytes into src, which has 4"):
        target.copy_part_from(part, 8, stream=stream)
    with pytest.raises(ValueError, match=r"sizes mismatch between src and dst \(sizes are: src=4, dst=64\)"):
        target.copy_from(part, stream=stream)
    found = np.frombuffer(content(target, stream), np.int32)
    assert [int(i) for i in np.flatnonzero(found)] == [0, 1, 4, 10]


def test_parts_in_graphs(device: ch.Device, stream: ch.Stream) -> None:
    """A graph would keep the object of a part alive, but not its memory."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    mr = ch.DeviceMemoryResource(device, {})
    buffer, out = mr.allocate(SIZE, stream=stream), mr.allocate(SIZE, stream=stream)
    buffer.fill(1, stream=stream)
    out.fill(0, stream=stream)
    stream.sync()
    builder = stream.create_graph_builder().begin_building("relaxed")
    part, target = buffer[8:16], out[16:24]
    part.fill(4, stream=builder)
    target.copy_from(part, stream=builder)
    graph = builder.end_building().complete()
    for one in (buffer, part, target):
        one.close()
    others = [mr.allocate(SIZE, stream=stream) for _ in range(2)]
    for other in others:
        other.fill(9, stream=stream)
    graph.launch(stream)
    assert content(out, stream) == b"\0" * 16 + b"\4" * 8 + b"\0" * 40
    assert all(content(other, stream) == b"\11" * SIZE for other in others)


@pytest.mark.parametrize("where", ["builder", "fork", "fork, joined", "no stream"])
def test_parts_of_memory_of_graphs(device: ch.Device, stream: ch.Stream, where: str) -> None:
    """Memory of a graph would remain allocated after a launch, so that the graph could be launched only once."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    out = device.allocate(SIZE, stream=stream)
    out.fill(0, stream=stream)
    builder = stream.create_graph_builder().begin_building("relaxed")
    buffer = device.allocate(SIZE, stream=builder)
    part = buffer[8:16]
    if where.startswith("fork"):
        builder, fork = builder.split(2)
        part.fill(4, stream=fork)
        out[8:16].copy_from(part, stream=fork)
        if where == "fork":
            part.close(fork)
        else:
            part.set_deallocation_stream(fork)
        builder = type(builder).join(builder, fork)
        part.close()
        buffer.close(builder)
    else:
        part.fill(4, stream=builder)
        out[8:16].copy_from(part, stream=builder)
        part.close(builder if where == "builder" else None)
        buffer.close(builder)
    graph = builder.end_building().complete()
    for _ in range(3):
        graph.launch(stream)
    assert content(out, stream) == b"\0" * 8 + b"\4" * 8 + b"\0" * 48


def test_memory_of_an_allocator_of_ones_own(device: ch.Device, stream: ch.Stream) -> None:
    """A memory resource's deallocate() would be called for a part, or once for each part of the memory."""

    class Resource(ch.MemoryResource):
        is_device_accessible, is_host_accessible, device_id = True, False, 0

        def __init__(self) -> None:
            self.block: Any = None
            self.freed: list[Any] = []

        def allocate(self, size: int, *, stream: Any) -> ch.Buffer:
            self.block = device.allocate(size, stream=stream)
            return ch.Buffer.from_handle(self.block.handle, size, mr=self, stream=stream)

        def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
            self.freed.append((ptr, size, stream))
            self.block.close(stream)

    mr = Resource()
    second = device.create_stream()
    buffer = mr.allocate(SIZE, stream=stream)
    part = buffer[8:16]
    address = buffer.handle
    buffer.close()
    assert not mr.freed
    part.fill(1, stream=second)
    part.close(second)
    (freed,) = mr.freed
    assert freed[:2] == (address, SIZE)
    assert freed[2] == stream


def test_virtual_memory(device: ch.Device, stream: ch.Stream) -> None:
    """A part of virtual memory could grow over the memory after the part."""
    mr = ch.VirtualMemoryResource(device)
    buffer = mr.allocate(1, stream=stream)
    part = buffer[:64]
    with pytest.raises(ValueError, match="buf is a part of a buffer, and only a whole one can be made larger"):
        mr.modify_allocation(part, 2 * buffer.size)
    assert mr.modify_allocation(part, 10) is part
    longer = mr.modify_allocation(buffer, 2 * buffer.size)
    buffer.close()
    part.fill(3, stream=stream)
    assert content(part, stream) == b"\3" * 64
    longer.close()
    assert content(part, stream) == b"\3" * 64


def imported(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    resource = ch.VirtualMemoryResource(device)
    with resource.allocate(SIZE) as buffer, resource.export_allocation(buffer) as handle:
        return resource.import_allocation(handle, stream=stream)


def foreign(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    memory = device.allocate(SIZE, stream=stream)
    return ch.Buffer.from_handle(memory.handle, SIZE, owner=memory, stream=stream)


KINDS: dict[str, Callable[[ch.Device, ch.Stream], ch.Buffer]] = {
    **{
        kind: lambda device, stream, kind=kind: RESOURCES[kind].make(device).allocate(SIZE, stream=stream)
        for kind in ("pool", "pinned", "managed", "virtual")
    },
    "registered": lambda device, stream: ch.register_host_memory(np.zeros(SIZE, np.uint8), stream=stream),
    "imported virtual": imported,
    "foreign": foreign,
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_memory(device: ch.Device, stream: ch.Stream, kind: str) -> None:
    """A part, or a view of a part, would have another type or address than expected, or not keep the memory alive."""
    whole = KINDS[kind](device, stream)
    whole.fill(1, stream=stream)
    part = whole[16:32]
    assert type(part) is type(whole)
    for name in ("device_id", "is_device_accessible", "is_host_accessible", "is_managed", "is_mapped", "is_read_only"):
        assert getattr(part, name) == getattr(whole, name), name
    assert part.__dlpack_device__() == whole.__dlpack_device__()
    assert (part.owner, part.memory_resource) == (whole.owner, whole.memory_resource)
    view, inner = part.view("int32", (2, 2)), part[4:8].view("int32")
    assert (view.ptr, inner.ptr) == (whole.handle + 16, whole.handle + 20)
    assert view.is_device_accessible
    with pytest.raises(ValueError, match=r"beyond|exceed|outside|bytes"):
        part.view("int32", (5,))
    whole.close()
    part.close()
    other = device.create_stream()
    other.wait(stream)
    inner.copy_from(ch.StridedMemoryView.from_any_interface(np.array([7], np.int32), -1), other)
    other.sync()
    del inner
    gc.collect()
    back = ch.LegacyPinnedMemoryResource().allocate(16)
    back.view("int32", (2, 2)).copy_from(view, other)
    other.sync()
    assert bytes(back.__buffer__()) == b"\1" * 4 + b"\7\0\0\0" + b"\1" * 8


LONG = 65536


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [16384, 16392, 40000, LONG])
def test_fills_of_8_bytes(
    device: ch.Device, stream: ch.Stream, kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fill whose halves differ, which copies what it has filled, would fail, or end too early or too late."""
    monkeypatch.setitem(globals(), "SIZE", LONG)
    whole = KINDS[kind](device, stream)
    whole.fill(9, stream=stream)
    whole[:size].fill(np.float64(0.1), stream=stream)
    out = np.zeros(whole.size, np.uint8)
    whole.copy_to(out, stream=stream)
    assert (out[:size].view(np.float64) == 0.1).all()
    assert (out[size:] == 9).all()


def test_long_fills_in_a_capture(device: ch.Device, stream: ch.Stream) -> None:
    """A captured fill of 8 bytes would fail, or be done at once, or the graph would not keep the memory."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    buffer = device.allocate(LONG, stream=stream)
    buffer.fill(0, stream=stream)
    with device.create_graph_builder() as builder:
        buffer.fill(np.float64(0.1), stream=builder)
    graph = builder.complete()
    assert not buffer.copy_to(np.zeros(LONG // 8), stream=stream).any()
    graph.launch(stream)
    assert (buffer.copy_to(np.zeros(LONG // 8), stream=stream) == 0.1).all()
    address = buffer.handle
    buffer.close()
    graph.launch(stream)
    stream.sync()
    assert address != device.allocate(LONG, stream=stream).handle


def test_threads(device: ch.Device, stream: ch.Stream) -> None:
    """Threads that share the parts of one buffer would free its memory too early, or never."""
    buffer = device.allocate(1 << 12, stream=stream)
    buffer.fill(0, stream=stream)
    stream.sync()

    def work(number: int) -> None:
        own = device.create_stream()
        for round_ in range(100):
            part = buffer[512 * number : 512 * (number + 1)]
            part[round_:].fill(number + 1, stream=own)
            if round_ % 2:
                part.close(own)
        own.sync()

    in_threads(work, range(6))
    assert content(buffer, stream) == b"".join(bytes([n + 1]) * 512 for n in range(6)) + bytes(1024)


# ---- buffers as owners of memory


def test_processes_that_end_with_parts(run_python: Callable[..., Any], on_sim: bool) -> None:
    """A forked child, or the end of the interpreter, would free memory that a part or a capture still uses."""
    child = run_python(
        """
        import gc, os, sys, threading
        import cudacore_graph as cg
        import cudacore_handles as ch

        device = ch.Device()
        device.set_current()
        stream = device.create_stream()
        whole = device.allocate(64, stream=stream)
        part = whole[8:16]
        builder = stream.create_graph_builder().begin_building()
        captured = device.allocate(64, stream=builder)[2:4]

        def drop() -> None:
            global whole, part, builder, captured
            whole = part = builder = captured = None
            gc.collect()

        pid = os.fork()
        if pid == 0:
            thread = threading.Thread(target=drop)  # of the collector
            thread.start()
            thread.join()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        sys.kept = builder, captured  # until all modules have gone
        whole.close()
        other = device.create_stream()
        part.copy_from(bytes(range(8)), stream=other)
        back = bytearray(4)
        part[2:6].copy_to(back, stream=other)
        other.sync()
        assert back == bytes(range(2, 6))
        """,
        **({"CUDACORE_DRIVER": "sim"} if on_sim else {}),
    )
    assert (child.returncode, child.stderr) == (0, "")
