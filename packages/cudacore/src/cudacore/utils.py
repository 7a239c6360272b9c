# SPDX-License-Identifier: Apache-2.0
"""What programs need beside devices and kernels: program caches, of ``cudacore_compile``, and views of arrays."""

from __future__ import annotations

import cudacore_compile
from cudacore import _check_sibling, _later
from cudacore_compile import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    ProgramCacheResource,
    make_program_cache_key,
)
from cudacore_handles import StridedMemoryView, args_viewable_as_strided_memory

_check_sibling(cudacore_compile)

__all__ = [
    "FileStreamProgramCache",
    "InMemoryProgramCache",
    "ProgramCacheResource",
    "StridedMemoryView",
    "args_viewable_as_strided_memory",
    "make_program_cache_key",
]


def __getattr__(name: str) -> object:
    raise AttributeError(_later.message(__name__, name), name=name)
