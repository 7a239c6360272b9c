# SPDX-License-Identifier: Apache-2.0
"""The choice of the linker: nvJitLink, or the driver's if nvJitLink is missing or too old."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cudacore_compile.typing import CompilerBackendType

Version = tuple[int, int]

# The PTX versions of the CUDA versions that do not follow the rule of ptx_of().
_PTX_OF_CUDA = {(12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8)}
_PTX_VERSION = re.compile(rb"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_LTOIR_FROM = (13, 2)  # the first nvJitLink that links to LTO-IR


class Choice(NamedTuple):
    """The chosen linker, or None, and the reason for the choice."""

    backend: CompilerBackendType | None
    reason: str


def choose_linker(
    nvjitlink: Version | None,
    driver: Callable[[], Version | None],
    *,
    inputs: Sequence[str] = (),
    ptx: Version | None = None,
    target: str = "cubin",
    options: Sequence[str] = (),
) -> Choice:
    """Choose a linker. The result depends only on the arguments.

    nvJitLink is preferred, because it needs no driver. The driver's linker is used only if nvJitLink cannot link the
    code. The driver is queried only if its linker may be able to.

    Parameters
    ----------
    nvjitlink : tuple of (int, int) or None
        The CUDA version of nvJitLink; None if it is missing.
    driver : callable
        Returns the CUDA version of the driver, or None.
    inputs : sequence of str
        Types of the input.
    ptx : tuple of (int, int), optional
        The newest version of PTX in the input.
    target : str
        The format of the output.
    options : sequence of str
        Fields of LinkerOptions that are set, and that only nvJitLink supports.
    """
    against_nvjitlink = _against_nvjitlink(nvjitlink, ptx, target)
    if not against_nvjitlink:
        return Choice(CompilerBackendType.NVJITLINK, "nvJitLink can link it")
    against_driver = _against_driver(driver, inputs, ptx, target, options)
    if not against_driver:
        return Choice(CompilerBackendType.DRIVER, f"{against_nvjitlink}; the driver's linker can link it")
    return Choice(None, f"{against_nvjitlink}; {against_driver}")


def ptx_of(cuda: Version) -> Version:
    """Return the newest PTX version of a CUDA version."""
    major, minor = cuda
    return _PTX_OF_CUDA.get(cuda, (major - 4, minor))


def _against_nvjitlink(version: Version | None, ptx: Version | None, target: str) -> str:
    if version is None:
        return "there is no nvJitLink"
    text = _text(version)
    if ptx is not None and ptx > ptx_of(version):
        return f"nvJitLink {text} takes PTX up to {_text(ptx_of(version))}, and this is of {_text(ptx)}"
    if target == "ltoir" and version < _LTOIR_FROM:
        return f"nvJitLink {text} does not link to LTO-IR, as {_text(_LTOIR_FROM)} and later do"
    return ""


def _against_driver(
    driver: Callable[[], Version | None],
    inputs: Sequence[str],
    ptx: Version | None,
    target: str,
    options: Sequence[str],
) -> str:
    if "ltoir" in inputs:
        return "the driver's linker takes no LTO-IR"
    if target != "cubin":
        return f"the driver's linker makes cubins, and no {target}"
    if options:
        names = ", ".join(f"LinkerOptions.{option}" for option in options)
        return f"the driver's linker does not have {names}"
    version = driver()
    if version is None:
        return "there is no driver to link it"
    if ptx is not None and ptx > ptx_of(version):
        return f"the driver, for CUDA {_text(version)}, takes PTX up to {_text(ptx_of(version))}"
    return ""


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def ptx_version(ptx: bytes) -> Version | None:
    """Return the version that PTX code states; None if it states none."""
    match = _PTX_VERSION.search(ptx)
    return (int(match[1]), int(match[2])) if match else None
