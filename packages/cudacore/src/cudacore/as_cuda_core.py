# SPDX-License-Identifier: Apache-2.0
"""Run programs and libraries that import ``cuda.core`` on cudacore, unchanged.

From the command line, with any command that starts Python::

    python -m cudacore.as_cuda_core python program.py
    python -m cudacore.as_cuda_core python -m pytest

or in a program, before ``cuda.core`` is imported: ``cudacore.as_cuda_core.install()``. Both put a folder with the
package ``cuda.core`` at the front of Python's path, which child processes inherit through ``$PYTHONPATH``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shlex
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cudacore
from cudacore import CUDA_CORE_VERSION
from cudacore_handles._sdk import ComputeCapability, driver_error, lib

__all__ = ["install", "main"]

USAGE = """usage: python -m cudacore.as_cuda_core COMMAND [ARGUMENT...]

Run a command in which `import cuda.core` gives cudacore, in its child processes, too. To run Python code:
    python -m cudacore.as_cuda_core python program.py
    python -m cudacore.as_cuda_core python -m pytest
"""

_FOLDER = str(Path(__file__).resolve().parent / "_instead_of_cuda_core")


def install() -> None:
    """Make ``import cuda.core`` import cudacore, in this process and in the child processes that it starts.

    ``cuda.core.graph``, ``.typing`` and ``.utils`` are cudacore's, and ``cuda.core.__version__`` is the version that
    cudacore is compatible with, ``cudacore.CUDA_CORE_VERSION``. Importing a private module or name of ``cuda.core``
    raises an ``ImportError`` that lists the private names that exist. Calling this again does nothing.

    Child processes inherit ``$PYTHONPATH``. Those that ignore it (``python -I``, ``python -E``) import the real
    ``cuda.core``.

    Raises
    ------
    RuntimeError
        If ``cuda.core`` has been imported already, or if ``import cuda.core`` would still find another package, because
        the package ``cuda`` is not a namespace package (an old cuda-python has made it a regular one).
    """
    loaded = sys.modules.get("cuda.core")
    if loaded is not None:
        if isinstance(loaded, _CudaCore):
            return
        raise RuntimeError(
            f"cuda.core has been imported already, from {loaded.__file__}: call cudacore.as_cuda_core.install() before "
            "that, or run the program with: python -m cudacore.as_cuda_core python PROGRAM"
        )
    if _FOLDER not in sys.path:
        sys.path.insert(0, _FOLDER)
    os.environ["PYTHONPATH"] = _python_path()
    importlib.invalidate_caches()
    if not isinstance(importlib.import_module("cuda.core"), _CudaCore):
        raise RuntimeError(
            f"import cuda.core finds {sys.modules['cuda.core'].__file__}, not {_FOLDER}: the package 'cuda' is "
            f"{sys.modules['cuda'].__file__}, where a namespace package is needed. Uninstall the old cuda-python"
        )


def main(arguments: Sequence[str]) -> int:
    """Replace this process by a command in which ``import cuda.core`` imports cudacore.

    Parameters
    ----------
    arguments : sequence of str
        The command and its arguments.

    Returns
    -------
    int
        The exit status if the command cannot be started: 2 without a command, otherwise 126 or 127 as in
        a shell.
    """
    if not arguments or arguments[0] in {"-h", "--help"}:
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    try:
        os.execvpe(arguments[0], list(arguments), os.environ | {"PYTHONPATH": _python_path()})
    except OSError as error:
        advice = ""
        if arguments[0].startswith("-") or arguments[0].endswith(".py"):
            advice = f"; to run Python code: python -m cudacore.as_cuda_core python {shlex.join(arguments)}"
        sys.stderr.write(f"cudacore.as_cuda_core: {arguments[0]}: {error.strerror}{advice}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def _python_path() -> str:
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != _FOLDER]
    return os.pathsep.join([_FOLDER, *before])


class _CudaCore(types.ModuleType):
    """The module ``cuda.core``: cudacore's names, and the version of ``cuda.core``."""

    __version__ = CUDA_CORE_VERSION
    __all__ = tuple(name for name in cudacore.__all__ if name != "CUDA_CORE_VERSION")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(_no_private(f"{self.__name__}.{name}"), name=name, obj=self)
        return getattr(cudacore, name)

    def __dir__(self) -> list[str]:
        return [*self.__all__, "__all__", "__version__", *self.__dict__]


class _Private(types.ModuleType):
    """A private module of ``cuda.core`` that libraries import names from."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_no_private(f"{self.__name__}.{name}"), name=name, obj=self)


def handle_return(result: tuple[Any, ...], handle: object = None) -> Any:
    """Return the values of a result of ``cuda.bindings``, or raise the error for its code.

    Parameters
    ----------
    result : tuple
        A result code (``CUresult``, ``cudaError_t`` or ``nvrtcResult``), and the values.
    handle : object, optional
        The ``nvrtcProgram`` whose log belongs to the error.

    Returns
    -------
    object
        None, the value, or a tuple of the values, if there are several.

    Raises
    ------
    CUDAError
        If the code is that of a failure; an ``NVRTCError`` for an ``nvrtcResult``.
    """
    code, *values = result
    if int(code) != 0:
        name = getattr(code, "name", str(code))
        if type(code).__name__ == "nvrtcResult":
            raise cudacore.NVRTCError("cuda.bindings.nvrtc", int(code), name, log=_log(handle))
        if type(code).__name__ == "CUresult" and lib.cch_driver_init() == 0:  # the driver can name the code
            raise driver_error("cuda.bindings.driver", int(code))
        raise cudacore.CUDAError("cuda.bindings", int(code), name)
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _log(program: object) -> str:
    from cuda.bindings import nvrtc

    if not isinstance(program, nvrtc.nvrtcProgram):
        return ""
    status, size = nvrtc.nvrtcGetProgramLogSize(program)
    if int(status) != 0:
        return ""
    text = b" " * size
    nvrtc.nvrtcGetProgramLog(program, text)
    return text.rstrip(b"\0").decode(errors="replace")


def _private_modules() -> dict[str, dict[str, Callable[[], object]]]:
    """Return the private names that libraries import from each module, with functions that return the objects."""
    return {
        "_memoryview": {"StridedMemoryView": lambda: cudacore.utils.StridedMemoryView},
        "_tensor_map": {
            name: functools.partial(getattr, cudacore.typing, name)
            for name in cudacore.typing.__all__
            if name.startswith("TensorMap")
        },
        "_utils": {},
        "_utils.cuda_utils": {
            "ComputeCapability": lambda: ComputeCapability,  # used in the pickles of numba-cuda's caches
            "CUDAError": lambda: cudacore.CUDAError,
            "NVRTCError": lambda: cudacore.NVRTCError,
            "handle_return": lambda: handle_return,
        },
    }


def _no_private(name: str) -> str:
    names = ", ".join(f"{module}.{name}" for module, names in _private_modules().items() for name in names)
    return f"{name}: cuda.core is cudacore here, which has only these private names of cuda.core: {names}"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds submodules of ``cuda.core``. Public submodules are cudacore's. Private submodules are created here."""

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix("cuda.core.")
        if name == fullname:
            return None
        if any(part.startswith("_") for part in name.split(".")):
            if name not in _private_modules():
                raise ImportError(_no_private(fullname), name=fullname)
        elif importlib.util.find_spec(f"cudacore.{name}") is None:  # raises an error if a parent is not a package
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__.removeprefix("cuda.core.")
        if name.startswith("_"):
            private = _Private(module.__name__)
            private.__path__ = []  # makes importing a missing name call this finder, which raises an error
            vars(private).update((key, value()) for key, value in _private_modules()[name].items())
            sys.modules[module.__name__] = private
        else:
            sys.modules[module.__name__] = importlib.import_module(f"cudacore.{name}")


_FINDER = _Finder()


def _replace(name: str) -> None:
    """Replace the module ``cuda.core``, which is being imported, by cudacore."""
    module = _CudaCore(name, cudacore.__doc__)
    found = vars(sys.modules[name])
    vars(module).update({key: found[key] for key in ("__file__", "__path__", "__package__", "__loader__", "__spec__")})
    sys.modules[name] = module
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    # Attributes that are not public, but that libraries use.
    cudacore.Context._handle = property(lambda self: self.handle)  # type: ignore[attr-defined]  # numba-cuda
    cudacore.Stream.__module__ = "cuda.core"  # nvmath checks the first part of the name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
