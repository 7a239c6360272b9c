# SPDX-License-Identifier: Apache-2.0
"""An adaptor that records where live memory was allocated."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import time
from types import FrameType
from typing import NamedTuple, SupportsIndex

from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.adaptors.base import ResourceAdaptor, add_to, allocate_upstream, counts_of, new_tracker
from cudacore_handles._memory.arguments import check_size, size_text
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.resource import MemoryResource
from cudacore_handles._stream.stream import IsStreamType, Stream

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_FEW = 256


@public
class Allocation(NamedTuple):
    """A live allocation, and where it was made."""

    ptr: int
    """int: Address of the memory."""
    size: int
    """int: Size in bytes."""
    thread: str
    """str: Name of the thread that allocated the memory."""
    time: float
    """float: Time of the allocation, in seconds since the epoch, as ``time.time()``."""
    stack: tuple[tuple[str, int, str], ...]
    """tuple: File, line and function of each frame, the innermost last; empty without `capture_stacks`."""

    def __str__(self) -> str:
        when = time.strftime("%H:%M:%S", time.localtime(self.time))
        lines = [f"{size_text(self.size)} at {self.ptr:#x}, allocated by thread {self.thread} at {when}"]
        for filename, line, function in self.stack:
            lines.append(f'  File "{filename}", line {line}, in {function}')
            code = linecache.getline(filename, line).strip()
            if code:
                lines.append(f"    {code}")
        return "\n".join(lines)


_Site = tuple[str, float, tuple[tuple[str, int, str], ...]]


@public
class TrackingResourceAdaptor(ResourceAdaptor):
    """A memory resource that records where the live memory of another one was allocated.

    Parameters
    ----------
    upstream_mr : MemoryResource
        The resource to allocate from.
    capture_stacks : bool, optional
        Whether to keep the stack of Python frames of each allocation, which takes a few microseconds. Default True.
    """

    def __init__(self, upstream_mr: MemoryResource, capture_stacks: bool = True) -> None:
        self._tracker = new_tracker(lists=True)
        super().__init__(upstream_mr)
        self._captures = bool(capture_stacks)
        self._sites: dict[int, _Site] = {}  # can include allocations that were freed since
        self._many = _FEW

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate from the upstream resource; see :meth:`ResourceAdaptor.allocate`."""
        buffer = allocate_upstream(self._upstream, check_size(size), stream)
        if buffer.size:
            number = add_to((self._tracker,), buffer, buffer.size)
            self._sites[number] = (threading.current_thread().name, time.time(), _stack() if self._captures else ())
            if len(self._sites) > self._many:
                self._forget()
        buffer._set_memory_resource(self)
        return buffer

    def _live(self) -> list[tuple[int, int, int]]:
        """Return number, address and size of the live allocations, the oldest first."""
        room, count, box = counts_of(self._tracker).current_count, ffi.new("size_t *"), hold(self._tracker)
        while True:
            found = ffi.new("cch_tracked[]", max(room, 1))
            check(lib.cch_tracker_list(found, room, count, box))
            if count[0] <= room:
                break
            room = count[0] + _FEW  # other threads have made more allocations meanwhile
        return [(found[i].id, int(found[i].ptr), found[i].size) for i in reversed(range(count[0]))]

    def _forget(self) -> None:
        """Forget allocations that were freed."""
        # The numbers are copied before the live allocations are listed, so a number that is not listed was freed.
        known = list(self._sites)
        live = {number for number, _, _ in self._live()}
        for number in known:
            if number not in live:
                self._sites.pop(number, None)
        self._many = 2 * len(live) + _FEW

    @property
    def outstanding_allocations(self) -> list[Allocation]:
        """list of Allocation: The live allocations, the oldest first."""
        unknown: _Site = ("unknown", 0.0, ())  # for memory whose allocating thread has not stored the site yet
        live = self._live()
        found = [Allocation(ptr, size, *self._sites.get(number, unknown)) for number, ptr, size in live]
        self._forget()  # after the lookup, because other threads can free listed memory meanwhile
        return found

    @property
    def allocated_bytes(self) -> int:
        """int: Bytes of the live allocations."""
        return counts_of(self._tracker).current_bytes

    def report(self) -> str:
        """Return a text that describes the live allocations with their stacks, the oldest first."""
        found = self.outstanding_allocations
        total = size_text(sum(allocation.size for allocation in found))
        return "\n".join([f"{len(found)} live allocations of {self!r}, {total}", *map(str, found)])


def _stack() -> tuple[tuple[str, int, str], ...]:
    """Return the stack of the calling thread, without the innermost frames, which belong to this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(reversed(frames))
