# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the compilers."""

from __future__ import annotations

from typing import TypeVar

from cudacore_compile.typing import CompilerBackendType
from cudacore_handles import CUDAError
from cudacore_handles._sdk import public


@public
class CompilerError(CUDAError):
    """A compiler or linker failed. Base class of :class:`NVRTCError`, :class:`NVVMError` and :class:`NVJitLinkError`.

    Parameters
    ----------
    operation, code, code_name, meaning, hint, log
        See :class:`~cudacore_handles.CUDAError`. The code is the compiler's own. A code of -1 with the name
        ``"..._NOT_FOUND"`` means that the library cannot be loaded.
    command : str, optional
        The command line: the options and the input, quoted for a shell.

    Attributes
    ----------
    command : str
        As given.
    """

    def __init__(
        self,
        operation: str,
        code: int = 0,
        code_name: str = "",
        meaning: str = "",
        *,
        hint: str = "",
        log: str = "",
        command: str = "",
    ) -> None:
        super().__init__(operation, code, code_name, meaning, hint=hint, log=log)
        self.command = command

    def _message(self) -> str:
        text = super()._message()
        return f"{text.rstrip()}\nThe command was: {self.command}" if self.command else text


@public
class NVRTCError(CompilerError):
    """NVRTC, the CUDA C++ compiler, failed with an ``nvrtcResult`` such as ``"NVRTC_ERROR_COMPILATION"``.

    Parameters and attributes are those of :class:`CompilerError`.
    """


@public
class NVVMError(CompilerError):
    """libNVVM, the NVVM IR compiler, failed with an ``nvvmResult`` such as ``"NVVM_ERROR_INVALID_IR"``.

    Parameters and attributes are those of :class:`CompilerError`.
    """


@public
class NVJitLinkError(CompilerError):
    """nvJitLink, the linker, failed with an ``nvJitLinkResult`` such as ``"NVJITLINK_ERROR_PTX_COMPILE"``.

    Code that this package refuses has the result code -1: cubins for another architecture
    (``"LINK_OTHER_ARCHITECTURE"``), and symbols of LTO-IR and other code that do not match, which nvJitLink reports
    but links (``"LINK_DUPLICATE_SYMBOL"``, ``"LINK_SYMBOL_MISMATCH"``).

    Parameters and attributes are those of :class:`CompilerError`.
    """


E = TypeVar("E", bound=CompilerError)


def cancelled(backend: CompilerBackendType) -> CompilerError:
    """Make the error for a program that was cancelled before its compiler began."""
    cls = {CompilerBackendType.NVRTC: NVRTCError, CompilerBackendType.NVVM: NVVMError}.get(backend, NVJitLinkError)
    code_name = f"{cls.__name__.removesuffix('Error').upper()}_ERROR_CANCELLED"
    return cls("compile", -1, code_name, "the program was cancelled", hint="Make another program of the same source")


def without_frames(error: E) -> E:
    """Return an error without its traceback, whose frames would keep a program alive."""
    error.__context__ = None
    return error.with_traceback(None)


def log_text(log: bytes) -> str:
    """Return a compiler's log as text. Each phase can end its part with a NUL, and the log need not be UTF-8."""
    return log.replace(b"\0", b"").decode("utf-8", "replace")


def too_new(option: str, compiler: str, since: str) -> str:
    """Return a hint for an option that a compiler is too old for."""
    return f"{compiler} does not have {option}, which came with {since}: leave it out, or install a newer one"
