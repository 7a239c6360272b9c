# SPDX-License-Identifier: Apache-2.0
"""Program caches: what all of them are."""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from cudacore_compile._cache.entry import Entry
from cudacore_handles._sdk import public

if TYPE_CHECKING:
    from cudacore_compile._cache.inputs import Notes
    from cudacore_handles import ObjectCode

    Key = bytes | str
    Value = bytes | bytearray | memoryview | ObjectCode

_C = TypeVar("_C", bound="ProgramCacheResource")


@public
@dataclass
class CacheStatistics:
    """Count what a cache object did in this process.

    Parameters
    ----------
    hits, misses : int
        Lookups that found something, and that did not.
    stores : int
        Entries that were written.
    evictions : int
        Entries that were removed to make room.
    corrupt : int
        Entries that were found damaged, each of which is also a miss.
    uncacheable : int
        Compilations of programs of which it cannot be known what they read.
    failures : int
        Entries that could not be read or written, say because the disk is full, and that a compilation did without.
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


class ProgramCacheResource(abc.ABC):
    """Keep compiled code by key; the interface of all program caches.

    A cache is given to :meth:`Program.compile`, and is also a mapping of keys to the bytes of the code. Keys are bytes,
    or str, which stand for their UTF-8 bytes; :func:`make_program_cache_key` makes them. There is no ``in``: between
    the question and the lookup another process can remove the entry. Use :meth:`get`.

    A subclass for another kind of storage has the five abstract methods, and keeps bytes as they are. What it is given
    by :meth:`Program.compile` are the bytes of the code and of what is known of it, with a checksum: what such a cache
    returns damaged is compiled again.
    """

    @abc.abstractmethod
    def __getitem__(self, key: bytes | str) -> bytes:
        """Return the bytes kept by a key, or raise KeyError."""

    @abc.abstractmethod
    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        """Keep bytes, or the code of an ObjectCode, by a key."""

    @abc.abstractmethod
    def __delitem__(self, key: bytes | str) -> None:
        """Remove what is kept by a key, or raise KeyError."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return the number of entries."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Remove all entries."""

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def get(self, key: bytes | str, default: bytes | None = None) -> bytes | None:
        """Return the bytes kept by a key, or `default`.

        Parameters
        ----------
        key : bytes or str
            The key.
        default : bytes, optional
            What to return when there is no such entry. Default None.
        """
        try:
            return self[key]
        except KeyError:
            return default

    def update(self, items: Mapping[Key, Value] | Iterable[tuple[Key, Value]], /) -> None:
        """Keep several entries, one after the other.

        Parameters
        ----------
        items : mapping or iterable of pairs
            Keys and values, as for single ones. When one cannot be kept, those before it are.
        """
        for key, value in items.items() if isinstance(items, Mapping) else items:
            self[key] = value

    def close(self) -> None:  # noqa: B027 - most caches have nothing to give up
        """Give up what the cache holds; the caches of this package hold nothing. Calling it again does nothing."""

    @property
    def statistics(self) -> CacheStatistics:
        """CacheStatistics: What this object did so far, in this process."""
        found: CacheStatistics = self.__dict__.setdefault("_statistics", CacheStatistics())
        return found

    def count(self, what: str, by: int = 1) -> None:
        """Add to a field of the statistics, from any thread.

        Parameters
        ----------
        what : str
            The field.
        by : int, optional
            How much. Default 1.
        """
        statistics = self.statistics
        with _counting:
            setattr(statistics, what, getattr(statistics, what) + by)

    def _notes(self) -> Notes | None:
        """Return where closures are kept for other processes; None if they are not."""
        return None

    def _load(self, key: bytes) -> Entry | None:
        """Return what :meth:`_save` kept; None when there is nothing, or it is damaged."""
        data = self.get(key)
        entry = None if data is None else Entry.unpack(data)
        if data is not None and entry is None:
            self.count("corrupt")
        self.count("misses" if entry is None else "hits")
        return entry

    def _save(self, key: bytes, entry: Entry) -> None:
        """Keep an entry with all that is known of it."""
        self[key] = entry.pack()
        self.count("stores")


_counting = threading.Lock()


def key_bytes(key: object) -> bytes:
    """Return a key as bytes."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"key must be bytes or a str, not {type(key).__name__}")


def check_limit(max_size_bytes: object) -> int | None:
    """Return the most bytes that a cache may have, or raise for what is no such number."""
    if max_size_bytes is None:
        return None
    if not isinstance(max_size_bytes, int) or isinstance(max_size_bytes, bool):
        raise TypeError(f"max_size_bytes must be an int or None, not {type(max_size_bytes).__name__}")
    if max_size_bytes <= 0:
        raise ValueError(f"max_size_bytes must be positive, which {max_size_bytes} is not; None is without bound")
    return max_size_bytes
