# SPDX-License-Identifier: Apache-2.0
"""Fat binaries: code for several architectures as one, made by nvFatbin."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterable
from typing import Any

from cudacore_compile._compilers.libraries import Library, open_library
from cudacore_handles import CUDAError, ObjectCode, UnsupportedCodeError

_TARGET = re.compile(rb"^\s*\.target\s+(?:sm|compute)_(\w+)", re.MULTILINE)


class NVFatbinError(CUDAError):
    """Report a failure of nvFatbin; see :class:`~cudacore_handles.CUDAError`.

    ``"NVFATBIN_NOT_FOUND"`` (-1) is no result code: the library cannot be loaded.
    """


LIBRARY = Library("nvFatbin", "nvfatbin", NVFatbinError, "link")


def make_fatbin(codes: Iterable[ObjectCode], *, name: str = "", compress: bool = True) -> ObjectCode:
    """Combine code for several architectures (nvFatbinGet); the driver loads what the device can run.

    Where there is a cubin for the device that is loaded, otherwise PTX is compiled. No driver and no GPU is needed to
    combine.

    Parameters
    ----------
    codes : iterable of ObjectCode
        Cubins, each for another architecture, and PTX, each for another. They should have the same kernels: what they
        have been asked for by name (:attr:`~cudacore_handles.ObjectCode.symbol_mapping`) is found in all.
    name : str, optional
        The name of the combined code. Default: that of the first.
    compress : bool, optional
        Whether to compress the code. Default True.

    Returns
    -------
    ObjectCode
        Of the type ``"fatbin"``.

    Raises
    ------
    NVFatbinError
        When the library is missing, or refuses the code.
    ValueError
        When there is no code, two for one architecture, or one name stands for different symbols.
    UnsupportedCodeError
        For code that is neither a cubin nor PTX.
    """
    parts = list(codes)
    if not parts:
        raise ValueError("codes is empty: there is nothing to combine")
    mapping: dict[str, str] = {}
    signatures: dict[str, str] = {}
    entries: dict[tuple[str, str], bytes] = {}
    for code in parts:
        if not isinstance(code, ObjectCode):
            raise TypeError(f"codes must be of ObjectCode, not {type(code).__name__}")
        entry = code.code_type, _architecture(code)
        if entry in entries:
            raise ValueError(f"codes has two of the type {entry[0]!r} for the architecture {entry[1]}")
        entries[entry] = code._read()
        for expression, symbol in code.symbol_mapping.items():
            if mapping.setdefault(expression, symbol) != symbol:
                raise ValueError(f"{expression!r} stands for {mapping[expression]} and for {symbol}: codes differ")
        code._signature("")  # has PTX read
        signatures.update(code._signatures or {})
    library = _load()
    label = (name or parts[0].name or "code").encode("utf-8", "replace")
    with library.fatbin([b"-64", f"-compress={str(bool(compress)).lower()}".encode()]) as fatbin:
        for (kind, arch), image in entries.items():
            fatbin.add(kind, arch.encode(), image, label)
        combined = fatbin.get()
    return ObjectCode._init(
        combined, "fatbin", name=name or parts[0].name, symbol_mapping=mapping, signatures=signatures
    )


def _architecture(code: ObjectCode) -> str:
    """Return the number of an architecture, with its letter where the code says it."""
    if code.code_type == "cubin":
        return code._contents().arch.removeprefix("sm_")
    if code.code_type == "ptx":
        target = _TARGET.search(code._read())
        if target is None:
            raise ValueError("PTX does not say for which architecture it is: there is no .target")
        return target[1].decode()
    raise UnsupportedCodeError(
        f'Unsupported code type "{code.code_type}": fat binaries are made of cubins and PTX; link other code first'
    )


class _Fatbin:
    """A fat binary that is being made."""

    def __init__(self, library: _Library, options: list[bytes]) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        array = (ctypes.c_char_p * len(options))(*options)
        library.call("nvFatbinCreate", ctypes.byref(self._handle), array, ctypes.c_size_t(len(options)))

    def __enter__(self) -> _Fatbin:
        return self

    def __exit__(self, *exception: object) -> None:
        self._library.call("nvFatbinDestroy", ctypes.byref(self._handle))

    def add(self, kind: str, arch: bytes, image: bytes, label: bytes) -> None:
        if kind == "cubin":
            self._library.call("nvFatbinAddCubin", self._handle, image, ctypes.c_size_t(len(image)), arch, label)
            return
        image = image.rstrip(b"\0") + b"\0"
        self._library.call("nvFatbinAddPTX", self._handle, image, ctypes.c_size_t(len(image)), arch, label, b"")

    def get(self) -> bytes:
        size = ctypes.c_size_t()
        self._library.call("nvFatbinSize", self._handle, ctypes.byref(size))
        buffer = bytearray(size.value)
        view = (ctypes.c_char * size.value).from_buffer(buffer)
        self._library.call("nvFatbinGet", self._handle, view)
        return bytes(buffer)


class _Library:
    """The nvFatbin library of this process."""

    def __init__(self, handle: int) -> None:
        self._functions = ctypes.CDLL("nvFatbin", handle=handle)
        self._functions.nvFatbinGetErrorString.restype = ctypes.c_char_p

    def fatbin(self, options: list[bytes]) -> _Fatbin:
        return _Fatbin(self, options)

    def call(self, function: str, *args: Any) -> None:
        status = getattr(self._functions, function)(*args)
        if status:
            meaning = (self._functions.nvFatbinGetErrorString(status) or b"unknown error").decode("utf-8", "replace")
            name = _NAMES[status] if status < len(_NAMES) else str(status)
            raise NVFatbinError(function, status, f"NVFATBIN_{name}", meaning)


_NAMES = (
    "SUCCESS", "ERROR_INTERNAL", "ERROR_ELF_ARCH_MISMATCH", "ERROR_ELF_SIZE_MISMATCH", "ERROR_MISSING_PTX_VERSION",
    "ERROR_NULL_POINTER", "ERROR_COMPRESSION_FAILED", "ERROR_COMPRESSED_SIZE_EXCEEDED", "ERROR_UNRECOGNIZED_OPTION",
    "ERROR_INVALID_ARCH", "ERROR_INVALID_NVVM", "ERROR_EMPTY_INPUT", "ERROR_MISSING_PTX_ARCH",
    "ERROR_PTX_ARCH_MISMATCH", "ERROR_MISSING_FATBIN", "ERROR_INVALID_INDEX", "ERROR_IDENTIFIER_REUSE",
    "ERROR_INTERNAL_PTX_OPTION",
)  # fmt: skip


@functools.cache
def _load() -> _Library:
    return _Library(open_library(LIBRARY)._handle_uint)
