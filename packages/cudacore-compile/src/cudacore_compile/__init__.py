# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to PTX, cubin and LTO-IR with NVRTC, on any machine: no GPU, no driver and no toolkit needed.

Importing this package loads neither NVRTC nor ``cuda.bindings``: that happens at the first compilation.
"""

from __future__ import annotations

from cudacore_compile import typing
from cudacore_compile._cache_files import FileStreamProgramCache
from cudacore_compile._cache_includes import UncacheableError
from cudacore_compile._cache_keys import make_program_cache_key
from cudacore_compile._cache_memory import InMemoryProgramCache
from cudacore_compile._cache_resource import CacheStatistics, ProgramCacheResource
from cudacore_compile._errors import NVRTCError
from cudacore_compile._options import ProgramOptions
from cudacore_compile._program import Program
from cudacore_compile._targets import SUPPORTED_TARGETS

__version__ = "0.1.0"

__all__ = [
    "SUPPORTED_TARGETS",
    "CacheStatistics",
    "FileStreamProgramCache",
    "InMemoryProgramCache",
    "NVRTCError",
    "Program",
    "ProgramCacheResource",
    "ProgramOptions",
    "UncacheableError",
    "make_program_cache_key",
    "typing",
]
