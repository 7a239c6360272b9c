# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the compilers."""

from __future__ import annotations

from cudacore_handles import CUDAError


class NVRTCError(CUDAError):
    """Report a failure of NVRTC, the CUDA C++ compiler.

    Parameters
    ----------
    operation, code, code_name, meaning, hint, log
        See :class:`~cudacore_handles.CUDAError`: here the code is an ``nvrtcResult``, such as
        ``"NVRTC_ERROR_COMPILATION"``, and the log is what the compiler had to say. ``"NVRTC_NOT_FOUND"`` (-1) is no
        result code: the library cannot be loaded.
    command : str, optional
        The compiler's command line: the options that it was given and the program's name, quoted as for a shell.

    Attributes
    ----------
    command : str
        As given.
    """

    def __init__(
        self,
        operation: str,
        code: int,
        code_name: str,
        meaning: str,
        *,
        hint: str = "",
        log: str = "",
        command: str = "",
    ) -> None:
        super().__init__(operation, code, code_name, meaning, hint=hint, log=log)
        self.command = command

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text.rstrip()}\nThe command was: {self.command}" if self.command else text
