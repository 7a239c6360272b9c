# SPDX-License-Identifier: Apache-2.0
"""What a kernel needs, and how much of it fits on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_handles._cffi import ffi, lib
from cudacore_handles._device_properties import Attribute
from cudacore_handles._errors import call_driver, check

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._device import Device
    from cudacore_handles._kernel import Kernel
    from cudacore_handles._launch_config import LaunchConfig
    from cudacore_handles._stream import Stream

_INT_MAX = 2**31 - 1
_SIZE_MAX = 2**63 - 1


class KernelAttributes:
    """Tell what a kernel needs and may have on a device (cuKernelGetAttribute).

    :attr:`Kernel.attributes` gives it. It speaks of the device that is current when a property is read; index it
    with a device, as in ``kernel.attributes[device].num_regs``, to have it speak of that one.

    Raises
    ------
    CUDAError
        By a property, when no device was given and none is current, or when the kernel has no code for the device.
    """

    __slots__ = ("_device_id", "_kernel", "_known")
    _kernel: Kernel
    _device_id: int | None  # None: the current device
    _known: dict[tuple[int, int], int]  # by device and attribute

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("KernelAttributes cannot be instantiated directly; use Kernel.attributes")

    def __getitem__(self, device: Device | int) -> KernelAttributes:
        """Return the attributes on a device.

        Parameters
        ----------
        device : Device or int
            The device, or its ordinal.
        """
        from cudacore_handles._device import Device

        if device is None:
            raise TypeError("device must be a Device or an int, not None; without an index the current device is meant")
        return self._make(self._kernel, Device(device).device_id, self._known)

    def __repr__(self) -> str:
        device = "the current device" if self._device_id is None else f"device {self._device_id}"
        return f"<KernelAttributes of {self._kernel!r} on {device}>"

    @classmethod
    def _init(cls, kernel: Kernel) -> KernelAttributes:
        return cls._make(kernel, None, {})

    @classmethod
    def _make(cls, kernel: Kernel, device_id: int | None, known: dict[tuple[int, int], int]) -> KernelAttributes:
        self = cls.__new__(cls)
        self._kernel = kernel
        self._device_id = device_id
        self._known = known
        return self

    def _read(self, attribute: Attribute[Any]) -> int:
        device_id = _current_device() if self._device_id is None else self._device_id
        key = (device_id, attribute.number)
        value = self._known.get(key)
        if value is None:
            from cuda.bindings import driver

            wanted = driver.CUfunction_attribute(attribute.number)
            value = int(call_driver("cuKernelGetAttribute", wanted, self._kernel.handle, driver.CUdevice(device_id)))
            if attribute.constant:
                self._known[key] = value
        return value

    max_threads_per_block = Attribute(0, int, "Maximum number of threads per block of a launch.")
    shared_size_bytes = Attribute(1, int, "Static shared memory per block, in bytes.")
    const_size_bytes = Attribute(2, int, "Constant memory that the user allocated, in bytes.")
    local_size_bytes = Attribute(3, int, "Local memory per thread, in bytes.")
    num_regs = Attribute(4, int, "Number of registers per thread.")
    ptx_version = Attribute(5, int, "Virtual architecture that it was compiled for: 10 * major + minor.")
    binary_version = Attribute(6, int, "Architecture that its machine code is for: 10 * major + minor.")
    cache_mode_ca = Attribute(7, bool, "Whether it was compiled with ``-Xptxas --dlcm=ca``.")
    # These can be set, here or by anybody who has the kernel.
    max_dynamic_shared_size_bytes = Attribute(
        8, int, "Maximum dynamic shared memory per block that a launch may ask for, in bytes.", constant=False
    )
    preferred_shared_memory_carveout = Attribute(
        9, int, "Preferred part of the L1 cache to be shared memory, in percent; -1 for no preference.", constant=False
    )
    cluster_size_must_be_set = Attribute(10, bool, "Whether a launch must give a cluster size.", constant=False)
    required_cluster_width = Attribute(11, int, "Required x-dimension of clusters, in blocks; 0: any.", constant=False)
    required_cluster_height = Attribute(12, int, "Required y-dimension of clusters, in blocks; 0: any.", constant=False)
    required_cluster_depth = Attribute(13, int, "Required z-dimension of clusters, in blocks; 0: any.", constant=False)
    non_portable_cluster_size_allowed = Attribute(
        14, bool, "Whether clusters may be larger than every device can run (8 blocks).", constant=False
    )
    cluster_scheduling_policy_preference = Attribute(
        15, int, "Preferred scheduling of the blocks of a cluster: a ``CUclusterSchedulingPolicy``.", constant=False
    )


class MaxPotentialBlockSizeOccupancyResult(NamedTuple):
    """Hold what :meth:`KernelOccupancy.max_potential_block_size` found."""

    #: Blocks that fill the device.
    min_grid_size: int
    #: Threads per block.
    max_block_size: int


class KernelOccupancy:
    """Tell how many blocks of a kernel fit on the current device.

    :attr:`Kernel.occupancy` gives it. Every method needs a current context, which says what device is meant, and raises
    :class:`CUDAError` without one.

    A method that is told how much dynamic shared memory a launch would have says what :func:`launch` can do with it:
    as that does, it raises the kernel's :attr:`~KernelAttributes.max_dynamic_shared_size_bytes` where that is less and
    the device has the memory (cuKernelSetAttribute).
    """

    __slots__ = ("_kernel",)
    _kernel: Kernel

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("KernelOccupancy cannot be instantiated directly; use Kernel.occupancy")

    def __repr__(self) -> str:
        return f"<KernelOccupancy of {self._kernel!r}>"

    @classmethod
    def _init(cls, kernel: Kernel) -> KernelOccupancy:
        self = cls.__new__(cls)
        self._kernel = kernel
        return self

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
            Number of blocks; 0 when not even one fits.
        """
        threads = _whole("block_size", block_size, 1, _INT_MAX)
        shared = _whole("dynamic_shared_memory_size", dynamic_shared_memory_size, 0, _SIZE_MAX)
        self._allow([shared])
        return int(self._ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", threads, shared))

    def max_potential_block_size(
        self,
        dynamic_shared_memory_needed: int | Callable[[int], int] | driver.CUoccupancyB2DSize,
        block_size_limit: int,
    ) -> MaxPotentialBlockSizeOccupancyResult:
        """Suggest a block size that fills the device (cuOccupancyMaxPotentialBlockSize).

        Parameters
        ----------
        dynamic_shared_memory_needed : int or callable or cuda.bindings.driver.CUoccupancyB2DSize
            Dynamic shared memory per block, in bytes; or how it follows from the number of threads per block: a Python
            function, or the address of a C function ``size_t needed(int block_size)``.
        block_size_limit : int
            Maximum number of threads per block; 0 for what the kernel and the device allow.

        Returns
        -------
        MaxPotentialBlockSizeOccupancyResult
            The block size, and how many blocks of it fill the device; zeros when not even one block fits.
        """
        from cuda.bindings import driver

        limit = _whole("block_size_limit", block_size_limit, 0, _INT_MAX)
        operation = "cuOccupancyMaxPotentialBlockSize"
        function: Any = dynamic_shared_memory_needed
        if isinstance(function, driver.CUoccupancyB2DSize):
            function = ffi.cast("size_t(*)(int)", int(function)) if int(function) else 0
        if callable(function):
            needed = _SharedMemoryNeeded(function)
            address = driver.CUoccupancyB2DSize(needed.address)
            result = self._ask(operation, address, 0, limit)
            needed.raise_failure()
            if self._allow(needed.results):
                result = self._ask(operation, address, 0, limit)
                needed.raise_failure()
        else:
            shared = _whole("dynamic_shared_memory_needed", function, 0, _SIZE_MAX)
            self._allow([shared])
            result = self._ask(operation, driver.CUoccupancyB2DSize(0), shared, limit)
        min_grid_size, max_block_size = result
        return MaxPotentialBlockSizeOccupancyResult(int(min_grid_size), int(max_block_size))

    def available_dynamic_shared_memory_per_block(self, num_blocks_per_multiprocessor: int, block_size: int) -> int:
        """Return how much dynamic shared memory a block can have (cuOccupancyAvailableDynamicSMemPerBlock).

        It is never more than the kernel's :attr:`~KernelAttributes.max_dynamic_shared_size_bytes` at the moment. What
        CUDA reserves in each block (:attr:`DeviceProperties.reserved_shared_memory_per_block`) is not taken off.

        Parameters
        ----------
        num_blocks_per_multiprocessor : int
            Blocks that are to be resident on a multiprocessor, at least 1.
        block_size : int
            Threads per block, at least 1.

        Returns
        -------
        int
            Bytes per block.

        Raises
        ------
        ValueError
            When so many blocks do not fit even without dynamic shared memory.
        """
        blocks = _whole("num_blocks_per_multiprocessor", num_blocks_per_multiprocessor, 1, _INT_MAX)
        threads = _whole("block_size", block_size, 1, _INT_MAX)
        most = self.max_active_blocks_per_multiprocessor(threads, 0)
        if blocks > most:
            raise ValueError(
                f"num_blocks_per_multiprocessor is {blocks}, and at most {most} blocks of {threads} threads of "
                f"{self._kernel!r} can be resident on a multiprocessor"
            )
        return int(self._ask("cuOccupancyAvailableDynamicSMemPerBlock", blocks, threads))

    def max_potential_cluster_size(self, config: LaunchConfig, *, stream: Stream) -> int:
        """Return the largest cluster that the kernel can be launched with (cuOccupancyMaxPotentialClusterSize).

        Parameters
        ----------
        config : LaunchConfig
            The launch; its `cluster` does not count.
        stream : Stream
            The stream that it is for.

        Returns
        -------
        int
            Blocks per cluster; 0 when not even one block fits.
        """
        native = _launch_config(config, stream)
        self._allow([config.shmem_size])
        return int(self._ask("cuOccupancyMaxPotentialClusterSize", native))

    def max_active_clusters(self, config: LaunchConfig, *, stream: Stream) -> int:
        """Return how many clusters can be resident on the device at once (cuOccupancyMaxActiveClusters).

        Parameters
        ----------
        config : LaunchConfig
            The launch, with its `cluster`.
        stream : Stream
            The stream that it is for.

        Returns
        -------
        int
            Number of clusters; 0 when not even one fits, or neither `config` nor the kernel has a cluster size.

        Raises
        ------
        CUDAError
            When the kernel cannot be launched with such clusters.
        """
        native = _launch_config(config, stream)
        self._allow([config.shmem_size])
        return int(self._ask("cuOccupancyMaxActiveClusters", native))

    def _ask(self, operation: str, *args: object) -> Any:
        from cuda.bindings import driver

        _current_device()
        # The driver takes a kernel for a function, and the current context for the function's.
        function = driver.CUfunction(int(self._kernel.handle))
        return call_driver(operation, function, *args)

    def _allow(self, sizes: Iterable[int]) -> bool:
        """Let launches have those sizes of dynamic shared memory that fit; return whether that changed anything."""
        from cuda.bindings import driver

        from cudacore_handles._device import Device

        device = Device(_current_device())
        attributes = self._kernel.attributes[device]
        most = device.properties.max_shared_memory_per_block_optin - attributes.shared_size_bytes
        wanted = max((size for size in sizes if size <= most), default=0)
        if wanted <= attributes.max_dynamic_shared_size_bytes:
            return False
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        ordinal = driver.CUdevice(device.device_id)
        call_driver("cuKernelSetAttribute", attribute, wanted, self._kernel.handle, ordinal)
        return True


class _SharedMemoryNeeded:
    """A Python function from threads per block to bytes, as a C function for the duration of one call."""

    def __init__(self, function: Callable[[int], int]) -> None:
        self._function = function
        self._failure: BaseException | None = None
        self.results: set[int] = set()
        self._callback = ffi.callback("size_t(int)", self._call)

    def _call(self, block_size: int) -> int:
        # The driver cannot be told of a failure: it gets an answer for every block size, and the caller the exception.
        if self._failure is not None:
            return 0
        try:
            shared = _whole("the result of dynamic_shared_memory_needed", self._function(block_size), 0, _SIZE_MAX)
        except BaseException as failure:
            self._failure = failure
            return 0
        self.results.add(shared)
        return shared

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", self._callback))


def _current_device() -> int:
    out = ffi.new("int *")
    check(lib.cch_current_device(out))
    return int(out[0])


def _whole(name: str, value: object, least: int, most: int) -> int:
    """Check an argument that is an integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    number: int = value.__index__()
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}; it must be from {least} to {most}")
    return number


def _launch_config(config: LaunchConfig, stream: Stream) -> driver.CUlaunchConfig:
    """Say a launch as the driver takes it."""
    from cuda.bindings import driver

    from cudacore_handles._launch_config import LaunchConfig
    from cudacore_handles._stream import Stream_accept

    if not isinstance(config, LaunchConfig):
        raise TypeError(f"config must be a LaunchConfig, not {type(config).__name__}")
    native = driver.CUlaunchConfig()
    native.hStream = Stream_accept(stream).handle
    # The driver counts blocks, and LaunchConfig clusters where there are any.
    cluster = config.cluster or (1, 1, 1)
    native.gridDimX, native.gridDimY, native.gridDimZ = (n * m for n, m in zip(config.grid, cluster, strict=True))
    native.blockDimX, native.blockDimY, native.blockDimZ = config.block
    native.sharedMemBytes = config.shmem_size
    attributes = []
    if config.cluster:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
        attributes.append(attribute)
    if config.is_cooperative:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        attributes.append(attribute)
    native.attrs = attributes
    native.numAttrs = len(attributes)
    return native
