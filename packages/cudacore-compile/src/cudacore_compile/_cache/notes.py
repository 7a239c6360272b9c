# SPDX-License-Identifier: Apache-2.0
"""Results that hold as long as files are the same, kept in the process and beside the entries of a cache."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import NamedTuple

from cudacore_compile._cache.states import Look

_MAX_KNOWN = 300


def hash_of(*parts: object) -> bytes:
    """Return a hash of bytes, which can be long, and of strings, numbers, tuples and lists."""
    short = [hashlib.sha256(part).digest() if isinstance(part, bytes) else part for part in parts]
    return hashlib.sha256(repr(short).encode()).digest()


class Notes(NamedTuple):
    """Stores the notes of a cache for other processes: bytes, by hash."""

    load: Callable[[bytes], bytes | None]
    save: Callable[[bytes, bytes], None]


class Known(NamedTuple):
    """A result, and the files and directories that it depends on."""

    value: bytes
    groups: bytes  # their paths, for file_states()
    fingerprint: bytes  # of their states
    is_settled: bool = True  # whether every later change will be detected


_known: dict[bytes, Known] = {}
_HEADER = struct.Struct("<Q16s")


def recall(key: bytes, notes: Notes | None, look: Look) -> Known | None:
    """Return the result that was kept; None if there is none, or if a file has changed."""
    known = _known.get(key)
    data = notes.load(key) if known is None and notes is not None else None
    if data is not None and len(data) >= _HEADER.size:
        size, found = _HEADER.unpack_from(data)
        groups_at = _HEADER.size + size
        known = Known(data[_HEADER.size : groups_at], data[groups_at:], found)
    if known is None or look[known.groups] != known.fingerprint:
        return None
    _remember(key, known)
    return known


def keep(key: bytes, known: Known, notes: Notes | None) -> None:
    """Keep a result, unless a change could remain undetected."""
    if known.is_settled:
        _remember(key, known)
        if notes is not None and known.groups:
            notes.save(key, _HEADER.pack(len(known.value), known.fingerprint) + known.value + known.groups)


def _remember(key: bytes, known: Known) -> None:
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[key] = known
