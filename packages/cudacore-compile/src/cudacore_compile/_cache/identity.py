# SPDX-License-Identifier: Apache-2.0
"""Whether files and directories are still what they were."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from cudacore_compile._cache.uncacheable import UncacheableError


class Identity(NamedTuple):
    """A version of a file or directory. No program can set the last time."""

    device: int
    inode: int
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int


# A file can be written twice within one step of the clock that its times come from.
_FINE_NS = 20_000_000
_COARSE_NS = 2_000_000_000
_NEVER = -1  # in place of a time: such an identity equals none that is looked up


def identity_of(path: str) -> Identity | None:
    """Return the identity of a file or directory; None if nothing is there.

    Raises
    ------
    UncacheableError
        When that cannot be found out.
    """
    try:
        return _identity(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UncacheableError(f"{path} cannot be looked up: {error}") from None


# A cache hit can look up a thousand headers: Identity._make() would take a quarter as long as os.stat().
_fields = attrgetter("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
_new = tuple.__new__


def _identity(status: os.stat_result) -> Identity:
    return _new(Identity, _fields(status))


def settled(identity: Identity | None) -> Identity | None:
    """Return an identity that shows every later change: one that equals no other, where the last change is too new."""
    if identity is None or settles_in(identity) < 0:
        return identity
    return identity._replace(ctime_ns=_NEVER)


def is_settled(identity: Identity | None) -> bool:
    """Return whether an identity shows every later change."""
    return identity is None or identity.ctime_ns != _NEVER


def settles_in(identity: Identity) -> int:
    """Return in how many nanoseconds a change will show; a negative number where it already does."""
    changed = identity.ctime_ns
    step = _FINE_NS if changed % 1_000_000 else _COARSE_NS
    return changed + step - time.time_ns()


def read(path: str) -> tuple[bytes, Identity]:
    """Return what a file contains, and its identity then.

    Raises
    ------
    UncacheableError
        When it cannot be read, or is not a file.
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
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer would block


class Look(dict[str, "Identity | None"]):
    """Identities by path, each looked up once: for work that happens at one time, such as a batch."""

    def __missing__(self, path: str) -> Identity | None:
        found = self[path] = identity_of(path)
        return found

    def are(self, identities: Iterable[tuple[str, Identity | None]]) -> bool:
        """Return whether all paths have these identities, at little cost for each."""
        stat = os.stat
        for path, identity in identities:
            if path not in self:
                try:
                    if _fields(stat(path)) == identity:
                        self[path] = identity
                        continue
                except (OSError, ValueError):
                    pass  # looked up again, which tells what is wrong
            if self[path] != identity:
                return False
        return True


Way = dict[str, tuple[int, int, int]]


def way_to(paths: Iterable[str]) -> Way:
    """Return what the directories and links on the way to files are, to compare with :func:`is_same_way`."""
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
    """Return whether no directory and no link was exchanged in between, not even to be put back.

    Renaming a directory changes its `ctime` and not its `mtime`. A link that is made again is another inode.
    """
    if before.keys() != after.keys():
        return False
    for path, (inode, mtime, ctime) in before.items():
        now = after[path]
        if now[0] != inode or (now[1] == mtime and now[2] != ctime):
            return False
    return True
