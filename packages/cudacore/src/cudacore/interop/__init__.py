# SPDX-License-Identifier: Apache-2.0
"""Memory resources for CuPy, PyTorch, Numba and RMM.

Each function imports its library when it is called; importing this module imports none of them.
"""

from __future__ import annotations

from cudacore.interop._cupy import cupy_allocator, cupy_pool
from cudacore.interop._numba import numba_memory_manager
from cudacore.interop._rmm import RMMMemoryResource, rmm_resource
from cudacore.interop._torch import torch_allocator, torch_pool
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = [
    "RMMMemoryResource",
    "cupy_allocator",
    "cupy_pool",
    "numba_memory_manager",
    "rmm_resource",
    "torch_allocator",
    "torch_pool",
]

_finish_module(globals())
