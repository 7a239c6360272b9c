# SPDX-License-Identifier: Apache-2.0
"""The order of the streams of who makes an array, and who uses it."""

from __future__ import annotations

from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import check
from cudacore_handles._handle import adopt, hold
from cudacore_handles._stream import Stream

_LEGACY, _PER_THREAD = 1, 2


def order_behind(reference: int, device: tuple[int, int], stream: int | None) -> None:
    """Make a DLPack consumer's stream wait for a buffer's; `reference` is the box of that, taken over, or 0."""
    producer = _adopt(reference)
    if producer is None:
        return
    if stream is None:
        # DLPack: the consumer uses the legacy default stream. Who reads memory of the host uses none.
        if device[0] != _native.DL_CUDA:
            return
        stream = _LEGACY
    if (stream or _LEGACY) != (producer._raw or _LEGACY):
        ordinal = device[1] if device[0] == _native.DL_CUDA else -1
        _native.order_streams(stream or _LEGACY, producer._raw or _LEGACY, ordinal)


def stream_of(box: object) -> int:
    """Return the box of the stream that memory is freed on, with a reference, as an address; 0 where there is none."""
    return int(ffi.cast("uintptr_t", lib.cch_deviceptr_stream_ref(box)))


def stream_for_interface(reference: int) -> int | None:
    """Return the stream that a consumer of ``__cuda_array_interface__`` waits for; None: nothing to wait for."""
    producer = _adopt(reference)
    if producer is None or (producer._raw > _PER_THREAD and _captures(producer)):
        return None
    return producer._raw or _LEGACY


def _adopt(reference: int) -> Stream | None:
    return adopt(Stream, ffi.cast("cch_stream *", reference)) if reference else None


def _captures(stream: Stream) -> bool:
    out = ffi.new("int *")
    check(lib.cch_stream_is_capturing(out, hold(stream)))
    return bool(out[0])
