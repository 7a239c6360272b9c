# SPDX-License-Identifier: Apache-2.0
"""Functions of the compilers, as in nvrtc.h, nvvm.h and nvjitlink.h. Another package finds the libraries.

The functions take and return boxes, which live as long as they are referenced, and raise :class:`CUDAError` with the
compiler's own code. Calls run without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold_box, out_box
from cudacore_handles._cffi import ffi, lib

Box = Any
_NVRTC_OUTPUTS = {
    "ptx": lib.CCH_NVRTC_PTX,
    "cubin": lib.CCH_NVRTC_CUBIN,
    "ltoir": lib.CCH_NVRTC_LTOIR,
    "optixir": lib.CCH_NVRTC_OPTIXIR,
}
_NVJITLINK_INPUTS = {
    "cubin": lib.CCH_NVJITLINK_CUBIN,
    "ptx": lib.CCH_NVJITLINK_PTX,
    "ltoir": lib.CCH_NVJITLINK_LTOIR,
    "fatbin": lib.CCH_NVJITLINK_FATBIN,
    "object": lib.CCH_NVJITLINK_OBJECT,
    "library": lib.CCH_NVJITLINK_LIBRARY,
    "any": lib.CCH_NVJITLINK_ANY,
}
_NVJITLINK_OUTPUTS = {
    "cubin": lib.CCH_NVJITLINK_LINKED_CUBIN,
    "ptx": lib.CCH_NVJITLINK_LINKED_PTX,
    "ltoir": lib.CCH_NVJITLINK_LINKED_LTOIR,
}


class _Library:
    """A library of a compiler, given by its dlopen() handle, which must stay open."""

    __slots__ = ("_library",)
    _type: ClassVar[str]  # the C type of the library's box
    _wrap: ClassVar[Callable[..., int]]
    _raw: ClassVar[Callable[..., Any]]  # returns the raw handle of a program or linker

    def __init__(self, handle: int) -> None:
        out = ffi.new(f"{self._type} **")
        check(self._wrap(out, ffi.cast("void *", handle)))
        self._library = out[0]

    def raw(self, box: Box) -> int:
        """Return the ``nvrtcProgram``, ``nvvmProgram`` or ``nvJitLinkHandle`` of a box."""
        return int(ffi.cast("uintptr_t", self._raw(box)))


class NVRTC(_Library):
    """An NVRTC library."""

    __slots__ = ()
    _type, _wrap, _raw = "cch_nvrtc", lib.cch_nvrtc_wrap, lib.cch_nvrtc_program_raw

    def version(self) -> tuple[int, int]:
        """Return the version of NVRTC (nvrtcVersion)."""
        return _version(lib.cch_nvrtc_version, self._library)

    def architectures(self) -> list[int]:
        """Return the numbers of the supported architectures (nvrtcGetSupportedArchs)."""
        count = ffi.new("size_t *")
        check(lib.cch_nvrtc_architectures(ffi.NULL, count, self._library))
        out = ffi.new("int[]", count[0])
        check(lib.cch_nvrtc_architectures(out, count, self._library))
        return list(out)

    def pch_heap(self) -> int:
        """Return the size of the heap for precompiled headers (nvrtcGetPCHHeapSize)."""
        out = ffi.new("size_t *")
        check(lib.cch_nvrtc_pch_heap(out, self._library))
        return int(out[0])

    def set_pch_heap(self, size: int) -> None:
        """Set the size of the heap for precompiled headers, for all programs (nvrtcSetPCHHeapSize)."""
        check(lib.cch_nvrtc_set_pch_heap(self._library, size))

    def create(self, source: bytes, name: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Box:
        """Make a program, with names and contents of headers (nvrtcCreateProgram)."""
        out = out_box("cch_nvrtc_program")
        names, contents = (_strings([pair[i] for pair in headers]) for i in (0, 1))
        check(lib.cch_nvrtc_program_create(out, self._library, source, name, len(headers), contents[0], names[0]))
        return hold_box(out[0])

    def add_name(self, program: Box, expression: bytes) -> None:
        """Add a name expression (nvrtcAddNameExpression)."""
        check(lib.cch_nvrtc_program_add_name(program, expression))

    def compile(self, program: Box, options: Sequence[bytes]) -> None:
        """Compile a program (nvrtcCompileProgram)."""
        strings = _strings(options)
        check(lib.cch_nvrtc_program_compile(program, len(options), strings[0]))

    def cancel(self, program: Box) -> None:
        """Cancel the compilation of a program, from any thread (nvrtcSetFlowCallback)."""
        check(lib.cch_nvrtc_program_cancel(program))

    def log(self, program: Box) -> bytes:
        """Return the log (nvrtcGetProgramLog)."""
        return _get(lib.cch_nvrtc_program_get, program, lib.CCH_NVRTC_LOG)

    def output(self, program: Box, kind: str) -> bytes:
        """Return the output of a type, such as ``"ptx"``, ``"cubin"`` or ``"ltoir"`` (nvrtcGetPTX and others)."""
        return _get(lib.cch_nvrtc_program_get, program, _NVRTC_OUTPUTS[kind])

    def lowered_name(self, program: Box, expression: bytes) -> bytes:
        """Return the lowered name of an expression (nvrtcGetLoweredName)."""
        out = ffi.new("char const **")
        check(lib.cch_nvrtc_program_lowered_name(out, program, expression))
        return bytes(ffi.string(out[0]))

    def pch_status(self, program: Box) -> str:
        """Return the name of the status of the precompiled header (nvrtcGetPCHCreateStatus)."""
        out = ffi.new("int *")
        check(lib.cch_nvrtc_program_pch_status(out, program))
        return bytes(ffi.string(lib.cch_error_name_in(lib.CCH_DOMAIN_NVRTC, out[0]))).decode()

    def pch_heap_required(self, program: Box) -> int:
        """Return the heap that the precompiled header needs (nvrtcGetPCHHeapSizeRequired)."""
        out = ffi.new("size_t *")
        check(lib.cch_nvrtc_program_pch_heap(out, program))
        return int(out[0])


class NVVM(_Library):
    """A libNVVM library."""

    __slots__ = ()
    _type, _wrap, _raw = "cch_nvvm", lib.cch_nvvm_wrap, lib.cch_nvvm_program_raw

    def version(self) -> tuple[int, int]:
        """Return the version, which is not CUDA's (nvvmVersion)."""
        return _version(lib.cch_nvvm_version, self._library)

    def ir_version(self) -> tuple[int, int, int, int]:
        """Return the versions of NVVM IR, and of its debug information (nvvmIRVersion)."""
        out = ffi.new("int[4]")
        check(lib.cch_nvvm_ir_version(out, out + 1, out + 2, out + 3, self._library))
        return out[0], out[1], out[2], out[3]

    def llvm_version(self, arch: bytes) -> int:
        """Return the LLVM IR version for an architecture (nvvmLLVMVersion)."""
        out = ffi.new("int *")
        check(lib.cch_nvvm_llvm_version(out, self._library, arch))
        return int(out[0])

    def create(self) -> Box:
        """Make an empty program (nvvmCreateProgram)."""
        out = out_box("cch_nvvm_program")
        check(lib.cch_nvvm_program_create(out, self._library))
        return hold_box(out[0])

    def add(self, program: Box, module: bytes, name: bytes, *, lazy: bool = False) -> None:
        """Add a module (nvvmAddModuleToProgram, nvvmLazyAddModuleToProgram)."""
        check(lib.cch_nvvm_program_add(program, module, len(module), name, lazy))

    def verify(self, program: Box, options: Sequence[bytes]) -> None:
        """Check the modules (nvvmVerifyProgram)."""
        strings = _strings(options)
        check(lib.cch_nvvm_program_verify(program, len(options), strings[0]))

    def compile(self, program: Box, options: Sequence[bytes]) -> None:
        """Compile a program (nvvmCompileProgram)."""
        strings = _strings(options)
        check(lib.cch_nvvm_program_compile(program, len(options), strings[0]))

    def log(self, program: Box) -> bytes:
        """Return the log (nvvmGetProgramLog)."""
        return _get(lib.cch_nvvm_program_get, program, lib.CCH_NVVM_LOG)

    def output(self, program: Box) -> bytes:
        """Return the output of a program (nvvmGetCompiledResult)."""
        return _get(lib.cch_nvvm_program_get, program, lib.CCH_NVVM_CODE)


class NVJitLink(_Library):
    """An nvJitLink library."""

    __slots__ = ()
    _type, _wrap, _raw = "cch_nvjitlink", lib.cch_nvjitlink_wrap, lib.cch_nvjitlink_linker_raw

    def version(self) -> tuple[int, int]:
        """Return the version (nvJitLinkVersion)."""
        return _version(lib.cch_nvjitlink_version, self._library)

    def create(self, options: Sequence[bytes]) -> Box:
        """Make a linker (nvJitLinkCreate)."""
        out = out_box("cch_nvjitlink_linker")
        strings = _strings(options)
        check(lib.cch_nvjitlink_linker_create(out, self._library, len(options), strings[0]))
        return hold_box(out[0])

    def add(self, linker: Box, kind: str, code: bytes, name: bytes) -> None:
        """Add code of a type such as ``"ptx"`` (nvJitLinkAddData)."""
        check(lib.cch_nvjitlink_linker_add(linker, _NVJITLINK_INPUTS[kind], code, len(code), name))

    def link(self, linker: Box) -> None:
        """Link the added input (nvJitLinkComplete)."""
        check(lib.cch_nvjitlink_linker_link(linker))

    def error_log(self, linker: Box) -> bytes:
        """Return the log of errors (nvJitLinkGetErrorLog)."""
        return _get(lib.cch_nvjitlink_linker_get, linker, lib.CCH_NVJITLINK_ERROR_LOG)

    def info_log(self, linker: Box) -> bytes:
        """Return the log of messages that are not errors (nvJitLinkGetInfoLog)."""
        return _get(lib.cch_nvjitlink_linker_get, linker, lib.CCH_NVJITLINK_INFO_LOG)

    def output(self, linker: Box, kind: str) -> bytes:
        """Return the output of a type: ``"cubin"``, ``"ptx"`` or ``"ltoir"`` (nvJitLinkGetLinkedCubin and others)."""
        return _get(lib.cch_nvjitlink_linker_get, linker, _NVJITLINK_OUTPUTS[kind])


def _version(function: Callable[..., int], library: Any) -> tuple[int, int]:
    out = ffi.new("int[2]")
    check(function(out, out + 1, library))
    return out[0], out[1]


def _strings(texts: Sequence[bytes]) -> tuple[Any, list[Any]]:
    """Return a C array of strings, and the object that keeps them alive."""
    kept = [ffi.from_buffer("char[]", text + b"\0") for text in texts]
    return ffi.new("char const *[]", kept) if kept else ffi.NULL, kept


def _get(function: Callable[..., int], box: Box, output: int) -> bytes:
    size = ffi.new("size_t *")
    check(function(ffi.NULL, size, box, output))
    if not size[0]:
        return b""
    out = ffi.new("char[]", size[0])
    check(function(out, size, box, output))
    return bytes(ffi.buffer(out, size[0]))
