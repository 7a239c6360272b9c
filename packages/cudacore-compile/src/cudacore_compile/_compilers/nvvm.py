# SPDX-License-Identifier: Apache-2.0
"""libNVVM, loaded at first use: calls of its functions, and their errors."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from cudacore_compile._compilers.errors import NVVMError, too_new
from cudacore_compile._compilers.libraries import Library, Loaded, pip_command
from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import call_interruptibly

LIBRARY = Library(
    "libNVVM",
    "nvvm",
    NVVMError,
    "nvvm",
    {
        "12.0": "nvvmCreateProgram nvvmDestroyProgram nvvmVersion nvvmIRVersion nvvmAddModuleToProgram "
        "nvvmLazyAddModuleToProgram nvvmVerifyProgram nvvmCompileProgram nvvmGetCompiledResultSize "
        "nvvmGetCompiledResult nvvmGetProgramLogSize nvvmGetProgramLog",
    },
    "nvvmGetProgramLog",
)
# libNVVM cannot list its architectures, but reports for each one whether it is supported. A variant, such as 90a, is
# supported if its number is.
_ARCHITECTURES = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 107, 110, 120, 121)
# The data layout that all versions of NVVM accept, for all architectures.
_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
_EMPTY = f"""target triple = "nvptx64-nvidia-cuda"
target datalayout = "{_LAYOUT}"
!nvvmir.version = !{{!0}}
!0 = !{{i32 2, i32 0}}
""".encode()


class NVVM(Loaded):
    """The libNVVM of this process."""

    __slots__ = ()
    _of = LIBRARY

    def create(self, modules: Sequence[tuple[bytes, bytes]], *, use_libdevice: bool) -> Any:
        """Return the box of a new program, with its modules by name (nvvmCreateProgram, nvvmAddModuleToProgram)."""
        box = self.new()
        libdevice = self.libdevice() if use_libdevice else b""
        try:
            for name, module in modules:
                self.of(box, "nvvmAddModuleToProgram", module, len(module), name)
            if libdevice:  # only the functions that are used are linked
                self.of(box, "nvvmLazyAddModuleToProgram", libdevice, len(libdevice), b"libdevice")
        except NVVMError as error:
            self._explain(error, box)
            raise
        return box

    def compile(self, box: Any, flags: list[bytes], *, program_name: bytes) -> tuple[bytes, str]:
        """Check and compile a program, and return the code and the log (nvvmVerifyProgram, nvvmCompileProgram)."""

        def check_and_compile() -> None:
            self.of(box, "nvvmVerifyProgram", len(flags), flags)
            self.of(box, "nvvmCompileProgram", len(flags), flags)

        try:
            call_interruptibly(check_and_compile)
            return self.output(box, "nvvmGetCompiledResult"), self.log(box)
        except NVVMError as error:
            self._explain(error, box, b"nvvm", *flags, program_name)
            raise

    def architectures(self) -> list[int]:
        """Return the numbers of the architectures that this libNVVM supports, among those known to this package."""
        return call_interruptibly(lambda: [number for number in _ARCHITECTURES if self._has(number)])

    def ir_version(self) -> list[int]:
        """Return the supported versions of NVVM IR and of its debug information, two numbers each (nvvmIRVersion)."""
        return self.numbers("nvvmIRVersion", 4)

    def libdevice(self) -> bytes:
        """Return the libdevice that belongs to this libNVVM."""
        return _libdevice(self.path)

    def _has(self, number: int) -> bool:
        box = self.new()
        self.of(box, "nvvmAddModuleToProgram", _EMPTY, len(_EMPTY), b"empty")
        try:
            self.of(box, "nvvmVerifyProgram", 1, [b"-arch=compute_%d" % number])
        except CUDAError:
            return False
        return True

    def _explain(self, error: NVVMError, box: Any, *words: bytes) -> None:
        self.complete(error, box, *words)
        error.hint = self._hint(error)

    def _hint(self, error: NVVMError) -> str:
        if error.code_name == "NVVM_ERROR_IR_VERSION_MISMATCH":
            major, minor, debug_major, debug_minor = self.ir_version()
            return (
                f"This libNVVM takes NVVM IR {major}.{minor} with debug information {debug_major}.{debug_minor}: "
                "see !nvvmir.version in the modules"
            )
        if "DataLayout" in error.log or "data layout" in error.log:
            return f'Modules need: target datalayout = "{_LAYOUT}"'
        if error.code_name == "NVVM_ERROR_INVALID_OPTION" and "-arch=" in error.log:
            known = ", ".join(map(str, self.architectures()))
            return f"Set ProgramOptions.arch to what this libNVVM compiles for: {known}"
        if error.code_name == "NVVM_ERROR_INVALID_OPTION" and "-numba-debug" in error.log:
            return too_new("ProgramOptions.numba_debug", "This libNVVM", "that of CUDA 13.1")
        return ""


load = functools.cache(NVVM)


def _libdevice(nvvm: str) -> bytes:
    """Return the libdevice that belongs to a libNVVM, or else any that is installed."""
    folder = os.path.dirname(nvvm)
    for beside in ("../nvvm", ".."):  # in wheels since CUDA 13; in older wheels and in toolkits
        try:
            with open(os.path.join(folder, beside, "libdevice", "libdevice.10.bc"), "rb") as file:
                return file.read()
        except OSError:
            pass
    from cuda.pathfinder import find_bitcode_lib

    try:
        with open(find_bitcode_lib("device"), "rb") as file:
            return file.read()
    except (RuntimeError, OSError) as error:
        raise NVVMError(
            "find libdevice",
            -1,
            "LIBDEVICE_NOT_FOUND",
            "libdevice.10.bc was found neither beside libNVVM, nor among Python's packages, nor in a CUDA toolkit",
            hint=f"It comes with libNVVM: {pip_command(LIBRARY.extra)}",
            log=str(error),
        ) from error
