# SPDX-License-Identifier: Apache-2.0
"""Checks of a layout's arguments, and computations on shapes and strides."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from cudacore_handles._base.address import check_int

_MAX = 2**63 - 1


def fits(value: int, what: str) -> int:
    """Return a number after checking that it fits into 64 bits."""
    if not -_MAX - 1 <= value <= _MAX:
        raise OverflowError(f"value too large: {what} is {value}, which does not fit into 64 bits")
    return value


def ints(name: str, values: Any) -> tuple[int, ...]:
    """Return an argument as a tuple of ints of 64 bits."""
    try:
        numbers = tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"{name} must be a tuple of ints, not {values!r}") from None
    for number in numbers:
        fits(number, f"a number in {name}")
    return numbers


def check_itemsize(name: str, value: Any) -> int:
    size = check_int(name, value, "an int, the bytes of an element")
    if size <= 0:
        raise ValueError(f"{name} must be positive, not {size}")
    if size >= 2**31:
        raise OverflowError(f"value too large: {name} is {size}; the maximum is 2**31 - 1 bytes")
    return size


def axis_of(axis: int, ndim: int, what: str) -> int:
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise ValueError(f"Invalid {what}: {number} out of range for {ndim}D tensor")
    return number % ndim


def order_of(stride_order: Any, ndim: int, choices: str) -> tuple[int, ...]:
    """Return the axes from the outermost to the innermost."""
    if isinstance(stride_order, str):
        if stride_order not in ("C", "F"):
            raise ValueError(f"The stride_order must be {choices}. Got: {stride_order}")
        return tuple(range(ndim)) if stride_order == "C" else tuple(range(ndim - 1, -1, -1))
    given = ints("stride_order", stride_order)
    if len(given) != ndim:
        raise ValueError(
            f"stride_order must have the same length as shape. Shape has {ndim} dimensions, but stride_order has "
            f"{len(given)} elements."
        )
    order = tuple(axis_of(axis, ndim, "axis") for axis in given)
    for axis in order:
        if order.count(axis) > 1:
            raise ValueError(f"The stride order must be a permutation. Axis {axis} appears multiple times.")
    return order


def dense_strides(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Return strides without gaps for axes from the outermost to the innermost; zeros if there are no elements."""
    strides, step = [0] * len(shape), 1
    if 0 in shape:
        return tuple(strides)
    for axis in reversed(order):
        strides[axis] = fits(step, "a stride")
        step *= shape[axis]
    return tuple(strides)


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], inner_to_outer: Iterable[int]) -> bool:
    expected = 1
    for axis in inner_to_outer:
        if shape[axis] == 0:
            return True
        if shape[axis] != 1 and strides[axis] != expected:
            return 0 in shape
        expected *= shape[axis]
    return True


def nests(shape: tuple[int, ...], strides: tuple[int, ...], *, exactly: bool) -> bool:
    """Return whether the axes nest: each stride is larger than the highest offset of the axes with smaller strides.

    Strides are compared by their absolute values. If `exactly` is true, they must also be positive, and leave no gaps.
    """
    if 0 in shape:
        return True
    reach = 0  # the highest offset of the inner elements
    for step, extent in sorted((abs(step), extent) for step, extent in zip(strides, shape, strict=True) if extent != 1):
        if step != reach + 1 if exactly else step <= reach:
            return False
        reach += step * (extent - 1)
    return not exactly or all(step > 0 for step, extent in zip(strides, shape, strict=True) if extent != 1)
