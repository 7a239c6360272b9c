# SPDX-License-Identifier: Apache-2.0
"""Lists the installed compilers and linkers."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_compile._compilers import nvvm as _nvvm
from cudacore_compile._compilers.errors import CompilerError
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
    try:
        nvrtc = _nvrtc.load()
        found[CompilerBackendType.NVRTC] = CompilerVersion(nvrtc.version_text, nvrtc.path, tuple(nvrtc.architectures()))
    except CompilerError:
        pass
    try:
        nvvm = _nvvm.load()
        found[CompilerBackendType.NVVM] = CompilerVersion(nvvm.version_text, nvvm.path, tuple(nvvm.architectures()))
    except CompilerError:
        pass
    try:
        nvjitlink = _nvjitlink.load()
        found[CompilerBackendType.NVJITLINK] = CompilerVersion(nvjitlink.version_text, nvjitlink.path, None)
    except CompilerError:
        pass
    try:
        version = ".".join(map(str, driver_cuda_version()))
        found[CompilerBackendType.DRIVER] = CompilerVersion(version, "", None)
    except CUDAError:
        pass
    return found
