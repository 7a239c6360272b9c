# SPDX-License-Identifier: Apache-2.0
"""Adaptors that run no Python code for an allocation or a free: the library counts, limits and logs."""

from __future__ import annotations

import os
import weakref

from cudacore_handles._base.errors import CUDAError, check
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import lib
from cudacore_handles._memory.adaptors.base import AllocationCounts, ResourceAdaptor, Tracker, counts_of, new_tracker
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.resource import MemoryResource


@public
class Measurement:
    """The allocations of a block of code, as :meth:`StatisticsResourceAdaptor.measure` counts them.

    This context manager counts what all threads allocate through the adaptor, and the frees of such memory.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._of = tracker
        self._tracker: Tracker | None = None

    def __enter__(self) -> Measurement:
        if self._tracker is not None:
            raise RuntimeError("a measurement can be used for one block only; call measure() again for another one")
        out = out_box("cch_tracker")
        check(lib.cch_tracker_measure(out, hold(self._of)))
        self._tracker = adopt(Tracker, out)
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        if self._tracker is not None:
            check(lib.cch_tracker_stop(hold(self._tracker)))

    @property
    def counts(self) -> AllocationCounts:
        """AllocationCounts: The allocations of the block, until now or until its end.

        ``current_bytes`` and ``current_count`` are differences from the values at the beginning of the block. They are
        negative if the block freed more than it allocated.
        """
        if self._tracker is None:
            raise RuntimeError("the block has not begun: with statistics.measure() as measurement: ...")
        return counts_of(self._tracker)


@public
class StatisticsResourceAdaptor(ResourceAdaptor):
    """A memory resource that counts what another one allocates: current, peak and total bytes and allocations.

    Parameters
    ----------
    upstream_mr : MemoryResource
        The resource to allocate from.
    """

    def __init__(self, upstream_mr: MemoryResource) -> None:
        self._tracker = new_tracker()
        super().__init__(upstream_mr, self._tracker)

    @property
    def allocation_counts(self) -> AllocationCounts:
        """AllocationCounts: The allocations until now."""
        return counts_of(self._tracker)

    def measure(self) -> Measurement:
        """Return a context manager that counts the allocations of a block of code.

        Measurements can be nested, and overlap.
        """
        return Measurement(self._tracker)


@public
class LimitingResourceAdaptor(ResourceAdaptor):
    """A memory resource that allocates from another one, and refuses allocations beyond a limit of live bytes.

    A refused allocation raises :class:`OutOfMemoryError` (``CCH_ELIMIT``), after garbage was collected; see
    :attr:`MemoryResource.collects_garbage`. The upstream resource is not called. If the upstream resource rounds sizes
    up, as a resource for virtual memory does, the rounded size counts; if it exceeds the limit, the memory is freed
    again.

    Parameters
    ----------
    upstream_mr : MemoryResource
        The resource to allocate from.
    allocation_limit : int
        Maximum number of live bytes.
    """

    def __init__(self, upstream_mr: MemoryResource, allocation_limit: int) -> None:
        self._limit = check_size(allocation_limit, "allocation_limit")
        if self._limit == 0:
            raise ValueError("allocation_limit is 0, with which nothing could be allocated")
        self._tracker = new_tracker(limit=self._limit)
        super().__init__(upstream_mr, self._tracker)

    @property
    def allocation_limit(self) -> int:
        """int: Maximum number of live bytes."""
        return self._limit

    @property
    def allocated_bytes(self) -> int:
        """int: Bytes of the live allocations."""
        return counts_of(self._tracker).current_bytes


@public
class LoggingResourceAdaptor(ResourceAdaptor):
    """A memory resource that writes the allocations and frees of another one to a file, as RMM does.

    The file has lines of comma-separated values under the header ``Thread,Time,Action,Pointer,Size,Stream``: the number
    of the thread, the local time with microseconds, ``allocate``, ``free`` or ``allocate failure``, the address, the
    number of bytes, and the handle of the stream. Lines are appended to the file. They are written when many have
    accumulated, by :meth:`flush`, when the adaptor and its buffers no longer exist, and when the interpreter ends.

    Parameters
    ----------
    upstream_mr : MemoryResource
        The resource to allocate from.
    log_file_name : str or os.PathLike
        The file. It is created if it does not exist. Several adaptors can write to one file.

    Raises
    ------
    OSError
        If the file cannot be opened.
    """

    def __init__(self, upstream_mr: MemoryResource, log_file_name: str | os.PathLike[str]) -> None:
        if not isinstance(log_file_name, (str, os.PathLike)):
            raise TypeError(f"log_file_name must be a str or a path, not {type(log_file_name).__name__}")
        self._file_name = os.path.abspath(os.fspath(log_file_name))
        with open(self._file_name, "ab"):  # raises an OSError if the file cannot be written
            pass
        self._tracker = new_tracker(log=os.fsencode(self._file_name))
        super().__init__(upstream_mr, self._tracker)
        weakref.finalize(self, _flush_at_end, self._tracker)

    @property
    def file_name(self) -> str:
        """str: The absolute path of the file."""
        return self._file_name

    def flush(self) -> None:
        """Write all lines to the file."""
        check(lib.cch_tracker_flush(hold(self._tracker)))


def _flush_at_end(tracker: Tracker) -> None:
    try:
        check(lib.cch_tracker_flush(hold(tracker)))
    except CUDAError:  # no caller is left to whom the error could be reported
        pass
