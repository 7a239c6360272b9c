# SPDX-License-Identifier: Apache-2.0
"""A program cache in files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.resource import EntryCache, check_limit, key_bytes
from cudacore_compile._cache.states import read_regular

# a later layout gets its own directory, so that releases that share a cache do not see each other's files
_LAYOUT = "v1"
_NOTE = ".note"  # the suffix of files beside the entries, with data for other processes
_TEMPORARY = ".tmp"
_ABANDONED_SECONDS = 3600.0  # after this time, the process that writes a temporary file is supposed to be dead


class _File(NamedTuple):
    used: int
    size: int
    path: str


class FileStreamProgramCache(EntryCache):
    """A cache of compiled code in files, shared by all processes that use the directory.

    An entry is written to a temporary file and then renamed, so that no process reads an incomplete entry. Entries have
    checksums; an entry with a wrong checksum is ignored. Processes do not wait for each other, and can be killed at any
    moment: a temporary file that is an hour old is removed by the next process that stores an entry. The directory may
    be removed at any time; it is created again.

    All methods can be called from any thread.

    Parameters
    ----------
    path : path, optional
        The directory, which is created if necessary. Default: ``cudacore/programs`` in the user's cache directory
        (``$XDG_CACHE_HOME``, or ``~/.cache``).
    max_size_bytes : int, optional
        The maximum size of all files, including temporary ones. The least recently used entries are removed before one
        is stored. An entry that is larger than the limit is not stored. Each writer enforces its own limit, so all
        users of a shared cache should set the same limit. While several of them store entries at the same time, the
        size can exceed the limit by these entries. Default: no limit.

    Raises
    ------
    OSError
        If the directory cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_size_bytes: int | None = None) -> None:
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must be a str or a path, not {type(path).__name__}")
        if path == "":
            raise ValueError("path must not be empty: None is the user's cache directory")
        self._limit = check_limit(max_size_bytes)
        self._path = default_directory() if path is None else Path(path)
        self._entries = self._path / _LAYOUT / "entries"
        self._temporary = self._entries / "tmp"
        try:
            self._temporary.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                error.errno, f"the program cache cannot be made there: {error.strerror}", str(self._temporary)
            ) from None

    def __repr__(self) -> str:
        return f"<FileStreamProgramCache path={str(self._path)!r} max_size_bytes={self._limit}>"

    def __delitem__(self, key: bytes | str) -> None:
        try:
            os.unlink(self._file(key_bytes(key)))
        except FileNotFoundError:
            raise KeyError(key) from None

    def __len__(self) -> int:
        return sum(1 for file in self._files() if not file.path.endswith((_NOTE, _TEMPORARY)))

    def clear(self) -> None:
        """Remove all entries."""
        for file in self._files():
            if not file.path.endswith(_TEMPORARY):
                _remove(file.path)

    def _load_note(self, key: bytes) -> bytes | None:
        try:
            entry = self._read(self._file(key) + _NOTE)
            return None if entry is None else zlib.decompress(entry.code)
        except (OSError, zlib.error):  # the directory may be read-only, or the file may belong to another user
            self.count("failures")
            return None

    def _save_note(self, key: bytes, note: bytes) -> None:
        try:
            self._write(self._file(key) + _NOTE, Entry(zlib.compress(note, 1), {}).pack())
        except OSError:
            self.count("failures")  # other processes then determine the included files again

    def _load(self, key: bytes) -> Entry | None:
        entry = self._read(self._file(key))
        self.count("misses" if entry is None else "hits")
        return entry

    def _save(self, key: bytes, entry: Entry) -> None:
        data = entry.pack()
        if self._limit is None or len(data) <= self._limit:
            self._make_room(len(data))
        if self._write(self._file(key), data):
            self._make_room(0)  # others may have stored entries meanwhile
            self.count("stores")

    def _read(self, path: str) -> Entry | None:
        """Return the contents of a file; None if it is missing or damaged. A damaged file is removed."""
        try:
            data = read_regular(path)
        except FileNotFoundError:
            return None
        entry = None if data is None else Entry.unpack(data)
        if entry is None:
            self.count("corrupt")
            _remove(path)
            return None
        with contextlib.suppress(OSError):  # the file was evicted meanwhile, or the file system is read-only
            os.utime(path)
        return entry

    def _write(self, path: str, data: bytes) -> bool:
        """Write a file atomically; return whether it was stored."""
        if self._limit is not None and len(data) > self._limit:
            _remove(path)  # the data is too large to store, and the existing file is outdated
            return False
        temporary = os.path.join(self._temporary, os.urandom(8).hex() + _TEMPORARY)
        for directory in (self._temporary, os.path.dirname(path)):  # somebody may have removed them
            os.makedirs(directory, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise
        return True

    def _file(self, key: bytes) -> str:
        name = hashlib.sha256(key).hexdigest()
        return os.path.join(self._entries, name[:2], name[2:])

    def _files(self, folders: str = "*") -> Iterator[_File]:
        """Return the files in folders. Files that are removed in the meantime may be missing."""
        from glob import escape, iglob  # imported here, because a hit does not need it

        for path in iglob(os.path.join(escape(str(self._entries)), folders, "*")):
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                yield _File(status.st_mtime_ns, status.st_size, path)

    def _make_room(self, wanted: int) -> None:
        """Remove abandoned files, and the least recently used ones until there is room for a number of bytes."""
        oldest = time.time_ns() - int(_ABANDONED_SECONDS * 1e9)
        for file in self._files(self._temporary.name):
            if file.used < oldest:
                _remove(file.path)
        if self._limit is None:
            return
        files = sorted(self._files())
        total = sum(file.size for file in files)
        for file in files:
            if total + wanted <= self._limit:
                break
            if file.path.endswith(_TEMPORARY):  # somebody writes it
                continue
            _remove(file.path)
            total -= file.size
            self.count("evictions")

    @property
    def directory(self) -> Path:
        """pathlib.Path: The directory."""
        return self._path

    @property
    def size_bytes(self) -> int:
        """int: The size of all files in bytes."""
        return sum(file.size for file in self._files())


def default_directory() -> Path:
    """Return the user's default cache directory.

    Raises
    ------
    FileNotFoundError
        If the user has no home directory, as in containers that run with the number of a user they do not have.
    """
    directory = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not directory.is_absolute():  # such a variable must be ignored
        directory = Path(os.path.expanduser("~/.cache"))
    if not directory.is_absolute():
        raise FileNotFoundError("the user has no home directory: set HOME or XDG_CACHE_HOME, or give the directory")
    return directory / "cudacore" / "programs"


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
