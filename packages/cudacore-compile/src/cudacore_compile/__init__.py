# SPDX-License-Identifier: Apache-2.0
"""CUDA C++, PTX and NVVM IR to PTX, cubin, LTO-IR and OptiX IR, and linking: no GPU, no driver and no toolkit needed.

Importing this package loads neither a compiler nor ``cuda.bindings``: the compilers are loaded when they are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cudacore_compile import typing
from cudacore_compile._errors import CompilerError, NVJitLinkError, NVRTCError, NVVMError
from cudacore_compile._options import ProgramOptions
from cudacore_compile._program import Program
from cudacore_compile._targets import SUPPORTED_TARGETS

if TYPE_CHECKING:
    from cudacore_compile._linker import Linker
    from cudacore_compile._linker_options import LinkerOptions
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

# What is imported when it is asked for: a program that compiles one kernel starts sooner.
_LATER = {
    "CompilerVersion": "_versions",
    "Linker": "_linker",
    "LinkerOptions": "_linker_options",
    "versions": "_versions",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
