# SPDX-License-Identifier: Apache-2.0
"""Options of pools of device memory, loaded when they are used."""

from __future__ import annotations

from dataclasses import dataclass

from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import Options


@public
@dataclass
class DeviceMemoryResourceOptions(Options):
    """Options of a new pool.

    Attributes
    ----------
    ipc_enabled : bool, optional
        Whether the memory can be shared with other processes. Default False.
    max_size : int, optional
        Maximum size of the pool in bytes; 0 for the system's limit. Default 0.
    """

    ipc_enabled: bool = False
    max_size: int = 0
