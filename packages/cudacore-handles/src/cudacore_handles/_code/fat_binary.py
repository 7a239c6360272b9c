# SPDX-License-Identifier: Apache-2.0
"""The images in a fat binary: cubins, PTX and LTO-IR for several architectures.

The format is not documented, but has been the same since CUDA 5: a header, followed by images that each have a header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_MAGIC = 0xBA55ED50
_KINDS = {1: "ptx", 2: "cubin", 8: "ltoir"}
_ACCELERATED, _FAMILY = 0x100000, 0x200000
_LZ4, _ZSTANDARD = 0x2000, 0x8000
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_LARGEST = 2**31


class Entry(NamedTuple):
    """An image as stored in a fat binary, compressed or not."""

    code_type: str  # "cubin", "ptx", "ltoir", or "other"
    arch: int  # such as 90
    variant: str  # "a": code for this architecture only; "f": code for its family
    flags: int
    packed: bytes
    size: int  # without compression

    def unpack(self) -> bytes | None:
        """Return the code; None if it cannot be decompressed."""
        code: bytes | None = self.packed
        if self.flags & (_LZ4 | _ZSTANDARD):
            code = _unpack(self.packed, self.size, self.flags)
        return code.rstrip(b"\0") if code is not None and self.code_type == "ptx" else code


def entries(fatbin: bytes) -> Iterator[Entry]:
    """List the images without decompressing them. Stop at damaged data."""
    if len(fatbin) < 16:
        return
    magic, _, header_size, size = struct.unpack_from("<IHHQ", fatbin)
    at, end = header_size, min(header_size + size, len(fatbin))
    while magic == _MAGIC and at + _ENTRY.size <= end:
        kind, _, header_size, size, packed, _, _, _, arch, _, _, flags, _, unpacked = _ENTRY.unpack_from(fatbin, at)
        start = at + header_size
        at = start + size
        if header_size < _ENTRY.size or at > end:
            return
        stop = min(start + packed, at) if flags & (_LZ4 | _ZSTANDARD) else at
        variant = "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""
        yield Entry(_KINDS.get(kind, "other"), arch, variant, flags, fatbin[start:stop], unpacked)


def image_to_link(fatbin: bytes, arch: str) -> Entry | None:
    """Return the image that a linker uses for an architecture such as ``"90a"``; None if no image fits."""
    number, found = int(arch.rstrip("af")), list(entries(fatbin))
    same = [entry for entry in found if f"{entry.arch}{entry.variant}" == arch]
    older = [entry for entry in found if entry.arch <= number and not entry.variant]
    for code_type, among in (("ltoir", found), ("cubin", same), ("ptx", same), ("ptx", older), ("cubin", older)):
        chosen = [entry for entry in among if entry.code_type == code_type]
        if chosen:
            return max(chosen, key=lambda entry: entry.arch)
    return None


def has_only_ltoir(fatbin: bytes) -> bool:
    """Return whether a fat binary has only LTO-IR, so that it needs link-time optimization."""
    return {entry.code_type for entry in entries(fatbin)} == {"ltoir"}


def _unpack(packed: bytes, size: int, flags: int) -> bytes | None:
    """Decompress data with the system's library, which nearly every system has; return None without it."""
    import ctypes  # imported late, because it takes longer to import than this package

    if size > _LARGEST:
        return None
    out, size_t = ctypes.create_string_buffer(size), ctypes.c_size_t
    try:
        if flags & _ZSTANDARD:
            decompress = ctypes.CDLL("libzstd.so.1").ZSTD_decompress
            decompress.restype = size_t
            made = decompress(out, size_t(size), packed, size_t(len(packed)))
        else:
            made = ctypes.CDLL("liblz4.so.1").LZ4_decompress_safe(packed, out, len(packed), size)
    except OSError:
        return None
    return out.raw if made == size else None
