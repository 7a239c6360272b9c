# SPDX-License-Identifier: Apache-2.0
"""Turns off the cache that the compilers have in the driver.

The command does not use that cache, because cached code comes without warnings or logs.
"""

from __future__ import annotations

from cudacore_compile._compilers import nvjitlink, nvrtc
from cudacore_compile._compilers.errors import CompilerError


def no_cache(kind: str) -> bool | None:
    """Return the option `no_cache` that turns the cache off.

    Parameters
    ----------
    kind : str
        ``"c++"`` for code that NVRTC compiles, ``"nvvm"`` for libNVVM, anything else for code that is assembled or
        linked.

    Returns
    -------
    bool or None
        None if the compiler has no cache, or is too old to have one.
    """
    if kind == "nvvm":
        return None
    try:
        return bool((nvrtc if kind == "c++" else nvjitlink).load().no_cache_flags([])) or None
    # a missing library is reported when it is needed; the driver can link instead of nvJitLink
    except CompilerError:
        return None if kind == "c++" else True
