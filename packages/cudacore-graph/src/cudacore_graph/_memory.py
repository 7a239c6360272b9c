# SPDX-License-Identifier: Apache-2.0
"""Memory that graphs allocate."""

from __future__ import annotations

from typing import Any, SupportsIndex

from cudacore_handles import Buffer, CUDAError, Device, IsStreamType, Stream
from cudacore_handles._sdk import Closing, Made, adopt, as_address, call_driver, check, lib, out_box
from cudacore_handles._sdk.graph import (
    AccessibleMemoryResource,
    Pool,
    Stream_accept,
    allocate,
    check_size,
    explained,
    is_capturing,
)

_resources: dict[tuple[type, int], GraphMemoryResource] = {}


class GraphMemoryResourceAttributes(Made):
    """The amounts of memory that the graphs of a device use and reserve (cuDeviceGetGraphMemAttribute).

    :attr:`GraphMemoryResource.attributes` returns it. Each property is read from the driver.
    """

    __slots__ = ("_device_id",)
    _made_by = "GraphMemoryResource.attributes"
    _device_id: int

    @classmethod
    def _init(cls, device_id: int) -> GraphMemoryResourceAttributes:
        self = cls.__new__(cls)
        self._device_id = device_id
        return self

    def __repr__(self) -> str:
        names = ("reserved_mem_current", "reserved_mem_high", "used_mem_current", "used_mem_high")
        values = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"GraphMemoryResourceAttributes({values})"

    def _get(self, name: str) -> int:
        from cuda.bindings import driver

        attribute = getattr(driver.CUgraphMem_attribute, f"CU_GRAPH_MEM_ATTR_{name}")
        return int(call_driver("cuDeviceGetGraphMemAttribute", self._device_id, attribute))

    def _reset(self, name: str, value: object) -> None:
        from cuda.bindings import driver

        if value != 0:
            raise ValueError(f"a high-water mark can only be set to 0, not to {value!r}")
        attribute = getattr(driver.CUgraphMem_attribute, f"CU_GRAPH_MEM_ATTR_{name}")
        call_driver("cuDeviceSetGraphMemAttribute", self._device_id, attribute, driver.cuuint64_t(0))

    @property
    def reserved_mem_current(self) -> int:
        """int: Bytes that graphs have reserved from the system."""
        return self._get("RESERVED_MEM_CURRENT")

    @property
    def reserved_mem_high(self) -> int:
        """int: The maximum number of bytes reserved so far. Assigning 0 resets it."""
        return self._get("RESERVED_MEM_HIGH")

    @reserved_mem_high.setter
    def reserved_mem_high(self, value: int) -> None:
        self._reset("RESERVED_MEM_HIGH", value)

    @property
    def used_mem_current(self) -> int:
        """int: Bytes that graphs use now."""
        return self._get("USED_MEM_CURRENT")

    @property
    def used_mem_high(self) -> int:
        """int: The maximum number of bytes used so far. Assigning 0 resets it."""
        return self._get("USED_MEM_HIGH")

    @used_mem_high.setter
    def used_mem_high(self, value: int) -> None:
        self._reset("USED_MEM_HIGH", value)


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
        call_driver("cuMemFreeAsync", as_address(ptr, "ptr must be an int, the memory's address"), accepted.handle)

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
