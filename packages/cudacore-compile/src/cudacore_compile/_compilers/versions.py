# SPDX-License-Identifier: Apache-2.0
"""Which compilers and linkers there are."""

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
    """A compiler or linker that was found.

    Parameters
    ----------
    version : str
        Its version, such as ``"13.0"``. That of libNVVM is of its interface, and not CUDA's.
    path : str
        The library; an empty string for the driver.
    architectures : tuple of int or None
        The architectures that it compiles for; None where it does not tell, as linkers do not.
    """

    version: str
    path: str
    architectures: tuple[int, ...] | None


def versions() -> dict[CompilerBackendType, CompilerVersion]:
    """Return the compilers and linkers that are found, with their versions, paths and architectures.

    What cannot be loaded is left out. The libraries are loaded for it, and the driver where there is one.
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
