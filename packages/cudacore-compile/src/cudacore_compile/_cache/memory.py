# SPDX-License-Identifier: Apache-2.0
"""A program cache in memory."""

from __future__ import annotations

from collections import OrderedDict

from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.resource import LOCK, EntryCache, check_limit, key_bytes


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

    @property
    def max_size_bytes(self) -> int | None:
        """int or None: The maximum size in bytes."""
        return self._limit
