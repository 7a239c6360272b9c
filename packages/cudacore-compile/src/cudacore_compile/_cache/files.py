# SPDX-License-Identifier: Apache-2.0
"""A program cache in files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.resource import EntryCache, check_limit, key_bytes
from cudacore_compile._cache.states import read_regular

# a later layout gets its own directory, so that releases that share a cache do not see each other's files
_LAYOUT = "v1"
# A store waits at most this long for the lock, and is then skipped, because the process with the lock may be stopped.
_LOCK_SECONDS = 5.0
_BACK_OFF_SECONDS = 60.0  # for this long after a skipped store, stores do not wait for the lock
_NOTE = ".note"  # the suffix of files beside the entries, with data for other processes


class _File(NamedTuple):
    used: int
    size: int
    path: str


class FileStreamProgramCache(EntryCache):
    """A cache of compiled code in files, shared by all processes that use the directory.

    An entry is written to a temporary file and then renamed, so that no process reads an incomplete entry. Entries have
    checksums; an entry with a wrong checksum is ignored. Processes can be killed at any moment: their locks are
    released, and the next process that writes removes their temporary files. The size of all files, including temporary
    ones, never exceeds the limit. If another process holds the lock for five seconds, the entry is not stored, with a
    RuntimeWarning, and for the next minute stores do not wait for the lock. The directory may be removed at any time;
    it is created again.

    All methods can be called from any thread.

    Parameters
    ----------
    path : path, optional
        The directory, which is created if necessary. Default: ``cudacore/programs`` in the user's cache directory
        (``$XDG_CACHE_HOME``, or ``~/.cache``).
    max_size_bytes : int, optional
        The maximum size of all files. The least recently used entries are removed first. An entry that is larger than
        the limit is not stored. Each writer enforces its own limit, so all users of a shared cache should set the same
        limit. Default: no limit.

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
        self._temporary = self._path / _LAYOUT / "tmp"
        self._impatient_until = 0.0
        self._make_directories()

    def __repr__(self) -> str:
        return f"<FileStreamProgramCache path={str(self._path)!r} max_size_bytes={self._limit}>"

    def __delitem__(self, key: bytes | str) -> None:
        try:
            os.unlink(self._file(key_bytes(key)))
        except FileNotFoundError:
            raise KeyError(key) from None

    def __len__(self) -> int:
        return sum(1 for file in self._files() if not file.path.endswith(_NOTE))

    def clear(self) -> None:
        """Remove all entries.

        Raises
        ------
        TimeoutError
            If another process keeps the cache locked.
        """
        with self._locked() as locked:
            if not locked:
                raise TimeoutError(f"another process keeps {self._path} locked; it may have been stopped")
            for file in self._files():
                _remove(file.path)
            self._sweep()

    def _notes(self) -> Notes:
        return Notes(self._load_note, self._save_note)

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
        if self._write(self._file(key), entry.pack()):
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
        with self._locked() as locked:
            if not locked:
                self.count("failures")
                return False
            self._sweep()
            if self._limit is not None:
                self._make_room(len(data), self._limit)
            temporary = os.path.join(self._temporary, os.path.basename(path))
            try:
                with open(temporary, "wb") as file:
                    file.write(data)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.replace(temporary, path)
            except BaseException:
                _remove(temporary)
                raise
        return True

    def _make_directories(self) -> None:
        for directory in (self._entries, self._temporary):
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OSError(
                    error.errno, f"the program cache cannot be made there: {error.strerror}", str(directory)
                ) from None

    def _file(self, key: bytes) -> str:
        name = hashlib.sha256(key).hexdigest()
        return os.path.join(self._entries, name[:2], name[2:])

    def _files(self) -> Iterator[_File]:
        """Return all entries. Entries that are removed in the meantime may be missing."""
        for directory in _scan(str(self._entries)):
            for file in _scan(directory.path):
                with contextlib.suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    yield _File(status.st_mtime_ns, status.st_size, file.path)

    # -- methods that require the lock

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        """Acquire the lock that all writers use, including threads of this process. Yield False after too long a wait.

        The operating system releases the lock when the process of its holder ends.
        """
        self._make_directories()  # somebody may have removed them
        file = os.open(self._path / _LAYOUT / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            is_impatient = time.monotonic() < self._impatient_until
            locked = _lock(file, 0.0 if is_impatient else _LOCK_SECONDS)
            if not locked and not is_impatient:
                self._impatient_until = time.monotonic() + _BACK_OFF_SECONDS
                warnings.warn(
                    f"another process has kept the program cache in {self._path} locked for {_LOCK_SECONDS:.0f} "
                    "seconds: it may have been stopped. Nothing is stored while it is locked",
                    RuntimeWarning,
                    stacklevel=2,
                )
            try:
                yield locked
            finally:
                # unlocked explicitly, because a forked child can have the file open, too, and outlive this process
                if locked:
                    self._impatient_until = 0.0
                    fcntl.flock(file, fcntl.LOCK_UN)
        finally:
            os.close(file)

    def _sweep(self) -> None:
        """Remove the temporary files of killed processes. The caller holds the lock."""
        for file in _scan(str(self._temporary)):
            _remove(file.path)

    def _make_room(self, wanted: int, limit: int) -> None:
        """Remove the least recently used entries until there is room for a number of bytes."""
        files = sorted(self._files())
        total = sum(file.size for file in files)
        for file in files:
            if total + wanted <= limit:
                break
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

    @property
    def max_size_bytes(self) -> int | None:
        """int or None: The maximum size of all files in bytes."""
        return self._limit


def default_directory() -> Path:
    """Return the user's default cache directory.

    Raises
    ------
    FileNotFoundError
        If the user has no home directory, as in containers that run with the number of a user they do not have.
    """
    from platformdirs import user_cache_path

    try:
        directory = user_cache_path("cudacore", appauthor=False)
    except RuntimeError:
        directory = None
    if directory is None or not directory.is_absolute():  # older versions of platformdirs return "~/.cache/..."
        raise FileNotFoundError("the user has no home directory: set HOME or XDG_CACHE_HOME, or give the directory")
    return directory / "programs"


def _lock(file: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _scan(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
