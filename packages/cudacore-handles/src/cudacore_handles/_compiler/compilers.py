# SPDX-License-Identifier: Apache-2.0
"""Calls of the compiler libraries, as in compiler.h. Another package finds the libraries.

Programs and linkers are boxes, which live as long as they are referenced. Calls run without the GIL, and failures raise
an error with the compiler's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from cudacore_handles._base.address import as_word
from cudacore_handles._base.errors import CUDAError, check
from cudacore_handles._base.handle import hold_box, out_box
from cudacore_handles._cffi import ffi, lib

Box = Any


class _Type(NamedTuple):
    """A kind of library: the kind of its boxes, the domain of its result codes, and the names of its functions."""

    kind: int
    domain: int
    prefix: str
    noun: str


_TYPES = {
    "NVRTC": _Type(lib.CCH_KIND_NVRTC_PROGRAM, lib.CCH_DOMAIN_NVRTC, "nvrtc", "Program"),
    "libNVVM": _Type(lib.CCH_KIND_NVVM_PROGRAM, lib.CCH_DOMAIN_NVVM, "nvvm", "Program"),
    "nvJitLink": _Type(lib.CCH_KIND_NVJITLINK_LINKER, lib.CCH_DOMAIN_NVJITLINK, "nvJitLink", ""),
}
# nvJitLink 12.0 to 12.2 have names such as __nvJitLinkCreate_12_0, for each version up to their own, and no others.
_SPELLINGS = ("{}", "__{}_12_2", "__{}_12_1", "__{}_12_0")


class Compiler:
    """A compiler's library.

    Parameters
    ----------
    title : str
        ``"NVRTC"``, ``"libNVVM"`` or ``"nvJitLink"``.
    handle : int
        The dlopen() handle, which must stay open.
    functions : mapping of str to str
        All functions, with the version of CUDA that added each.
    error : type of CUDAError, optional
        The class of the errors for failed calls. Default ``CUDAError``.
    """

    __slots__ = ("_create", "_destroy", "_error", "_found", "_since", "_spelling", "_title", "_type", "_version")

    def __init__(
        self, title: str, handle: int, functions: Mapping[str, str], error: type[CUDAError] = CUDAError
    ) -> None:
        self._title = title
        self._error = error
        self._type = _TYPES[title]
        prefix, noun = self._type.prefix, self._type.noun
        self._create, self._destroy = f"{prefix}Create{noun}", f"{prefix}Destroy{noun}"
        self._version = f"{prefix}Version"
        self._since = functions
        library = ffi.cast("void *", handle)
        self._spelling = next((one for one in _SPELLINGS if _symbol(library, one.format(self._create))), "{}")
        self._found = {name: _symbol(library, self._spelling.format(name)) for name in functions}

    def query_version(self) -> tuple[int, int]:
        """Return the version of the library: CUDA's, except for libNVVM."""
        if self._spelling != "{}":  # these versions lack nvJitLinkVersion
            return 12, int(self._spelling[-1])
        major, minor = self.numbers(self._version, 2)
        return major, minor

    def has(self, name: str) -> bool:
        """Return whether the library has a function."""
        return bool(self._found[name])

    def result(self, name: str, *arguments: Any) -> int:
        """Call a function with pointers, numbers, bytes and lists of bytes; return its result code."""
        if not self._found[name]:
            self._fail_missing(name)
        kept: list[Any] = []
        words = ffi.new("uintptr_t[6]", [as_word(argument, kept) for argument in arguments])
        out = ffi.new("int *")
        check(lib.cch_compiler_call(out, self._found[name], words))
        return int(out[0])

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function, and raise the error for its result code."""
        result = self.result(name, *arguments)
        if result:
            meaning = ffi.string(lib.cch_error_string_in(self._type.domain, result)).decode()
            raise self._error(name, result, self.code_name(result), meaning)

    def code_name(self, result: int) -> str:
        """Return the name of a result code."""
        return bytes(ffi.string(lib.cch_error_name_in(self._type.domain, result))).decode()

    def new(self, *arguments: Any) -> Box:
        """Return the box of a new program."""
        out = out_box("void")
        check(lib.cch_program_create(out, self._type.kind, self._found[self._destroy]))
        box = hold_box(out[0])
        self.call(self._create, _place(box), *arguments)
        return box

    def of(self, box: Box, name: str, *arguments: Any) -> None:
        """Call a function whose first parameter is a program."""
        self.call(name, _place(box)[0], *arguments)

    def raw(self, box: Box) -> int:
        """Return the handle of a program."""
        return int(ffi.cast("uintptr_t", _place(box)[0]))

    def output(self, box: Box, name: str) -> bytes:
        """Return an output of a program by the function with this name, and the one for its size."""
        if not self.has(name):
            self._fail_missing(name)
        size = ffi.new("size_t *")
        self.of(box, f"{name}Size", size)
        if not size[0]:  # libraries fail or write a NUL if they are called for it
            return b""
        out = ffi.new("char[]", size[0])
        self.of(box, name, out)
        return bytes(ffi.buffer(out, size[0]))

    def number(self, name: str, *arguments: Any) -> int:
        """Return the number, not negative, that a function stores behind its last argument."""
        out = ffi.new("size_t *")
        self.call(name, *arguments, out)
        return int(out[0])

    def numbers(self, name: str, count: int, *, in_array: bool = False) -> list[int]:
        """Return the numbers that a function stores in an array, or each behind an argument."""
        out = ffi.new("int[]", count)
        self.call(name, *(out + i for i in range(1 if in_array else count)))
        return list(out)

    def text_of(self, box: Box, name: str, argument: bytes) -> bytes:
        """Return the text that a function finds for an argument."""
        out = ffi.new("char const **")
        self.of(box, name, argument, out)
        return bytes(ffi.string(out[0]))

    def let_cancel(self, box: Box, name: str) -> None:
        """Pass the function that reports whether a program was cancelled."""
        self.of(box, name, ffi.addressof(lib, "cch_program_is_cancelled"), _place(box))

    def cancel(self, box: Box) -> None:
        """Cancel a program, from any thread."""
        check(lib.cch_program_cancel(box))

    def _fail_missing(self, name: str) -> NoReturn:
        meaning = f"needs {self._title} of CUDA {self._since[name]} or newer"
        if name != self._version:
            meaning += "; the loaded one has version {}.{}".format(*self.query_version())
        raise self._error(name, lib.CCH_ENOSYMBOL, "CCH_ENOSYMBOL", meaning)


def _symbol(library: Any, name: str) -> Any:
    out = ffi.new("cch_compiler_fn *")
    check(lib.cch_compiler_symbol(out, library, name.encode()))
    return out[0]


def _place(box: Box) -> Any:
    """Return the address of a program's handle."""
    out = ffi.new("void ***")
    check(lib.cch_program_handle(out, box))
    return out[0]
