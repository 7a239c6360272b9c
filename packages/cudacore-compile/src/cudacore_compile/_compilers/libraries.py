# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the compiler libraries; the pip commands that install missing ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from cudacore_compile._compilers.errors import CompilerError, log_text
from cudacore_compile.typing import CompilerBackendType
from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import Compiler

if TYPE_CHECKING:
    from cuda.pathfinder import LoadedDL


class Library(NamedTuple):
    """A compiler library: its name, the class of its errors, the extra that installs it, and its functions."""

    title: str
    name: str  # the library's name in cuda.pathfinder
    error: type[CUDAError]
    extra: str
    functions: Mapping[str, str] = {}  # names, separated by spaces, by the version of CUDA that added them
    log: str = ""  # the function that returns a program's log


def open_library(library: Library) -> LoadedDL:
    """Load a library, unless it is loaded already.

    Raises
    ------
    CUDAError
        If the library is missing or cannot be loaded: an error of the library's class. The next call tries again.
    """
    code_name = f"{library.title.removeprefix('lib').upper()}_NOT_FOUND"
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return load_nvidia_dynamic_lib(library.name)
    except ModuleNotFoundError as error:
        hiding = getattr(sys.modules.get("cuda"), "__file__", None)
        if error.name != "cuda.pathfinder" or hiding is None:
            raise
        meaning = f"{hiding} hides the package cuda, which finds {library.title}"
        raise library.error(f"load {library.title}", -1, code_name, meaning, hint="Rename that file") from None
    except (RuntimeError, OSError) as error:
        raise library.error(
            f"load {library.title}",
            -1,
            code_name,
            f"the {library.title} library was found neither among Python's packages nor in a CUDA toolkit",
            hint=f"Install it with: {pip_command(library.extra)}",
            log=str(error),
        ) from error


class Loaded(Compiler):
    """A compiler library of this process."""

    __slots__ = ("path", "version", "version_text")
    _of: ClassVar[Library]

    def __init__(self) -> None:
        library = self._of
        found = open_library(library)
        since = {name: version for version, names in library.functions.items() for name in names.split()}
        super().__init__(library.title, found._handle_uint, since, library.error)
        self.version = self.query_version()
        self.path = found.abs_path or ""
        self.version_text = ".".join(map(str, self.version))

    def handle(self, box: Any) -> Any:
        """Return a program in the form of ``cuda.bindings``: an int."""
        return self.raw(box)

    def log(self, box: Any) -> str:
        """Return the log of a program."""
        return log_text(self.output(box, self._of.log))

    def complete(self, error: CompilerError, box: Any, *words: bytes) -> None:
        """Add the log of the program that failed, and the command line, to an error."""
        import shlex

        if box is not None:
            with suppress(CUDAError):  # the first failure is reported
                error.log = self.log(box)
        error.command = shlex.join(word.decode("utf-8", "replace") for word in words)


def load(backend: CompilerBackendType) -> Any:
    """Return the library of a compiler or of nvJitLink. Its module is imported late: cache hits need none of them."""
    return importlib.import_module(f"cudacore_compile._compilers.{backend.lower()}").load()


def pip_command(extra: str = "", *, upgrade: bool = False) -> str:
    """Return the command that installs an extra for the CUDA version in use."""
    major = cuda_major()
    if extra == "nvvm" and major == 12:
        extra = "nvvm-cu12"  # the name of the extra in pyproject.toml
    extras = f"cu{major}{',' if extra else ''}{extra}"
    return f'python -m pip install{" --upgrade" if upgrade else ""} "cudacore-compile[{extras}]"'


def cuda_major() -> int:
    """Return the major version of the CUDA in use, for errors about missing packages.

    It is the version of the loaded NVRTC. If none is loaded, it is that of cuda-bindings, but not newer than the
    driver, if there is one: a driver for CUDA 12 cannot load the cubins of CUDA 13.
    """
    import importlib.metadata  # imported late, because it takes half as long to import as this whole package

    from cudacore_compile._compilers import nvrtc
    from cudacore_handles._sdk.compile import driver_cuda_version

    if nvrtc.load.cache_info().currsize:
        return nvrtc.load().version[0]
    try:
        major = int(importlib.metadata.version("cuda-bindings").partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        major = _NEWEST
    try:
        return min(major, driver_cuda_version()[0])
    except CUDAError:
        return major


_NEWEST = 13
