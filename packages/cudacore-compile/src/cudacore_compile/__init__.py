# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA C++, PTX and NVVM IR to PTX, cubin, LTO-IR and OptiX IR, and links code.

No GPU, driver or toolkit is needed.

Importing this package loads neither a compiler nor ``cuda.bindings``: the compilers are loaded when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_compile._version import __version__ as __version__  # first: checks the other installed packages

# isort: split
from cudacore_compile import typing
from cudacore_compile._compilers.errors import CompilerError, NVJitLinkError, NVRTCError, NVVMError
from cudacore_compile._compilers.targets import SUPPORTED_TARGETS
from cudacore_handles._sdk import finish_module as _finish_module

if TYPE_CHECKING:
    from cudacore_compile._batch import compile_many
    from cudacore_compile._batch_error import BatchError
    from cudacore_compile._cache import UncacheableError
    from cudacore_compile._cache.files import FileStreamProgramCache
    from cudacore_compile._cache.resource import CacheStatistics, InMemoryProgramCache, ProgramCacheResource
    from cudacore_compile._compilers.cuda_headers import cuda_include_path
    from cudacore_compile._compilers.linker_options import LinkerOptions
    from cudacore_compile._compilers.options import ProgramOptions
    from cudacore_compile._compilers.versions import CompilerVersion, versions
    from cudacore_compile._fatbin import NVFatbinError, make_fatbin
    from cudacore_compile._job import CompileJob
    from cudacore_compile._linker import Linker
    from cudacore_compile._program import Program, make_program_cache_key

__all__ = [
    "SUPPORTED_TARGETS",
    "BatchError",
    "CacheStatistics",
    "CompileJob",
    "CompilerError",
    "CompilerVersion",
    "FileStreamProgramCache",
    "InMemoryProgramCache",
    "Linker",
    "LinkerOptions",
    "NVFatbinError",
    "NVJitLinkError",
    "NVRTCError",
    "NVVMError",
    "Program",
    "ProgramCacheResource",
    "ProgramOptions",
    "UncacheableError",
    "compile_many",
    "cuda_include_path",
    "make_fatbin",
    "make_program_cache_key",
    "typing",
    "versions",
]

# Imported at first use, so that a program that compiles one kernel starts faster.
_LAZY = {
    "._batch": ("compile_many",),
    "._batch_error": ("BatchError",),
    "._cache": ("UncacheableError",),
    "._cache.files": ("FileStreamProgramCache",),
    "._cache.resource": (
        "CacheStatistics",
        "InMemoryProgramCache",
        "ProgramCacheResource",
    ),
    "._compilers.cuda_headers": ("cuda_include_path",),
    "._compilers.linker_options": ("LinkerOptions",),
    "._compilers.options": ("ProgramOptions",),
    "._compilers.versions": (
        "CompilerVersion",
        "versions",
    ),
    "._fatbin": (
        "NVFatbinError",
        "make_fatbin",
    ),
    "._job": ("CompileJob",),
    "._linker": ("Linker",),
    "._program": (
        "Program",
        "make_program_cache_key",
    ),
}

_finish_module(globals(), _LAZY)
