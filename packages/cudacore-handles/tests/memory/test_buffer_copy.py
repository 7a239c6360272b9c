# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles import CopyOptions

Pinned = Callable[[int], ch.Buffer]
Content = Callable[[ch.Buffer], bytes]
SIZE = 64


# ---- copies


def test_copy_to_a_new_buffer(buffer: ch.Buffer, stream: ch.Stream, content: Content) -> None:
    """The new buffer would come from another memory resource than the original, or differ in size or contents."""
    copy = buffer.copy_to(stream=stream)
    assert copy != buffer
    assert (copy.size, copy.memory_resource) == (64, buffer.memory_resource)
    assert content(copy) == bytes(range(64))


def test_copy_with_any_stream(buffer: ch.Buffer, stream: ch.Stream, pinned: Pinned) -> None:
    """A foreign stream or a default stream could not be used for a copy or a fill."""

    class Offer:
        def __cuda_stream__(self) -> tuple[int, int]:
            return stream.__cuda_stream__()

    copy = pinned(64)
    for other in (Offer(), ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        copy.fill(0, stream=other)
        buffer.copy_to(copy, stream=other)
        ch.Device().sync()
        assert bytes(copy.__buffer__()) == bytes(range(64))


# ---- fills


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        (0, b"\0"),
        (255, b"\xff"),
        (np.uint8(7), b"\x07"),
        (np.uint16(7), b"\x07\x00"),
        (b"\x01", b"\x01"),
        (b"\x01\x02", b"\x01\x02"),
        (b"\x01\x02\x03\x04", b"\x01\x02\x03\x04"),
        (bytearray(b"\xff\xfe"), b"\xff\xfe"),
        (memoryview(b"\xff\xfe\xfd\xfc"), b"\xff\xfe\xfd\xfc"),
        (np.array([1.5], np.float32), np.float32(1.5).tobytes()),
        (np.float32(1.5), np.float32(1.5).tobytes()),
        (np.array([258], np.uint16), b"\x02\x01"),
        (np.float64(0.1), np.float64(0.1).tobytes()),
        (np.int64(-2), np.int64(-2).tobytes()),
        (np.uint64(0x1234_5678_1234_5678), bytes.fromhex("7856341278563412")),
        (np.complex64(1 + 2j), np.complex64(1 + 2j).tobytes()),
    ],
)
def test_fill(buffer: ch.Buffer, stream: ch.Stream, value: Any, pattern: bytes, content: Content) -> None:
    """A fill would write wrong values, use the wrong byte order, or stop before the end."""
    buffer.fill(value, stream=stream)
    assert content(buffer) == pattern * (64 // len(pattern))


def test_fill_of_a_part(buffer: ch.Buffer, stream: ch.Stream, content: Content) -> None:
    """Bytes before or after a part would be filled."""
    buffer[1:5].fill(0, stream=stream)
    buffer[6:12].fill(b"ab", stream=stream)
    assert content(buffer) == b"\0\0\0\0\0\5ababab" + bytes(range(12, 64))


def test_fill_on_another_device(device: ch.Device, other_device: ch.Device, stream: ch.Stream) -> None:
    """The error for a stream of another device would not say which device has the memory."""
    theirs = other_device.allocate(8, stream=other_device.create_stream())
    device.set_current()
    with pytest.raises(
        ch.CUDAError, match="is memory of device 1, and the current device is 0, which has no access to it"
    ):
        theirs.fill(0, stream=stream)


@pytest.mark.parametrize("make", [lambda one: np.array([one]), lambda one: np.array(one), lambda one: one])
def test_fill_with_formats_of_other_packages(
    buffer: ch.Buffer, stream: ch.Stream, make: Callable[[Any], Any], content: Content
) -> None:
    """The user would see NumPy's error about its own buffers: "cannot include dtype 'E' in a buffer"."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    buffer.fill(make(ml_dtypes.bfloat16(1.5)), stream=stream)
    assert content(buffer) == b"\xc0\x3f" * 32
    buffer.fill(np.array([5], "M8[s]"), stream=stream)
    assert content(buffer) == np.int64(5).tobytes() * 8


def test_view_that_leaves_bytes_out(device: ch.Device, stream: ch.Stream) -> None:
    """If a buffer's size is not a multiple of the element size, its last bytes would silently be missing in a view."""
    buffer = device.allocate(10, stream=stream)
    with pytest.raises(ValueError, match=r"the buffer's 10 bytes are not a multiple of the 4 of an element; give the"):
        buffer.view("float32")
    assert buffer.view("float32", 2).shape == (2,)
    assert buffer.view("float16").shape == (5,)


# ---- buffers that are closed during a copy


class ClosesBuffer:
    """An array in host memory that closes a buffer when its interface is read, as another thread could do."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer
        self.array = np.zeros(64, np.uint8)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self.buffer.close()
        return self.array.__array_interface__


@pytest.mark.parametrize("copy", [ch.Buffer.copy_to, ch.Buffer.copy_from])
def test_copy_of_a_buffer_that_is_closed_meanwhile(
    device: ch.Device, stream: ch.Stream, copy: Callable[..., Any]
) -> None:
    """If a buffer is closed during a copy, the error would be about a buffer of 0 bytes."""
    buffer = device.allocate(64, stream=stream)
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        copy(buffer, ClosesBuffer(buffer), stream=stream)


# ---- objects that are not arrays


class BrokenArray:
    """An array whose interface raises an error, because of a bug in its class."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.pointer, False)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("copy", [ch.Buffer.copy_to, ch.Buffer.copy_from])
def test_copies_of_what_is_no_array(buffer: ch.Buffer, stream: ch.Stream, copy: Callable[..., Any]) -> None:
    """Passing a class would raise an error about a property, or an error in an array's interface would be hidden."""
    for cls in (np.ndarray, ch.StridedMemoryView, BrokenArray):
        with pytest.raises(TypeError, match=rf"it is the class {cls.__name__} itself; give an instance"):
            copy(buffer, cls, stream=stream)
    with pytest.raises(TypeError, match=r"its __cuda_array_interface__ failed: .*no attribute 'pointer'") as caught:
        copy(buffer, BrokenArray(), stream=stream)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_copy_of_a_scalar_of_another_format(device: ch.Device, stream: ch.Stream, content: Content) -> None:
    """Freed memory would be copied, because the interface of a NumPy scalar has the address of a temporary."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    buffer = device.allocate(2, stream=stream)
    buffer.copy_from(ml_dtypes.bfloat16(1.5), stream=stream)
    assert content(buffer) == b"\xc0\x3f"
    with pytest.raises(ValueError, match="dst is read-only"):
        buffer.copy_to(ml_dtypes.bfloat16(1.5), stream=stream)


# ---- overlap


def bytes_of(offset: int, pitch: int, rows: int, part: tuple[int, int, int]) -> set[int]:
    width, height, depth = part
    return {offset + (k * rows + j) * pitch + i for k in range(depth) for j in range(height) for i in range(width)}


@pytest.mark.parametrize("seed", range(8))
def test_parts_that_overlap(stream: ch.Stream, pinned: Pinned, seed: int) -> None:
    """Parts of one buffer that overlap would be copied wrongly, or parts that do not overlap would be refused."""
    random, buffer, refused = np.random.default_rng(seed), pinned(512), 0
    memory = np.frombuffer(buffer.__buffer__(), np.uint8)
    for _ in range(60):
        part = width, height, depth = tuple(int(n) for n in random.integers(1, (9, 5, 4)))
        sides = [
            (int(random.integers(100)), width + int(random.integers(20)), height + int(random.integers(3)))
            for _ in range(2)
        ]
        if random.integers(2):
            sides[1] = (int(random.integers(100)), *sides[0][1:])
        (to, to_pitch, to_rows), (origin, pitch, rows) = sides
        written, read = (bytes_of(*side, part) for side in sides)
        if max(written | read) >= buffer.size:
            continue
        memory[:] = random.integers(0, 256, buffer.size)
        wanted = memory.copy()
        arguments: dict[str, Any] = {
            "width": width, "height": height, "depth": depth, "dst_offset": to, "dst_pitch": to_pitch,
            "dst_height": to_rows, "src_offset": origin, "src_pitch": pitch, "src_height": rows,
        }  # fmt: skip
        if written & read and sides[0] != sides[1]:
            refused += 1
            with pytest.raises(ValueError, match="overlap; copy through another allocation"):
                buffer.copy_part_from(buffer, stream=stream, **arguments)
        else:
            wanted[sorted(written)] = wanted[sorted(read)]
            buffer.copy_part_from(buffer, stream=stream, **arguments)
            stream.sync()
        assert np.array_equal(memory, wanted)
    assert refused > 5


def test_buffers_that_overlap(device: ch.Device, stream: ch.Stream, pinned: Pinned) -> None:
    """Parts of a buffer that overlap would be copied, and the destination would have wrong bytes."""
    for whole in (device.allocate(SIZE, stream=stream), pinned(SIZE)):
        for options in (None, CopyOptions()):
            with pytest.raises(ValueError, match="overlap"):
                whole[8:40].copy_to(whole[:32], stream=stream, options=options)
            with pytest.raises(ValueError, match="overlap"):
                whole[8:40].copy_from(whole[32:64], stream=stream, options=options)
            whole[:32].copy_to(whole[32:], stream=stream, options=options)
            whole[32:].copy_to(whole[:32], stream=stream, options=options)
            whole.copy_to(whole, stream=stream, options=options)
            whole.copy_part_from(whole, width=2, height=3, dst_pitch=4, src_pitch=4, stream=stream)


def test_batches_that_overlap(stream: ch.Stream, pinned: Pinned) -> None:
    """A batch would copy to memory that it reads or writes elsewhere, in an order that is not defined."""
    whole, other = pinned(SIZE), pinned(SIZE)
    parts, others = ([memory[i : i + 16] for i in range(0, SIZE, 16)] for memory in (whole, other))
    ch.copy_batch(stream, parts, others[::-1])
    ch.copy_batch(stream, parts[:2], parts[2:])
    ch.copy_batch(stream, [parts[0], parts[0]], parts[1:3])
    empty = whole[:0]
    for sources, targets, message in (
        (parts[:2], parts[1:3], "copies 0 and 1 overlap: one writes bytes that the other reads"),
        (parts[1:3], parts[:2], "copies 1 and 0 overlap"),
        (parts[:2], [others[3], others[3]], "copies 0 and 1 overlap: they write the same"),
        ([empty, *parts[:2]], [empty, *parts[1:3]], "copies 1 and 2 overlap"),
        ([parts[0]], [whole[8:24]], "the source at .* overlap; copy through"),
    ):
        with pytest.raises(ValueError, match=message):
            ch.copy_batch(stream, sources, targets)
