# SPDX-License-Identifier: Apache-2.0
"""Detects changes of files and directories: by device, inode, mode, size and times, and not by contents."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator

from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_handles._sdk.compile import file_states

# The fields of a state: device, inode, mode, size, time of modification, time of change
_FIELDS, _INODE, _MODE, _SIZE, _MTIME, _CTIME = 6, 1, 2, 3, 4, 5
# Within one tick of the clock, a file can be written twice with the same times.
_FINE_NS = 20_000_000
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


def _field(states: bytes, field: int) -> list[int]:
    return memoryview(states).cast("q")[field::_FIELDS].tolist()


def modes(states: bytes, groups: bytes) -> list[int]:
    """Return the modes of files; 0 for those that do not exist.

    Raises
    ------
    UncacheableError
        If a file cannot be looked up.
    """
    found = _field(states, _MODE)
    if found and min(found) < 0:
        path, error = next((path, mode) for path, mode in zip(paths_of(groups), found, strict=True) if mode < 0)
        reason = os.strerror(-error) if -error in errno.errorcode else str(error)
        raise UncacheableError(f"{path} cannot be looked up: {reason}")
    return found


def inodes(states: bytes) -> Iterator[tuple[int, int]]:
    """Return the devices and inodes of files."""
    return zip(_field(states, 0), _field(states, _INODE), strict=True)


def times(states: bytes) -> list[int]:
    """Return the times of modification and the sizes of files."""
    return _field(states, _MTIME) + _field(states, _SIZE)


def are_settled(states: bytes, at: int) -> bool:
    """Return whether these states, read after a time in nanoseconds, detect every change since that time."""
    changes = _field(states, _CTIME)
    if max(changes, default=0) + _COARSE_NS < at:
        return True
    return all(changed + (_FINE_NS if changed % 1_000_000 else _COARSE_NS) < at for changed in changes)


def wait_until_settled() -> None:
    """Wait until a change that was made just now is detectable, if the file system has a fine clock."""
    time.sleep(_FINE_NS / 1e9)


class Look(dict[bytes, bytes]):
    """Fingerprints of the states of groups. Use it only for lookups at one time, such as the lookups of a batch."""

    def __missing__(self, groups: bytes) -> bytes:
        found = self[groups] = fingerprint(file_states(groups))
        return found


def fingerprint(states: bytes) -> bytes:
    """Return a short hash of states."""
    return hashlib.blake2b(states, digest_size=16).digest()


def read_regular(path: str | os.PathLike[str]) -> bytes | None:
    """Return the contents of a file; None if it is not a regular one. Opening a pipe without a writer would block."""
    with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK), buffering=0) as file:
        return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


Way = dict[str, tuple[int, int, int]]


def way_to(paths: Iterable[str]) -> Way:
    """Return the state of the directories and links on the paths of files; :func:`is_same_way` compares two states."""
    found: Way = {}
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
            is_directory = stat.S_ISDIR(status.st_mode)
            found[path] = (status.st_ino, status.st_mtime_ns if is_directory else 0, status.st_ctime_ns)
            path = os.path.dirname(path)
    return found


def is_same_way(before: Way, after: Way) -> bool:
    """Return whether no directory or link on the paths was replaced between two states, even if it was put back.

    Renaming a directory changes its `ctime`, but not its `mtime`. A link that is created again has another inode.
    """
    return before.keys() == after.keys() and all(
        after[path][0] == inode and (after[path][1] != mtime or after[path][2] == ctime)
        for path, (inode, mtime, ctime) in before.items()
    )
