# SPDX-License-Identifier: Apache-2.0
"""Sizes, and checks of arguments, that functions of memory share."""

from __future__ import annotations

import operator
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.address import check_int
from cudacore_handles._base.handle import hold
from cudacore_handles._base.names import shorten
from cudacore_handles._cffi import lib

MAX_PITCH = 2**31 - 1  # limit of cuMemcpy3DAsync for the bytes from row to row


def check_size(size: Any, name: str = "size") -> int:
    """Return a number of bytes as an int; raise an error if it is invalid."""
    value = check_int(name, size, "an int, the number of bytes")
    if not 0 <= value < 2**63:
        raise ValueError(f"{name} is {value}; it must be from 0 to 2**63 - 1 bytes")
    return value


def size_of(buffer: _native.BufferHandle) -> int:
    """Return the size of an open buffer. :attr:`Buffer.size` becomes 0 when another thread closes it."""
    return int(lib.cch_deviceptr_size(hold(buffer)))


def size_text(nbytes: int) -> str:
    """Return a number of bytes for messages: ``"1,536 bytes (1.5 KiB)"``."""
    text = f"{nbytes:,} bytes"
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{text} ({nbytes / scale:.4g} {unit})"
    return text


def check_dlpack_arguments(
    device: tuple[int, int], stream: object, max_version: object, dl_device: object, copy: object
) -> tuple[bool, tuple[int, int] | None]:
    """Check the consumer's arguments of ``__dlpack__``.

    Return whether the tensor must be versioned, and the device of the copy to export; None if the memory is shared.
    """
    wanted = device if dl_device is None else _pair("dl_device", dl_device, "(type, ordinal)")
    if wanted not in (device, (_native.DL_CPU, 0)) or (wanted != device and copy is False):
        raise BufferError(f"dl_device is {dl_device}, and the memory is on {device}; use copy_to() first")
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
        raise TypeError(f"stream must be an int or None, not {type(stream).__name__}")
    if stream is not None and (stream == 0 or not -1 <= stream < 2**64 - 1):  # -1 as a word is no address
        raise BufferError(
            f"stream is {stream}; it must be a stream's address, 1 for the legacy and 2 for the per-thread default "
            "stream, -1 for no order, or None"
        )
    versioned = max_version is not None and _pair("max_version", max_version, "(major, minor)") >= (1, 0)
    return versioned, wanted if copy or wanted != device else None


def _pair(name: str, value: Any, what: str) -> tuple[int, int]:
    try:
        first, second = value
        return operator.index(first), operator.index(second)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be two ints, {what}, or None, not {shorten(repr(value))}") from None
