# SPDX-License-Identifier: Apache-2.0
"""Copies between views, whatever their layouts.

Axes are brought into the order of the destination's memory and merged where both layouts allow it; what is contiguous
in both is then copied piece by piece. Host memory is rearranged by the host first, so that one piece is the rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from cudacore_handles import _native
from cudacore_handles._buffer import _MOST_PITCH, Buffer, _is_capturing
from cudacore_handles._dtypes import NO_CODE
from cudacore_handles._errors import CUDAError
from cudacore_handles._layout import _StridedLayout
from cudacore_handles._memoryview import HostElements, StridedMemoryView
from cudacore_handles._stream import Stream_accept

_MAX_WORK = 100_000  # candidates that np.shares_memory looks at, in a few milliseconds

_ON_HOST = (_native.DL_CPU, _native.DL_CUDA_HOST)


def copy_view(dst: Any, src: Any, stream: Any, blocking: bool | None) -> None:
    """Copy the elements of a view to another one of the same shape and type, in the order of a stream."""
    for view in (dst, src):
        if not isinstance(view, StridedMemoryView):
            raise TypeError(
                f"other must be a StridedMemoryView, not {type(view).__name__}; "
                "StridedMemoryView.from_any_interface() makes one of an array"
            )
    accepted = Stream_accept(stream, allow_stream_protocol=True)
    _check(dst, src)
    if not dst.size:
        return
    pageable = _native.DL_CPU in (dst._device[0], src._device[0])
    if pageable and _is_capturing(accepted):
        raise ValueError(
            "a view is of ordinary host memory, whose copy is waited for, and the stream is being captured: use memory "
            "of LegacyPinnedMemoryResource, which the graph can keep"
        )
    try:
        wait = _copy(dst, src, accepted)
    except CUDAError:
        if pageable:  # pieces that are under way use memory that ends with this call
            with suppress(CUDAError):
                accepted.sync()
        raise
    if wait or pageable or blocking:
        accepted.sync()
    if wait:
        wait()


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
    """Whether nothing is known of the elements but their size: no dtype, or NumPy's for raw bytes."""
    if view._type & 0xFF != NO_CODE:
        return False
    dtype = view._dtype_as_it_is
    return dtype is None or (dtype.kind == "V" and dtype.fields is None and dtype.subdtype is None)


def _same_type(dst: Any, src: Any) -> bool:
    # Of what DLPack has no code for, the dtype alone says what it is: a date's unit, the order of bytes, fields.
    return bool(dst._type == src._type and (dst._type & 0xFF != NO_CODE or dst.dtype == src.dtype))


def _type_name(view: Any) -> str:
    try:
        return f"{view.dtype} ({view._itemsize} bytes)"
    except NotImplementedError:
        return f"DLPack's type {view._type & 0xFF} ({view._itemsize} bytes)"


def _span(view: Any) -> tuple[int, int]:
    """Return the first address, and the one behind the last."""
    low, high = view._layout.offset_bounds
    return view.ptr + low * view._itemsize, view.ptr + (high + 1) * view._itemsize


def _overlap(dst: Any, src: Any) -> bool:
    """Whether an element of one view shares a byte with an element of the other."""
    (first, end), (other_first, other_end) = _span(dst), _span(src)
    if first >= other_end or other_first >= end:
        return False
    try:
        import numpy as np

        # Only the addresses are looked at, not the memory, which may be a device's.
        one, other = np.asarray(HostElements(dst)), np.asarray(HostElements(src))
        return bool(np.shares_memory(one, other, max_work=_MAX_WORK))  # type: ignore[arg-type]
    except (ImportError, RuntimeError):  # RuntimeError: NumPy's TooHardError
        return True


def _copy(dst: Any, src: Any, stream: Any) -> Any:
    """Queue the copy; return what is left to do for the host once it is done, or None."""
    order = dst._layout.stride_order
    to, origin = dst._layout.permuted(order).squeezed(), src._layout.permuted(order).squeezed()
    mask = to.flattened_axis_mask() & origin.flattened_axis_mask()
    to, origin = to.flattened(mask=mask), origin.flattened(mask=mask)
    if to.ndim == 1 and _adjacent(to) and _adjacent(origin):
        _copy_pieces(dst, to, src, origin, stream)
        return None
    if src._device[0] in _ON_HOST and not _is_capturing(stream):
        if src._device[0] != _native.DL_CPU:
            stream.sync()  # which may still write to it
        staged = _host_array(src, origin).tobytes()
        _copy_pieces(dst, to, _Staged(staged), to.to_dense("C"), stream)
        return lambda: staged  # kept until then
    if dst._device[0] in _ON_HOST and not _is_capturing(stream):
        area = bytearray(to.volume * to.itemsize)
        _copy_pieces(_Staged(area), to.to_dense("C"), src, origin, stream)
        target = _host_array(dst, to)

        def spread() -> None:
            import numpy as np

            target[...] = np.frombuffer(area, target.dtype).reshape(target.shape)

        return spread
    _copy_pieces(dst, to, src, origin, stream)
    return None


class _Staged:
    """Host memory that the elements pass through."""

    def __init__(self, area: bytes | bytearray) -> None:
        from cudacore_handles._cffi import ffi

        self.area = ffi.from_buffer(area)
        self.ptr = int(ffi.cast("uintptr_t", self.area))


def _host_array(view: Any, layout: _StridedLayout) -> Any:
    """Return a NumPy array of raw elements, of the host memory of a view."""
    import numpy as np

    from cudacore_handles._cffi import ffi

    low, high = layout.offset_bounds
    size = layout.itemsize
    memory = ffi.buffer(ffi.cast("char *", view.ptr + low * size), (high - low + 1) * size)
    strides = layout.strides_in_bytes
    return np.ndarray(layout.shape, f"V{size}", memory, -low * size, strides)


def _adjacent(layout: _StridedLayout) -> bool:
    """Whether the elements of the last axis lie one behind the other."""
    assert layout.strides is not None
    return layout.shape[-1] == 1 or layout.strides[-1] == 1


def _copy_pieces(dst: Any, to: _StridedLayout, src: Any, origin: _StridedLayout, stream: Any) -> None:
    """Copy what is contiguous in both, one piece after the other; or many at once, where they are rows."""
    both = to.flattened_axis_mask() & origin.flattened_axis_mask()
    to, origin = to.flattened(mask=both), origin.flattened(mask=both)
    outer, width, size = to.ndim, to.itemsize, to.itemsize
    if _adjacent(to) and _adjacent(origin):
        outer -= 1
        width *= to.shape[-1]
    rows, to_pitch, from_pitch = 1, width, width
    if outer and _reaches_by_rows(dst) and _reaches_by_rows(src):
        assert to.strides is not None
        assert origin.strides is not None
        pitches = to.strides[outer - 1] * size, origin.strides[outer - 1] * size
        if all(width <= pitch <= _MOST_PITCH for pitch in pitches):
            outer -= 1
            rows, (to_pitch, from_pitch) = to.shape[outer], pitches
    for to_offset, from_offset in zip(_offsets(to, outer), _offsets(origin, outer), strict=True):
        target = Buffer.from_handle(dst.ptr + to_offset * size, (rows - 1) * to_pitch + width, owner=dst)
        source = Buffer.from_handle(src.ptr + from_offset * size, (rows - 1) * from_pitch + width, owner=src)
        if rows == 1:
            _native.copy(target, source, stream)
        else:
            target.copy_part_from(source, width, height=rows, dst_pitch=to_pitch, src_pitch=from_pitch, stream=stream)


def _reaches_by_rows(view: Any) -> bool:
    """Whether the driver copies rows of this memory: not of the host's that CUDA does not know."""
    return not isinstance(view, _Staged) and view._device[0] != _native.DL_CPU


def _offsets(layout: _StridedLayout, outer: int) -> Iterator[int]:
    """Return where each piece begins."""
    assert layout.strides is not None
    steps = layout.strides[:outer]
    for index in itertools.product(*map(range, layout.shape[:outer])):
        yield sum(map(int.__mul__, index, steps))
