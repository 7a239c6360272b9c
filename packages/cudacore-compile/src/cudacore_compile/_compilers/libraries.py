# SPDX-License-Identifier: Apache-2.0
"""The compiler libraries, wherever they are installed, and what pip is told where one is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudacore_handles import CUDAError

if TYPE_CHECKING:
    from cuda.pathfinder import LoadedDL


class Library(NamedTuple):
    """A compiler library: what it is called, what is raised where it is missing, and the extra that brings it."""

    title: str
    name: str  # pathfinder's
    error: type[CUDAError]
    extra: str


def open_library(library: Library) -> LoadedDL:
    """Load a library, where it is not loaded yet.

    Raises
    ------
    CUDAError
        Of the library's class, when it is not there or cannot be loaded. The next call looks again.
    """
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return load_nvidia_dynamic_lib(library.name)
    except (RuntimeError, OSError) as error:
        raise library.error(
            f"load {library.title}",
            -1,
            f"{library.title.removeprefix('lib').upper()}_NOT_FOUND",
            f"the {library.title} library was found neither among Python's packages nor in a CUDA toolkit",
            hint=f"Install it with: {pip_command(library.extra)}",
            log=str(error),
        ) from error


def pip_command(extra: str = "", *, upgrade: bool = False) -> str:
    """Return the command that installs what an extra brings, for the CUDA in use."""
    major = cuda_major()
    if extra == "nvvm" and major == 12:
        extra = "nvvm-cu12"  # see pyproject.toml
    extras = f"cu{major}{',' if extra else ''}{extra}"
    return f'python -m pip install{" --upgrade" if upgrade else ""} "cudacore-compile[{extras}]"'


def cuda_major() -> int:
    """Return the major version of the CUDA in use: that of the NVRTC that is loaded, or else of cuda-bindings."""
    if _of_nvrtc is not None:
        return _of_nvrtc
    import importlib.metadata  # which is half as much as all of this package

    try:
        return int(importlib.metadata.version("cuda-bindings").partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return _NEWEST


def note_nvrtc(major: int) -> None:
    """Remember the major version of the NVRTC that is loaded."""
    global _of_nvrtc
    _of_nvrtc = major


_of_nvrtc: int | None = None
_NEWEST = 13
