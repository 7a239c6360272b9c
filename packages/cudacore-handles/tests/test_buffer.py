# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import gc
import pickle
import re
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles._base.handle import hold

Pinned = Callable[[int], ch.Buffer]


@pytest.fixture
def buffer(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    """Give 64 bytes of device memory, from 0 to 63."""
    made = device.allocate(64, stream=stream)
    source = ch.LegacyPinnedMemoryResource().allocate(64)
    source.__buffer__()[:] = bytes(range(64))
    made.copy_from(source, stream=stream)
    stream.sync()
    return made


def content(buffer: ch.Buffer, stream: ch.Stream) -> bytes:
    copy = ch.LegacyPinnedMemoryResource().allocate(buffer.size)
    buffer.copy_to(copy, stream=stream)
    stream.sync()
    return bytes(copy.__buffer__())


# ---- identity


def test_cannot_be_made_directly() -> None:
    """A buffer without memory would exist."""
    with pytest.raises(RuntimeError, match=r"use Device\.allocate\(\)"):
        ch.Buffer()


def test_properties(device: ch.Device, buffer: ch.Buffer) -> None:
    """A buffer would not say how large it is, where, or whose."""
    assert buffer.size == 64
    assert type(buffer.handle) is int
    assert buffer.handle > 0
    assert repr(buffer) == f"<Buffer ptr={buffer.handle:#x} size=64>"
    assert buffer.memory_resource is device.memory_resource
    assert buffer.owner is None
    assert (buffer.device_id, buffer.is_mapped, buffer.is_managed) == (0, False, False)
    assert (buffer.is_device_accessible, buffer.is_host_accessible) == (True, False)


def test_pinned_properties(pinned: Pinned) -> None:
    """Host memory would not say that the host can reach it."""
    buffer = pinned(16)
    assert (buffer.device_id, buffer.is_mapped, buffer.is_managed) == (-1, False, False)
    assert (buffer.is_device_accessible, buffer.is_host_accessible) == (True, True)


def test_identity(device: ch.Device, buffer: ch.Buffer, pinned: Pinned) -> None:
    """Views of the same memory would differ, or those of other memory be the same."""
    view, half = ch.Buffer.from_handle(buffer.handle, 64), ch.Buffer.from_handle(buffer.handle, 32)
    assert buffer == view
    assert hash(buffer) == hash(view)
    assert buffer != half
    assert buffer != pinned(64)
    assert buffer != buffer.handle
    assert len({buffer, view, half}) == 2


def test_cannot_be_pickled(buffer: ch.Buffer) -> None:
    """A buffer would arrive in another process as an address that means nothing there."""
    with pytest.raises(TypeError, match="not IPC-enabled: it cannot be pickled"):
        pickle.dumps(buffer)


def test_closed(buffer: ch.Buffer, stream: ch.Stream, pinned: Pinned) -> None:
    """Memory that was given back would be used, or given back twice."""
    other = pinned(64)
    assert not buffer.is_closed
    buffer.close()
    buffer.close()
    buffer.close(stream)
    assert buffer.is_closed
    assert (buffer.handle, buffer.size) == (0, 0)
    assert repr(buffer) == "<Buffer closed>"
    assert buffer != other
    assert buffer == buffer  # noqa: PLR0124
    uses: list[Callable[[], Any]] = [
        lambda: buffer.copy_to(stream=stream),
        lambda: buffer.copy_to(other, stream=stream),
        lambda: buffer.copy_from(other, stream=stream),
        lambda: other.copy_to(buffer, stream=stream),
        lambda: other.copy_from(buffer, stream=stream),
        lambda: buffer.fill(0, stream=stream),
        lambda: buffer.set_deallocation_stream(stream),
        lambda: buffer.device_id,
        lambda: buffer.is_device_accessible,
        lambda: buffer.is_host_accessible,
        lambda: buffer.is_managed,
        buffer.__dlpack__,
        buffer.__dlpack_device__,
        buffer.__buffer__,
    ]
    for use in uses:
        with pytest.raises(ValueError, match="Buffer has been closed; make a new one"):
            use()
    other.fill(1, stream=stream)


def test_view_of_a_buffer_that_another_thread_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view would keep the memory and be empty: the size would be read after the close."""
    buffer = ch.LegacyPinnedMemoryResource().allocate(64)

    def hold_and_close(face: ch.Buffer) -> Any:
        box = hold(face)
        buffer.close()
        return box

    monkeypatch.setattr("cudacore_handles._memory.buffer.hold", hold_and_close)
    view = buffer.__buffer__()
    assert buffer.is_closed
    view[:] = bytes(range(64))
    assert bytes(view) == bytes(range(64))


def test_context_manager(device: ch.Device, stream: ch.Stream) -> None:
    """Memory would outlive its with block."""
    with device.allocate(16, stream=stream) as buffer:
        assert not buffer.is_closed
    assert buffer.is_closed


# ---- copies


def test_copy(buffer: ch.Buffer, stream: ch.Stream, pinned: Pinned) -> None:
    """Bytes would not arrive, or at the wrong end."""
    there, back = pinned(64), pinned(64)
    assert buffer.copy_to(there, stream=stream) is there
    assert back.copy_from(there, stream=stream) is None  # type: ignore[func-returns-value]
    stream.sync()
    assert bytes(back.__buffer__()) == bytes(range(64))


def test_copy_to_a_new_buffer(buffer: ch.Buffer, stream: ch.Stream) -> None:
    """The copy would come from another memory resource, or be of another size."""
    copy = buffer.copy_to(stream=stream)
    assert copy != buffer
    assert (copy.size, copy.memory_resource) == (64, buffer.memory_resource)
    assert content(copy, stream) == bytes(range(64))
    with pytest.raises(ValueError, match="dst is missing, and this buffer has no memory_resource"):
        ch.Buffer.from_handle(buffer.handle, 64).copy_to(stream=stream)


def test_copy_with_any_stream(buffer: ch.Buffer, stream: ch.Stream, pinned: Pinned) -> None:
    """A foreign or a default stream could not order a copy or a fill."""

    class Offer:
        def __cuda_stream__(self) -> tuple[int, int]:
            return stream.__cuda_stream__()

    copy = pinned(64)
    for other in (Offer(), ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        copy.fill(0, stream=other)
        buffer.copy_to(copy, stream=other)
        ch.Device().sync()
        assert bytes(copy.__buffer__()) == bytes(range(64))


@pytest.mark.parametrize("method", ["copy_to", "copy_from"])
def test_bad_copies(buffer: ch.Buffer, stream: ch.Stream, pinned: Pinned, method: str) -> None:
    """A copy beyond the end, with what is no buffer or no stream, would reach the driver."""
    copy = getattr(buffer, method)
    role = {"copy_to": "dst", "copy_from": "src"}[method]
    with pytest.raises(ValueError, match=r"buffer sizes mismatch between src and dst \(sizes are: src=\d+, dst=\d+\)"):
        copy(pinned(63), stream=stream)
    for other in (object(), 64, "x"):
        with pytest.raises(TypeError, match=f"{role} must be a Buffer, or an array .*not {type(other).__name__}"):
            copy(other, stream=stream)
    for bad in (None, 0, "stream"):
        with pytest.raises(TypeError, match="a Stream is needed"):
            copy(pinned(64), stream=bad)
    with pytest.raises(TypeError, match=f"{method}: options must be CopyOptions, got dict"):
        copy(pinned(64), stream=stream, options={})
    closed = ch.Device().create_stream()
    closed.close()
    with pytest.raises(ValueError, match="Stream has been closed"):
        copy(pinned(64), stream=closed)
    assert content(buffer, stream) == bytes(range(64))


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
    ],
)
def test_fill(buffer: ch.Buffer, stream: ch.Stream, value: Any, pattern: bytes) -> None:
    """A fill would write something else, in another byte order, or not to the end."""
    buffer.fill(value, stream=stream)
    assert content(buffer, stream) == pattern * (64 // len(pattern))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-1, OverflowError, "value is -1; an int fills bytes, 0 to 255"),
        (256, OverflowError, "value is 256; an int fills bytes"),
        (True, TypeError, "value must be an int from 0 to 255 or 1, 2 or 4 bytes, not bool"),
        (1.0, TypeError, "value must be an int .* not float"),
        ("x", TypeError, "value must be an int .* not str"),
        (None, TypeError, "value must be an int .* not NoneType"),
        (b"", ValueError, "value must be 1, 2, or 4 bytes, got 0"),
        (b"abc", ValueError, "value must be 1, 2, or 4 bytes, got 3"),
        (b"12345678", ValueError, "value must be 1, 2, or 4 bytes, got 8"),
    ],
)
def test_bad_fill(buffer: ch.Buffer, stream: ch.Stream, value: Any, error: type[Exception], message: str) -> None:
    """A value would be cut off, or of a width that no fill has."""
    with pytest.raises(error, match=message):
        buffer.fill(value, stream=stream)
    assert content(buffer, stream) == bytes(range(64))


def test_fill_that_does_not_fit(device: ch.Device, stream: ch.Stream) -> None:
    """The end of a buffer would not be filled, or memory behind it be."""
    buffer = device.allocate(6, stream=stream)
    with pytest.raises(ValueError, match=r"buffer size \(6\) must be divisible by 4"):
        buffer.fill(b"abcd", stream=stream)
    with pytest.raises(TypeError, match="a Stream is needed"):
        buffer.fill(0, stream=None)  # type: ignore[arg-type]
    buffer.fill(b"ab", stream=stream)
    assert content(buffer, stream) == b"ababab"


@pytest.mark.parametrize("make", [lambda one: np.array([one]), lambda one: np.array(one), lambda one: one])
def test_fill_with_formats_of_other_packages(buffer: ch.Buffer, stream: ch.Stream, make: Callable[[Any], Any]) -> None:
    """NumPy's error about its own buffers would leak: "cannot include dtype 'E' in a buffer"."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    buffer.fill(make(ml_dtypes.bfloat16(1.5)), stream=stream)
    assert content(buffer, stream) == b"\xc0\x3f" * 32
    with pytest.raises(ValueError, match="value must be 1, 2, or 4 bytes, got 8"):
        buffer.fill(np.array([5], "M8[s]"), stream=stream)


def test_view_that_leaves_bytes_out(device: ch.Device, stream: ch.Stream) -> None:
    """The last bytes of a buffer would not be in its view, and nobody would be told."""
    buffer = device.allocate(10, stream=stream)
    with pytest.raises(ValueError, match=r"the buffer's 10 bytes are not a multiple of the 4 of an element; give the"):
        buffer.view("float32")
    assert buffer.view("float32", 2).shape == (2,)
    assert buffer.view("float16").shape == (5,)


# ---- closed meanwhile


class ClosesBuffer:
    """An array in host memory that closes a buffer when it is looked at, as another thread may at that moment."""

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
    """An error would speak of a buffer of 0 bytes."""
    buffer = device.allocate(64, stream=stream)
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        copy(buffer, ClosesBuffer(buffer), stream=stream)


# ---- what is no array


class BrokenArray:
    """An array whose interface fails, by a mistake in it."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.pointer, False)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("copy", [ch.Buffer.copy_to, ch.Buffer.copy_from])
def test_copies_of_what_is_no_array(buffer: ch.Buffer, stream: ch.Stream, copy: Callable[..., Any]) -> None:
    """A class would be an error about a property, and an error inside of an interface be hidden."""
    for cls in (np.ndarray, ch.StridedMemoryView, BrokenArray):
        with pytest.raises(TypeError, match=rf"it is the class {cls.__name__} itself; give an instance"):
            copy(buffer, cls, stream=stream)
    with pytest.raises(TypeError, match=r"its __cuda_array_interface__ failed: .*no attribute 'pointer'") as caught:
        copy(buffer, BrokenArray(), stream=stream)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_copy_of_a_scalar_of_another_format(device: ch.Device, stream: ch.Stream) -> None:
    """The memory that a NumPy scalar's interface names is freed already: anything would be copied."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    buffer = device.allocate(2, stream=stream)
    buffer.copy_from(ml_dtypes.bfloat16(1.5), stream=stream)
    assert content(buffer, stream) == b"\xc0\x3f"
    with pytest.raises(ValueError, match="dst is read-only"):
        buffer.copy_to(ml_dtypes.bfloat16(1.5), stream=stream)


# ---- when the memory is freed


@pytest.mark.parametrize("streams", ["its own", "given to close", "set before"])
def test_closing(device: ch.Device, stream: ch.Stream, streams: str) -> None:
    """Memory would not be freed at once when a program asks for it."""
    before = ch.live_counts()["deviceptr"]
    buffer = device.allocate(64, stream=stream)
    stream.sync()
    if streams == "set before":
        buffer.set_deallocation_stream(device.create_stream())
    buffer.close(device.create_stream() if streams == "given to close" else None)
    assert ch.live_counts()["deviceptr"] == before


@pytest.mark.parametrize("bad", [0, "stream", object()])
def test_a_bad_deallocation_stream(buffer: ch.Buffer, stream: ch.Stream, bad: Any) -> None:
    """A buffer would be lost when it is closed with something that is no stream."""
    for use in (buffer.close, buffer.set_deallocation_stream):
        with pytest.raises(TypeError, match="a Stream is needed"):
            use(bad)
    assert not buffer.is_closed
    assert content(buffer, stream) == bytes(range(64))


# ---- the host's view


def test_buffer_protocol(pinned: Pinned) -> None:
    """The host could not read and write the memory that it can reach."""
    buffer = pinned(8)
    view = buffer.__buffer__()
    assert (view.nbytes, view.format, view.readonly) == (8, "B", False)
    np.frombuffer(view, np.uint16)[:] = [1, 2, 3, 4]
    assert ctypes.string_at(buffer.handle, 8) == b"\1\0\2\0\3\0\4\0"
    if sys.version_info >= (3, 12):
        assert bytes(buffer) == memoryview(buffer).tobytes() == view.tobytes()


def test_a_view_keeps_the_memory(pinned: Pinned) -> None:
    """The host would read memory that was freed."""
    before = ch.live_counts()["deviceptr"]
    buffer = pinned(8)
    array = np.frombuffer(buffer.__buffer__(), np.uint8)
    buffer.close()
    del buffer
    gc.collect()
    array[:] = range(8)
    assert array.tolist() == list(range(8))
    assert ch.live_counts()["deviceptr"] == before + 1
    del array
    assert ch.live_counts()["deviceptr"] == before


def test_device_memory_has_no_host_view(buffer: ch.Buffer, stream: ch.Stream) -> None:
    """The host would read device memory, and crash."""
    uses: list[Callable[[], Any]] = [buffer.__buffer__]
    if sys.version_info >= (3, 12):
        uses.append(lambda: memoryview(buffer))
    for use in uses:
        with pytest.raises(BufferError, match="the host cannot reach this memory; copy it to"):
            use()
    assert content(buffer, stream) == bytes(range(64))


def test_numpy_from_dlpack(pinned: Pinned) -> None:
    """NumPy could not share host memory, or would keep using it after it was freed."""
    before = ch.live_counts()["deviceptr"]
    buffer = pinned(8)
    buffer.__buffer__()[:] = bytes(range(8))
    array = np.from_dlpack(buffer)
    assert (array.dtype, array.shape) == (np.int8, (8,))
    assert array.ctypes.data == buffer.handle
    buffer.close()
    gc.collect()
    assert array.tolist() == list(range(8))
    del array, buffer
    gc.collect()
    ch.Device().sync()  # a consumer's last reference is given back at the next safe point
    assert ch.live_counts()["deviceptr"] == before


def test_dlpack_arguments(buffer: ch.Buffer, pinned: Pinned) -> None:
    """A consumer that asks for a copy, for another device, or with a bad stream would get the wrong memory."""
    assert buffer.__dlpack_device__() == (2, 0)
    assert pinned(8).__dlpack_device__() == (3, 0)
    buffer.__dlpack__(stream=1, max_version=(1, 0), dl_device=(2, 0), copy=False)
    with pytest.raises(BufferError, match="does not copy it"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"dl_device is \(1, 0\), and the memory is on \(2, 0\)"):
        buffer.__dlpack__(dl_device=(1, 0))
    with pytest.raises(TypeError, match="stream must be an int or None, not str"):
        buffer.__dlpack__(stream="1")  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [(1,), 3, (1, 0, 0), ("1", "0"), (1.5, 0), "10", ()])
def test_dlpack_pairs(buffer: ch.Buffer, pair: Any) -> None:
    """A version that is none would be taken for one, or be refused in words about something else."""
    with pytest.raises(
        TypeError, match=re.escape(f"max_version must be two ints, (major, minor), or None, not {pair!r}")
    ):
        buffer.__dlpack__(max_version=pair)
    with pytest.raises(
        TypeError, match=re.escape(f"dl_device must be two ints, (type, ordinal), or None, not {pair!r}")
    ):
        buffer.__dlpack__(dl_device=pair)


def test_can_be_referred_to_weakly(buffer: ch.Buffer) -> None:
    """A cache could not hold buffers without keeping them."""
    assert weakref.ref(buffer)() is buffer
