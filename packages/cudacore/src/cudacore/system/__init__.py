# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, by NVML (the NVIDIA Management Library): memory, clocks, temperatures, processes.

This package needs no CUDA context. ``python -m cudacore.system`` prints a table. NVML comes with the NVIDIA driver; the
functions call it through ``cuda.bindings.nvml`` (``pip install 'cudacore[system]'``), and raise an error if it is
missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore.system import _nvml
from cudacore.system import exceptions as exceptions
from cudacore.system import typing as typing
from cudacore.system._device import Device, get_p2p_status, get_topology_common_ancestor
from cudacore.system._events import register_events
from cudacore.system._links import NvlinkInfo
from cudacore.system._machine import (
    get_driver_branch,
    get_kernel_mode_driver_version,
    get_num_devices,
    get_nvml_version,
    get_process_name,
    get_user_mode_driver_version,
)
from cudacore.system.exceptions import *  # noqa: F403 - hides the built-in MemoryError and TimeoutError here
from cudacore_handles._sdk import finish_module as _finish_module

if TYPE_CHECKING:
    CUDA_BINDINGS_NVML_IS_COMPATIBLE: bool

__all__ = [
    "CUDA_BINDINGS_NVML_IS_COMPATIBLE",
    "Device",
    "NvlinkInfo",
    "get_driver_branch",
    "get_kernel_mode_driver_version",
    "get_num_devices",
    "get_nvml_version",
    "get_p2p_status",
    "get_process_name",
    "get_topology_common_ancestor",
    "get_user_mode_driver_version",
    "register_events",
]
__all__ += exceptions.__all__
_finish_module(globals())


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "CUDA_BINDINGS_NVML_IS_COMPATIBLE":
            return _nvml.is_compatible()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
