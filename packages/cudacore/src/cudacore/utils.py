# SPDX-License-Identifier: Apache-2.0
"""Views of arrays, copies, and program caches.

Views of arrays, copies of many buffers and moves of managed memory are from ``cudacore_handles``. Program caches are
from ``cudacore_compile``.
"""

from __future__ import annotations

from cudacore_compile import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    ProgramCacheResource,
    make_program_cache_key,
)
from cudacore_handles import (
    CopyOptions,
    MemcpyOverlapMode,
    MemcpySrcAccessOrder,
    StridedMemoryView,
    args_viewable_as_strided_memory,
    copy_batch,
    discard_batch,
    discard_prefetch_batch,
    prefetch_batch,
)
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = [
    "CopyOptions",
    "FileStreamProgramCache",
    "InMemoryProgramCache",
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "ProgramCacheResource",
    "StridedMemoryView",
    "args_viewable_as_strided_memory",
    "copy_batch",
    "discard_batch",
    "discard_prefetch_batch",
    "make_program_cache_key",
    "prefetch_batch",
]

_finish_module(globals())
