# SPDX-License-Identifier: Apache-2.0
"""For cudacore-compile: the compilers' functions, the driver's linker, readers of code, and the states of files."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from cudacore_handles._base.drivers import carries_ptx
from cudacore_handles._base.element_types import element_of_c
from cudacore_handles._base.module_attributes import finish_module
from cudacore_handles._compiler.compilers import Compiler
from cudacore_handles._native import call_interruptibly, call_on_thread, file_states, join_threads, library_loads

if TYPE_CHECKING:
    from cudacore_handles._code.cubin import Cubin
    from cudacore_handles._code.demangle import demangle
    from cudacore_handles._code.fat_binary import entries, has_only_ltoir, image_to_link
    from cudacore_handles._code.ptx_signatures import ptx_signatures
    from cudacore_handles._compiler.driver_linker import driver_cuda_version, link_with_driver

__all__ = [
    "Compiler",
    "Cubin",
    "call_interruptibly",
    "call_on_thread",
    "carries_ptx",
    "demangle",
    "driver_cuda_version",
    "element_of_c",
    "entries",
    "file_states",
    "has_only_ltoir",
    "image_to_link",
    "library_loads",
    "link_with_driver",
    "ptx_signatures",
]

# Imported at first use, because they are not needed if the code comes from a cache.
_LAZY = {
    "cudacore_handles._code.demangle": ("demangle",),
    "cudacore_handles._code.ptx_signatures": ("ptx_signatures",),
    "cudacore_handles._code.cubin": ("Cubin",),
    "cudacore_handles._code.fat_binary": ("entries", "has_only_ltoir", "image_to_link"),
    "cudacore_handles._compiler.driver_linker": ("driver_cuda_version", "link_with_driver"),
}

atexit.register(join_threads)  # a compiler that runs while the process ends would crash

finish_module(globals(), _LAZY)
