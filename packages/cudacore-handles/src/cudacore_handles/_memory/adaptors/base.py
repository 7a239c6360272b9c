# SPDX-License-Identifier: Apache-2.0
"""The common part of adaptors: memory resources that wrap another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, SupportsIndex

from cudacore_handles import _native
from cudacore_handles._base.errors import CUDAError, check, last_error, no_buffer
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.made import not_pickled
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.names import check_type
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.out_of_memory import collect_garbage, explained, name_of
from cudacore_handles._memory.pool import PooledMemoryResource
from cudacore_handles._memory.resource import MemoryResource
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept

_MAX_TRACKERS = 16  # maximum number of trackers that count one allocation


class Tracker(_native.Handle):
    """An object with a ``cch_tracker``, which counts frees on any thread."""

    __slots__ = ("__weakref__",)


@public
class AllocationCounts(NamedTuple):
    """The allocations that an adaptor has counted."""

    current_bytes: int
    """int: Bytes of the live allocations."""
    current_count: int
    """int: Number of live allocations."""
    peak_bytes: int
    """int: Maximum of `current_bytes`."""
    peak_count: int
    """int: Maximum of `current_count`."""
    total_bytes: int
    """int: Bytes of all allocations, including freed ones."""
    total_count: int
    """int: Number of all allocations, including freed ones."""


@public
class ResourceAdaptor(MemoryResource):
    """The base class of adaptors: memory resources that wrap another memory resource.

    An adaptor allocates from its upstream resource, and can be used wherever that resource can. Adaptors can wrap each
    other. The ``memory_resource`` of a buffer is the adaptor that allocated it. All adaptors can be used by many
    threads.

    An adaptor records the allocations that are made through it, and their frees on any thread, whether by
    :meth:`Buffer.close` or by the garbage collector. It does not record other allocations of the upstream resource. A
    buffer of 0 bytes has no memory and is not counted. If a buffer has parts, the memory is freed when the buffer and
    all of its parts are closed.
    """

    def __init__(self, upstream_mr: MemoryResource, tracker: Tracker | None = None) -> None:
        check_type("upstream_mr", upstream_mr, MemoryResource)
        self._upstream = target = upstream_mr
        self._trackers: tuple[Tracker, ...] = () if tracker is None else (tracker,)
        # If the upstream resource is an adaptor without an allocate() of its own, this adaptor calls that adaptor's
        # target directly, and uses that adaptor's trackers in addition to its own.
        if (
            isinstance(upstream_mr, ResourceAdaptor)
            and type(upstream_mr).allocate is ResourceAdaptor.allocate
            and len(upstream_mr._trackers) < _MAX_TRACKERS
        ):
            target = upstream_mr._target
            self._trackers += upstream_mr._trackers
        self._target: MemoryResource = target
        # A bound method of this object would make a reference cycle.
        if isinstance(target, PooledMemoryResource) and type(target).allocate is PooledMemoryResource.allocate:
            self._allocate: Any = target._allocate_for
        else:
            self._allocate = partial(_allocate_from, target)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._upstream!r}>"

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "pickle its upstream_mr")

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate from the upstream resource.

        Parameters
        ----------
        size : int
            Size in bytes.
        stream : Stream
            The stream, which is passed to the upstream resource. Some resources need none.
        """
        made: Buffer = self._allocate(self, self._trackers, size, stream)
        return made

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Have the upstream resource free memory that was not allocated as a buffer. The free is not counted."""
        self._upstream.deallocate(ptr, size, stream=stream)

    @property
    def collects_garbage(self) -> bool:
        """bool: The option of the upstream resource; see :attr:`MemoryResource.collects_garbage`."""
        return self._upstream.collects_garbage

    @collects_garbage.setter
    def collects_garbage(self, value: bool) -> None:
        self._upstream.collects_garbage = value

    @property
    def upstream_mr(self) -> MemoryResource:
        """MemoryResource: The resource that this one wraps."""
        return self._upstream

    @property
    def _origin(self) -> MemoryResource:
        return self._upstream._origin

    @property
    def is_device_accessible(self) -> bool:
        """bool: The value of the upstream resource's property."""
        return self._upstream.is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        """bool: The value of the upstream resource's property."""
        return self._upstream.is_host_accessible

    @property
    def is_managed(self) -> bool:
        """bool: The value of the upstream resource's property."""
        return self._upstream.is_managed

    @property
    def device_id(self) -> int:
        """int: The value of the upstream resource's property."""
        return self._upstream.device_id


def new_tracker(*, limit: int = 0, lists: bool = False, log: bytes | None = None) -> Tracker:
    """Make a tracker."""
    out, config = out_box("cch_tracker"), ffi.new("cch_tracker_config *")
    config.limit, config.lists = limit, lists
    path = ffi.NULL if log is None else ffi.new("char[]", log)
    config.log = path
    check(lib.cch_tracker_create(out, config))
    return adopt(Tracker, out)


def counts_of(tracker: Tracker) -> AllocationCounts:
    """Return the counts of a tracker."""
    out = ffi.new("cch_tracker_counts *")
    check(lib.cch_tracker_read(out, hold(tracker)))
    return AllocationCounts(
        out.current_bytes, out.current_count, out.peak_bytes, out.peak_count, out.total_bytes, out.total_count
    )


def add_to(trackers: Sequence[Tracker], buffer: Buffer, announced: int) -> int:
    """Add a new buffer to trackers; return the number that the last one gave the allocation."""
    out = ffi.new("uint64_t *")
    check(lib.cch_trackers_add(out, *boxes_of(trackers), hold(buffer), announced))
    return int(out[0])


def boxes_of(trackers: Sequence[Tracker]) -> tuple[Any, int]:
    """Return the boxes of trackers as an array, which is valid as long as the trackers are, and their number."""
    return ffi.new("cch_tracker *[]", [hold(tracker) for tracker in trackers]), len(trackers)


def allocate_upstream(target: MemoryResource, size: int, stream: Stream | IsStreamType | None) -> Buffer:
    """Allocate from any memory resource; `stream` is passed if it is not None."""
    if stream is None:
        made: Any = target.allocate(size)  # type: ignore[call-arg]
    else:
        made = target.allocate(size, stream=stream)
    if not isinstance(made, Buffer):
        raise no_buffer(target, made)
    return made


def _allocate_from(
    target: MemoryResource,
    mr: MemoryResource,
    trackers: Sequence[Tracker],
    size: int,
    stream: Stream | IsStreamType | None,
) -> Buffer:
    """Allocate from a memory resource that is not a pool, for an adaptor."""
    nbytes = check_size(size)
    made = _try_to_allocate(target, trackers, nbytes, stream)
    if made == lib.CCH_ELIMIT and collect_garbage(target, stream):
        made = _try_to_allocate(target, trackers, nbytes, stream)
    if not isinstance(made, Buffer):
        raise explained(last_error(made), mr, nbytes, name_of(mr))
    made._set_memory_resource(mr)
    return made


def _try_to_allocate(
    target: MemoryResource, trackers: Sequence[Tracker], nbytes: int, stream: Stream | IsStreamType | None
) -> Buffer | int:
    """Return a buffer that all trackers have counted, or the status of the tracker that refused it."""
    if not nbytes:  # trackers do not count buffers of 0 bytes
        return allocate_upstream(target, nbytes, stream)
    boxes, ordered_on, number = boxes_of(trackers), _hold_stream(stream), ffi.new("uint64_t *")
    status: int = lib.cch_trackers_begin(*boxes, nbytes, ordered_on)
    if status:
        return status
    is_announced = True
    try:
        buffer = allocate_upstream(target, nbytes, stream)
        memory = hold(buffer)
        is_announced = False  # the next call ends the announcement, even if it fails
        return lib.cch_trackers_add(number, *boxes, memory, nbytes) or buffer
    except BaseException:
        if is_announced:
            lib.cch_trackers_cancel(*boxes, nbytes, ordered_on)
        raise


def _hold_stream(stream: Stream | IsStreamType | None) -> Any:
    try:
        return ffi.NULL if stream is None else hold(Stream_accept(stream, allow_stream_protocol=True))
    except (CUDAError, TypeError, ValueError, RuntimeError):
        return ffi.NULL  # the stream is invalid, so the allocation will fail
