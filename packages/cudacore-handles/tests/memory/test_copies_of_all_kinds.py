# SPDX-License-Identifier: Apache-2.0
"""Every kind of copy between every two kinds of memory on two devices, on a stream of each device."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import ipc_children as children
import numpy as np
import pytest
from memory_kinds import RESOURCES
from opengl import OpenGL

import cudacore_handles as ch

cg = pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")

SIZE = 4096


class Memory:
    """Memory of a kind. The stream `home` is of a device that can use it, for comparisons with NumPy."""

    def __init__(self, buffer: ch.Buffer, home: ch.Stream, keep: Any = None) -> None:
        self.buffer, self.home, self.keep = buffer, home, keep
        home.sync()

    def write(self, values: Any) -> None:
        self.buffer.copy_from(values, stream=self.home)
        self.home.sync()

    def read(self) -> Any:
        out = np.zeros(SIZE, np.uint8)
        self.buffer.copy_to(out, stream=self.home)
        return out


# ---- kinds of memory: the stream is of the device whose memory it is, which is current, and `other` of the other one


def ordinary() -> ch.Buffer:
    array = np.zeros(SIZE, np.uint8)
    return ch.Buffer.from_handle(array.ctypes.data, SIZE, owner=array)


KINDS: dict[str, Callable[[ch.Stream, ch.Stream], ch.Buffer]] = {
    **{
        name: lambda stream, other, kind=kind: kind.make(stream.device).allocate(SIZE, stream=stream)
        for name, kind in RESOURCES.items()
    },
    "other stream": lambda stream, other: ch.DeviceMemoryResource(stream.device, {}).allocate(SIZE, stream=other),
    "registered": lambda stream, other: ch.register_host_memory(np.zeros(SIZE, np.uint8)),
    "ordinary": lambda stream, other: ordinary(),
}
BORROWED = ("pool", "virtual host", "pinned pool")
SOURCES = (*KINDS, *(f"borrowed {kind}" for kind in BORROWED))


def make(kind: str, stream: ch.Stream, other: ch.Stream) -> Memory:
    """Make memory of a kind. If it is borrowed, the library does not know its kind and device."""
    stream.device.set_current()
    buffer = KINDS[kind.removeprefix("borrowed ")](stream, other)
    if buffer.size > SIZE:
        buffer = buffer[1024 : 1024 + SIZE]
    other.sync()
    if kind.startswith("borrowed"):
        return Memory(ch.Buffer.from_handle(int(buffer.handle), SIZE), stream, buffer)
    return Memory(buffer, stream if buffer.device_id in (-1, stream.device.device_id) else other)


@pytest.fixture
def streams(device: ch.Device, other_device: ch.Device) -> Iterator[list[ch.Stream]]:
    made = [device.create_stream(), other_device.create_stream()]
    yield made
    for stream in made:
        stream.sync()


def memories(streams: list[ch.Stream], kind: str) -> list[Memory] | str:
    """Return memory of a kind of each device, or the reason why this driver or machine does not have it."""
    try:
        return [make(kind, streams[i], streams[1 - i]) for i in range(2)]
    except (RuntimeError, ch.CUDAError) as error:
        if "NOT_SUPPORTED" in str(error) or "support" in str(error) or "driver" in str(error):
            return f"{kind}: {error}"
        raise
    finally:
        streams[0].device.set_current()


# ---- kinds of copies: each with the bytes that it writes, and the bytes that it reads, as indices of NumPy's arrays

WHOLE, INDICES = slice(None), np.arange(SIZE)
ROWS = INDICES[:1024].reshape(8, 128)[:, :64].ravel()
PLANE = INDICES.reshape(64, 64)


def do_batch(dst: ch.Buffer, src: ch.Buffer, stream: Any) -> None:
    ch.copy_batch(stream, [src[:64], src[256:384]], [dst[:64], dst[128:256]])


def do_part(dst: ch.Buffer, src: ch.Buffer, stream: Any) -> None:
    dst.copy_part_from(src, 64, height=8, dst_pitch=128, src_pitch=128, stream=stream)


def do_columns(dst: ch.Buffer, src: ch.Buffer, stream: Any) -> None:
    to, origin = (buffer.view("u1", (64, 64)) for buffer in (dst, src))
    to.view(to._layout[:, ::2]).copy_from(origin.view(origin._layout[:, 1::2]), stream)


def do_dlpack(dst: ch.Buffer, src: ch.Buffer, stream: Any) -> None:
    imported = ch.StridedMemoryView.from_dlpack(src.view("u1"), stream_ptr=-1)
    dst.view("u1").copy_from(imported, stream)


COPIES: dict[str, tuple[Callable[[ch.Buffer, ch.Buffer, Any], None], Any, Any]] = {
    "copy_to": (lambda dst, src, stream: src.copy_to(dst, stream=stream), WHOLE, WHOLE),
    "copy_from": (lambda dst, src, stream: dst.copy_from(src, stream=stream), WHOLE, WHOLE),
    "batch": (do_batch, np.r_[0:64, 128:256], np.r_[0:64, 256:384]),
    "part": (do_part, ROWS, ROWS),
    "slice": (lambda dst, src, on: dst[64:128].copy_from(src[192:256], stream=on), np.s_[64:128], np.s_[192:256]),
    "view": (lambda dst, src, stream: dst.view("<u4").copy_from(src.view("<u4"), stream), WHOLE, WHOLE),
    "columns": (do_columns, PLANE[:, ::2].ravel(), PLANE[:, 1::2].ravel()),
    "dlpack": (do_dlpack, WHOLE, WHOLE),
}


def for_each_pair(streams: list[ch.Stream], source: str, check: Callable[[Memory, Memory, ch.Stream], None]) -> None:
    """Check copies from memory of one kind to that of all kinds. A kind that there is not is skipped as the source."""
    sources = memories(streams, source)
    if isinstance(sources, str):
        pytest.skip(sources)
    for target in (*KINDS, *(f"borrowed {kind}" for kind in BORROWED)):
        targets = memories(streams, target)
        for i, k, stream in itertools.product(range(2), range(2), streams):
            if isinstance(targets, str):
                continue
            try:
                check(targets[k], sources[i], stream)
            except (AssertionError, RuntimeError) as error:
                raise AssertionError(
                    f"from {source} of device {i} to {target} of device {k} on a stream of {stream.device}: {error}"
                ) from error


def check_refusal(error: ch.CUDAError) -> None:
    """Check that an error says which access is missing."""
    assert "needs access to all of the memory" in str(error) or "and the current device is" in str(error)


def check_copy(
    numbers: Any, dst: Memory, src: Memory, do: Callable[[], bool], to: Any = WHOLE, origin: Any = WHOLE
) -> bool:
    """Compare a copy with NumPy. It may also be refused: then nothing changes, and False is returned."""
    source, expected = (numbers.integers(0, 256, SIZE, np.uint8) for _ in range(2))
    src.write(source)
    dst.write(expected)
    done = do()
    if done:
        expected[to] = source[origin]
    assert (dst.read() == expected).all()
    assert (src.read() == source).all()
    return done


def check_copies(dst: Memory, src: Memory, stream: ch.Stream) -> None:
    """Make every kind of copy."""
    numbers = np.random.default_rng(7)
    for name, (copy, to, origin) in COPIES.items():

        def do(copy: Any = copy) -> bool:
            try:
                copy(dst.buffer, src.buffer, stream)
            except ch.CUDAError as error:
                # The driver of an H200 ends the process if it copies between contexts to this memory.
                if "virtual memory of the host only on a stream of that device" in str(error):
                    return False
                raise
            stream.sync()
            return True

        try:
            check_copy(numbers, dst, src, do, to, origin)
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"{name}: {error}") from error


@pytest.mark.parametrize("source", SOURCES)
def test_copies(streams: list[ch.Stream], source: str) -> None:
    """A kind of copy between two kinds of memory would fail, or copy wrong values, on a stream of some device."""
    for_each_pair(streams, source, check_copies)


def test_memory_of_another_process(
    streams: list[ch.Stream], start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of another process would be copied with a context that has ended, or could not be copied at all."""
    ours, theirs = multiprocessing.Pipe()
    process = start(children.export_each, theirs)
    theirs.close()
    with ours:  # the other process ends when this end is closed
        imported = ours.recv()
        turns = {stream: itertools.cycle(buffers) for stream, buffers in zip(streams, imported, strict=True)}
        monkeypatch.setitem(KINDS, "imported", lambda stream, other: next(turns[stream]))
        for source in ("imported", "pool", "pinned pool"):
            for_each_pair(streams, source, check_copies)
        for buffer in itertools.chain(*imported):
            buffer.close()
        gc.collect()  # without a GIL, objects that other threads have used are released later
    assert children.joined(process) == 0


def test_memory_of_opengl(streams: list[ch.Stream], on_sim: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of OpenGL, which belong to one device, could not be copied from or to the other device."""
    gl = OpenGL(on_sim)
    resources = [ch.GraphicsResource.from_gl_buffer(gl.buffer().name) for _ in range(2)]
    buffers = [resource.map(stream=streams[0]) for resource in resources]
    turns = itertools.cycle([buffers[0], buffers[0], buffers[1], buffers[1]])  # those of one side, then of the other
    monkeypatch.setitem(KINDS, "graphics", lambda stream, other: next(turns))
    for source in ("graphics", "pool", "pinned pool"):
        for_each_pair(streams, source, check_copies)
    for buffer, resource in zip(buffers, resources, strict=True):
        buffer.close()
        resource.close()
    gl.close()


@pytest.mark.parametrize("source", SOURCES)
def test_graphs(streams: list[ch.Stream], source: str) -> None:
    """A copy in a graph would copy wrong values or end the context, where a device has no access to the memory."""
    numbers = np.random.default_rng(7)

    def check(dst: Memory, src: Memory, stream: ch.Stream) -> None:
        def node() -> bool:
            definition = cg.GraphDefinition()
            try:
                definition.memcpy(dst.buffer, src.buffer, SIZE)
            except ch.CUDAError as error:
                check_refusal(error)
                return False
            definition.instantiate().launch(stream)
            stream.sync()
            return True

        def captured() -> bool:
            builder = stream.create_graph_builder().begin_building()
            try:
                dst.buffer.copy_from(src.buffer, stream=builder)
            except ch.CUDAError as error:
                check_refusal(error)
                builder.close()
                return False
            builder.end_building().complete().launch(stream)
            stream.sync()
            return True

        for do in (node, captured):
            done = check_copy(numbers, dst, src, do)
            is_of_one_device = dst.home is src.home is stream
            assert done or not is_of_one_device

    for_each_pair(streams, source, check)


@pytest.mark.parametrize("target", SOURCES)
def test_fills(streams: list[ch.Stream], target: str) -> None:
    """A fill would end the context of a device that has no access to the memory, instead of failing."""
    made = memories(streams, target)
    if isinstance(made, str):
        pytest.skip(made)
    for dst, stream in itertools.product(made, streams):
        expected = np.full(SIZE, 5, np.uint8)
        dst.write(expected)
        try:
            dst.buffer.fill(np.uint16(0x0707), stream=stream)
            dst.buffer[64:128].fill(9, stream=stream)
        except ch.CUDAError as error:
            if target != "ordinary":
                check_refusal(error)
                assert stream is not dst.home
        else:
            expected[:] = 7
            expected[64:128] = 9
        stream.sync()
        assert (dst.read() == expected).all()
