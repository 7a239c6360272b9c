# SPDX-License-Identifier: Apache-2.0
"""The compiler libraries, wherever they are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudacore_compile._errors import CompilerError

if TYPE_CHECKING:
    from cuda.pathfinder import LoadedDL


class Library(NamedTuple):
    """A compiler library: what it is called, and what is raised and installed where it is missing."""

    title: str
    name: str  # pathfinder's
    error: type[CompilerError]
    wheels: tuple[str, str]  # of CUDA 13, and of CUDA 12


def open_library(library: Library) -> LoadedDL:
    """Load a library, where it is not loaded yet.

    Raises
    ------
    CompilerError
        Of the library's class, when it is not there or cannot be loaded. The next call looks again.
    """
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return load_nvidia_dynamic_lib(library.name)
    except (RuntimeError, OSError) as error:
        newest, oldest = library.wheels
        raise library.error(
            f"load {library.title}",
            -1,
            f"{library.title.removeprefix('lib').upper()}_NOT_FOUND",
            f"the {library.title} library was found neither among Python's packages nor in a CUDA toolkit",
            hint=(
                'Install it with: python -m pip install "cudacore-compile[cu13]" (or [cu12]); '
                f"by itself it is {newest} ({oldest})"
            ),
            log=str(error),
        ) from error
