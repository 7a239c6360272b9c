# SPDX-License-Identifier: Apache-2.0
"""Copies of whole buffers: to and from other buffers, and arrays of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_handles import _native
from cudacore_handles._memory.arguments import size_of
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept, is_capturing

if TYPE_CHECKING:
    from cudacore_handles._memory.buffer import Buffer


def pack_options(function: str, options: object, stream: Stream | IsStreamType) -> tuple[bytes, ...]:
    """Return options in the form that ``_native`` expects; raise an error if they are invalid."""
    from cudacore_handles._memory import copy  # imported late, because it is needed only for options

    return copy.pack_options(function, options, stream)


def copy_with_options(dst: Buffer, src: Buffer, options: tuple[bytes, ...], stream: Stream | IsStreamType) -> None:
    """Copy between buffers; `options` are in the form that ``_native`` expects."""
    src_size, dst_size = size_of(src), size_of(dst)
    if dst_size != src_size:
        raise ValueError(f"buffer sizes mismatch between src and dst (sizes are: src={src_size}, dst={dst_size})")
    _native.copy_batch((dst,), (src,), options, stream)


def copy_array(
    buffer: Buffer, array: Any, name: str, options: tuple[bytes, ...] | None, stream: Stream | IsStreamType
) -> None:
    """Copy between a buffer and an array of another library. `name` is the role of the array: "dst" or "src"."""
    from cudacore_handles._memory.arrays import different_sizes, memory_of
    from cudacore_handles._memory.buffer import Buffer

    size = size_of(buffer)
    accepted = Stream_accept(stream, allow_stream_protocol=True)
    to_array = name == "dst"
    with memory_of(array, name, accepted, writable=to_array) as memory:
        if memory.nbytes != size:
            raise different_sizes(name, array, memory.nbytes, size)
        if not memory.nbytes:
            return
        if memory.on_host and is_capturing(accepted):
            raise ValueError(
                f"{name} is in host memory, so the call would wait for the copy, but the stream is being captured: "
                "copy a Buffer of LegacyPinnedMemoryResource, which the graph can keep"
            )
        # A graph keeps the owner of the memory. Host memory needs no owner, because this function waits for the copy.
        other = Buffer.from_handle(memory.address, memory.nbytes, owner=None if memory.on_host else memory.keeper)
        dst, src = (other, buffer) if to_array else (buffer, other)
        if memory.on_host:
            accepted.sync()  # the copy would wait for the stream, but not for signals
        if options is None:
            _native.copy(dst, src, accepted)
        else:
            copy_with_options(dst, src, options, accepted)
        if memory.on_host:
            accepted._finish()
