# SPDX-License-Identifier: Apache-2.0
"""The cache that compilers have in the driver, which the command does not use: it answers without warnings and logs."""

from __future__ import annotations

from cudacore_compile._compilers import nvjitlink, nvrtc
from cudacore_compile._compilers.errors import CompilerError
from cudacore_compile._compilers.linker_options import newer_fields
from cudacore_compile._compilers.options import since


def no_cache(kind: str) -> bool | None:
    """Return the option `no_cache` that turns the cache off.

    Parameters
    ----------
    kind : str
        ``"c++"`` for what NVRTC compiles, ``"nvvm"`` for libNVVM, anything else for what is assembled or linked.

    Returns
    -------
    bool or None
        None where the compiler is too old to have a cache, or has none.
    """
    if kind == "nvvm":
        return None
    try:
        if kind == "c++":
            first = tuple(int(number) for number in since("no_cache").split("."))
            return nvrtc.load().version >= first or None
        return not newer_fields([b"-no-cache"], nvjitlink.load().version) or None
    except CompilerError:  # it is missing, which is said where it is needed; the driver links in place of nvJitLink
        return None if kind == "c++" else True
