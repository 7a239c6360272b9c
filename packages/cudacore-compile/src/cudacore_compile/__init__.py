# SPDX-License-Identifier: Apache-2.0
"""CUDA C++, PTX and NVVM IR to PTX, cubin, LTO-IR and OptiX IR, and linking: no GPU, no driver and no toolkit needed.

Importing this package loads neither a compiler nor ``cuda.bindings``: the compilers are loaded when they are needed.
"""

from __future__ import annotations

from cudacore_compile import typing
from cudacore_compile._errors import CompilerError, NVJitLinkError, NVRTCError, NVVMError
from cudacore_compile._linker import Linker
from cudacore_compile._linker_options import LinkerOptions
from cudacore_compile._options import ProgramOptions
from cudacore_compile._program import Program
from cudacore_compile._targets import SUPPORTED_TARGETS
from cudacore_compile._versions import CompilerVersion, versions

__version__ = "0.1.0"

__all__ = [
    "SUPPORTED_TARGETS",
    "CompilerError",
    "CompilerVersion",
    "Linker",
    "LinkerOptions",
    "NVJitLinkError",
    "NVRTCError",
    "NVVMError",
    "Program",
    "ProgramOptions",
    "typing",
    "versions",
]
