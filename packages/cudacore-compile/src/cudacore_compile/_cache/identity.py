# SPDX-License-Identifier: Apache-2.0
"""Detects changes of files and directories."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from cudacore_compile._cache.uncacheable import UncacheableError


class Identity(NamedTuple):
    """A version of a file or directory. It includes the change time, which programs cannot set."""

    device: int
    inode: int
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int


# Within one tick of the clock, a file can be written twice with the same times.
_FINE_NS = 20_000_000
_COARSE_NS = 2_000_000_000
_NEVER = -1  # replaces the change time in an identity that must not equal any other


def identity_of(path: str) -> Identity | None:
    """Return the identity of a file or directory; None if it does not exist.

    Raises
    ------
    UncacheableError
        If it cannot be determined.
    """
    try:
        return _identity(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UncacheableError(f"{path} cannot be looked up: {error}") from None


# A cache hit can look up a thousand headers, and Identity._make() would add a quarter to the time of os.stat().
_fields = attrgetter("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
_new = tuple.__new__


def _identity(status: os.stat_result) -> Identity:
    return _new(Identity, _fields(status))


def settled(identity: Identity | None) -> Identity | None:
    """Return an identity that detects every later change.

    If the last change is too recent, the result equals no other identity.
    """
    if identity is None or settles_in(identity) < 0:
        return identity
    return identity._replace(ctime_ns=_NEVER)


def is_settled(identity: Identity | None) -> bool:
    """Return whether an identity detects every later change."""
    return identity is None or identity.ctime_ns != _NEVER


def settles_in(identity: Identity) -> int:
    """Return after how many nanoseconds a change is detectable; a negative number if it already is."""
    changed = identity.ctime_ns
    step = _FINE_NS if changed % 1_000_000 else _COARSE_NS
    return changed + step - time.time_ns()


def read(path: str) -> tuple[bytes, Identity]:
    """Return the contents of a file, and the identity that the file had when it was read.

    Raises
    ------
    UncacheableError
        If the path cannot be read, or is not a file.
    """
    try:
        with open(path, "rb", opener=_open, buffering=0) as file:
            before = _identity(os.fstat(file.fileno()))
            if not stat.S_ISREG(before.mode):
                raise UncacheableError(f"{path} is not a regular file")
            data = file.read()
            after = _identity(os.fstat(file.fileno()))
    except OSError as error:
        raise UncacheableError(f"{path} cannot be read: {error.strerror}") from None
    if before == after:
        after = settled(after) or after
    else:
        after = after._replace(ctime_ns=_NEVER)
    return data, after


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a pipe without a writer would block


class Look(dict[str, "Identity | None"]):
    """A cache of identities by path. Use it only for lookups at one time, such as the lookups of a batch."""

    def __missing__(self, path: str) -> Identity | None:
        found = self[path] = identity_of(path)
        return found

    def are(self, identities: Iterable[tuple[str, Identity | None]]) -> bool:
        """Return whether all paths have these identities. Optimized for many paths."""
        stat = os.stat
        for path, identity in identities:
            if path not in self:
                try:
                    if _fields(stat(path)) == identity:
                        self[path] = identity
                        continue
                except (OSError, ValueError):
                    pass  # the path is looked up again below, which raises the right error
            if self[path] != identity:
                return False
        return True


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
    if before.keys() != after.keys():
        return False
    for path, (inode, mtime, ctime) in before.items():
        now = after[path]
        if now[0] != inode or (now[1] == mtime and now[2] != ctime):
            return False
    return True
