# SPDX-License-Identifier: Apache-2.0
"""Memory that graphs allocate."""

from __future__ import annotations

from typing import Any, SupportsIndex

from cudacore_handles import Buffer, CUDAError, Device, IsStreamType, Stream
from cudacore_handles._sdk import Closing, adopt, as_address, call_driver, check, ffi, lib, out_box
from cudacore_handles._sdk.graph import (
    AccessibleMemoryResource,
    Attribute,
    MemoryAttributes,
    Pool,
    Setting,
    Stream_accept,
    allocate,
    check_size,
    explained,
    is_capturing,
)

_resources: dict[tuple[type, int], GraphMemoryResource] = {}


class GraphMemoryResourceAttributes(MemoryAttributes):
    """The amounts of memory that the graphs of a device use and reserve (cuDeviceGetGraphMemAttribute).

    :attr:`GraphMemoryResource.attributes` returns it. Each property is read from the driver, and maxima can be set
    to 0.
    """

    __slots__ = ("_device_id",)
    _made_by = "GraphMemoryResource.attributes"
    _device_id: int

    @classmethod
    def _init(cls, device_id: int) -> GraphMemoryResourceAttributes:
        self = cls.__new__(cls)
        self._device_id = device_id
        return self

    def _read(self, attribute: Attribute[Any]) -> int:
        out = ffi.new("uint64_t *")
        call_driver("cuDeviceGetGraphMemAttribute", self._device_id, attribute.number, out)
        return int(out[0])

    def _write(self, attribute: Setting[Any], value: int) -> None:
        call_driver("cuDeviceSetGraphMemAttribute", self._device_id, attribute.number, ffi.new("uint64_t *", value))

    def _title(self) -> str:
        return f"Graph memory of device {self._device_id}"

    used_mem_current: Attribute[int] = Attribute(0, int, "Memory that graphs use now, in bytes.")
    used_mem_high: Setting[int] = Setting(
        1, int, "The most that they have used since this was last set to 0, in bytes.", 0
    )
    reserved_mem_current: Attribute[int] = Attribute(2, int, "Memory that graphs have from the system now, in bytes.")
    reserved_mem_high: Setting[int] = Setting(
        3, int, "The most that they have had from the system since this was last set to 0, in bytes.", 0
    )


class GraphMemoryResource(AccessibleMemoryResource, Closing):
    """A memory resource for captures: allocations and frees become nodes of the graph.

    There is one object for each device.

    Parameters
    ----------
    device_id : int or cudacore_handles.Device
        The device.
    """

    _device_id: int
    _pool: Pool

    def __new__(cls, device_id: Device | int) -> GraphMemoryResource:
        ordinal = Device(device_id).device_id
        known = _resources.get((cls, ordinal))
        if known is None:
            known = object.__new__(cls)
            known._device_id = ordinal
            out = out_box("cch_pool")
            check(lib.cch_pool_current(out, ordinal))
            known._pool = adopt(Pool, out)
            known = _resources.setdefault((cls, ordinal), known)
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._device_id,)

    def __repr__(self) -> str:
        return f"<GraphMemoryResource of device {self._device_id}>"

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate memory in the graph that is being captured (cuMemAllocAsync).

        Parameters
        ----------
        size : int
            Size in bytes.
        stream : GraphBuilder or Stream
            The stream that is captured.

        Raises
        ------
        RuntimeError
            If the stream is not being captured.
        ValueError
            If `size` is 0.
        """
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        if not is_capturing(accepted):
            raise RuntimeError(
                "GraphMemoryResource allocates while a graph is captured, and this stream is not; "
                "use Device.memory_resource"
            )
        nbytes = check_size(size)
        if nbytes == 0:
            raise ValueError("size is 0; a graph allocates at least one byte")
        try:
            return allocate(Buffer, self._pool, nbytes, accepted, self)
        except CUDAError as error:
            raise explained(error, self, nbytes, f"device {self._device_id} for a graph")  # noqa: B904 - the same error

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Free memory in the graph that is being captured (cuMemFreeAsync)."""
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        call_driver("cuMemFreeAsync", as_address(ptr, "ptr must be an int, the memory's address"), accepted)

    def close(self) -> None:
        """Do nothing, because the memory belongs to the device."""

    def trim(self) -> None:
        """Return unused memory of graphs to the system (cuDeviceGraphMemTrim)."""
        call_driver("cuDeviceGraphMemTrim", self._device_id)

    @property
    def attributes(self) -> GraphMemoryResourceAttributes:
        """GraphMemoryResourceAttributes: The amounts of memory that the device's graphs use and reserve."""
        return GraphMemoryResourceAttributes._init(self._device_id)

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device."""
        return self._device_id
