# SPDX-License-Identifier: Apache-2.0
"""The parts of a kernel launch that are not in the extension module."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NoReturn

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.errors import CUDAError, last_error
from cudacore_handles._base.names import type_text
from cudacore_handles._code.kernel import Kernel
from cudacore_handles._driver.device import Device
from cudacore_handles._launch.argtypes import check_device, read_array, refuse_element, resolve
from cudacore_handles._launch.launch_config import LaunchConfig, check_config, init_config
from cudacore_handles._native import PreparedLaunch, set_array_type_checks
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept

if TYPE_CHECKING:
    from cudacore_handles.typing import KernelArgumentType

    def launch(
        stream: Stream | IsStreamType, config: LaunchConfig, kernel: Kernel, /, *kernel_args: KernelArgumentType
    ) -> None:
        """Launch a kernel."""
else:
    launch = _native.launch

__all__ = ["PreparedLaunch", "launch", "prepare", "set_array_type_checks"]


def prepare(
    stream: Stream | IsStreamType, config: LaunchConfig, kernel: Kernel, kernel_args: tuple[object, ...]
) -> PreparedLaunch:
    """Check the arguments once for many launches; see :meth:`Kernel.prepare`."""
    accepted, _, ready = _check(stream, config, kernel, kernel_args, stacklevel=4)
    return PreparedLaunch(accepted, config, ready, kernel_args, isinstance(stream, _native.Builder))


def _check(
    stream: object, config: object, kernel: object, kernel_args: tuple[object, ...], *, stacklevel: int = 2
) -> tuple[Stream, LaunchConfig, Kernel]:
    """Check a launch's arguments, and prepare the kernel: find its layout, and allow the shared memory.

    Return the stream, the configuration, and the kernel with its layout.
    """
    accepted = Stream_accept(stream, allow_stream_protocol=True)
    checked_config, checked_kernel = check_kernel(config, kernel)
    if checked_config.shmem_size:
        checked_kernel._allow_shared(checked_config.shmem_size, accepted.device)
    return accepted, checked_config, checked_kernel._ready(accepted.context, kernel_args, stacklevel=stacklevel)


def check_kernel(config: object, kernel: object) -> tuple[LaunchConfig, Kernel]:
    """Return a launch's configuration and kernel; raise an error if their types are wrong."""
    checked = check_config(config)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel, not {type_text(kernel)}; ObjectCode.get_kernel() gives one")
    return checked, kernel


def _explain(status: int, config: LaunchConfig, kernel: Kernel, device_id: int) -> NoReturn:
    """Raise the error of a launch that the driver refused, and name the limit that was exceeded.

    A negative `device_id` stands for the current device.
    """
    raise _refused(status, config, kernel, device_id)


def _refused(status: int, config: LaunchConfig, kernel: Kernel, device_id: int) -> CUDAError:
    error = last_error(status)
    explain = _LIMITS.get(int(status))
    if explain is not None:
        try:
            error.hint = explain(config, kernel, Device(None if device_id < 0 else device_id))
        except (
            CUDAError
        ):  # after a fault, every call of the driver fails, and the error of the launch describes the fault
            error.hint = ""
    return error


def _block_limit(config: LaunchConfig, kernel: Kernel, device: Device) -> str:
    x, y, z = config.block
    attributes = kernel.attributes[device]
    max_threads = attributes.max_threads_per_block
    if x * y * z > max_threads:
        return f"The block has {x * y * z} threads, and {kernel!r} can have at most {max_threads} on this device"
    allowed = attributes.max_dynamic_shared_size_bytes
    if config.shmem_size > allowed:
        kernel._allow_shared(config.shmem_size, device)
        return (
            f"Other code had lowered the dynamic shared memory that {kernel!r} may use to {allowed} bytes, and "
            f"shmem_size is {config.shmem_size}; the limit is raised again now, so repeat the launch"
        )
    return f"{config!r} is not possible for {kernel!r} on this device"


def _cooperative_limit(config: LaunchConfig, kernel: Kernel, _: Device) -> str:
    threads, shared = prod(config.block), config.shmem_size
    each = kernel.occupancy.max_active_blocks_per_multiprocessor(threads, shared)
    count = Device().properties.multiprocessor_count
    return (
        f"The launch has {prod(config.grid) * prod(config.cluster or (1,))} blocks, which must all fit on the device "
        f"at once: of {kernel!r} with {threads} threads a block and {shared} bytes of shared memory, at most "
        f"{each * count} do ({each} on each of {count} multiprocessors)"
    )


def _cluster_limit(config: LaunchConfig, kernel: Kernel, device: Device) -> str:
    attributes = kernel.attributes[device]
    required = (
        attributes.required_cluster_width,
        attributes.required_cluster_height,
        attributes.required_cluster_depth,
    )
    cluster, grid = config.cluster, config.grid
    if any(required):
        if cluster is not None and cluster != required:
            return f"{kernel!r} was compiled for clusters of {required} blocks, and cluster is {cluster}"
        if cluster is None and any(n % size for n, size in zip(grid, required, strict=True)):
            return f"{kernel!r} was compiled for clusters of {required} blocks, of which grid={grid} is not a multiple"
    if cluster is None:
        return f"{kernel!r} needs clusters: write LaunchConfig(grid=..., cluster=..., block=...)"
    size, may_be_large = prod(cluster), attributes.non_portable_cluster_size_allowed
    if size > _PORTABLE_CLUSTER and not may_be_large:
        return (
            f"The cluster has {size} blocks, and {kernel!r} can have at most {_PORTABLE_CLUSTER}; some devices allow "
            "up to 16 after kernel.attributes.non_portable_cluster_size_allowed = True"
        )
    return (
        f"A cluster of {size} blocks, each with {prod(config.block)} threads and {config.shmem_size} bytes of shared "
        f"memory, is not possible for {kernel!r} on this device: kernel.occupancy.max_potential_cluster_size() returns "
        "the limit"
    )


_PORTABLE_CLUSTER = 8  # blocks that a cluster can have on all devices that have clusters
# Functions that name the limit that a launch exceeded, by the driver's result.
_LIMITS = {
    results.INVALID_VALUE: _block_limit,
    results.LAUNCH_OUT_OF_RESOURCES: _block_limit,
    results.COOPERATIVE_LAUNCH_TOO_LARGE: _cooperative_limit,
    results.INVALID_CLUSTER_SIZE: _cluster_limit,
}


_native.connect(
    "launch",
    config=LaunchConfig,
    init_config=init_config,
    kernel=Kernel,
    check_launch=_check,
    explain=_explain,
    resolve=resolve,
    read_array=read_array,
    check_device=check_device,
    refuse_element=refuse_element,
)
