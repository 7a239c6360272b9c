# SPDX-License-Identifier: Apache-2.0
"""An adaptor that calls a function when memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

from cudacore_handles._base.module_attributes import public
from cudacore_handles._memory.adaptors.base import ResourceAdaptor, allocate_upstream
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.resource import MemoryResource
from cudacore_handles._stream.stream import IsStreamType, Stream


@public
class FailureCallbackResourceAdaptor(ResourceAdaptor):
    """A memory resource with a function that is called when the upstream resource is out of memory, before a retry.

    Parameters
    ----------
    upstream_mr : MemoryResource
        The resource to allocate from.
    callback : callable
        Called with the number of bytes when the upstream resource raised ``MemoryError``, which
        :class:`OutOfMemoryError` is. Each time it returns true, the allocation is tried again; once it returns false,
        the error is raised. Other errors are raised without calling it.
    """

    def __init__(self, upstream_mr: MemoryResource, callback: Callable[[int], bool]) -> None:
        if not callable(callback):
            raise TypeError(f"callback must be callable, with the number of bytes, not {type(callback).__name__}")
        super().__init__(upstream_mr)
        self._callback = callback

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate from the upstream resource; see :meth:`ResourceAdaptor.allocate`."""
        nbytes = check_size(size)
        while True:
            try:
                buffer = allocate_upstream(self._upstream, nbytes, stream)
            except MemoryError:
                if not self._callback(nbytes):
                    raise
                continue
            buffer._set_memory_resource(self)
            return buffer
