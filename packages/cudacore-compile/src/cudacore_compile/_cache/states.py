# SPDX-License-Identifier: Apache-2.0
"""Changes of files and directories, by device, inode, mode, size and times, and results that hold until then."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from cudacore_compile._cache import UncacheableError
from cudacore_handles._sdk.compile import file_states

if TYPE_CHECKING:
    from cudacore_compile._cache.resource import ProgramCacheResource

# The fields of a state: device, inode, mode, size, time of modification, time of change
_FIELDS, DEVICE, INODE, _MODE, SIZE, MTIME, _CTIME = 6, 0, 1, 2, 3, 4, 5
# Within one tick of the clock, a file can be written twice with the same times.
FINE_NS = 20_000_000
_COARSE_NS = 2_000_000_000


def group(paths: Iterable[str]) -> bytes:
    """Return paths as :func:`file_states` takes them: by directory."""
    directories: dict[str, list[str]] = {}
    for path in sorted(paths):
        directory, name = os.path.split(path)
        directories.setdefault(directory or ".", []).append(name or ".")
    return b"".join(os.fsencode("\0".join((directory, *names, "\0"))) for directory, names in directories.items())


def paths_of(groups: bytes) -> Iterator[str]:
    """Return the paths of groups, in the order of their states."""
    for part in groups.split(b"\0\0")[:-1]:
        directory, *names = os.fsdecode(part).split("\0")
        for name in names:
            yield os.path.join(directory, name)


def field(states: bytes, field: int) -> list[int]:
    """Return a field of each state."""
    return memoryview(states).cast("q")[field::_FIELDS].tolist()


def modes(states: bytes, groups: bytes) -> list[int]:
    """Return the modes of files; 0 for those that do not exist.

    Raises
    ------
    UncacheableError
        If a file cannot be looked up.
    """
    found = field(states, _MODE)
    if found and min(found) < 0:
        path, error = next((path, mode) for path, mode in zip(paths_of(groups), found, strict=True) if mode < 0)
        reason = os.strerror(-error) if -error in errno.errorcode else str(error)
        raise UncacheableError(f"{path} cannot be looked up: {reason}")
    return found


def are_settled(states: bytes, at: int) -> bool:
    """Return whether these states, read after a time in nanoseconds, detect every change since that time."""
    changes = field(states, _CTIME)
    if max(changes, default=0) + _COARSE_NS < at:
        return True
    return all(changed + (FINE_NS if changed % 1_000_000 else _COARSE_NS) < at for changed in changes)


def fingerprint(states: bytes) -> bytes:
    """Return a short hash of states."""
    return hashlib.blake2b(states, digest_size=16).digest()


def read_regular(path: str | os.PathLike[str]) -> bytes | None:
    """Return the contents of a file; None if it is not a regular one. Opening a pipe without a writer would block."""
    with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK), buffering=0) as file:
        return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def way_to(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the state of the directories and links on the paths of files.

    It differs if one of them was replaced, even if it was put back: renaming a directory changes its `ctime`, but not
    its `mtime`, and a new link has another `ctime`. Other changes of a directory do not count; they change both times.
    """
    found: dict[str, tuple[int, int]] = {}
    todo = list(paths)
    while todo:
        path = todo.pop()
        while path not in found:
            try:
                status = os.lstat(path or ".")
                if stat.S_ISLNK(status.st_mode):
                    todo.append(os.path.join(os.path.dirname(path), os.readlink(path)))
            except OSError:
                break
            is_other = stat.S_ISDIR(status.st_mode) and status.st_mtime_ns == status.st_ctime_ns
            found[path] = status.st_ino, 0 if is_other else status.st_ctime_ns
            path = os.path.dirname(path)
    return found


def hash_of(*parts: object) -> bytes:
    """Return a hash of bytes, which can be long, and of strings, numbers, tuples and lists."""
    short = [hashlib.sha256(part).digest() if isinstance(part, bytes) else part for part in parts]
    return hashlib.sha256(repr(short).encode()).digest()


class Known(NamedTuple):
    """A result, and the files and directories that it depends on."""

    value: bytes
    groups: bytes = b""  # their paths, for file_states()
    fingerprint: bytes = b""  # of their states
    is_settled: bool = True  # whether every later change will be detected


_MAX_KNOWN = 300
_known: dict[bytes, Known] = {}
_HEADER = struct.Struct("<Q16s")


def recall(key: bytes, cache: ProgramCacheResource | None) -> Known | None:
    """Return the result that was kept; None if there is none, or if a file has changed."""
    known = _known.get(key)
    data = cache._load_note(key) if known is None and cache is not None else None
    if data is not None and len(data) >= _HEADER.size:
        size, found = _HEADER.unpack_from(data)
        groups_at = _HEADER.size + size
        known = Known(data[_HEADER.size : groups_at], data[groups_at:], found)
    if known is None or fingerprint(file_states(known.groups)) != known.fingerprint:
        return None
    keep(key, known, None)
    return known


def keep(key: bytes, known: Known, cache: ProgramCacheResource | None) -> None:
    """Keep a result, unless a change could remain undetected."""
    if known.is_settled:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = known
        if cache is not None and known.groups:
            cache._save_note(key, _HEADER.pack(len(known.value), known.fingerprint) + known.value + known.groups)
