# SPDX-License-Identifier: Apache-2.0
"""Copies between views of any layout, compared with NumPy's copies."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudacore_handles import (
    Buffer,
    ClosedError,
    CUDAError,
    Device,
    DeviceMemoryResource,
    MemoryResource,
    Stream,
    StridedMemoryView,
)
from cudacore_handles._views import copy_kernel, view_copy
from cudacore_handles._views.copy_plan import Axis, plan

View = StridedMemoryView
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@pytest.fixture
def memory(device: Device, stream: Stream) -> Iterator[tuple[Buffer, Buffer]]:
    """Give two buffers of device memory."""
    buffers = device.allocate(4096, stream=stream), device.allocate(4096, stream=stream)
    yield buffers
    for buffer in buffers:
        buffer.close()


def lay_out(data: st.DataObject, view: Any, shape: tuple[int, ...]) -> Any:
    """Draw a view with a given shape and a random layout in the memory of a larger view."""
    larger = tuple(extent * data.draw(st.integers(1, 2)) for extent in shape)
    order = data.draw(st.permutations(range(len(shape))))
    dense = type(view._layout).dense(larger, view._itemsize, tuple(order))
    steps = [data.draw(st.sampled_from([1, -1, 2])) for _ in shape]
    parts = []
    for extent, room, step in zip(shape, larger, steps, strict=True):
        step = step if room >= extent * abs(step) else (1 if step > 0 else -1)
        first = 0 if step > 0 else extent * abs(step) - 1
        stop = first + step * extent
        parts.append(slice(first, stop if stop >= 0 else None, step))
    return view.view(dense[tuple(parts)])


@pytest.mark.parametrize("places", ["dd", "hd", "dh", "hh", "pd", "dp", "pp"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_copies(
    places: str,
    memory: tuple[Buffer, Buffer],
    stream: Stream,
    pinned: Callable[[int], Buffer],
    data: st.DataObject,
) -> None:
    """For some pair of layouts, an element would be copied to a wrong place, or other memory be overwritten."""
    shape = data.draw(SHAPES)
    count = 1024
    arrays = [np.arange(count, dtype=np.int32), -np.arange(count, dtype=np.int32)]
    views: list[Any] = []
    for place, array, buffer in zip(places, arrays, memory, strict=True):
        if place == "h":
            views.append(View.from_any_interface(array.copy()))
        else:
            views.append((buffer if place == "d" else pinned(4 * count)).view("int32"))
            views[-1].copy_from(View.from_any_interface(array), stream)
    source, target = (lay_out(data, view, shape) for view in views)
    expected = as_array(target, arrays[1])
    expected[...] = as_array(source, arrays[0])
    if data.draw(st.booleans()):
        target.copy_from(source, stream)
    else:
        source.copy_to(target, stream, blocking=data.draw(st.sampled_from([None, True, False])))
    out = np.empty(count, np.int32)
    views[1].copy_to(View.from_any_interface(out), stream)
    assert np.array_equal(out, arrays[1])


def as_array(view: Any, flat: Any) -> Any:
    """Return the elements of a view, taken from `flat`, an array of all elements in the view's memory."""
    base = view.exporting_obj
    start = base.handle if isinstance(base, Buffer) else base.ctypes.data
    layout = view._layout
    steps = layout.strides if layout.strides is not None else layout.to_dense("C").strides
    at = (view.ptr - start) // 4 if math.prod(view.shape) else 0
    return np.lib.stride_tricks.as_strided(flat[at:], view.shape, [4 * step for step in steps])


def typed(array: Any) -> View:
    """Return a view of an array whose type DLPack does not have."""
    return View.from_array_interface(array)


SWAPPED = np.dtype({"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [4, 0]})


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("M8[s]", "M8[ns]"),
        (">i4", ">f4"),
        (">i4", "<i4"),
        ("S4", "U1"),
        ("m8[s]", "i8"),
        ("i4, f4", SWAPPED),
        ("i4, f4", "f8"),
    ],
)
def test_types_that_dlpack_does_not_have(stream: Stream, source: Any, target: Any) -> None:
    """Elements would be copied as another type: seconds as nanoseconds, or one field as another."""
    one, other = (typed(np.ones(4, dtype)) for dtype in (source, target))
    for dst, src in ((one, other), (other, one)):
        with pytest.raises(ValueError, match=r"the types differ: .* cannot be copied to .*; view\(dtype=...\)"):
            dst.copy_from(src, stream)
    other.copy_from(typed(np.zeros(4, target)), stream)
    assert not np.asarray(other).view("u1").any()


def test_raw_bytes_are_of_any_type(stream: Stream) -> None:
    """Elements without a type, or with NumPy's type for raw bytes, could not be copied to elements that have a type."""
    target = typed(np.zeros(4, ">i4"))
    target.copy_from(typed(np.ones(4, ">i4").view("V4")), stream)
    assert np.asarray(target).tolist() == [1] * 4
    raw = target.view(target._layout, dtype="V4")
    raw.copy_from(typed(np.full(4, 2, ">i4")), stream)
    assert np.asarray(target).tolist() == [2] * 4


def test_views_that_interleave(memory: tuple[Buffer, Buffer], stream: Stream) -> None:
    """Views with interleaved elements would be refused as overlapping, or overlapping views would be copied."""
    square = memory[0].view("int32", (32, 32))
    square.copy_from(View.from_any_interface(np.arange(1024, dtype=np.int32).reshape(32, 32)), stream)
    expected = np.arange(1024).reshape(32, 32)
    for to, origin in (
        (np.s_[:, :16], np.s_[:, 16:]),
        (np.s_[:, ::2], np.s_[:, 1::2]),
        (np.s_[:, :16:2], np.s_[:, 16::2]),
        (np.s_[1::2, ::-1], np.s_[::2]),
    ):
        square.view(square._layout[to]).copy_from(square.view(square._layout[origin]), stream)
        expected[to] = expected[origin]
    out = np.empty((32, 32), np.int32)
    square.copy_to(View.from_any_interface(out), stream)
    assert np.array_equal(out, expected)
    for to, origin in ((np.s_[:, :16], np.s_[:, 15:31]), (np.s_[:, ::2], np.s_[:, 16:]), (np.s_[:], np.s_[::-1])):
        with pytest.raises(ValueError, match="the views overlap in memory"):
            square.view(square._layout[to]).copy_from(square.view(square._layout[origin]), stream)


READ_ONLY = np.zeros((4, 4), "f4")
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d, h, s: d.copy_from(h.view(h._layout[:2]), s), ValueError, r"shapes differ: \(2, 4\) cannot"),
        (lambda d, h, s: d.copy_from(h.view(dtype="int32"), s), ValueError, "types differ: int32.*to float32"),
        (lambda d, h, s: d.copy_from(h.view(h._layout.repacked(2), "int16"), s), ValueError, "shapes differ"),
        (lambda d, h, s: d.copy_from(d.view(), s), ValueError, "overlap in memory"),
        (lambda d, h, s: d.copy_from([1.0], s), BufferError, "does not support any data exchange protocol"),
        (lambda d, h, s: d.copy_from(np.zeros((4, 4)), s), ValueError, "types differ: float64"),
        (lambda d, h, s: d.copy_from(h, None), TypeError, "stream is required"),
        (lambda d, h, s: d.copy_to(h), TypeError, "stream is required"),
        (lambda d, h, s: d.copy_to(h, 3), TypeError, "got int"),
        (
            lambda d, h, s: d[:1].view(d._layout[:1].broadcast_to((4, 4))).copy_from(h, s),
            ValueError,
            "several elements",
        ),
        (lambda d, h, s: View.from_any_interface(READ_ONLY).copy_from(h, s), ValueError, "read-only"),
    ],
)
def test_bad_copies(
    call: Any, error: type[Exception], message: str, memory: tuple[Buffer, Buffer], stream: Any
) -> None:
    """An invalid copy would be done partially, or without an error."""
    host = View.from_any_interface(np.zeros((4, 4), "f4"))
    with pytest.raises(error, match=message):
        call(memory[0].view("float32", (4, 4)), host, stream)


def test_a_closed_stream(memory: tuple[Buffer, Buffer], device: Device) -> None:
    """A copy on a closed stream would be done on another stream."""
    stream = device.create_stream()
    stream.close()
    with pytest.raises(ClosedError, match="Stream has been closed"):
        memory[0].view("int32").copy_from(memory[1].view("int32"), stream)


def test_copies_of_a_graph(memory: tuple[Buffer, Buffer], device: Device, stream: Stream) -> None:
    """A graph would copy from freed memory, or from host memory that nothing keeps."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    source, target = memory[0].view("int32", (32, 32)), memory[1].view("int32", (32, 32))
    source.copy_from(View.from_any_interface(np.arange(1024, dtype=np.int32).reshape(32, 32)), stream)
    target.copy_from(View.from_any_interface(np.zeros((32, 32), np.int32)), stream)
    host = View.from_any_interface(np.zeros((32, 32), np.int32))
    with stream.create_graph_builder() as builder:
        part = target.view(target._layout[:, 4:])
        part.copy_from(source.view(source._layout[:, 4:]), builder)
        with pytest.raises(ValueError, match="stream is being captured: use memory of LegacyPinnedMemoryResource"):
            target.copy_from(host, builder)
    graph = builder.complete()
    memory[0].close()
    del source, part
    graph.launch(stream)
    out = np.empty((32, 32), np.int32)
    target.copy_to(View.from_any_interface(out), stream)
    expected = np.arange(1024).reshape(32, 32)
    expected[:, :4] = 0
    assert np.array_equal(out, expected)


# ---- the number of driver calls of a copy

COPIES = ("cuMemcpyAsync", "cuMemcpy3DAsync", "cuLaunchKernelEx", "cuMemAllocFromPoolAsync", "cuMemFreeAsync")

# Views of 256 x 256 elements of 4 bytes in an array of 512 x 512: (slices of the destination, slices of the source).
LAYOUTS: dict[str, tuple[Any, Any]] = {
    "every second column": (np.s_[:256, :256], np.s_[:256, ::2]),
    "to every second column": (np.s_[:256, ::2], np.s_[:256, :256]),
    "every second row and column": (np.s_[::2, ::2], np.s_[1::2, 1::2]),
    "backwards": (np.s_[:256, :256], np.s_[255::-1, 255::-1]),
    "a window": (np.s_[:256, :256], np.s_[100:356, 100:356]),
}


@pytest.mark.cuda_sim
@pytest.mark.parametrize("layouts", [*LAYOUTS, "transposed", "broadcast"])
@pytest.mark.parametrize("places", ["dd", "hd", "dh", "hh", "pd", "dp", "pp", "hp", "ph"])
def test_a_few_calls(
    device: Device, stream: Stream, pinned: Callable[[int], Buffer], places: str, layouts: str
) -> None:
    """A copy would make a driver call for each element, or would wait although no ordinary host memory is involved."""
    sim = pytest.importorskip("cudacore_sim", reason="needs cudacore-sim")
    size = 512 * 512 * 4
    arrays = [np.arange(512 * 512, dtype="i4").reshape(512, 512), np.zeros((512, 512), "i4")]
    views: list[View] = []
    for place, array in zip(places, arrays, strict=True):
        if place == "h":
            views.append(View.from_any_interface(array.copy()))
            continue
        views.append((device.allocate(size, stream=stream) if place == "d" else pinned(size)).view("i4", (512, 512)))
        views[-1].copy_from(View.from_any_interface(array), stream)
    layout, target_layout = views[0]._layout, views[1]._layout
    if layouts == "transposed":
        source, target = layout[:256, :256].permuted((1, 0)), target_layout[:256, :256]
        arrays[1][:256, :256] = arrays[0][:256, :256].T
    elif layouts == "broadcast":
        source, target = layout[3:4, :256].broadcast_to((256, 256)), target_layout[:256, :256]
        arrays[1][:256, :256] = arrays[0][3:4, :256]
    else:
        target, source = target_layout[LAYOUTS[layouts][0]], layout[LAYOUTS[layouts][1]]
        arrays[1][LAYOUTS[layouts][0]] = arrays[0][LAYOUTS[layouts][1]]
    destination, origin = views[1].view(target), views[0].view(source)
    stream.sync()
    with sim.logging() as made:
        destination.copy_from(origin, stream)
    names = [call.name.partition("_")[0] for call in made]
    assert sum(names.count(name) for name in COPIES) <= 4, names
    # After the copy; before it, too, if memory was freed.
    assert ("cuStreamSynchronize" in names) == ("h" in places), names
    out = np.empty((512, 512), "i4")
    views[1].copy_to(View.from_any_interface(out), stream)
    assert np.array_equal(out, arrays[1])
    for view in views:
        if isinstance(view.exporting_obj, Buffer):
            view.exporting_obj.close()


@pytest.mark.cuda_sim
def test_rows_are_copied_at_once(memory: tuple[Buffer, Buffer], stream: Stream) -> None:
    """A window of a matrix would be copied row by row, or by a kernel, instead of by one driver call."""
    sim = pytest.importorskip("cudacore_sim", reason="needs cudacore-sim")
    source, target = (buffer.view("int32", (8, 128)) for buffer in memory)
    source, target = source.view(source._layout[:4, :64]), target.view(target._layout[::2, 64:])
    with sim.logging() as made:
        target.copy_from(source, stream)
    assert [call.name for call in made if call.name.startswith(("cuMemcpy", "cuLaunch"))] == ["cuMemcpy3DAsync_v2"]


@pytest.mark.cuda_sim
def test_memory_of_an_allocator(
    device: Device, stream: Stream, memory: tuple[Buffer, Buffer], host_memory: Any
) -> None:
    """The intermediate memory of a copy would not be allocated from the requested resource, or a column that is
    broadcast would be copied with the whole matrix between its elements, or once for each column."""
    resource = DeviceMemoryResource(device, {})
    given: list[int] = []

    class Counting(MemoryResource):
        is_device_accessible, is_host_accessible, device_id = True, False, 0

        def allocate(self, size: int, *, stream: Any) -> Buffer:
            given.append(size)
            return resource.allocate(size, stream=stream)

        def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
            raise AssertionError

    square = memory[0].view("int32", (32, 32))
    out = View.from_any_interface(np.zeros((16, 16), np.int32))
    square.view(square._layout[::2, ::2]).copy_to(out, stream, allocator=Counting())
    square.view(square._layout[::2, ::2]).copy_from(out, stream, allocator=Counting())
    assert given == [1024, 1024]
    for rows, columns in ((512, 512), (512, 16)):
        matrix = np.arange(rows * 1024, dtype="f4").reshape(rows, 1024)
        column = np.broadcast_to(matrix[:, :1], (rows, columns))
        with device.allocate(column.nbytes, stream=stream) as buffer:
            view = buffer.view("f4", column.shape)
            view.copy_from(View.from_any_interface(column), stream, allocator=Counting())
            copied = np.empty_like(matrix, shape=column.shape)
            view.copy_to(View.from_any_interface(copied), stream)
            assert np.array_equal(copied, column)
    assert given[2:] == [4 * 512] * 2


def test_host_memory_and_another_device(device: Device, other_device: Device) -> None:
    """A NumPy array could not be copied to or from a device to which the stream's device has no access."""
    stream, other_stream = device.create_stream(), other_device.create_stream()
    buffer = DeviceMemoryResource(other_device, {}).allocate(4096, stream=other_stream)
    buffer.fill(0, stream=other_stream)
    other_stream.sync()
    view = buffer.view("i4", (32, 32))
    array, expected = np.arange(1024, dtype="i4").reshape(32, 32), np.zeros((32, 32), "i4")
    out = np.zeros((32, 32), "i4")
    for part in (np.s_[::2, ::2], np.s_[:, ::-1], np.s_[3:7]):
        view.view(view._layout[part]).copy_from(View.from_any_interface(array[part]), stream)
        expected[part] = array[part]
        out[:] = 0
        view.view(view._layout[part]).copy_to(View.from_any_interface(out[part]), stream)
        assert np.array_equal(out[part], array[part])
    view.copy_to(View.from_any_interface(out), stream)
    assert np.array_equal(out, expected)


# ---- elements and copies of every size, and failures


@pytest.mark.parametrize("itemsize", [1, 2, 3, 4, 6, 8, 12, 16, 24, 40])
@pytest.mark.parametrize("places", ["dd", "hd", "dh"])
def test_elements_of_every_size(device: Device, stream: Stream, itemsize: int, places: str) -> None:
    """Elements of some size would be cut off or overwrite their neighbours, also at unaligned addresses."""
    shape, rng = (5, 4, 7), np.random.default_rng(itemsize)
    arrays = [rng.integers(0, 256, 1 + 5 * 4 * 7 * itemsize, "u1") for _ in places]
    buffers = [device.allocate(array.nbytes, stream=stream) for array in arrays]
    views = []
    for place, array, buffer in zip(places, arrays, buffers, strict=True):
        buffer.copy_from(array, stream=stream)
        whole = buffer.view("u1") if place == "d" else View.from_any_interface(array.copy())
        part = whole.view(whole._layout[1:])
        layout = part._layout.reshaped((*shape, itemsize)).repacked(itemsize, keep_dim=False)
        views.append(part.view(layout, f"V{itemsize}"))
    to, origin = np.s_[::2, 1:3, ::-1], np.s_[1:4, ::2, :]
    expected, given = (array[1:].view(f"V{itemsize}").reshape(shape) for array in arrays)
    given[to] = expected[origin]
    views[1].view(views[1]._layout[to]).copy_from(views[0].view(views[0]._layout[origin]), stream)
    stream.sync()
    if places[1] == "h":
        assert np.asarray(views[1]).tobytes() == arrays[1][1:].tobytes()
    else:
        out = np.empty_like(arrays[1])
        buffers[1].copy_to(out, stream=stream)
        assert np.array_equal(out, arrays[1])
    for buffer in buffers:
        buffer.close()


@pytest.mark.cuda_leaks_ok("kernels are kept for good")
@pytest.mark.parametrize(("wide", "room"), [(True, 4), (False, 64)])
def test_kernels_for_large_copies(
    device: Device, stream: Stream, monkeypatch: pytest.MonkeyPatch, wide: bool, room: int
) -> None:
    """Views with more elements than 32 bits can count, or with many axes, would be copied incorrectly."""
    if wide:
        monkeypatch.setattr(copy_kernel, "_NARROW", 0)
    shape = (2,) * 10 if room > 4 else (3, 5, 7)
    count = math.prod(shape)
    source, target = (device.allocate(4 * count, stream=stream) for _ in range(2))
    array = np.arange(count, dtype="i4").reshape(shape)
    source.copy_from(array, stream=stream)
    view = source.view("i4", shape)
    view = view.view(view._layout.permuted(tuple(reversed(range(len(shape))))))
    target.view("i4", shape[::-1]).copy_from(view, stream)
    out = np.empty(shape[::-1], "i4")
    target.copy_to(out, stream=stream)
    assert np.array_equal(out, array.T)
    for buffer in (source, target):
        buffer.close()


@pytest.mark.parametrize("threads", [True, False])
def test_many_elements_of_the_host(
    device: Device, stream: Stream, monkeypatch: pytest.MonkeyPatch, threads: bool
) -> None:
    """Threads that share the work of a copy would omit elements, or copy nothing if no thread can be started."""
    monkeypatch.setattr(view_copy, "_MIN_BYTES_OF_THREAD", 1000)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    if not threads:
        monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no thread")))
    array, out = np.arange(64 * 66, dtype="i4").reshape(64, 66), np.zeros((64, 66), "i4")
    buffer = device.allocate(array.nbytes, stream=stream)
    view = buffer.view("i4", array.shape)
    view.view(view._layout.permuted((1, 0))).copy_from(View.from_any_interface(array.reshape(66, 64)), stream)
    view.copy_to(View.from_any_interface(out[:, ::-1]), stream)
    assert np.array_equal(out[:, ::-1], array.reshape(66, 64).T)
    buffer.close()


@pytest.mark.cuda_sim
@pytest.mark.parametrize("name", COPIES[:-1])
@pytest.mark.parametrize("to_host", [False, True])
def test_a_call_that_fails(device: Device, stream: Stream, cuda_sim: Any, to_host: bool, name: str) -> None:
    """The intermediate memory of a copy would be freed during the copy; or a failure would be lost."""
    buffer = device.allocate(2048, stream=stream)
    buffer.fill(0, stream=stream)
    width = 64 if name == "cuMemcpy3DAsync" else 4
    part = buffer.view("int8", (4, 4, width), (512, 128, 1))
    host = View.from_any_interface(np.zeros((4, 4, width), "i1"), -1)
    stream.sync()
    waited = cuda_sim.calls("cuStreamSynchronize")
    cuda_sim.fail(name)
    with pytest.raises(CUDAError, match=name):
        host.copy_from(part, stream) if to_host else part.copy_from(host, stream)
    assert cuda_sim.calls("cuStreamSynchronize") > waited
    buffer.close()


# ---- the plan of a copy


@pytest.mark.parametrize(
    ("shape", "to", "origin", "width", "axes"),
    [
        ((256, 256), (1024, 4), (1024, 4), 256 * 1024, ()),
        ((256, 256), (1024, 4), (2048, 4), 1024, (Axis(256, 1024, 2048),)),
        ((256, 256), (1024, 4), (2048, 8), 4, (Axis(65536, 4, 8),)),
        ((256, 256), (-1024, -4), (-1024, -4), 256 * 1024, ()),
        ((256, 256), (4, 1024), (4, 1024), 256 * 1024, ()),
        ((256, 256), (1024, 4), (4, 1024), 4, (Axis(256, 1024, 4), Axis(256, 4, 1024))),
        ((7, 1, 3), (12, 99, 4), (0, 5, 0), 4, (Axis(21, 4, 0),)),
        ((), (), (), 4, ()),
    ],
)
def test_plans_are_simple(shape: Any, to: Any, origin: Any, width: int, axes: Any) -> None:
    """A copy would take more calls, or longer, than it needs."""
    what = plan(0, 0, shape, to, origin, 4)
    assert (what.width, what.axes) == (width, axes)


def test_tiles() -> None:
    """A transposing kernel would not copy in tiles, so that each thread of a warp accesses a separate row."""
    _, axes = plan(0, 0, (64, 96), (384, 4), (4, 256), 4).units()
    assert axes == (Axis(2, 32 * 384, 128), Axis(3, 128, 32 * 256), Axis(32, 384, 4), Axis(32, 4, 256))
