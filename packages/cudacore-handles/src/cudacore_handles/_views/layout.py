# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of strided arrays: the positions of elements. It uses neither memory nor a driver."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from cudacore_handles._views.layout_arguments import (
    axis_of,
    check_itemsize,
    dense_strides,
    fits,
    ints,
    is_contiguous,
    nests,
    order_of,
)

MAX_NDIM = 64


class _OutOfRangeError(IndexError, ValueError):
    """An index is out of range: a ValueError as in `cuda.core`, and an IndexError, at which Python ends iterations."""


class _StridedLayout:
    """The positions of an array's elements: its shape, strides, and bytes per element.

    Strides and offsets are counted in elements, not bytes. A layout is immutable; the methods return new ones. A value
    that does not fit into 64 bits raises an OverflowError in the call that computes it.

    Parameters
    ----------
    shape : tuple of int
        Up to 64 extents, which must not be negative.
    strides : tuple of int, optional
        The same number of strides, of any sign. None: the strides of C order; :attr:`strides` is None then.
    itemsize : int
        Bytes of an element.
    divide_strides : bool, optional
        Whether `strides` are in bytes, so that they must be divided by `itemsize`. Default False.

    Attributes
    ----------
    itemsize : int
        Bytes of an element.
    slice_offset : int
        The position of the element of index ``(0, ..., 0)``, in elements; 0 unless the layout was sliced.
    """

    __slots__ = ("_shape", "_strides", "itemsize", "slice_offset")

    itemsize: int
    slice_offset: int
    _shape: tuple[int, ...]
    _strides: tuple[int, ...] | None

    def __init__(
        self,
        shape: Sequence[int],
        strides: Sequence[int] | None,
        itemsize: int,
        divide_strides: bool = False,
    ) -> None:
        extents = ints("shape", shape)
        size = check_itemsize("itemsize", itemsize)
        if len(extents) > MAX_NDIM:
            raise ValueError(f"shape has {len(extents)} dimensions; the maximum is {MAX_NDIM}")
        if any(extent < 0 for extent in extents):
            raise ValueError(f"Extents must be non-negative, and shape is {extents}")
        steps = None
        if strides is not None:
            steps = ints("strides", strides)
            if len(steps) != len(extents):
                raise ValueError(
                    "Strides, if provided, must have the same length as shape. "
                    f"Shape has {len(extents)} dimensions, but strides has {len(steps)} elements."
                )
            if divide_strides:
                if any(step % size for step in steps):
                    raise ValueError(
                        f"strides must be divisible by itemsize, and they are {steps} bytes, of elements of {size}"
                    )
                steps = tuple(step // size for step in steps)
        self._set(extents, steps, size, 0)

    def _set(self, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int, offset: int) -> None:
        keep = object.__setattr__
        keep(self, "_shape", shape)
        keep(self, "_strides", strides)
        keep(self, "itemsize", itemsize)
        keep(self, "slice_offset", offset)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a layout is not writable: make another layout")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of a layout is not writable: make another layout")

    @classmethod
    def _make(cls, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int, offset: int = 0) -> Any:
        """Make a layout from computed values; only the range of the numbers is checked."""
        if len(shape) > MAX_NDIM:
            raise ValueError(f"shape has {len(shape)} dimensions; the maximum is {MAX_NDIM}")
        for numbers in (shape, strides or (), (offset,)):
            for number in numbers:
                fits(number, "a number of the layout")
        layout = cls.__new__(cls)
        layout._set(shape, strides, itemsize, offset)
        return layout

    def __reduce__(self) -> tuple[Any, ...]:
        return (_StridedLayout._make, (self._shape, self._strides, self.itemsize, self.slice_offset))

    def __repr__(self) -> str:
        offset = f", _slice_offset={self.slice_offset}" if self.slice_offset else ""
        return f"_StridedLayout(shape={self._shape}, strides={self._strides}, itemsize={self.itemsize}{offset})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _StridedLayout):
            return NotImplemented
        return self.__reduce__()[1] == other.__reduce__()[1]

    def __hash__(self) -> int:
        return hash(self.__reduce__()[1])

    def __getitem__(self, slices: Any) -> _StridedLayout:
        """Return the layout of some of the elements; see :meth:`sliced`."""
        return self.sliced(slices)

    @classmethod
    def dense(cls, shape: Sequence[int], itemsize: int, stride_order: str | Sequence[int] = "C") -> _StridedLayout:
        """Return a layout without gaps.

        Parameters
        ----------
        shape : tuple of int
            Extents.
        itemsize : int
            Bytes of an element.
        stride_order : str or tuple of int, optional
            "C" (the default): the last axis is the innermost. "F": the first axis is. Or the axes, from the outermost
            to the innermost.
        """
        plain = cls(shape, None, itemsize)
        order = order_of(stride_order, plain.ndim, "'C', 'F', or a permutation tuple")
        return cls._make(plain._shape, dense_strides(plain._shape, order), plain.itemsize)

    @classmethod
    def dense_like(cls, other: _StridedLayout, stride_order: str | Sequence[int] = "K") -> _StridedLayout:
        """Return a layout without gaps and without an offset, with the shape and itemsize of another one.

        Parameters
        ----------
        other : _StridedLayout
            The other layout.
        stride_order : str or tuple of int, optional
            As in :meth:`dense`, or "K" (the default): the order of the axes of `other`.
        """
        if not isinstance(other, _StridedLayout):
            raise TypeError(f"other must be a _StridedLayout, not {type(other).__name__}")
        if isinstance(stride_order, str) and stride_order == "K":
            if other.is_dense:
                return other
            order = other.stride_order
        else:
            order = order_of(stride_order, other.ndim, "'K', 'C', 'F', or a permutation tuple")
        return cls._make(other._shape, dense_strides(other._shape, order), other.itemsize)

    def to_dense(self, stride_order: str | Sequence[int] = "K") -> _StridedLayout:
        """Return a layout without gaps and offset, of the shape of this one; see :meth:`dense_like`."""
        return _StridedLayout.dense_like(self, stride_order)

    # ---- properties ----

    def _steps(self) -> tuple[int, ...]:
        """Return the strides, even if they are implicit."""
        if self._strides is not None:
            return self._strides
        return dense_strides(self._shape, range(len(self._shape)))

    @property
    def ndim(self) -> int:
        """int: Number of dimensions."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """tuple of int: Extents."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...] | None:
        """tuple of int or None: Strides in elements; None if none were given, which means C order."""
        return self._strides

    @property
    def strides_in_bytes(self) -> tuple[int, ...] | None:
        """tuple of int or None: Strides in bytes; None if :attr:`strides` is None."""
        if self._strides is None:
            return None
        return tuple(fits(step * self.itemsize, "a stride in bytes") for step in self._strides)

    @property
    def stride_order(self) -> tuple[int, ...]:
        """tuple of int: The axes, from the one with the longest stride to the one with the shortest."""
        steps = self._steps()
        return tuple(sorted(range(self.ndim), key=lambda axis: -abs(steps[axis])))

    @property
    def volume(self) -> int:
        """int: Number of elements."""
        return fits(math.prod(self._shape), "the number of elements")

    @property
    def is_unique(self) -> bool:
        """bool: Whether no two elements share a position.

        True for every layout that was made from a contiguous one by permuting, slicing, reshaping and so on; False for
        broadcast ones. For arbitrary strides, the property can be False even if no two elements share a position.
        """
        return nests(self._shape, self._steps(), exactly=False)

    @property
    def is_contiguous_c(self) -> bool:
        """bool: Whether the elements are contiguous, with the last axis innermost."""
        return is_contiguous(self._shape, self._steps(), range(self.ndim - 1, -1, -1))

    @property
    def is_contiguous_f(self) -> bool:
        """bool: Whether the elements are contiguous, with the first axis innermost."""
        return is_contiguous(self._shape, self._steps(), range(self.ndim))

    @property
    def is_contiguous_any(self) -> bool:
        """bool: Whether the elements are contiguous, in some order of the axes."""
        return nests(self._shape, self._steps(), exactly=True)

    @property
    def is_dense(self) -> bool:
        """bool: Whether the elements are contiguous in some order of the axes, beginning at position 0."""
        return self.slice_offset == 0 and self.is_contiguous_any

    @property
    def offset_bounds(self) -> tuple[int, int]:
        """tuple of int: The lowest and the highest position of an element; (0, -1) if there are no elements."""
        low = high = self.slice_offset
        for extent, step in zip(self._shape, self._steps(), strict=True):
            if extent == 0:
                return (0, -1)
            reach = step * (extent - 1)
            low += min(reach, 0)
            high += max(reach, 0)
        return (fits(low, "the lowest offset"), fits(high, "the highest offset"))

    @property
    def min_offset(self) -> int:
        """int: The lowest position of an element; see :attr:`offset_bounds`."""
        return self.offset_bounds[0]

    @property
    def max_offset(self) -> int:
        """int: The highest position of an element; see :attr:`offset_bounds`."""
        return self.offset_bounds[1]

    @property
    def slice_offset_in_bytes(self) -> int:
        """int: :attr:`slice_offset` in bytes."""
        return fits(self.slice_offset * self.itemsize, "the offset in bytes")

    def required_size_in_bytes(self) -> int:
        """Return the bytes of memory that an array of this layout needs, starting at its address.

        Raises
        ------
        ValueError
            If elements lie before that address.
        """
        low, high = self.offset_bounds
        if low < 0:
            raise ValueError(
                "Allocation size for a layout that maps elements to negative memory offsets is ambiguous. "
                f"The layout's min_offset is {low}."
            )
        return fits((high + 1) * self.itemsize, "the size in bytes")

    # ---- layouts derived from this one ----

    def flattened_axis_mask(self) -> int:
        """Return which axes :meth:`flattened` can merge: bit i is set if axis i can be merged into axis i - 1."""
        steps, mask = self._steps(), 0
        for axis in range(1, self.ndim):
            if steps[axis - 1] == steps[axis] * self._shape[axis]:
                mask |= 1 << axis
        return mask

    def flattened(self, start_axis: int = 0, end_axis: int = -1, mask: int | None = None) -> _StridedLayout:
        """Return a layout in which neighbouring axes are merged, if a single stride can traverse them.

        Parameters
        ----------
        start_axis, end_axis : int, optional
            The first and the last axis to consider. Default: all.
        mask : int, optional
            The axes that may be merged, as returned by :meth:`flattened_axis_mask`. Default: all that can be.
        """
        if self.ndim == 0:
            return self._make((1,), (1,), self.itemsize, self.slice_offset)
        start, end = axis_of(start_axis, self.ndim, "start axis"), axis_of(end_axis, self.ndim, "end axis")
        allowed = self.flattened_axis_mask()
        if mask is not None:
            given = operator.index(mask)
            if given < 0:
                raise OverflowError(f"mask is {given}; it cannot be negative")
            allowed &= given
        shape, strides = [self._shape[0]], [self._steps()[0]]
        for axis in range(1, self.ndim):
            extent, step = self._shape[axis], self._steps()[axis]
            if start < axis <= end and allowed >> axis & 1:
                shape[-1] *= extent
                strides[-1] = step
            else:
                shape.append(extent)
                strides.append(step)
        return self._make(tuple(shape), tuple(strides), self.itemsize, self.slice_offset)

    def reshaped(self, shape: Sequence[int]) -> _StridedLayout:
        """Return a layout of another shape with the same elements in C order.

        Parameters
        ----------
        shape : tuple of int
            The new extents; one of them can be -1, which is computed.

        Raises
        ------
        ValueError
            If the number of elements differs, or the strides do not allow the shape without a copy.
        """
        extents = list(ints("shape", shape))
        volume = self.volume
        if extents.count(-1) > 1:
            raise ValueError("There can be at most one -1 extent in a shape")
        if any(extent < -1 for extent in extents):
            raise ValueError(f"Extents must be non-negative, and shape is {tuple(extents)}")
        if -1 in extents:
            others = math.prod(extent for extent in extents if extent != -1)
            if others == 0:
                raise ValueError("The -1 extent is ambiguous when the specified sub-volume is 0")
            if volume % others:
                raise ValueError(
                    f"The original volume {volume} must be divisible by the specified sub-volume {others}."
                )
            extents[extents.index(-1)] = volume // others
        if math.prod(extents) != volume:
            raise ValueError(f"The original volume {volume} and the new volume {math.prod(extents)} must be equal.")
        strides = (0,) * len(extents) if volume == 0 else self._split(extents)
        return self._make(tuple(extents), strides, self.itemsize, self.slice_offset)

    def _split(self, extents: list[int]) -> tuple[int, ...]:
        """Return the strides of a new shape, each of whose axes must lie within one merged axis of this layout."""
        merged = self.squeezed().flattened()
        groups = list(zip(merged._shape, merged._steps(), strict=True))
        left, step = groups.pop()
        strides = []
        for extent in reversed(extents):
            if left == 1 and extent != 1 and groups:
                left, step = groups.pop()
            if left % extent:
                raise ValueError("Layout strides are incompatible with the new shape")
            strides.append(step)
            step *= extent
            left //= extent
        return tuple(reversed(strides))

    def permuted(self, axis_order: Sequence[int]) -> _StridedLayout:
        """Return a layout with the axes of this one in another order.

        Parameters
        ----------
        axis_order : tuple of int
            Each axis exactly once; negative ones count from the end.
        """
        given = ints("axis_order", axis_order)
        if len(given) != self.ndim:
            raise ValueError(
                "Permutation must have the same length as the number of dimensions, "
                f"got {len(given)} for {self.ndim}D tensor."
            )
        order = [axis_of(axis, self.ndim, "axis") for axis in given]
        for axis in order:
            if order.count(axis) > 1:
                raise ValueError(f"Invalid permutation: axis {axis} appears multiple times.")
        steps = self._steps()
        shape = tuple(self._shape[axis] for axis in order)
        return self._make(shape, tuple(steps[axis] for axis in order), self.itemsize, self.slice_offset)

    def squeezed(self) -> _StridedLayout:
        """Return a layout without the axes of extent 1. For an empty layout, the shape is (0,)."""
        if 0 in self._shape:
            return self._make((0,), (0,), self.itemsize, self.slice_offset)
        kept = [(extent, step) for extent, step in zip(self._shape, self._steps(), strict=True) if extent != 1]
        shape, strides = tuple(extent for extent, _ in kept), tuple(step for _, step in kept)
        return self._make(shape, strides, self.itemsize, self.slice_offset)

    def unsqueezed(self, axis: int | Sequence[int]) -> _StridedLayout:
        """Return a layout with additional axes of extent 1.

        Parameters
        ----------
        axis : int or tuple of int
            The positions of the new axes in the new layout; negative ones count from its end.
        """
        given = ints("axis", axis) if isinstance(axis, Iterable) else (operator.index(axis),)
        if not given:
            return self
        ndim = self.ndim + len(given)
        if ndim > MAX_NDIM:
            raise ValueError(f"shape would have {ndim} dimensions; the maximum is {MAX_NDIM}")
        new = set()
        for number in given:
            at = number + ndim if number < 0 else number
            if not 0 <= at < ndim:
                raise ValueError(f"Invalid axis: {number} out of range for {ndim - 1}D tensor")
            if at in new:
                raise ValueError(f"Axis {at} appears multiple times.")
            new.add(at)
        old = list(zip(self._shape, self._steps(), strict=True))
        axes: list[tuple[int, int]] = []
        for at in range(ndim - 1, -1, -1):
            axes.append((1, axes[-1][0] * axes[-1][1] if axes else 1) if at in new else old.pop())
        axes.reverse()
        shape, strides = tuple(extent for extent, _ in axes), tuple(step for _, step in axes)
        return self._make(shape, strides, self.itemsize, self.slice_offset)

    def broadcast_to(self, shape: Sequence[int]) -> _StridedLayout:
        """Return a layout in which axes of extent 1, and new axes in front, repeat their elements.

        Parameters
        ----------
        shape : tuple of int
            The new extents.
        """
        extents = _StridedLayout(shape, None, self.itemsize)._shape
        added = len(extents) - self.ndim
        if added < 0:
            raise ValueError(
                f"The broadcast shape ndim ({len(extents)}) must be greater than or equal to the input shape "
                f"ndim ({self.ndim})."
            )
        strides = [0] * added
        for axis, (old, new, step) in enumerate(zip(self._shape, extents[added:], self._steps(), strict=True)):
            if old not in (1, new):
                raise ValueError(
                    "Shapes cannot be broadcast together: the original extent must be 1 or be equal to broadcast "
                    f"extent, got {old} and {new} for axis {axis}."
                )
            strides.append(step if old == new else 0)
        return self._make(extents, tuple(strides), self.itemsize, self.slice_offset)

    def repacked(self, itemsize: int, data_ptr: int = 0, axis: int = -1, keep_dim: bool = True) -> _StridedLayout:
        """Return a layout of the same bytes, in elements of another size.

        Parameters
        ----------
        itemsize : int
            Bytes of a new element: a multiple, or a divisor, of :attr:`itemsize`.
        data_ptr : int, optional
            The memory's address, which must be aligned for larger elements. Default 0: not known.
        axis : int, optional
            The axis along which elements are joined or split; its stride must be 1. Default: the last axis.
        keep_dim : bool, optional
            Whether to keep that axis if its extent becomes 1. Default True.
        """
        new = operator.index(itemsize)
        if new <= 0:
            raise ValueError(f"new itemsize must be greater than zero, got {new}.")
        if new == self.itemsize:
            return self
        at = axis_of(axis, self.ndim, "axis")
        shape, strides = list(self._shape), list(self._steps())
        if shape[at] == 0:
            raise ValueError(f"The axis {at} extent must be positive, got 0.")
        if strides[at] != 1:
            raise ValueError(f"The axis {at} stride must be 1, got {strides[at]}.")
        if max(new, self.itemsize) % min(new, self.itemsize):
            raise ValueError(f"new itemsize ({new}) must be a multiple or a divisor of the old one ({self.itemsize}).")
        if new > self.itemsize and data_ptr % new:
            raise ValueError(f"The data pointer ({data_ptr}) must be aligned to the packed itemsize ({new}).")

        def scaled(number: int, what: str) -> int:
            if number * self.itemsize % new:
                raise ValueError(f"The {what} ({number}) must be divisible by {new // self.itemsize}.")
            return number * self.itemsize // new

        shape[at] = scaled(shape[at], f"axis {at} extent")
        offset = scaled(self.slice_offset, "slice offset")
        for other in range(self.ndim):
            if other != at:
                strides[other] = scaled(strides[other], f"axis {other} stride")
        if not keep_dim and shape[at] == 1:
            del shape[at], strides[at]
        return self._make(tuple(shape), tuple(strides), check_itemsize("itemsize", new), offset)

    def max_compatible_itemsize(self, max_itemsize: int = 16, data_ptr: int = 0, axis: int = -1) -> int:
        """Return the largest size of elements that :meth:`repacked` can make, among the divisors of a maximum.

        Parameters
        ----------
        max_itemsize : int, optional
            The maximum, in bytes. Default 16.
        data_ptr, axis : int, optional
            See :meth:`repacked`.
        """
        limit = operator.index(max_itemsize)
        if limit <= 0:
            raise ValueError(f"max_itemsize must be greater than zero, got {limit}.")
        if limit < self.itemsize:
            raise ValueError(f"max_itemsize ({limit}) cannot be less than itemsize ({self.itemsize}).")
        at = axis_of(axis, self.ndim, "axis")
        steps = self._steps()
        if self._shape[at] == 0 or steps[at] != 1:
            return self.itemsize
        counts = [self._shape[at], self.slice_offset, *(steps[other] for other in range(self.ndim) if other != at)]
        size = math.gcd(limit, data_ptr, *(count * self.itemsize for count in counts))
        return size if size % self.itemsize == 0 else math.gcd(size, self.itemsize)

    def sliced(self, slices: Any) -> _StridedLayout:
        """Return a layout of some of the elements; ``layout[...]`` is the same.

        Parameters
        ----------
        slices : int or slice, or a tuple of them
            As in NumPy's basic indexing: an int removes an axis.
        """
        parts = slices if isinstance(slices, tuple) else (slices,)
        if len(parts) > self.ndim:
            raise ValueError(
                f"The number of slices ({len(parts)}) is greater than the number of dimensions ({self.ndim})."
            )
        steps, offset = self._steps(), self.slice_offset
        shape, strides = [], []
        for axis, extent in enumerate(self._shape):
            part = parts[axis] if axis < len(parts) else slice(None)
            if isinstance(part, slice):
                start, stop, step = part.indices(extent)
                count = len(range(start, stop, step))
                shape.append(count)
                strides.append(steps[axis] * step)
                offset += steps[axis] * start if count else 0
                continue
            if not hasattr(part, "__index__"):
                raise TypeError(f"Invalid slice: {part}. Expected slice instance or integer.")
            index = operator.index(part)
            if not -extent <= index < extent:
                raise _OutOfRangeError(f"Invalid index: {index} out of range for axis {axis} with extent {extent}")
            offset += steps[axis] * (index % extent)
        if 0 in shape:
            strides, offset = [0] * len(shape), self.slice_offset
        return self._make(tuple(shape), tuple(strides), self.itemsize, offset)
