# SPDX-License-Identifier: Apache-2.0
"""An adaptor that counts."""

from __future__ import annotations

from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import lib
from cudacore_handles._memory.adaptors.base import AllocationCounts, ResourceAdaptor, Tracker, counts_of, new_tracker
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
