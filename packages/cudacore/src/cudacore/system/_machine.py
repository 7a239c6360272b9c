# SPDX-License-Identifier: Apache-2.0
"""NVML's information about the machine: versions, the number of devices, names of processes."""

from __future__ import annotations

from cudacore.system._nvml import call, is_compatible
from cudacore_handles._sdk import check, ffi, lib


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def get_user_mode_driver_version() -> tuple[int, ...]:
    """Return the version of CUDA that the driver supports, such as ``(13, 0)`` (cuDriverGetVersion). Needs no NVML."""
    out = ffi.new("int *")
    check(lib.cch_driver_version(out))
    return out[0] // 1000, out[0] % 1000 // 10


def get_kernel_mode_driver_version() -> tuple[int, ...]:
    """Return the version of the NVIDIA driver, such as ``(580, 65, 6)`` (nvmlSystemGetDriverVersion)."""
    return _numbers(call("system_get_driver_version"))


def get_nvml_version() -> tuple[int, ...]:
    """Return the version of NVML, such as ``(13, 580, 65, 6)`` (nvmlSystemGetNVMLVersion)."""
    return _numbers(call("system_get_nvml_version"))


def get_driver_branch() -> str:
    """Return the branch of the NVIDIA driver, such as ``"r580_00"`` (nvmlSystemGetDriverBranch)."""
    return str(call("system_get_driver_branch"))


def get_num_devices() -> int:
    """Return the number of devices (nvmlDeviceGetCount_v2).

    Without the bindings of NVML, it is the number of devices that this process can use (cuDeviceGetCount).
    """
    if is_compatible():
        return int(call("device_get_count_v2"))
    out = ffi.new("int *")
    check(lib.cch_device_count(out))
    return int(out[0])


def get_process_name(pid: int) -> str:
    """Return the name of a process (nvmlSystemGetProcessName).

    Parameters
    ----------
    pid : int
        Id of the process.
    """
    return str(call("system_get_process_name", pid))
