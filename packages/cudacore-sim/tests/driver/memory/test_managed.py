# SPDX-License-Identifier: Apache-2.0
"""Hints about managed memory are kept by range, and reported as on an H200."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from peer import DEVICE, HOST, HOST_NUMA, U64, Location, Size

INVALID_VALUE, INVALID_DEVICE = 1, 101
HALF = 2 << 20
READ_MOSTLY, PREFERRED, ACCESSED_BY = 1, 2, 3
PREFERRED_TYPE, PREFERRED_ID, PREFETCHED, PREFETCHED_TYPE, PREFETCHED_ID = 5, 6, 4, 7, 8
NONE, CPU = -2, -1


class Managed:
    """An allocation of four megabytes of managed memory."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.pointer = U64(cuda.out("cuMemAllocManaged", Size(2 * HALF), 1, kind=U64))

    def get(self, attribute: int, offset: int = 0, size: int = 2 * HALF) -> int:
        value = ctypes.c_int(77)
        where = U64(self.pointer.value + offset)
        self.cuda.cuMemRangeGetAttribute(ctypes.byref(value), Size(4), attribute, where, Size(size))
        return value.value

    def processors(self, size: int = 2 * HALF) -> list[int]:
        values = (ctypes.c_int * 3)()
        self.cuda.cuMemRangeGetAttribute(values, Size(12), ACCESSED_BY, self.pointer, Size(size))
        return list(values)

    def advise(self, advice: int, location: int, size: int = 2 * HALF, number: int = 0) -> int:
        where = Location(location, number)
        return int(self.cuda.code("cuMemAdvise_v2", self.pointer, Size(size), advice, where))

    def prefetch(self, location: int, size: int = 2 * HALF, number: int = 0) -> int:
        where = Location(location, number)
        return int(self.cuda.code("cuMemPrefetchAsync_v2", self.pointer, Size(size), where, 0, None))


@pytest.fixture
def managed(cuda: Any) -> Managed:
    return Managed(cuda)


def test_what_was_not_said(managed: Managed) -> None:
    """Managed memory without hints would report a preferred location, a processor that accesses it, or a prefetch."""
    assert [managed.get(a) for a in range(1, 9)] == [0, NONE, NONE, NONE, 0, NONE, 0, NONE]


def test_preferred_location(managed: Managed) -> None:
    """A preferred location would be reported for a range whose halves have different preferred locations."""
    assert managed.advise(3, DEVICE) == 0
    assert [managed.get(a) for a in (PREFERRED, PREFERRED_TYPE, PREFERRED_ID)] == [0, 1, 0]
    assert managed.advise(3, HOST, HALF) == 0
    assert [managed.get(a) for a in (PREFERRED, PREFERRED_TYPE, PREFERRED_ID)] == [NONE, 0, NONE]
    assert [managed.get(a, 0, HALF) for a in (PREFERRED, PREFERRED_TYPE, PREFERRED_ID)] == [CPU, 2, CPU]
    assert managed.get(PREFERRED, HALF, HALF) == 0
    assert managed.advise(4, DEVICE) == 0
    assert managed.get(PREFERRED, HALF, HALF) == NONE


def test_read_mostly(managed: Managed) -> None:
    """Advice about a part of an allocation would apply to the whole allocation, or not to all pages of the part."""
    assert managed.advise(1, HOST, HALF) == 0
    assert [managed.get(READ_MOSTLY, *where) for where in ((0, HALF), (HALF, HALF), (4096, 4096))] == [1, 0, 1]
    assert [managed.get(READ_MOSTLY), managed.get(READ_MOSTLY, HALF - 1, 2)] == [0, 0]
    assert managed.advise(2, HOST) == 0
    assert managed.get(READ_MOSTLY, 0, HALF) == 0


def test_accessed_by(managed: Managed) -> None:
    """A processor that accesses only a part of the range would be listed, or the host would precede the devices."""
    assert managed.processors() == [NONE] * 3
    assert [managed.advise(5, DEVICE), managed.advise(5, HOST)] == [0, 0]
    assert managed.processors() == [0, CPU, NONE]
    assert managed.advise(6, DEVICE, HALF) == 0
    assert managed.processors() == [CPU, NONE, NONE]


def test_last_prefetch(managed: Managed) -> None:
    """The last prefetch of a range would be missing or wrong."""
    which = (PREFETCHED, PREFETCHED_TYPE, PREFETCHED_ID)
    assert managed.prefetch(DEVICE, HALF) == 0
    assert [managed.get(a) for a in which] == [NONE, 0, NONE]
    assert [managed.get(a, 0, HALF) for a in which] == [0, 1, 0]
    assert managed.prefetch(HOST) == 0
    assert [managed.get(a) for a in which] == [CPU, 2, CPU]
    assert managed.prefetch(HOST_NUMA) == 0
    assert [managed.get(a) for a in which] == [CPU, 3, 0]


def test_bad_hints(cuda: Any, managed: Managed) -> None:
    """Hints that an H200 refuses would be accepted."""
    places = ((0, 0), (DEVICE, 99), (HOST_NUMA, 99), (4, 0), (9, 0))
    assert [managed.prefetch(t, number=n) for t, n in places] == [1, INVALID_DEVICE, 1, 0, 1]
    assert [managed.advise(3, t, number=n) for t, n in places] == [1, 1, 1, 0, 1]
    assert [managed.advise(a, DEVICE) for a in (0, 7, 99)] == [INVALID_VALUE] * 3
    value = ctypes.c_int()
    query = "cuMemRangeGetAttribute"
    for size in (0, 2, 8):
        assert cuda.code(query, ctypes.byref(value), Size(size), READ_MOSTLY, managed.pointer, Size(64)) == 1
    for pointer, count in ((managed.pointer, 0), (managed.pointer, 5 << 20), (U64(0), 64), (cuda.malloc(64), 64)):
        assert cuda.code(query, ctypes.byref(value), Size(4), READ_MOSTLY, pointer, Size(count)) == INVALID_VALUE


def test_batches(cuda: Any, managed: Managed) -> None:
    """A batch of prefetches would use wrong locations, or accept locations that an H200 refuses."""
    per_thread = ctypes.c_void_p(2)

    def batch(
        name: str, starts: tuple[int, ...], *, locations: int = 2, flags: int = 0, stream: Any = per_thread
    ) -> int:
        pointers = (U64 * 2)(managed.pointer.value, managed.pointer.value + HALF)
        sizes = (Size * 2)(HALF, HALF)
        where = (Location * 2)(Location(DEVICE, 0), Location(HOST, 0))
        begin = (Size * 2)(*starts)
        return int(cuda.code(name, pointers, sizes, Size(2), where, begin, Size(locations), U64(flags), stream))

    for name in ("cuMemPrefetchBatchAsync", "cuMemDiscardAndPrefetchBatchAsync"):
        assert batch(name, (0, 1)) == 0
        assert [managed.get(PREFETCHED, 0, HALF), managed.get(PREFETCHED, HALF, HALF)] == [0, CPU]
        assert batch(name, (0, 0), locations=1) == 0
        assert managed.get(PREFETCHED) == 0
        assert [batch(name, (1, 0)), batch(name, (0, 2)), batch(name, (0, 0), locations=0)] == [INVALID_VALUE] * 3
        assert [batch(name, (0, 1), flags=1), batch(name, (0, 1), stream=None)] == [INVALID_VALUE] * 2
    pointers, sizes = (U64 * 1)(managed.pointer.value), (Size * 1)(100)
    assert cuda.code("cuMemDiscardBatchAsync", pointers, sizes, Size(1), U64(0), per_thread) == 0
    assert cuda.code("cuMemDiscardBatchAsync", pointers, sizes, Size(0), U64(0), per_thread) == INVALID_VALUE
    assert cuda.code("cuMemDiscardBatchAsync", pointers, sizes, Size(1), U64(0), None) == INVALID_VALUE
