# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of strided layouts, compared with NumPy's."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cudacore_handles._views.layout import _StridedLayout as Layout

MOST = 2**63 - 1
UNHURRIED = settings(deadline=None)  # a busy machine can be slow
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
FULL = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
SLICES = st.builds(slice, *[st.none() | st.integers(-5, 5)] * 2, st.none() | st.integers(-3, 3).filter(bool))


def array_and_layout(data: st.DataObject, shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES) -> tuple[Any, Layout]:
    """Draw a permuted and sliced NumPy view, with its layout. The value of each element is its offset."""
    shape = data.draw(shapes)
    array, layout = np.arange(math.prod(shape), dtype=np.int32).reshape(shape), Layout(shape, None, 4)
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(len(shape))))
        array, layout = array.transpose(order), layout.permuted(tuple(order))
    for _ in range(data.draw(st.integers(0, 2))):
        parts = tuple(data.draw(st.lists(SLICES, max_size=array.ndim)))
        array, layout = array[(*parts, ...)], layout[parts]  # with `...`, the result is never a scalar
    return array, layout


def offsets(layout: Layout) -> Any:
    """Return the offsets of all elements, in an array of the layout's shape."""
    result = np.full(layout.shape, layout.slice_offset)
    strides = layout.strides if layout.strides is not None else layout.to_dense("C").strides
    for axis, step in enumerate(strides):
        result += np.arange(layout.shape[axis]).reshape([-1 if at == axis else 1 for at in range(layout.ndim)]) * step
    return result


def check(layout: Layout, array: Any) -> None:
    assert layout.shape == array.shape
    assert layout.ndim == array.ndim
    assert layout.volume == array.size
    assert np.array_equal(offsets(layout), array)


@UNHURRIED
@given(st.data())
def test_views(data: st.DataObject) -> None:
    """An element would be read from the wrong place, or a copy would access memory outside of the array."""
    array, layout = array_and_layout(data)
    check(layout, array)
    assert layout.is_contiguous_c == array.flags.c_contiguous
    assert layout.is_contiguous_f == array.flags.f_contiguous
    assert layout.is_unique
    if array.size:
        assert layout.offset_bounds == (array.min(), array.max())
        dense = array.max() - array.min() + 1 == array.size
        positive = all(step > 0 for step, extent in zip(array.strides, array.shape, strict=True) if extent > 1)
        assert layout.is_contiguous_any == (dense and positive)
        assert layout.required_size_in_bytes() == 4 * (array.max() + 1)
    else:
        assert layout.offset_bounds == (0, -1)
        assert layout.required_size_in_bytes() == 0
    assert layout.is_dense == (layout.is_contiguous_any and not layout.slice_offset)


@UNHURRIED
@given(st.data())
def test_indices(data: st.DataObject) -> None:
    """An index would select another element than in NumPy."""
    array, layout = array_and_layout(data, FULL)
    assume(array.size)
    parts = tuple(
        data.draw(st.integers(-extent, extent - 1) | SLICES)
        for extent in array.shape[: data.draw(st.integers(0, array.ndim))]
    )
    check(layout[parts], np.asarray(array[parts]))


@UNHURRIED
@given(st.data())
def test_permuted_squeezed_and_unsqueezed(data: st.DataObject) -> None:
    """Axes would be exchanged, lost or added at a wrong position."""
    array, layout = array_and_layout(data)
    order = data.draw(st.permutations(range(array.ndim)))
    check(layout.permuted(tuple(order)), array.transpose(order))
    if array.size:
        check(layout.squeezed(), array.squeeze())
    count = data.draw(st.integers(1, 3))
    axes = data.draw(st.sets(st.integers(0, array.ndim + count - 1), min_size=count, max_size=count))
    check(layout.unsqueezed(tuple(axes)), np.expand_dims(array, tuple(axes)))


@UNHURRIED
@given(st.data())
def test_broadcast_to(data: st.DataObject) -> None:
    """Elements would be repeated along the wrong axis, or read beyond the end of the memory."""
    array, layout = array_and_layout(data)
    shape = data.draw(SHAPES)
    try:
        expected = np.broadcast_to(array, shape)
    except ValueError:
        with pytest.raises(ValueError, match="broadcast"):
            layout.broadcast_to(shape)
        return
    result = layout.broadcast_to(shape)
    check(result, expected)
    if expected.size:
        assert result.is_unique == (len(np.unique(expected)) == expected.size)


@UNHURRIED
@given(st.data())
def test_reshaped(data: st.DataObject) -> None:
    """A reshape that needs a copy would return wrong elements, or a reshape that needs no copy would be refused."""
    array, layout = array_and_layout(data)
    rest, shape = array.size, []
    while rest > 1 and len(shape) < 4:
        factor = data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
        shape.append(factor)
        rest //= factor
    shape = data.draw(st.permutations([*shape, rest]))
    expected = np.reshape(array, shape)
    if array.size and not np.shares_memory(expected, array):  # a copy
        with pytest.raises(ValueError, match="strides are incompatible"):
            layout.reshaped(tuple(shape))
        return
    check(layout.reshaped(tuple(shape)), expected)
    if array.size:
        shape[data.draw(st.integers(0, len(shape) - 1))] = -1
        check(layout.reshaped(tuple(shape)), expected)


@UNHURRIED
@given(st.data())
def test_flattened(data: st.DataObject) -> None:
    """Axes would be merged although no single stride covers both, or would not be merged although one stride does."""
    array, layout = array_and_layout(data, FULL)
    assume(array.size)
    check(layout.flattened().reshaped(array.shape), array)
    assert np.array_equal(offsets(layout.flattened()).ravel(), array.ravel())
    if array.ndim:
        start, end = data.draw(st.integers(0, array.ndim - 1)), data.draw(st.integers(0, array.ndim - 1))
        part = layout.flattened(start, end)
        assert np.array_equal(offsets(part).ravel(), array.ravel())
        assert part.shape[:start] == array.shape[:start]
        assert layout.ndim - part.ndim <= max(end - start, 0)
        other = Layout.dense(array.shape, 4)
        mask = layout.flattened_axis_mask() & other.flattened_axis_mask()
        assert layout.flattened(mask=mask).shape == other.flattened(mask=mask).shape


@UNHURRIED
@given(st.data(), st.sampled_from("CFK"))
def test_dense(data: st.DataObject, order: str) -> None:
    """New memory would be laid out in another order than requested, or with gaps."""
    array, layout = array_and_layout(data, FULL)
    assume(array.size)
    dense = layout.to_dense(order)
    assert dense.is_dense
    assert dense.shape == array.shape
    assert dense.required_size_in_bytes() == array.nbytes
    if order != "K":
        assert dense == Layout.dense(array.shape, 4, order)
        assert dense.strides_in_bytes is not None
        check(dense, np.arange(array.size).reshape(array.shape, order=order))
    else:
        assert dense.squeezed().stride_order == layout.squeezed().stride_order
    assert Layout.dense(array.shape, 4, dense.stride_order).squeezed() == dense.squeezed()


@UNHURRIED
@given(st.data(), st.sampled_from([1, 2, 4, 8, 16, 12]))
def test_repacked(data: st.DataObject, itemsize: int) -> None:
    """Bytes that are not adjacent, or elements that are not aligned, would be joined."""
    shape = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple))
    array, layout = np.arange(math.prod(shape), dtype=np.int32).reshape(shape), Layout(shape, None, 4)
    parts = tuple(data.draw(st.lists(SLICES, max_size=array.ndim - 1)))
    array, layout = array[(*parts, ...)], layout[parts]  # with `...`, the result is never a scalar
    assume(array.size)
    try:
        packed = layout.repacked(itemsize)
    except ValueError:
        assert itemsize > 4
        return
    # the offsets of all bytes must be the same in both layouts
    places = offsets(packed)[..., None] * itemsize + np.arange(itemsize)
    expected = offsets(layout)[..., None] * 4 + np.arange(4)
    assert np.array_equal(places.reshape(-1), expected.reshape(-1))
    best = layout.max_compatible_itemsize(itemsize) if itemsize >= 4 else 0
    assert best == itemsize or itemsize < 4
    with pytest.raises(ValueError, match="aligned"):
        Layout((16,), None, 1).repacked(8, data_ptr=4)


@UNHURRIED
@given(st.data(), st.sampled_from([4, 8, 16, 32]), st.integers(0, 64))
def test_max_compatible_itemsize(data: st.DataObject, most: int, address: int) -> None:
    """An item size would be reported as compatible although the layout cannot be converted to it."""
    _, layout = array_and_layout(data, FULL)
    assume(layout.ndim and layout.volume)
    size = layout.max_compatible_itemsize(most, data_ptr=address)
    assert size <= most
    if size != layout.itemsize:
        layout.repacked(size, data_ptr=address)


@UNHURRIED
@given(
    st.lists(st.integers(0, MOST), max_size=4),
    st.lists(st.integers(-MOST - 1, MOST), max_size=4),
    st.integers(1, 2**31 - 1),
)
def test_enormous(shape: list[int], strides: list[int], itemsize: int) -> None:
    """Sizes beyond 64 bits would wrap around, and an enormous layout would count as a small one."""
    shape, strides = shape[: len(strides)], strides[: len(shape)]
    layout = Layout(shape, strides, itemsize)
    exact = {
        "volume": math.prod(shape),
        "min_offset": sum(min((n - 1) * step, 0) for n, step in zip(shape, strides, strict=True)),
        "max_offset": sum(max((n - 1) * step, 0) for n, step in zip(shape, strides, strict=True)),
    }
    if 0 in shape:
        exact |= {"min_offset": 0, "max_offset": -1}
    for name, value in exact.items():
        other = exact["max_offset" if name == "min_offset" else "min_offset"] if name != "volume" else 0
        if all(-MOST - 1 <= number <= MOST for number in (value, other)):
            assert getattr(layout, name) == value
        else:
            with pytest.raises(OverflowError, match="64 bits"):
                getattr(layout, name)
    for method in (layout.squeezed, layout.flattened, layout.to_dense, lambda: layout.unsqueezed(0)):
        try:
            result = method()
        except OverflowError:
            continue
        assert all(-MOST - 1 <= number <= MOST for number in (*result.shape, *(result.strides or ())))


def test_implicit_strides() -> None:
    """A layout that was made without strides would look like a layout with strides."""
    layout = Layout((3, 4), None, 4)
    assert layout.strides is None
    assert layout.strides_in_bytes is None
    assert layout != Layout((3, 4), (4, 1), 4)
    assert layout.permuted((0, 1)) == Layout((3, 4), (4, 1), 4)
    assert repr(layout[1:]) == "_StridedLayout(shape=(2, 4), strides=(4, 1), itemsize=4, _slice_offset=4)"
    assert Layout((3, 4), (16, 4), 4, True) == Layout((3, 4), (4, 1), 4)


def test_copies() -> None:
    """A pickled or copied layout would differ from the original, or a layout could be changed."""
    layout = Layout((3, 4), None, 4)[1:, ::-1]
    assert pickle.loads(pickle.dumps(layout)) == copy.deepcopy(layout) == layout
    assert len({layout, copy.copy(layout), Layout((3, 4), None, 4)}) == 2
    with pytest.raises(AttributeError, match="not writable"):
        layout.itemsize = 8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Layout((3, -4), None, 4), ValueError, r"Extents must be non-negative, and shape is \(3, -4\)"),
        (lambda: Layout((3.0, 4), None, 4), TypeError, "shape must be a tuple of ints"),
        (lambda: Layout(3, None, 4), TypeError, "shape must be a tuple of ints"),
        (lambda: Layout((1,) * 65, None, 4), ValueError, "65 dimensions; the maximum is 64"),
        (lambda: Layout((3,), (1, 2), 4), ValueError, "Shape has 1 dimensions, but strides has 2"),
        (lambda: Layout((3,), (6,), 4, True), ValueError, "divisible by itemsize"),
        (lambda: Layout((3,), None, 0), ValueError, "itemsize must be positive"),
        (lambda: Layout((3,), None, 2**31), OverflowError, "itemsize is 2147483648"),
        (lambda: Layout((3,), (2**63,), 4), OverflowError, "a number in strides"),
        (lambda: Layout((2,), (2**62,), 4).strides_in_bytes, OverflowError, "a stride in bytes"),
        (lambda: Layout((3, 4), None, 4)[::-1].permuted((0, 0)), ValueError, "axis 0 appears multiple times"),
        (lambda: Layout((3, 4), None, 4).permuted((0,)), ValueError, "got 1 for 2D"),
        (lambda: Layout((3, 4), (-4, 1), 4).required_size_in_bytes(), ValueError, "min_offset is -8"),
        (lambda: Layout((3, 4), None, 4)[3], ValueError, "3 out of range for axis 0 with extent 3"),
        (lambda: Layout((3, 4), None, 4)[1, 2, 3], ValueError, r"slices \(3\) is greater"),
        (lambda: Layout((3, 4), None, 4)["a"], TypeError, "Expected slice instance or integer"),
        (lambda: Layout((3, 4), None, 4)[::0], ValueError, "step cannot be zero"),
        (lambda: Layout((3, 4), None, 4).reshaped((-1, -1)), ValueError, "at most one -1"),
        (lambda: Layout((3, 4), None, 4).reshaped((5, -1)), ValueError, "divisible by the specified sub-volume 5"),
        (lambda: Layout((3, 4), None, 4).reshaped((13,)), ValueError, "12 and the new volume 13"),
        (lambda: Layout((0, 4), None, 4).reshaped((0, -1)), ValueError, "ambiguous"),
        (lambda: Layout((3, 4), None, 4).unsqueezed((0, 0)), ValueError, "Axis 0 appears multiple times"),
        (lambda: Layout((3, 4), None, 4).unsqueezed(3), ValueError, "out of range"),
        (lambda: Layout((3, 4), None, 4).repacked(0), ValueError, "greater than zero"),
        (lambda: Layout((3, 4), None, 4).repacked(3), ValueError, "multiple or a divisor"),
        (lambda: Layout((3, 4), None, 4).repacked(8, axis=0), ValueError, "stride must be 1, got 4"),
        (lambda: Layout((3, 4), None, 4).max_compatible_itemsize(2), ValueError, "cannot be less than itemsize"),
        (lambda: Layout((3, 4), None, 4).flattened(0, 3), ValueError, "Invalid end axis"),
        (lambda: Layout((3, 4), None, 4).flattened(mask=-1), OverflowError, "cannot be negative"),
        (lambda: Layout.dense((3, 4), 4, "K"), ValueError, "must be 'C', 'F', or a permutation"),
        (lambda: Layout.dense((3, 4), 4, (0, 0)), ValueError, "Axis 0 appears multiple times"),
        (lambda: Layout.dense_like((3, 4)), TypeError, "must be a _StridedLayout, not tuple"),
        (lambda: Layout((1,) * 64, None, 4).broadcast_to((1,) * 65), ValueError, "the maximum is 64"),
        (lambda: Layout((1,) * 64, None, 4).unsqueezed(0), ValueError, "the maximum is 64"),
    ],
)
def test_bad_arguments(call: Any, error: type[Exception], message: str) -> None:
    """The error would not name the wrong argument and the reason."""
    with pytest.raises(error, match=message):
        call()
