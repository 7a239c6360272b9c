# SPDX-License-Identifier: Apache-2.0
"""The interface of program caches, and a cache in memory."""

from __future__ import annotations

import abc
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudacore_compile._cache.entry import Entry
from cudacore_handles._sdk import Closing, public

if TYPE_CHECKING:
    from cudacore_handles import ObjectCode

    Key = bytes | str
    Value = bytes | bytearray | memoryview | ObjectCode


@public
@dataclass
class CacheStatistics:
    """Counts of the operations of a cache object in this process.

    Parameters
    ----------
    hits, misses : int
        Lookups that found an entry, and lookups that did not.
    stores : int
        Entries that were written.
    evictions : int
        Entries that were removed to make room.
    corrupt : int
        Damaged entries that were found; each is also a miss.
    uncacheable : int
        Compilations of programs whose inputs cannot be determined.
    failures : int
        Entries that could not be read or written, for example because the disk is full. The compilations succeeded
        without them.
    """

    hits: int = 0
    misses: int = 0
    stores: int = 0
    evictions: int = 0
    corrupt: int = 0
    uncacheable: int = 0
    failures: int = 0

    @property
    def hit_rate(self) -> float:
        """float: Hits per lookup, 0.0 before the first."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0


class ProgramCacheResource(Closing, abc.ABC):
    """A mapping from keys to compiled code; the interface of all program caches.

    A cache is passed to :meth:`Program.compile`, and is also a mapping of keys to the bytes of the code. Keys are bytes
    or str (encoded as UTF-8); :func:`make_program_cache_key` returns them. ``in`` is not supported, because another
    process can remove the entry before it is looked up. Use :meth:`get`.

    A subclass for another kind of storage implements the five abstract methods, and stores bytes unchanged.
    :meth:`Program.compile` stores the code together with information about it and a checksum. If the storage returns
    damaged bytes, the program is compiled again.
    """

    @abc.abstractmethod
    def __getitem__(self, key: bytes | str) -> bytes:
        """Return the bytes stored under a key, or raise KeyError."""

    @abc.abstractmethod
    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        """Store bytes, or the code of an ObjectCode, under a key."""

    @abc.abstractmethod
    def __delitem__(self, key: bytes | str) -> None:
        """Remove the entry of a key, or raise KeyError."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return the number of entries."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Remove all entries."""

    def get(self, key: bytes | str, default: bytes | None = None) -> bytes | None:
        """Return the bytes stored under a key, or `default`.

        Parameters
        ----------
        key : bytes or str
            The key.
        default : bytes, optional
            The result if there is no such entry. Default None.
        """
        try:
            return self[key]
        except KeyError:
            return default

    def update(self, items: Mapping[Key, Value] | Iterable[tuple[Key, Value]], /) -> None:
        """Store several entries one by one.

        Parameters
        ----------
        items : mapping or iterable of pairs
            Keys and values, as for single entries. If a value cannot be stored, the values before it remain stored.
        """
        for key, value in items.items() if isinstance(items, Mapping) else items:
            self[key] = value

    def close(self) -> None:
        """Release resources; the caches of this package have none. Closing twice does nothing."""

    @property
    def statistics(self) -> CacheStatistics:
        """CacheStatistics: The counts of this object in this process."""
        found: CacheStatistics | None = self.__dict__.get("_statistics")
        return self.__dict__.setdefault("_statistics", CacheStatistics()) if found is None else found

    def count(self, what: str, by: int = 1) -> None:
        """Add to a field of the statistics, from any thread.

        Parameters
        ----------
        what : str
            The field.
        by : int, optional
            The number to add. Default 1.
        """
        statistics = self.statistics
        with LOCK:
            setattr(statistics, what, getattr(statistics, what) + by)

    def _load_note(self, key: bytes) -> bytes | None:
        """Return bytes that a process has kept for others, such as a list of included files; None if there are none."""

    def _save_note(self, key: bytes, note: bytes) -> None:
        """Keep bytes for other processes, if the storage can."""

    def _load(self, key: bytes) -> Entry | None:
        """Return the value that :meth:`_save` stored; None if there is none, or it is damaged."""
        data = self.get(key)
        entry = None if data is None else Entry.unpack(data)
        if data is not None and entry is None:
            self.count("corrupt")
        self.count("misses" if entry is None else "hits")
        return entry

    def _save(self, key: bytes, entry: Entry) -> None:
        """Store an entry with all its information."""
        self[key] = entry.pack()
        self.count("stores")


class EntryCache(ProgramCacheResource):
    """A cache that stores entries: code together with the information about it."""

    _limit: int | None

    def __getitem__(self, key: bytes | str) -> bytes:
        entry = self._load(key_bytes(key))
        if entry is None:
            raise KeyError(key)
        return entry.code

    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        self._save(key_bytes(key), Entry.of(value))

    @property
    def max_size_bytes(self) -> int | None:
        """int or None: The maximum size in bytes."""
        return self._limit


class InMemoryProgramCache(EntryCache):
    """A cache of compiled code in the memory of this process.

    All methods can be called from any thread.

    Parameters
    ----------
    max_size_bytes : int, optional
        The maximum size of all code in bytes. The least recently used code is removed first. Code that is larger than
        the limit is not stored. Default: no limit.
    """

    def __init__(self, *, max_size_bytes: int | None = None) -> None:
        self._limit = check_limit(max_size_bytes)
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()  # the most recently used entry is last
        self._size = 0

    def __repr__(self) -> str:
        return f"<InMemoryProgramCache entries={len(self)} bytes={self.size_bytes} max_size_bytes={self._limit}>"

    def __delitem__(self, key: bytes | str) -> None:
        with LOCK:
            entry = self._entries.pop(key_bytes(key), None)
            if entry is None:
                raise KeyError(key)
            self._size -= len(entry.code)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Remove all entries."""
        with LOCK:
            self._entries.clear()
            self._size = 0

    def _load(self, key: bytes) -> Entry | None:
        with LOCK:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        self.count("misses" if entry is None else "hits")
        return entry

    def _save(self, key: bytes, entry: Entry) -> None:
        evicted = 0
        with LOCK:
            previous = self._entries.pop(key, None)
            self._size -= 0 if previous is None else len(previous.code)
            fits = self._limit is None or len(entry.code) <= self._limit
            if fits:
                self._entries[key] = entry
                self._size += len(entry.code)
            while self._limit is not None and self._size > self._limit:
                _, oldest = self._entries.popitem(last=False)
                self._size -= len(oldest.code)
                evicted += 1
        self.count("stores", int(fits))
        self.count("evictions", evicted)

    @property
    def size_bytes(self) -> int:
        """int: The size of the stored code in bytes."""
        return self._size


# Guards the statistics and the entries in memory of all caches. It is held during a fork, because a child could never
# acquire a lock that another thread of its parent had. A garbage collection can run a finalizer that uses a cache, so
# the lock is reentrant.
LOCK = threading.RLock()
os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def key_bytes(key: object) -> bytes:
    """Return a key as bytes."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"key must be bytes or a str, not {type(key).__name__}")


def check_limit(max_size_bytes: object) -> int | None:
    """Return the maximum size of a cache; raise an error if it is invalid."""
    if max_size_bytes is None:
        return None
    if not isinstance(max_size_bytes, int) or isinstance(max_size_bytes, bool):
        raise TypeError(f"max_size_bytes must be an int or None, not {type(max_size_bytes).__name__}")
    if max_size_bytes <= 0:
        raise ValueError(f"max_size_bytes must be positive, or None for no limit, not {max_size_bytes}")
    return max_size_bytes
