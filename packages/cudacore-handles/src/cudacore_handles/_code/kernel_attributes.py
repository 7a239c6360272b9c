# SPDX-License-Identifier: Apache-2.0
"""The resources that a kernel needs, and how many of its blocks fit on a device."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_handles import _native
from cudacore_handles._base.address import check_int
from cudacore_handles._base.attribute import Attribute, Flag, HasAttributes, Number
from cudacore_handles._base.driver_calls import call_driver, query_driver, query_driver_size
from cudacore_handles._base.errors import result_of
from cudacore_handles._base.made import Made
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._launch.launch_config import LaunchConfig, check_config
from cudacore_handles._stream.stream import Stream, Stream_accept

if TYPE_CHECKING:
    from cuda.bindings import driver


# Held while a kernel's limit of shared memory is read and changed, so that no other thread changes it in between. The
# lock is recursive, because a garbage collection can run a finalizer that launches a kernel, and takes the lock again.
_allowing = threading.RLock()

_INT_MAX = 2**31 - 1
_SHARED_BYTES = "size_t (*)(int)"  # CUoccupancyB2DSize
_SIZE_MAX = 2**63 - 1


class KernelAttributes(_native.KernelPart, HasAttributes):
    """The attributes of a kernel on a device (cuKernelGetAttribute).

    :attr:`Kernel.attributes` returns it. Properties are for the current device. To choose a device,
    index the object: ``kernel.attributes[device].num_regs``.

    Raises
    ------
    CUDAError
        If a property is read while no device was given and none is current, or if the kernel has no code for the
        device.
    """

    __slots__ = ()
    _made_by = "Kernel.attributes"

    def __getitem__(self, device: Device | int) -> KernelAttributes:
        """Return the attributes on a device.

        Parameters
        ----------
        device : Device or int
            The device, or its ordinal.
        """
        if device is None:
            raise TypeError("device must be a Device or an int, not None; without an index the current device is meant")
        made = self._kernel.attributes
        made._device = Device(device).device_id
        return made

    def __repr__(self) -> str:
        device = "the current device" if self._device is None else f"device {self._device}"
        return f"<KernelAttributes of {self._kernel!r} on {device}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._device is None:
            return attrgetter("attributes"), (self._kernel,)
        return getitem, (self._kernel.attributes, self._device)

    def _read(self, attribute: Attribute[Any]) -> int:
        device_id = _current_device() if self._device is None else self._device
        if not attribute.constant:
            return query_driver("cuKernelGetAttribute", attribute.number, self._kernel, device_id)
        known = self._kernel._constants
        value = known.get((device_id, attribute.number))
        if value is None:
            value = query_driver("cuKernelGetAttribute", attribute.number, self._kernel, device_id)
            known[device_id, attribute.number] = value
        return value

    def _max_dynamic_shared(self) -> int:
        """Return the maximum dynamic shared memory of a block on this object's device."""
        return Device(self._device).properties.max_shared_memory_per_block_optin - self.shared_size_bytes

    def _allow_dynamic_shared(self, nbytes: int) -> bool:
        """Allow launches on this object's device to use `nbytes` of shared memory; return whether the limit rose."""
        setting = KernelAttributes.max_dynamic_shared_size_bytes
        with _allowing:
            if nbytes <= self.max_dynamic_shared_size_bytes:
                return False
            assert self._device is not None
            call_driver("cuKernelSetAttribute", setting.number, nbytes, self._kernel, self._device)
            return True

    max_threads_per_block: Number = Number(0, "Maximum number of threads per block of a launch.")
    shared_size_bytes: Number = Number(1, "Static shared memory per block, in bytes.")
    const_size_bytes: Number = Number(2, "Constant memory that the user allocated, in bytes.")
    local_size_bytes: Number = Number(3, "Local memory per thread, in bytes.")
    num_regs: Number = Number(4, "Number of registers per thread.")
    ptx_version: Number = Number(5, "Virtual architecture that it was compiled for: 10 * major + minor.")
    binary_version: Number = Number(6, "Architecture that its machine code is for: 10 * major + minor.")
    cache_mode_ca: Flag = Flag(7, "Whether it was compiled with ``-Xptxas --dlcm=ca``.")
    # Other code that has the kernel can change the following attributes, so they are not cached.
    max_dynamic_shared_size_bytes: Number = Number(
        8, "Maximum dynamic shared memory per block that a launch may request, in bytes.", constant=False
    )
    preferred_shared_memory_carveout: Number = Number(
        9, "Preferred part of the L1 cache to be shared memory, in percent; -1 for no preference.", constant=False
    )
    cluster_size_must_be_set: Flag = Flag(10, "Whether a launch must give a cluster size.", constant=False)
    required_cluster_width: Number = Number(11, "Required x-dimension of clusters, in blocks; 0: any.", constant=False)
    required_cluster_height: Number = Number(12, "Required y-dimension of clusters, in blocks; 0: any.", constant=False)
    required_cluster_depth: Number = Number(13, "Required z-dimension of clusters, in blocks; 0: any.", constant=False)
    non_portable_cluster_size_allowed: Flag = Flag(
        14, "Whether clusters may be larger than every device can run (8 blocks).", constant=False
    )
    cluster_scheduling_policy_preference: Number = Number(
        15, "Preferred scheduling of the blocks of a cluster: a ``CUclusterSchedulingPolicy``.", constant=False
    )


class MaxPotentialBlockSizeOccupancyResult(NamedTuple):
    """The result of :meth:`KernelOccupancy.max_potential_block_size`."""

    #: Blocks that fill the device.
    min_grid_size: int
    #: Threads per block.
    max_block_size: int


class KernelOccupancy(_native.KernelPart, Made):
    """The occupancy of a kernel on a device.

    :attr:`Kernel.occupancy` returns it. A method that takes a stream uses the stream's device. Other methods use the
    current device. Without a current context, :class:`CUDAError` is raised.

    Methods that take a size of dynamic shared memory return the result for a :func:`launch` with that size. Like a
    launch, they increase the kernel's :attr:`~KernelAttributes.max_dynamic_shared_size_bytes` to that size if it is
    smaller and the device has enough memory (cuKernelSetAttribute).
    """

    __slots__ = ()
    _made_by = "Kernel.occupancy"

    def __repr__(self) -> str:
        return f"<KernelOccupancy of {self._kernel!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return attrgetter("occupancy"), (self._kernel,)

    def max_active_blocks_per_multiprocessor(self, block_size: int, dynamic_shared_memory_size: int) -> int:
        """Return how many blocks can be resident on a multiprocessor (cuOccupancyMaxActiveBlocksPerMultiprocessor).

        Parameters
        ----------
        block_size : int
            Threads per block, at least 1.
        dynamic_shared_memory_size : int
            Dynamic shared memory per block, in bytes.

        Returns
        -------
        int
            Number of blocks; 0 if not even one fits.
        """
        threads = _whole("block_size", block_size, 1, _INT_MAX)
        shared = _whole("dynamic_shared_memory_size", dynamic_shared_memory_size, 0, _SIZE_MAX)
        self._allow([shared])
        return query_driver("cuOccupancyMaxActiveBlocksPerMultiprocessor", self._kernel, threads, shared)

    def max_potential_block_size(
        self,
        dynamic_shared_memory_needed: int | Callable[[int], int] | driver.CUoccupancyB2DSize,
        block_size_limit: int,
    ) -> MaxPotentialBlockSizeOccupancyResult:
        """Return a block size with which the kernel fills the device (cuOccupancyMaxPotentialBlockSize).

        Parameters
        ----------
        dynamic_shared_memory_needed : int or callable or cuda.bindings.driver.CUoccupancyB2DSize
            Dynamic shared memory per block, in bytes; or a function that computes it from the number of threads per
            block. The function can be a Python function, or the address of a C function ``size_t needed(int
            block_size)``, given as ``CUoccupancyB2DSize(address)`` or, as in ``cuda.core``,
            ``CUoccupancyB2DSize(_ptr=address)``.
        block_size_limit : int
            Maximum number of threads per block; 0 for the maximum of the kernel and the device.

        Returns
        -------
        MaxPotentialBlockSizeOccupancyResult
            The block size, and the number of blocks that fill the device; zeros if not even one block fits.
        """
        limit = _whole("block_size_limit", block_size_limit, 0, _INT_MAX)
        out = ffi.new("int[2]")

        def query(shared_of: Any, shared: int) -> None:
            function = "cuOccupancyMaxPotentialBlockSize"
            call_driver(function, out, out + 1, self._kernel, shared_of, shared, limit)

        function: Any = _c_function(dynamic_shared_memory_needed)
        if not callable(function):
            shared = _whole("dynamic_shared_memory_needed", function, 0, _SIZE_MAX)
            self._allow([shared])
            query(ffi.NULL, shared)
            return MaxPotentialBlockSizeOccupancyResult(*out)
        results: set[int] = set()
        failures: list[BaseException] = []

        def needed(block_size: int) -> int:
            if failures:
                return 0
            shared = _whole("the result of dynamic_shared_memory_needed", function(block_size), 0, _SIZE_MAX)
            results.add(shared)
            return shared

        # A C function cannot report a failure to the driver: it returns 0, and the exception is raised afterwards.
        callback = ffi.callback(_SHARED_BYTES, needed, onerror=lambda _, failure, __: failures.append(failure))
        query(callback, 0)
        if not failures and self._allow(results):
            query(callback, 0)
        if failures:
            raise failures[0]
        return MaxPotentialBlockSizeOccupancyResult(*out)

    def available_dynamic_shared_memory_per_block(self, num_blocks_per_multiprocessor: int, block_size: int) -> int:
        """Return how much dynamic shared memory a block can have (cuOccupancyAvailableDynamicSMemPerBlock).

        The result is at most the kernel's current :attr:`~KernelAttributes.max_dynamic_shared_size_bytes`. The memory
        that CUDA reserves in each block (:attr:`DeviceProperties.reserved_shared_memory_per_block`) is not subtracted.

        Parameters
        ----------
        num_blocks_per_multiprocessor : int
            The number of blocks that shall be resident on a multiprocessor, at least 1.
        block_size : int
            Threads per block, at least 1.

        Returns
        -------
        int
            Bytes per block.

        Raises
        ------
        ValueError
            If that many blocks do not fit even without dynamic shared memory.
        """
        blocks = _whole("num_blocks_per_multiprocessor", num_blocks_per_multiprocessor, 1, _INT_MAX)
        threads = _whole("block_size", block_size, 1, _INT_MAX)
        max_blocks = self.max_active_blocks_per_multiprocessor(threads, 0)
        if blocks > max_blocks:
            raise ValueError(
                f"num_blocks_per_multiprocessor is {blocks}, and at most {max_blocks} blocks of {threads} threads of "
                f"{self._kernel!r} can be resident on a multiprocessor"
            )
        return query_driver_size("cuOccupancyAvailableDynamicSMemPerBlock", self._kernel, blocks, threads)

    def max_potential_cluster_size(self, config: LaunchConfig, *, stream: Stream) -> int:
        """Return the largest cluster that the kernel can be launched with (cuOccupancyMaxPotentialClusterSize).

        Parameters
        ----------
        config : LaunchConfig
            The launch; its `cluster` is ignored.
        stream : Stream
            The stream of the launch.

        Returns
        -------
        int
            Blocks per cluster; 0 if not even one block fits.
        """
        return self._query_clusters(config, stream, largest=True)

    def max_active_clusters(self, config: LaunchConfig, *, stream: Stream) -> int:
        """Return how many clusters can be resident on the device at once (cuOccupancyMaxActiveClusters).

        Parameters
        ----------
        config : LaunchConfig
            The launch, with its `cluster`.
        stream : Stream
            The stream of the launch.

        Returns
        -------
        int
            Number of clusters; 0 if not even one fits, or if neither `config` nor the kernel has a cluster size.

        Raises
        ------
        CUDAError
            If the kernel cannot be launched with such clusters.
        """
        return self._query_clusters(config, stream, largest=False)

    def _query_clusters(self, config: LaunchConfig, stream: Stream, *, largest: bool) -> int:
        check_config(config)
        accepted = Stream_accept(stream)
        if config.shmem_size:
            self._allow([config.shmem_size], accepted.device.device_id)
        return _native.occupancy_clusters(self._kernel, config, accepted, largest)

    def _allow(self, sizes: Collection[int], device_id: int | None = None) -> bool:
        """Allow launches with those of the given sizes of shared memory that fit; return whether the limit rose."""
        if not any(sizes):  # every limit allows launches without dynamic shared memory
            return False
        attributes = self._kernel.attributes[_current_device() if device_id is None else device_id]
        limit = attributes._max_dynamic_shared()
        return attributes._allow_dynamic_shared(max((size for size in sizes if size <= limit), default=0))


def _current_device() -> int:
    device_id = _native.current_device()
    return result_of(lib.cch_current_device) if device_id < 0 else device_id  # raises an error if there is none


def _c_function(needed: object) -> object:
    """Return the C function of a ``CUoccupancyB2DSize`` of ``cuda.bindings``; return other values unchanged."""
    module = sys.modules.get("cuda.bindings.driver")  # such an object exists only if this module was imported
    if module is None or not isinstance(needed, module.CUoccupancyB2DSize):
        return needed
    # An object that was made with `_ptr` is at the function's address. Any other object contains the function's
    # address.
    address, begin = needed.getPtr(), id(needed)
    if begin <= address < begin + type(needed).__basicsize__:
        address = int(needed)
    return ffi.cast(_SHARED_BYTES, address) if address else 0


def _whole(name: str, value: object, minimum: int, maximum: int) -> int:
    """Return an argument as an int; raise an error if it is not an integer from `minimum` to `maximum`."""
    number = value if type(value) is int else check_int(name, value)
    if not minimum <= number <= maximum:
        raise ValueError(f"{name} is {number}; it must be from {minimum} to {maximum}")
    return number


_native.connect("kernel", kernel_attributes=KernelAttributes, kernel_occupancy=KernelOccupancy)
