# SPDX-License-Identifier: Apache-2.0
"""An adaptor with a limit."""

from __future__ import annotations

from cudacore_handles._base.module_attributes import public
from cudacore_handles._memory.adaptors.base import ResourceAdaptor, counts_of, new_tracker
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.resource import MemoryResource


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
