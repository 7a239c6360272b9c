# SPDX-License-Identifier: Apache-2.0
"""Lists the installed compilers and linkers."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from cudacore_compile._compilers.errors import CompilerError
from cudacore_compile._compilers.libraries import load
from cudacore_compile.typing import CompilerBackendType
from cudacore_handles import CUDAError
from cudacore_handles._sdk import public
from cudacore_handles._sdk.compile import driver_cuda_version


@public
class CompilerVersion(NamedTuple):
    """An installed compiler or linker.

    Parameters
    ----------
    version : str
        The version, such as ``"13.0"``. For libNVVM, it is the version of its interface, and not CUDA's.
    path : str
        The path of the library; an empty string for the driver.
    architectures : tuple of int or None
        The supported architectures; None if the library does not report them, as with linkers.
    """

    version: str
    path: str
    architectures: tuple[int, ...] | None


def versions() -> dict[CompilerBackendType, CompilerVersion]:
    """Return the installed compilers and linkers, with their versions, paths and architectures.

    Libraries that cannot be loaded are omitted. This loads the libraries, and the driver if there is one.

    Examples
    --------
    >>> from cudacore_compile import versions
    >>> len(versions()["NVRTC"].architectures) > 0
    True
    """
    found = {}
    for backend in (CompilerBackendType.NVRTC, CompilerBackendType.NVVM, CompilerBackendType.NVJITLINK):
        with suppress(CompilerError):
            library = load(backend)
            architectures = None if backend is CompilerBackendType.NVJITLINK else tuple(library.architectures())
            found[backend] = CompilerVersion(library.version_text, library.path, architectures)
    with suppress(CUDAError):
        version = ".".join(map(str, driver_cuda_version()))
        found[CompilerBackendType.DRIVER] = CompilerVersion(version, "", None)
    return found
