# SPDX-License-Identifier: Apache-2.0
"""Options of copies, and copies of many buffers in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudacore_handles import _native
from cudacore_handles._base.declarations import struct_of
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import lib
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._stream.stream import Stream, Stream_accept, is_capturing
from cudacore_handles.typing import (
    MemcpyOverlapMode,
    MemcpyOverlapModeName,
    MemcpySrcAccessOrder,
    MemcpySrcAccessOrderName,
    _as_name,
)

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device
    from cudacore_handles._memory.buffer import Buffer
    from cudacore_handles._memory.host import Host

_ATTRIBUTES = struct_of("cch_copy_attributes")
_SHAPE = struct_of("cch_copy_shape")
_Side = tuple[Any, Any, Any]
_ORDERS = {
    MemcpySrcAccessOrder.STREAM: lib.CCH_COPY_IN_STREAM_ORDER,
    MemcpySrcAccessOrder.DURING_API_CALL: lib.CCH_COPY_DURING_CALL,
    MemcpySrcAccessOrder.ANY: lib.CCH_COPY_ANY_ORDER,
}


@public
@dataclass(frozen=True)
class CopyOptions:
    """Options of a copy.

    Attributes
    ----------
    src_access_order : MemcpySrcAccessOrder or str, optional
        When the source is read. ``"stream"``: after the earlier work of the stream. ``"during_api_call"``: before the
        call returns, so that the source can be changed afterwards. ``"any"``: at any time until the copy is done, so
        the source must not change before that. With the last two, no earlier work of the stream may write to the
        source. Default ``"stream"``.
    src_location_hint : Device or Host, optional
        The current location of the source, if it is managed memory or ordinary host memory. Default None: not known.
    dst_location_hint : Device or Host, optional
        The same for the destination.
    overlap_mode : MemcpyOverlapMode or str, optional
        ``"prefer_overlap_with_compute"`` for a copy that should run concurrently with kernels. Default ``"default"``.
    """

    src_access_order: MemcpySrcAccessOrder | MemcpySrcAccessOrderName = MemcpySrcAccessOrder.STREAM
    src_location_hint: Device | Host | None = None
    dst_location_hint: Device | Host | None = None
    overlap_mode: MemcpyOverlapMode | MemcpyOverlapModeName = MemcpyOverlapMode.DEFAULT

    def __post_init__(self) -> None:
        given, mode = self.src_access_order, self.overlap_mode
        order = _as_name(MemcpySrcAccessOrder, given, f"invalid src_access_order: {given!r}")
        overlap = _as_name(MemcpyOverlapMode, mode, f"invalid overlap_mode: {mode!r}")
        object.__setattr__(self, "src_access_order", order)
        object.__setattr__(self, "overlap_mode", overlap)
        self._packed()

    def _packed(self) -> bytes:
        """Return the options as a cch_copy_attributes."""
        flags = lib.CCH_COPY_OVERLAP if self.overlap_mode is MemcpyOverlapMode.PREFER_OVERLAP_WITH_COMPUTE else 0
        places = (*_hint("src", self.src_location_hint), *_hint("dst", self.dst_location_hint))
        order = _ORDERS[MemcpySrcAccessOrder(self.src_access_order)]
        return _ATTRIBUTES.pack(order, flags, *places)


def copy_batch(
    stream: Stream,
    srcs: Sequence[Buffer],
    dsts: Sequence[Buffer],
    *,
    options: CopyOptions | Sequence[CopyOptions] | None = None,
) -> None:
    """Copy many buffers in one call, ordered on a stream (cuMemcpyBatchAsync).

    From CUDA 12.8 on, this is one call of the driver. With an older driver, on the legacy default stream, and in a
    captured stream, the copies are made one by one; the host then waits for sources that are read
    ``"during_api_call"``. The order of the copies is undefined, so it is an error if a copy writes what one
    reads, or what another one writes.

    Parameters
    ----------
    stream : Stream
        The stream that the copies are ordered on.
    srcs : sequence of Buffer
        The sources.
    dsts : sequence of Buffer
        The destinations: the same number, each of the size of its source.
    options : CopyOptions or sequence of CopyOptions, optional
        Options for all copies, or one for each copy.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is copied then.

    Examples
    --------
    >>> sources = [device.allocate(64, stream=stream) for _ in range(3)]
    >>> targets = [device.allocate(64, stream=stream) for _ in sources]
    >>> core.utils.copy_batch(stream, sources, targets)
    """
    sources, targets = check_buffers("copy_batch", srcs, _SINGLE), check_buffers("copy_batch", dsts, _SINGLE)
    if len(sources) != len(targets):
        raise ValueError(
            f"copy_batch: srcs length {len(sources)} does not match dsts length {len(targets)}; each source has its "
            "destination"
        )
    attributes = None
    if options is not None:
        attributes = _attributes(options, len(sources))
        _check_order(attributes, stream)
    _native.copy_batch(targets, sources, attributes, stream)


_SINGLE = "Buffer.copy_to / Buffer.copy_from"


def check_buffers(function: str, buffers: object, single: str) -> tuple[Any, ...]:
    """Return a sequence of buffers as a non-empty tuple; raise an error if it is invalid."""
    from cudacore_handles._memory.buffer import Buffer

    if isinstance(buffers, Buffer):
        raise TypeError(f"{function}: pass a sequence of Buffers; for a single buffer use {single}")
    if not isinstance(buffers, Sequence) or isinstance(buffers, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{function}: buffers must be a sequence of Buffer, got {type(buffers).__name__}")
    found = tuple(buffers)
    if not found:
        raise ValueError(f"{function}: empty buffers sequence; there is nothing to do")
    return found


def pack_options(function: str, options: object, stream: Any) -> tuple[bytes, ...]:
    """Return the options of one copy in the form that ``_native`` expects; raise an error if they are invalid."""
    if not isinstance(options, CopyOptions):
        raise TypeError(f"{function}: options must be CopyOptions, got {type(options).__name__}")
    packed = (options._packed(),)
    _check_order(packed, stream)
    return packed


def _check_order(attributes: tuple[bytes, ...], stream: Any) -> None:
    """Raise an error if a captured copy would read its source later than the options require ("during_api_call")."""
    now = any(_ATTRIBUTES.unpack(item)[0] == lib.CCH_COPY_DURING_CALL for item in attributes)
    if now and is_capturing(Stream_accept(stream, allow_stream_protocol=True)):
        raise ValueError(
            "src_access_order is 'during_api_call', and the stream is being captured: the graph reads the source "
            "when it runs; use 'stream'"
        )


def _attributes(options: object, count: int) -> tuple[bytes, ...]:
    if isinstance(options, CopyOptions):
        return (options._packed(),) * count
    if not isinstance(options, Sequence) or isinstance(options, (str, bytes)):
        raise TypeError(
            f"copy_batch: options must be CopyOptions or a sequence of CopyOptions, got {type(options).__name__}"
        )
    if len(options) != count:
        raise ValueError(
            f"copy_batch: options length {len(options)} does not match buffers length {count}; give one for all, or "
            "one for each"
        )
    for item in options:
        if not isinstance(item, CopyOptions):
            raise TypeError(f"copy_batch: each options element must be CopyOptions, got {type(item).__name__}")
    return tuple(item._packed() for item in options)


def _hint(side: str, location: Device | Host | None) -> tuple[int, int]:
    if location is None:
        return 0, 0
    from cudacore_handles._memory.host import place_of

    return place_of(location, f"CopyOptions.{side}_location_hint")


def pack_shape(part: tuple[Any, Any, Any], dst: _Side, src: _Side) -> bytes:
    """Return the shape of a copy in the form that ``_native`` expects; raise an error for other types.

    Parameters
    ----------
    part : tuple
        Width, height and depth.
    dst, src : tuple
        The offset, pitch and height of the part in each buffer.
    """
    sizes = tuple(check_size(size, name) for size, name in zip(part, ("width", "height", "depth"), strict=True))
    return _SHAPE.pack(*sizes, *_side("dst", sizes, *dst), *_side("src", sizes, *src))


def _side(name: str, part: tuple[int, ...], offset: object, pitch: object, height: object) -> tuple[int, int, int]:
    """Return the offset, pitch and height of a part of a buffer."""
    width, rows, _ = part
    return (
        check_size(offset, f"{name}_offset"),
        width if pitch is None else check_size(pitch, f"{name}_pitch"),
        rows if height is None else check_size(height, f"{name}_height"),
    )
