# SPDX-License-Identifier: Apache-2.0
"""Copies between views of any layouts, in a few calls of the driver.

A :class:`Plan` describes a copy. The driver copies one run of bytes, or rows that are long enough to be fast, in one
copy. A kernel makes all other copies. Kernels cannot access ordinary host memory, so such memory is copied through
device memory, or rearranged by the host.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.errors import CUDAError
from cudacore_handles._base.host_array import host_array
from cudacore_handles._cffi import lib
from cudacore_handles._memory.arguments import MAX_PITCH
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._stream.stream import Stream_accept, is_capturing
from cudacore_handles._views.copy_kernel import copy_units
from cudacore_handles._views.copy_plan import Plan, plan
from cudacore_handles._views.dtypes import NO_CODE, dtype_text
from cudacore_handles._views.view import StridedMemoryView, host_elements

_MAX_WORK = 100_000  # the maximum work of np.shares_memory, which takes a few milliseconds

_PAGEABLE = _native.DL_CPU
_ON_HOST = (_native.DL_CPU, _native.DL_CUDA_HOST)

# From this row size on, a copy of rows is about as fast as a dense one. For shorter rows, a kernel or the host is
# faster: on an H200, the driver's copies of such rows take 3 to 30 times as long as a dense copy.
_ROW_OF_DEVICE = 256
_ROW_OF_HOST = 64
_ROW_TO_PAGEABLE = 4096

# Ordinary host memory with gaps is copied to the device as one span if the span has at most _MAX_SPAN times the bytes
# of its elements, and the elements have at least _MIN_SPAN bytes. The host would take longer to rearrange them.
_MAX_SPAN = 4
_MIN_SPAN = 1 << 20

# Maximum number of host threads that rearrange elements, and the number of bytes that justify one thread.
_MAX_THREADS = 8
_MIN_BYTES_OF_THREAD = 1 << 20


def copy_view(dst: Any, src: Any, stream: Any, allocator: Any, blocking: bool | None) -> None:
    """Copy the elements of a view or array to another one of the same shape and type, in the order of a stream."""
    accepted = Stream_accept(stream, allow_stream_protocol=True)
    dst, src = (
        view if isinstance(view, StridedMemoryView) else StridedMemoryView.from_any_interface(view, accepted)
        for view in (dst, src)
    )
    _check(dst, src)
    if not dst.size:
        return
    for view in (dst, src):
        view._check_memory()
    pageable = _PAGEABLE in (dst._device[0], src._device[0])
    if pageable and is_capturing(accepted):
        raise ValueError(
            "a view is of ordinary host memory, so the call would wait for the copy, but the stream is being "
            "captured: use memory of LegacyPinnedMemoryResource, which the graph can keep"
        )
    copy = _Copy(dst, src, accepted, allocator)
    if pageable:
        accepted.sync()  # the copy would wait for the stream, but not for signals
    try:
        copy.queue()
    except CUDAError:
        if pageable:  # the copy in progress uses memory that is freed at the end of this call
            with suppress(CUDAError):
                accepted._finish()
        raise
    if pageable:
        accepted._finish()
    elif blocking:
        accepted.sync()
    copy.finish()


def _check(dst: Any, src: Any) -> None:
    if dst.readonly:
        raise ValueError("the view to copy to is read-only")
    if dst.shape != src.shape:
        raise ValueError(
            f"the shapes differ: {src.shape} cannot be copied to {dst.shape}; "
            "view(view._layout.broadcast_to(shape)) repeats elements"
        )
    if dst._itemsize != src._itemsize or not (_is_raw(dst) or _is_raw(src) or _same_type(dst, src)):
        raise ValueError(
            f"the types differ: {_type_name(src)} cannot be copied to {_type_name(dst)}; view(dtype=...) of one of the "
            "two copies the bytes as they are"
        )
    if not dst._layout.is_unique:
        raise ValueError("the view to copy to has several elements at one address; make one that is not broadcast")
    if dst.size and _overlap(dst, src):
        raise ValueError("the views overlap in memory; copy through a buffer of its own")


def _is_raw(view: Any) -> bool:
    """Return whether only the size of the elements is known: they have no dtype, or NumPy's dtype for raw bytes."""
    if view._type & 0xFF != NO_CODE:
        return False
    dtype = view._dtype_as_it_is
    return dtype is None or (dtype.kind == "V" and dtype.fields is None and dtype.subdtype is None)


def _same_type(dst: Any, src: Any) -> bool:
    # Without a DLPack code, only the dtype describes the elements: units of dates, byte order, fields.
    return bool(dst._type == src._type and (dst._type & 0xFF != NO_CODE or dst.dtype == src.dtype))


def _type_name(view: Any) -> str:
    text = dtype_text(view, f"DLPack's type {view._type & 0xFF}")
    return f"{text} ({view._itemsize} bytes)"


def _span(view: Any) -> tuple[int, int]:
    """Return the first address of a view's elements, and the address after their last byte."""
    low, high = view._layout.offset_bounds
    return view.ptr + low * view._itemsize, view.ptr + (high + 1) * view._itemsize


def _overlap(dst: Any, src: Any) -> bool:
    """Return whether an element of one view shares a byte with an element of the other."""
    (first, end), (other_first, other_end) = _span(dst), _span(src)
    if first >= other_end or other_first >= end:
        return False
    try:
        import numpy as np

        # Only addresses are compared; the memory, which may be a device's, is not accessed.
        one, other = host_elements(dst), host_elements(src)
        return bool(np.shares_memory(one, other, max_work=_MAX_WORK))  # type: ignore[arg-type]
    except (ImportError, RuntimeError):  # RuntimeError: NumPy's TooHardError
        return True


class _Copy:
    """A copy between two views on a stream. `finish` does the host's part after the stream has done its part."""

    def __init__(self, dst: Any, src: Any, stream: Any, allocator: Any) -> None:
        self.dst, self.src, self.stream, self.allocator = dst, src, stream, allocator
        self.finish: Callable[[], None] = lambda: None
        self.staged: Any = None
        to, origin = ([step * dst._itemsize for step in view._layout._steps()] for view in (dst, src))
        self.plan = plan(dst.ptr, src.ptr, dst.shape, to, origin, dst._itemsize)
        self.kinds = dst._device[0], src._device[0]

    def queue(self) -> None:
        """Queue the stream's part of the copy."""
        to, origin = self.kinds
        if to in _ON_HOST and origin in _ON_HOST and _PAGEABLE in self.kinds:
            self.finish = lambda: _move(self.plan)
        elif not self.plan.axes or self._has_long_rows():
            self._copy(self.plan)
        elif origin == _PAGEABLE:
            self._copy_from_pageable()
        elif to == _PAGEABLE:
            self._copy_to_pageable()
        else:
            self._move(self.plan, self.dst, self.src)

    def _has_long_rows(self) -> bool:
        """Return whether to copy by rows: the plan has rows, and these are long enough or a kernel is not faster."""
        rows = self.plan.rows()
        if rows is None:
            return False
        to, origin = self.kinds
        if to == _native.DL_CUDA_HOST and not self.plan.is_dense:
            return True  # a kernel would write each unit in a separate transaction
        if to == _PAGEABLE and not self.plan.is_dense:
            return self.plan.width >= _ROW_TO_PAGEABLE
        return self.plan.width >= (_ROW_OF_HOST if to in _ON_HOST or origin in _ON_HOST else _ROW_OF_DEVICE)

    def _copy_from_pageable(self) -> None:
        low, high = self.plan.origin_span()
        nbytes = self.plan.distinct().nbytes
        if nbytes >= _MIN_SPAN and high - low <= _MAX_SPAN * nbytes:
            self._copy_through(self.plan, low, high - low, self.src)
            return
        array = _empty(nbytes)
        address = array.ctypes.data
        _move(self.plan.to_dense(address))
        self.staged = array  # kept until the stream's work is done
        rest = self.plan.from_dense(address)
        if not rest.axes:
            self._copy(rest, src=array)
        else:
            self._copy_through(rest, address, array.nbytes, array)

    def _copy_through(self, what: Plan, address: int, nbytes: int, owner: Any) -> None:
        """Copy host memory to the device as a whole, and have a kernel move the units from there."""
        staging = self._allocate(nbytes)
        _native.copy(staging, _memory(address, nbytes, owner), self.stream)
        self._move(what._replace(origin=what.origin - address + staging.handle), self.dst, staging)
        staging.close(self.stream)

    def _copy_to_pageable(self) -> None:
        dense = self.plan
        if not self.plan.is_dense:
            array = _empty(self.plan.distinct().nbytes)
            dense = self.plan.to_dense(array.ctypes.data)
            self.finish = lambda: _move(self.plan.from_dense(array.ctypes.data))
        target = _memory(dense.to, dense.nbytes, self.dst)
        if not dense.axes:
            _native.copy(target, _memory(dense.origin, dense.nbytes, self.src), self.stream)
            return
        staging = self._allocate(dense.nbytes)
        self._move(dense._replace(to=staging.handle), staging, self.src)
        _native.copy(target, staging, self.stream)
        staging.close(self.stream)

    def _allocate(self, nbytes: int) -> Buffer:
        """Return a buffer on the stream's device. When it is closed, the memory is freed in the order of the stream."""
        if self.allocator is not None:
            made: Buffer = self.allocator.allocate(nbytes, stream=self.stream)
            return made
        return self.stream.device.allocate(nbytes, stream=self.stream)

    def _move(self, what: Plan, dst: Any, src: Any) -> None:
        """Have a kernel move the units, if the stream's device can access both sides; otherwise copy rows."""
        if not what.axes:
            self._copy(what, dst, src)
            return
        unit, axes = what.units()
        target = _memory(what.to, what.width, dst)
        source = _memory(what.origin, what.width, src)
        try:
            copy_units(target, source, unit, axes, self.stream)
        except CUDAError as error:
            if error.code != lib.CCH_EMISMATCH:
                raise
            self._copy_pieces(what, dst, src)

    def _copy_pieces(self, what: Plan, dst: Any, src: Any) -> None:
        """Copy by rows, or run by run, between devices that cannot access each other's memory."""
        inner = 1
        while inner < len(what.axes) and what._replace(axes=what.axes[-inner - 1 :]).rows() is not None:
            inner += 1
        if what._replace(axes=what.axes[-inner:]).rows() is None:
            inner = 0
        outer = what.axes[: len(what.axes) - inner]
        for index in itertools.product(*(range(axis.extent) for axis in outer)):
            to = what.to + sum(i * axis.to for i, axis in zip(index, outer, strict=True))
            origin = what.origin + sum(i * axis.origin for i, axis in zip(index, outer, strict=True))
            self._copy(Plan(to, origin, what.width, what.axes[len(outer) :]), dst, src)

    def _copy(self, what: Plan, dst: Any = None, src: Any = None) -> None:
        """Copy one run of bytes, or rows."""
        dst = self.dst if dst is None else dst
        src = self.src if src is None else src
        if not what.axes:
            target, source = _memory(what.to, what.width, dst), _memory(what.origin, what.width, src)
            _native.copy(target, source, self.stream)
            return
        rows = what.rows()
        assert rows is not None
        last = rows.depth - 1
        to_size = (last * rows.to_height + rows.height - 1) * rows.to_pitch + what.width
        origin_size = (last * rows.origin_height + rows.height - 1) * rows.origin_pitch + what.width
        _memory(what.to, to_size, dst).copy_part_from(
            _memory(what.origin, origin_size, src), what.width, height=rows.height, depth=rows.depth,
            dst_pitch=rows.to_pitch, src_pitch=rows.origin_pitch, dst_height=rows.to_height,
            src_height=rows.origin_height, stream=self.stream,
        )  # fmt: skip


def _memory(address: int, nbytes: int, owner: Any) -> Buffer:
    """Return a buffer of memory that a view, or another owner, keeps alive."""
    return Buffer.from_handle(address, nbytes, owner=owner)


def _empty(nbytes: int) -> Any:
    """Return host memory for an intermediate copy of the elements."""
    import numpy as np

    return np.empty(nbytes, np.uint8)


def _runs(address: int, width: int, axes: list[tuple[int, int]]) -> Any:
    """Return runs of bytes in host memory as a NumPy array."""
    extents, steps = [extent for extent, _ in axes], [step for _, step in axes]
    # Runs are copied as numbers, which NumPy moves faster than raw bytes, if a type of number has their size.
    dtype = f"u{width}" if width in (1, 2, 4, 8) else f"V{width}"
    if width > MAX_PITCH:
        extents, steps, dtype = [*extents, width], [*steps, 1], "u1"
    return host_array(address, extents, steps, dtype)


def _move(what: Plan) -> None:
    """Copy runs within host memory. Large copies use several threads, because one thread is slower than the bus."""
    import numpy as np

    parts = max(1, min(_MAX_THREADS, os.cpu_count() or 1, what.nbytes // _MIN_BYTES_OF_THREAD))
    threads = []
    for part in what.divided(parts):
        to = _runs(part.to, part.width, [(axis.extent, axis.to) for axis in part.axes])
        origin = _runs(part.origin, part.width, [(axis.extent, axis.origin) for axis in part.axes])
        if parts > 1:
            thread = threading.Thread(target=np.copyto, args=(to, origin))  # releases the GIL
            with suppress(RuntimeError):  # no more threads can start, for example while the interpreter ends
                thread.start()
                threads.append(thread)
                continue
        np.copyto(to, origin)
    for thread in threads:
        thread.join()
