# SPDX-License-Identifier: Apache-2.0
"""Buffers of managed memory: advice about their locations, and moves between locations."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from cudacore_handles._base import results
from cudacore_handles._base.errors import CUDAError, check, check_open
from cudacore_handles._base.handle import hold
from cudacore_handles._base.live_set import LiveSet
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import as_flag
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.copy import check_buffers
from cudacore_handles._memory.host import Host, location_of, place_of
from cudacore_handles._stream.stream import LEGACY_DEFAULT_STREAM, IsStreamType, Stream, Stream_accept

# Values of CUmem_advise; the next number undoes the advice.
_READ_MOSTLY, _PREFERRED_LOCATION, _ACCESSED_BY = 1, 3, 5
# Values of CUmem_range_attribute: a location is a type and, at the next number, an id.
_HAS_READ_MOSTLY, _HAS_ACCESSED_BY, _HAS_PREFERRED, _HAS_PREFETCHED = 1, 3, 5, 7
_CPU, _NO_DEVICE = -1, -2  # CU_DEVICE_CPU, CU_DEVICE_INVALID

_warned = False


class AccessedBySetProxy(LiveSet["Device | Host"]):
    """The devices, possibly with the host, that have managed memory mapped permanently (cuMemAdvise).

    :attr:`ManagedBuffer.accessed_by` returns it. The contents are read from the driver each time. The host appears only
    as ``Host()``, because the driver does not distinguish NUMA nodes here.
    """

    __slots__ = ("_buffer",)
    _buffer: ManagedBuffer

    def __init__(self, buf: ManagedBuffer) -> None:
        self._buffer = buf

    def __contains__(self, location: object) -> bool:
        return isinstance(location, (Device, Host)) and location in self._locations()

    def __iter__(self) -> Iterator[Device | Host]:
        return iter(self._locations())

    def add(self, location: Device | Host) -> None:
        """Map the memory for a device or the host, which can then access it without page faults."""
        _advise(self._buffer, _ACCESSED_BY, _accessor(location))

    def discard(self, location: Device | Host) -> None:
        """End the mapping, if there is one."""
        if location in self:
            _advise(self._buffer, _ACCESSED_BY + 1, _accessor(location))

    def _current(self) -> set[Any]:
        return {_accessor(location) for location in self._locations()}

    def _members(self, values: Iterable[Device | Host]) -> set[Any]:
        if not isinstance(values, Iterable):
            raise TypeError(f"accessed_by must be a set of Device or Host, not {type(values).__name__}")
        return {_accessor(location) for location in values}

    def _change(self, *, gained: Iterable[Any] = (), lost: Iterable[Any] = ()) -> None:
        changes = [(_ACCESSED_BY + 1, at) for at in sorted(lost)] + [(_ACCESSED_BY, at) for at in sorted(gained)]
        done = []
        try:
            for advice, at in changes:
                _advise(self._buffer, advice, at)
                done.append((2 * _ACCESSED_BY + 1 - advice, at))
        except CUDAError:
            for advice, at in reversed(done):
                with suppress(CUDAError):
                    _advise(self._buffer, advice, at)
            raise

    def _locations(self) -> list[Device | Host]:
        count = ffi.new("int *")
        check(lib.cch_device_count(count))
        found = _attribute(self._buffer, _HAS_ACCESSED_BY, count[0] + 1)
        hosts: list[Device | Host] = [Host()] if _CPU in found else []
        return hosts + [Device(ordinal) for ordinal in sorted(found) if ordinal > _CPU]


@public
class ManagedBuffer(Buffer):
    """A piece of managed memory, which the driver moves to where it is used.

    :class:`ManagedMemoryResource` and :class:`LegacyManagedMemoryResource` make such buffers. ``from_handle`` makes
    them from managed memory of other libraries; see :meth:`Buffer.from_handle`. The properties about locations are
    advice: they change the speed, never the result. Advice applies to all pages of the buffer, including pages that are
    shared with other buffers.

    CUDA accepts advice for memory of ``cuMemAllocManaged``, which a :class:`LegacyManagedMemoryResource` allocates, but
    not for memory of pools, which have their own preferred location
    (:attr:`ManagedMemoryResourceOptions.preferred_location`). :meth:`prefetch` and :meth:`discard` work for both.
    """

    __slots__ = ()

    @property
    def read_mostly(self) -> bool:
        """bool: Whether the memory is mostly read, so that each reader gets a copy; can be set (cuMemAdvise)."""
        return bool(_attribute(self, _HAS_READ_MOSTLY, 1)[0])

    @read_mostly.setter
    def read_mostly(self, value: bool) -> None:
        wanted = as_flag("read_mostly", value)
        _advise(self, _READ_MOSTLY if wanted else _READ_MOSTLY + 1, (lib.CCH_LOCATION_HOST, 0))

    @property
    def preferred_location(self) -> Device | Host | None:
        """Device, Host or None: The preferred location of the memory; None if it has none. Can be set (cuMemAdvise).

        A NUMA node of the host needs a driver for CUDA 12.2.
        """
        return _place(self, _HAS_PREFERRED)

    @preferred_location.setter
    def preferred_location(self, location: Device | Host | None) -> None:
        if location is None:
            _advise(self, _PREFERRED_LOCATION + 1, (lib.CCH_LOCATION_HOST, 0))
        else:
            _advise(self, _PREFERRED_LOCATION, place_of(location, "preferred_location"))

    @property
    def last_prefetch_location(self) -> Device | Host | None:
        """Device, Host or None: The location to which all of the memory was last prefetched, if any."""
        return _place(self, _HAS_PREFETCHED)

    @property
    def accessed_by(self) -> AccessedBySetProxy:
        """AccessedBySetProxy: The devices, possibly with the host, that have the memory mapped permanently."""
        check_open(self)
        return AccessedBySetProxy(self)

    @accessed_by.setter
    def accessed_by(self, locations: Iterable[Device | Host]) -> None:
        self.accessed_by._replace(locations)

    def prefetch(self, location: Device | Host, *, stream: Stream | IsStreamType) -> None:
        """Move the memory ahead of its use, ordered on a stream (cuMemPrefetchAsync).

        Parameters
        ----------
        location : Device or Host
            The destination. A NUMA node of the host needs a driver for CUDA 12.2.
        stream : Stream
            The stream on which the move is ordered.
        """
        _move("prefetch", (self,), stream, location)

    def discard(self, *, stream: Stream | IsStreamType) -> None:
        """Discard the contents, ordered on a stream, so that they need not be moved (cuMemDiscardBatchAsync).

        Until it is written again, the memory has undefined contents: zeros, the old bytes or others. They can differ
        between two reads. This also holds after a prefetch, and for a later buffer of the pool that reuses the memory.
        Needs a driver for CUDA 13.

        Parameters
        ----------
        stream : Stream
            The stream on which the operation is ordered.
        """
        _move("discard", (self,), stream)

    def discard_prefetch(self, location: Device | Host, *, stream: Stream | IsStreamType) -> None:
        """Discard the contents and move the memory, ordered on a stream (cuMemDiscardAndPrefetchBatchAsync).

        Until it is written again, the memory has undefined contents; see :meth:`discard`. Needs a driver for CUDA 13.

        Parameters
        ----------
        location : Device or Host
            The destination.
        stream : Stream
            The stream on which the operation is ordered.
        """
        _move("discard_prefetch", (self,), stream, location)

    @property
    def is_managed(self) -> bool:
        """bool: True."""
        return True


def prefetch_batch(
    stream: Stream | IsStreamType,
    buffers: Sequence[Buffer],
    locations: Device | Host | Sequence[Device | Host],
) -> None:
    """Move buffers of managed memory ahead of their use, ordered on a stream (cuMemPrefetchBatchAsync).

    From CUDA 13 on, this is one call of the driver; before that, one for each buffer.

    Parameters
    ----------
    stream : Stream
        The stream on which the operation is ordered.
    buffers : sequence of Buffer
        The buffers to move; empty ones are ignored.
    locations : Device, Host, or sequence of them
        One destination for all, or one for each.

    Examples
    --------
    >>> managed = core.ManagedMemoryResource()
    >>> buffers = [managed.allocate(1 << 20, stream=stream) for _ in range(2)]
    >>> core.utils.prefetch_batch(stream, buffers, device)
    """
    _move("prefetch_batch", check_buffers("prefetch_batch", buffers, _METHOD), stream, locations)


def discard_batch(stream: Stream | IsStreamType, buffers: Sequence[Buffer]) -> None:
    """Discard the contents of buffers of managed memory, ordered on a stream (cuMemDiscardBatchAsync).

    Until they are written again, the buffers have undefined contents; see :meth:`ManagedBuffer.discard`. Needs a driver
    for CUDA 13.

    Parameters
    ----------
    stream : Stream
        The stream on which the operation is ordered.
    buffers : sequence of Buffer
        The buffers; empty ones are ignored.

    Examples
    --------
    >>> managed = core.ManagedMemoryResource(core.ManagedMemoryResourceOptions())
    >>> buffers = [managed.allocate(1 << 20, stream=stream) for _ in range(2)]
    >>> core.utils.discard_batch(stream, buffers)
    """
    _move("discard_batch", check_buffers("discard_batch", buffers, _METHOD), stream)


def discard_prefetch_batch(
    stream: Stream | IsStreamType,
    buffers: Sequence[Buffer],
    locations: Device | Host | Sequence[Device | Host],
) -> None:
    """Discard the contents of buffers of managed memory and move them (cuMemDiscardAndPrefetchBatchAsync).

    Until they are written again, the buffers have undefined contents; see :meth:`ManagedBuffer.discard`. Needs a driver
    for CUDA 13.

    Parameters
    ----------
    stream : Stream
        The stream on which the operation is ordered.
    buffers : sequence of Buffer
        The buffers to move; empty ones are ignored.
    locations : Device, Host, or sequence of them
        One destination for all, or one for each.

    Examples
    --------
    >>> managed = core.ManagedMemoryResource(core.ManagedMemoryResourceOptions())
    >>> buffers = [managed.allocate(1 << 20, stream=stream) for _ in range(2)]
    >>> core.utils.discard_prefetch_batch(stream, buffers, device)
    """
    _move("discard_prefetch_batch", check_buffers("discard_prefetch_batch", buffers, _METHOD), stream, locations)


_METHOD = "the ManagedBuffer instance method"


def warn_of_no_concurrent_access(*, stacklevel: int) -> None:
    """Warn, once, if the host must not use managed memory while a device works."""
    global _warned
    if _warned:
        return
    lacking = [device for device in Device.get_all_devices() if not device.properties.concurrent_managed_access]
    if lacking:
        _warned = True
        warnings.warn(
            f"device {', '.join(str(device.device_id) for device in lacking)} cannot use managed memory at the same "
            "time as the host (concurrent_managed_access is False): wait for all its work, with Device.sync(), before "
            "the host uses any managed memory, or the process ends with a segmentation fault",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def reset_concurrent_access_warning() -> None:
    """Let the next :class:`ManagedMemoryResource` warn again."""
    global _warned
    _warned = False


_OF_A_POOL = (
    "CUDA takes advice for the memory of cuMemAllocManaged (LegacyManagedMemoryResource, ManagedBuffer.from_handle), "
    "not for memory of pools, such as that of a ManagedMemoryResource: use prefetch(), or the pool's option "
    "preferred_location"
)


def _advise(buffer: ManagedBuffer, advice: int, place: tuple[int, int]) -> None:
    status = lib.cch_managed_advise(_advised(buffer), advice, *place)
    check(status, hints={results.NOT_SUPPORTED: _OF_A_POOL})


def _attribute(buffer: ManagedBuffer, attribute: int, count: int) -> list[int]:
    out = ffi.new("int[]", count)
    check(lib.cch_managed_attribute(out, count, _advised(buffer), attribute))
    return list(out)


def _place(buffer: ManagedBuffer, attribute: int) -> Device | Host | None:
    place = _attribute(buffer, attribute, 1)[0]
    return location_of(place, _attribute(buffer, attribute + 1, 1)[0]) if place else None


def _accessor(location: object) -> tuple[int, int]:
    place = place_of(location, "location")
    if place[0] not in (lib.CCH_LOCATION_DEVICE, lib.CCH_LOCATION_HOST):
        raise ValueError(f"location is {location!r}, and accessed_by does not distinguish NUMA nodes: use Host()")
    return place


def _managed(function: str, buffer: Buffer) -> Any:
    """Return the box of a buffer of managed memory; raise an error for other buffers."""
    box = hold(buffer)
    if not buffer.is_managed:
        raise ValueError(
            f"{function} requires a managed-memory allocation, and this buffer's is not: allocate it from a "
            "ManagedMemoryResource"
        )
    return box


def _advised(buffer: ManagedBuffer) -> Any:
    """Return the box of a buffer that has memory, for advice."""
    box = _managed("advice", buffer)
    if not lib.cch_deviceptr_size(box):
        raise ValueError("advice: the buffer has 0 bytes; there is no memory to advise")
    return box


def _move(function: str, buffers: tuple[Any, ...], stream: Stream | IsStreamType, locations: object = None) -> None:
    """Move or discard buffers, or both, as the name of the function says."""
    discards = function.startswith("discard")
    places = _places(function, locations, len(buffers)) if "prefetch" in function else ffi.NULL
    accepted = Stream_accept(stream, allow_stream_protocol=True)
    for buffer in buffers:
        if not isinstance(buffer, Buffer):
            raise TypeError(f"{function}: expected Buffer, got {type(buffer).__name__}")
    boxes = [_managed(function, buffer) for buffer in buffers]
    if discards and accepted == LEGACY_DEFAULT_STREAM:
        raise ValueError(
            f"{function}: stream is the legacy default stream, for which CUDA does not do this; give another one, such "
            "as the per-thread default stream"
        )
    check(lib.cch_managed_move(boxes, places, len(boxes), discards, hold(accepted)))


def _places(function: str, locations: object, count: int) -> list[tuple[int, int]]:
    """Return a location for each of the buffers."""
    if isinstance(locations, (Device, Host)) or not function.endswith("_batch"):
        return [place_of(locations, "location")] * count
    if not isinstance(locations, Sequence) or isinstance(locations, (str, bytes)):
        raise TypeError(
            f"{function}: locations must be a Device, a Host, or a sequence of them, not {type(locations).__name__}"
        )
    if len(locations) != count:
        raise ValueError(
            f"{function}: location length {len(locations)} does not match targets length {count}; give one for all, or "
            "one for each"
        )
    return [place_of(location, f"locations[{i}]") for i, location in enumerate(locations)]
