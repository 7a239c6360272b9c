# SPDX-License-Identifier: Apache-2.0
"""Describes a copy between two layouts as runs of bytes, and axes along which they repeat. It does arithmetic only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cudacore_handles._memory.arguments import MAX_PITCH

_MAX_UNIT = 16  # largest number of bytes that a thread of a kernel copies at once
_TILE = 32
_MIN_TILE = 8


class Axis(NamedTuple):
    """An axis along which runs repeat; steps are in bytes."""

    extent: int
    to: int
    origin: int


class Rows(NamedTuple):
    """A copy by cuMemcpy3DAsync: slices of rows."""

    height: int
    depth: int
    to_pitch: int
    origin_pitch: int
    to_height: int
    origin_height: int


class Plan(NamedTuple):
    """A copy of runs of bytes.

    Attributes
    ----------
    to, origin : int
        Addresses of the first run, in the destination and in the source.
    width : int
        Bytes of a run, which is contiguous on both sides.
    axes : tuple of Axis
        Sorted from the longest step in the destination to the shortest. These steps are positive. Steps in the source
        can be negative, or 0 if the source is broadcast. Without axes, there is one run.
    """

    to: int
    origin: int
    width: int
    axes: tuple[Axis, ...]

    @property
    def nbytes(self) -> int:
        """int: The number of bytes written."""
        return self.width * math.prod(axis.extent for axis in self.axes)

    @property
    def is_dense(self) -> bool:
        """bool: Whether the destination is contiguous."""
        return self._dense_steps() == [axis.to for axis in self.axes]

    def _dense_steps(self) -> list[int]:
        steps, step = [], self.width
        for axis in reversed(self.axes):
            steps.append(step)
            step *= axis.extent
        return steps[::-1]

    def distinct(self) -> Plan:
        """Return the plan without the axes along which the source is broadcast."""
        return self._replace(axes=tuple(axis for axis in self.axes if axis.origin))

    def to_dense(self, address: int) -> Plan:
        """Return the plan for copying each distinct run once, in the same order, to contiguous memory."""
        plan = self.distinct()
        axes = map(Axis, (axis.extent for axis in plan.axes), plan._dense_steps(), (axis.origin for axis in plan.axes))
        return plan._replace(to=address, axes=tuple(axes))

    def from_dense(self, address: int) -> Plan:
        """Return the plan for copying from the memory that :meth:`to_dense` has written."""
        steps = iter(self.distinct()._dense_steps())
        axes = [Axis(axis.extent, axis.to, next(steps) if axis.origin else 0) for axis in self.axes]
        return _simplified(self.to, address, self.width, axes)

    def origin_span(self) -> tuple[int, int]:
        """Return the source's lowest address, and the address after its last byte."""
        reaches = [axis.origin * (axis.extent - 1) for axis in self.axes]
        low, high = (sum(reach for reach in reaches if (reach < 0) == below) for below in (True, False))
        return self.origin + low, self.origin + high + self.width

    def rows(self) -> Rows | None:
        """Return the plan as one copy of rows; None if it needs more than one such copy."""
        if not 1 <= len(self.axes) <= 2:
            return None
        inner = self.axes[-1]
        outer = self.axes[0] if len(self.axes) == 2 else Axis(1, inner.extent * inner.to, inner.extent * inner.origin)
        heights = []
        for pitch, step in ((inner.to, outer.to), (inner.origin, outer.origin)):
            if not self.width <= pitch <= MAX_PITCH or step % pitch or step // pitch < inner.extent:
                return None
            heights.append(step // pitch)
        return Rows(inner.extent, outer.extent, inner.to, inner.origin, *heights)

    def divided(self, count: int) -> list[Plan]:
        """Split the plan along the first axis into a number of parts, if the axis is long enough."""
        if not self.axes:
            return [self]
        first, *rest = self.axes
        bounds = [first.extent * i // count for i in range(count + 1)]
        return [
            self._replace(
                to=self.to + begin * first.to,
                origin=self.origin + begin * first.origin,
                axes=(first._replace(extent=end - begin), *rest),
            )
            for begin, end in itertools.pairwise(bounds)
            if begin != end
        ]

    def units(self) -> tuple[int, tuple[Axis, ...]]:
        """Return the number of bytes that a thread can copy at once, and the axes along which these units repeat."""
        steps = [step for axis in self.axes for step in (axis.to, axis.origin)]
        unit = math.gcd(_MAX_UNIT, self.width, self.to, self.origin, *steps)
        axes = self.axes
        if unit != self.width:
            axes = (*axes, Axis(self.width // unit, unit, unit))
        return unit, _tiled(axes or (Axis(1, unit, unit),))


def plan(
    to: int, origin: int, shape: Sequence[int], to_steps: Sequence[int], origin_steps: Sequence[int], itemsize: int
) -> Plan:
    """Return the plan for copying the elements of an array, which is not empty, to another array.

    Parameters
    ----------
    to, origin : int
        Addresses of the elements of index ``(0, ..., 0)``.
    shape : sequence of int
        Extents of both.
    to_steps, origin_steps : sequence of int
        Strides in bytes. Elements of the destination must not overlap.
    itemsize : int
        Bytes of an element.
    """
    axes = []
    for axis in map(Axis, shape, to_steps, origin_steps):
        if axis.extent == 1:
            continue
        if axis.to < 0:
            to += axis.to * (axis.extent - 1)
            origin += axis.origin * (axis.extent - 1)
            axis = Axis(axis.extent, -axis.to, -axis.origin)
        axes.append(axis)
    return _simplified(to, origin, itemsize, sorted(axes, key=lambda axis: -axis.to))


def _simplified(to: int, origin: int, width: int, axes: Iterable[Axis]) -> Plan:
    """Merge axes that a single step can traverse on both sides, and merge axes of adjacent bytes into the runs."""
    merged: list[Axis] = []
    for axis in axes:
        last = merged[-1] if merged else None
        if last is not None and (last.to, last.origin) == (axis.extent * axis.to, axis.extent * axis.origin):
            merged[-1] = Axis(last.extent * axis.extent, axis.to, axis.origin)
        else:
            merged.append(axis)
    if merged and merged[-1].to == merged[-1].origin == width:
        width *= merged.pop().extent
    return Plan(to, origin, width, tuple(merged))


def _tiled(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Split the axes of a transposed copy into tiles, in which neighbouring threads also read neighbouring memory."""
    *outer, inner = axes
    steps = [abs(axis.origin) or math.inf for axis in axes]
    nearest = steps.index(min(steps))
    if nearest == len(outer):
        return axes
    other = axes[nearest]
    across, along = math.gcd(other.extent, _TILE), math.gcd(inner.extent, _TILE)
    if min(across, along) < _MIN_TILE:
        return axes
    outer[nearest] = _every(other, across)
    tiles = (*outer, _every(inner, along), other._replace(extent=across), inner._replace(extent=along))
    return tuple(axis for axis in tiles if axis.extent > 1)


def _every(axis: Axis, count: int) -> Axis:
    return Axis(axis.extent // count, axis.to * count, axis.origin * count)
