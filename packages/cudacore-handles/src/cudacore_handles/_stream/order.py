# SPDX-License-Identifier: Apache-2.0
"""Orders the streams of the producer and the consumer of an array."""

from __future__ import annotations

from collections.abc import Callable

from cudacore_handles import _native
from cudacore_handles._stream.stream import LEGACY, Stream, is_capturing

_PER_THREAD = 2  # CU_STREAM_PER_THREAD


def stream_for_interface(producer: Stream | None) -> int | None:
    """Return the stream for which a consumer of ``__cuda_array_interface__`` must wait; None if there is none."""
    return None if producer is None else _unless_captured(producer)


def stream_of_exporter(exporter: object, device: tuple[int, int], order: Callable[[None], None]) -> int | None:
    """Return the stream for which a consumer of another library's array must wait; None if there is none.

    Parameters
    ----------
    exporter : object
        The array.
    device : tuple of int
        The DLPack device of the array.
    order : Callable
        Makes the legacy default stream wait for the exporter's stream: ``order(None)``.
    """
    interface = getattr(exporter, "__cuda_array_interface__", {})
    if interface.get("version", 0) >= 3:
        stream: int | None = interface.get("stream")
        return stream
    number = _native.work_stream(exporter, *device)
    if number is not None:
        return _unless_captured(Stream.from_handle(number))
    if not hasattr(exporter, "__dlpack__"):
        return None
    order(None)
    return LEGACY


def _unless_captured(stream: Stream) -> int | None:
    if stream._raw > _PER_THREAD:
        return None if is_capturing(stream) else stream._raw
    # The number of a default stream means that of the current context.
    number = stream._raw or LEGACY
    _native.order_streams(number, stream, -1)
    return number
