# SPDX-License-Identifier: Apache-2.0
"""The order of the streams of who makes an array, and who uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import check
from cudacore_handles._handle import adopt, hold
from cudacore_handles._stream import Stream

_LEGACY, _PER_THREAD = 1, 2
_CAPTURE_IMPLICIT = 906  # CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: what the legacy stream would wait for is being captured


def order_streams(consumer: int, producer: int, device: int) -> None:
    """Make a stream wait for the present work of another (an event is recorded, and waited for).

    Nothing is done where just one of the two is being captured: what is captured does not run, so that there is
    nothing to wait for, and the wait would draw the other stream into the capture.

    Parameters
    ----------
    consumer, producer : int
        Addresses of the streams. A default stream is the one of `device`.
    device : int
        Ordinal of the device that the memory is on; -1: of no device.
    """
    if device >= 0 and (consumer <= _PER_THREAD or producer <= _PER_THREAD):
        with _current(device):
            _order(Stream.from_handle(consumer), Stream.from_handle(producer))
    else:
        _order(Stream.from_handle(consumer), Stream.from_handle(producer))


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
        order_streams(stream or _LEGACY, producer._raw or _LEGACY, device[1] if device[0] == _native.DL_CUDA else -1)


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


def _order(consumer: Stream, producer: Stream) -> None:
    captured = _captures(consumer), _captures(producer)
    if captured in ((False, False), (True, True)):
        consumer.wait(producer)


def _captures(stream: Stream) -> bool | None:
    """Whether a stream is being captured; None of the legacy stream, while a stream is that it would wait for."""
    out = ffi.new("int *")
    status = lib.cch_stream_is_capturing(out, hold(stream))
    if status == _CAPTURE_IMPLICIT:
        return None
    check(status)
    return bool(out[0])


@contextmanager
def _current(device: int) -> Iterator[None]:
    """Have a context of a device current, and then again the one that was."""
    out = ffi.new("cch_context **")
    check(lib.cch_context_current(out))
    here = ffi.gc(out[0], lib.cch_context_unref) if out[0] else ffi.NULL
    if here and lib.cch_context_device(here) == device:
        yield
        return
    check(lib.cch_context_primary(out, device))
    there = ffi.gc(out[0], lib.cch_context_unref)
    check(lib.cch_context_set_current(there))
    try:
        yield
    finally:
        check(lib.cch_context_set_current(here))
