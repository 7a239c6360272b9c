# SPDX-License-Identifier: Apache-2.0
"""Copies between views of any layout, against NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudacore_handles import Buffer, ClosedError, CUDAError, Device, Stream, StridedMemoryView

View = StridedMemoryView
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@pytest.fixture
def memory(device: Device, stream: Stream) -> Iterator[tuple[Buffer, Buffer]]:
    """Two buffers of device memory."""
    buffers = device.allocate(4096, stream=stream), device.allocate(4096, stream=stream)
    yield buffers
    for buffer in buffers:
        buffer.close()


def lay_out(data: st.DataObject, view: Any, shape: tuple[int, ...]) -> Any:
    """Draw a view of a shape in the memory of another view of many elements."""
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
    """An element would land elsewhere, or something else be overwritten, whatever the two layouts are."""
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
    """Return the elements of an array that a view, of memory like it, has."""
    base = view.exporting_obj
    start = base.handle if isinstance(base, Buffer) else base.ctypes.data
    layout = view._layout
    steps = layout.strides if layout.strides is not None else layout.to_dense("C").strides
    at = (view.ptr - start) // 4 if math.prod(view.shape) else 0
    return np.lib.stride_tricks.as_strided(flat[at:], view.shape, [4 * step for step in steps])


def test_broadcast_source(memory: tuple[Buffer, Buffer], stream: Stream) -> None:
    """Elements that repeat would be copied once, or from elsewhere."""
    row = View.from_any_interface(np.arange(4, dtype=np.int32))
    target = memory[0].view("int32", (3, 4))
    target.copy_from(row.view(row._layout.broadcast_to((3, 4))), stream)
    on_device = memory[1].view("int32", (4,))
    on_device.copy_from(row, stream)
    target.copy_from(on_device.view(on_device._layout.broadcast_to((3, 4))), stream)
    out = np.empty((3, 4), np.int32)
    target.copy_to(View.from_any_interface(out), stream)
    assert out.tolist() == [[0, 1, 2, 3]] * 3


def typed(array: Any) -> View:
    """Return a view of an array whose type DLPack does not have."""
    view = View.from_array_interface(array)
    return view.view(view._layout, array.dtype)


SWAPPED = np.dtype({"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [4, 0]})


@pytest.mark.parametrize(
    ("source", "target"),
    [("M8[s]", "M8[ns]"), (">i4", ">f4"), (">i4", "<i4"), ("i4, f4", SWAPPED), ("S4", "U1"), ("m8[s]", "i8")],
)
def test_types_that_dlpack_does_not_have(stream: Stream, source: Any, target: Any) -> None:
    """Elements would be taken for those of another type: seconds for nanoseconds, one field for another."""
    one, other = (typed(np.ones(4, dtype)) for dtype in (source, target))
    for dst, src in ((one, other), (other, one)):
        with pytest.raises(ValueError, match=r"the types differ: .* cannot be copied to .*; view\(dtype=...\)"):
            dst.copy_from(src, stream)
    other.copy_from(typed(np.zeros(4, target)), stream)
    assert not np.asarray(other).view("u1").any()


def test_raw_bytes_are_of_any_type(stream: Stream) -> None:
    """What has no type, or NumPy's for raw bytes, could not be copied to what has one."""
    target = typed(np.zeros(4, ">i4"))
    target.copy_from(typed(np.ones(4, ">i4").view("V4")), stream)
    assert np.asarray(target).tolist() == [1] * 4
    raw = target.view(target._layout, dtype="V4")
    raw.copy_from(typed(np.full(4, 2, ">i4")), stream)
    assert np.asarray(target).tolist() == [2] * 4


def test_views_that_interleave(memory: tuple[Buffer, Buffer], stream: Stream) -> None:
    """Views whose elements lie between each other's would be called overlapping; or those that overlap be copied."""
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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d, h, s: d.copy_from(h.view(h._layout[:2]), s), ValueError, r"shapes differ: \(2, 4\) cannot"),
        (lambda d, h, s: d.copy_from(h.view(dtype="int32"), s), ValueError, "types differ: int32.*to float32"),
        (lambda d, h, s: d.copy_from(h.view(h._layout.repacked(2), "int16"), s), ValueError, "shapes differ"),
        (lambda d, h, s: d.copy_from(d.view(), s), ValueError, "overlap in memory"),
        (lambda d, h, s: d.copy_from(np.zeros((4, 4), "f4"), s), TypeError, "other must be a StridedMemoryView"),
        (lambda d, h, s: d.copy_from(h, None), TypeError, "stream is required"),
        (lambda d, h, s: d.copy_to(h), TypeError, "stream is required"),
        (lambda d, h, s: d.copy_to(h, 3), TypeError, "got int"),
        (
            lambda d, h, s: d.view(d._layout[:1].broadcast_to((4, 4))).copy_from(h, s),
            ValueError,
            "several elements at one address",
        ),
        (
            lambda d, h, s: View.from_buffer(d.exporting_obj, (4, 4), dtype="float32", is_readonly=True).copy_from(
                h, s
            ),
            ValueError,
            "read-only",
        ),
    ],
)
def test_bad_copies(
    call: Any, error: type[Exception], message: str, memory: tuple[Buffer, Buffer], stream: Any
) -> None:
    """What cannot be copied would be copied in part, or in silence."""
    host = View.from_any_interface(np.zeros((4, 4), "f4"))
    with pytest.raises(error, match=message):
        call(memory[0].view("float32", (4, 4)), host, stream)


def test_a_closed_stream(memory: tuple[Buffer, Buffer], device: Device) -> None:
    """The copy would go to another stream."""
    stream = device.create_stream()
    stream.close()
    with pytest.raises(ClosedError, match="Stream has been closed"):
        memory[0].view("int32").copy_from(memory[1].view("int32"), stream)


def test_copies_of_a_graph(memory: tuple[Buffer, Buffer], device: Device, stream: Stream) -> None:
    """A graph would copy from memory that is gone, or from memory of the host that nobody keeps."""
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


@pytest.mark.cuda_sim
def test_rows_are_copied_at_once(memory: tuple[Buffer, Buffer], stream: Stream) -> None:
    """Half of a matrix would be copied row by row."""
    sim = pytest.importorskip("cudacore_sim", reason="needs cudacore-sim")
    source, target = (buffer.view("int32", (32, 32)) for buffer in memory)
    source, target = source.view(source._layout[:, :16]), target.view(target._layout[::2, 16:])
    source = source.view(source._layout[:16])
    copies = [sim.calls(name) for name in ("cuMemcpyAsync", "cuMemcpy3DAsync")]
    target.copy_from(source, stream)
    assert [sim.calls(name) for name in ("cuMemcpyAsync", "cuMemcpy3DAsync")] == [copies[0], copies[1] + 1]


@pytest.mark.cuda_sim
@pytest.mark.parametrize("to_host", [False, True])
def test_a_piece_that_fails(device: Device, stream: Stream, cuda_sim: Any, to_host: bool) -> None:
    """What passes the elements on would be freed under the pieces that are copied already."""
    buffer = device.allocate(64, stream=stream)
    buffer.fill(0, stream=stream)
    rows = buffer.view("int8", (4, 4), (8, 1))
    host = View.from_any_interface(np.zeros((4, 8), "i1")[:, ::2], -1)
    waited = cuda_sim.calls("cuStreamSynchronize")
    cuda_sim.fail("cuMemcpyAsync", 3)
    with pytest.raises(CUDAError, match="cuMemcpyAsync"):
        host.copy_from(rows, stream) if to_host else rows.copy_from(host, stream)
    assert cuda_sim.calls("cuStreamSynchronize") == waited + 1
