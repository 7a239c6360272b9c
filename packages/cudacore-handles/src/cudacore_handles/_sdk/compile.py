# SPDX-License-Identifier: Apache-2.0
"""For cudacore-compile: the compilers' functions, the driver's linker, and readers of code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_handles._base.module_attributes import make_getattr
from cudacore_handles._base.simulated import carries_ptx
from cudacore_handles._compiler import compilers

if TYPE_CHECKING:
    from cudacore_handles._code.demangle import demangle
    from cudacore_handles._code.link_symbols import Symbol, has_only_ltoir, parts_of, ptx_symbols
    from cudacore_handles._code.ptx_signatures import ptx_signatures
    from cudacore_handles._compiler.driver_linker import driver_cuda_version, link_with_driver

__all__ = [
    "Symbol",
    "carries_ptx",
    "compilers",
    "demangle",
    "driver_cuda_version",
    "has_only_ltoir",
    "link_with_driver",
    "parts_of",
    "ptx_signatures",
    "ptx_symbols",
]

# Imported at first use, because they are not needed if the code comes from a cache.
_LAZY = {
    "cudacore_handles._code.demangle": ("demangle",),
    "cudacore_handles._code.ptx_signatures": ("ptx_signatures",),
    "cudacore_handles._code.link_symbols": ("Symbol", "has_only_ltoir", "parts_of", "ptx_symbols"),
    "cudacore_handles._compiler.driver_linker": ("driver_cuda_version", "link_with_driver"),
}

if not TYPE_CHECKING:
    __getattr__ = make_getattr(__name__, _LAZY, globals())
