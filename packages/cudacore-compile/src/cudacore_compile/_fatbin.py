# SPDX-License-Identifier: Apache-2.0
"""Fat binaries, which contain code for several architectures; nvFatbin makes them."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cudacore_compile._compilers.libraries import Library, open_library
from cudacore_handles import CUDAError, ObjectCode, UnsupportedCodeError
from cudacore_handles._sdk import public, type_text

_TARGET = re.compile(rb"^\s*\.target\s+(?:sm|compute)_(\w+)", re.MULTILINE)


@public
class NVFatbinError(CUDAError):
    """nvFatbin failed; see :class:`~cudacore_handles.CUDAError`.

    ``"NVFATBIN_NOT_FOUND"`` (-1) is not a result code of nvFatbin. It means that the library cannot be loaded.
    """


LIBRARY = Library("nvFatbin", "nvfatbin", NVFatbinError, "link")


def make_fatbin(codes: Iterable[ObjectCode], *, name: str = "", compress: bool = True) -> ObjectCode:
    """Combine code for several architectures (nvFatbinGet). The driver loads the part that the device can run.

    If there is a cubin for the device, it is loaded; otherwise PTX is compiled. LTO-IR is for linkers, which use the
    LTO-IR for the target architecture. Combining needs neither a driver nor a GPU.

    Code for only one architecture (``sm_90a``) and code for its generation (``sm_90``) can be in one fat binary. Cubins
    and LTO-IR for a family (``sm_100f``) are labelled as code for its first architecture, because that code is the
    same.

    Parameters
    ----------
    codes : iterable of ObjectCode
        Cubins, PTX and LTO-IR; at most one of each type for an architecture. They should have the same kernels. The
        names of all of them (:attr:`~cudacore_handles.ObjectCode.symbol_mapping`) are combined.
    name : str, optional
        The name of the combined code. Default: the name of the first code.
    compress : bool, optional
        Whether to compress the code. Default True.

    Returns
    -------
    ObjectCode
        Code of the type ``"fatbin"``.

    Raises
    ------
    NVFatbinError
        If the library is missing, or refuses the code.
    ValueError
        If there is no code, there are two of one type for one architecture, code does not state its architecture, or a
        name maps to different symbols.
    UnsupportedCodeError
        For code of other types.

    Examples
    --------
    >>> from cudacore_compile import make_fatbin
    >>> options = [core.ProgramOptions(arch=arch) for arch in ("sm_80", "sm_90")]
    >>> cubins = [core.Program("__device__ int x;", "c++", each).compile("cubin") for each in options]
    >>> make_fatbin(cubins).code_type
    'fatbin'
    """
    parts = list(codes)
    if not parts:
        raise ValueError("codes is empty: there is nothing to combine")
    mapping: dict[str, str] = {}
    signatures: dict[str, str] = {}
    entries: dict[tuple[str, str], bytes] = {}
    for code in parts:
        if not isinstance(code, ObjectCode):
            raise TypeError(f"codes must be of ObjectCode, not {type_text(code)}")
        entry = code.code_type, _architecture(code)
        if entry in entries:
            raise ValueError(f"codes has two of the type {entry[0]!r} for the architecture {entry[1]}")
        entries[entry] = code._read()
        for expression, symbol in code.symbol_mapping.items():
            if mapping.setdefault(expression, symbol) != symbol:
                raise ValueError(
                    f"codes disagree: the name {expression!r} stands for {mapping[expression]} in one and for "
                    f"{symbol} in another"
                )
        code._signature("")  # for PTX, this sets code._signatures
        signatures.update(code._signatures or {})
    label = (name or parts[0].name or "code").encode("utf-8", "replace")
    combined = _combine(entries, [b"-64", f"-compress={str(bool(compress)).lower()}".encode()], label)
    return ObjectCode._init(
        combined, "fatbin", name=name or parts[0].name, symbol_mapping=mapping, signatures=signatures
    )


def _architecture(code: ObjectCode) -> str:
    """Return the number of an architecture, with its letter if the code states it."""
    if code.code_type == "cubin":
        return code._contents().arch.removeprefix("sm_")
    if code.code_type == "ptx":
        target = _TARGET.search(code._read())
        if target is None:
            raise ValueError("the PTX has no .target directive, which names the architecture")
        return target[1].decode()
    if code.code_type == "ltoir":
        return _architecture_of_ltoir(code._read())
    raise UnsupportedCodeError(
        f'Unsupported code type "{code.code_type}": fat binaries are made of cubins, PTX and LTO-IR; link other '
        "code first"
    )


_LTOIR_MAGIC = b"\xedCN\x7f"
_LTOIR_ARCHITECTURE, _LTOIR_ACCELERATED, _LTOIR_LAST = 0x01, 0x20, 0x63


def _architecture_of_ltoir(code: bytes) -> str:
    """Read the architecture from the header of LTO-IR, in its undocumented format of CUDA 12 and 13.

    The header has the offset of a list of tags, each with a value of 16 bits. The rest is encrypted.
    """
    facts: dict[int, int] = {}
    at = int.from_bytes(code[12:14], "little")
    while code[:4] == _LTOIR_MAGIC and at + 4 <= min(len(code), 256):
        tag, value = (int.from_bytes(code[i : i + 2], "little") for i in (at, at + 2))
        if tag == _LTOIR_LAST:
            break
        facts[tag] = value
        at += 4
    number, rest = divmod(facts.get(_LTOIR_ARCHITECTURE, 0), 10)
    if not number or rest:
        raise ValueError("the architecture of the LTO-IR cannot be read: it is damaged, or of an unknown version")
    return f"{number}{'a' if facts.get(_LTOIR_ACCELERATED) else ''}"


def _combine(entries: Mapping[tuple[str, str], bytes], options: list[bytes], label: bytes) -> bytes:
    """Combine code by type and architecture."""
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    array = (ctypes.c_char_p * len(options))(*options)
    _call("nvFatbinCreate", ctypes.byref(handle), array, ctypes.c_size_t(len(options)))
    try:
        for (kind, arch), image in entries.items():
            code = image.rstrip(b"\0") + b"\0" if kind == "ptx" else image
            arguments = handle, code, ctypes.c_size_t(len(code)), arch.encode(), label
            _call(_ADD[kind], *arguments, *(() if kind == "cubin" else (b"",)))
        _call("nvFatbinSize", handle, ctypes.byref(size))
        combined = ctypes.create_string_buffer(size.value)
        _call("nvFatbinGet", handle, combined)
    finally:
        _call("nvFatbinDestroy", ctypes.byref(handle))
    return combined.raw


_ADD = {"cubin": "nvFatbinAddCubin", "ptx": "nvFatbinAddPTX", "ltoir": "nvFatbinAddLTOIR"}


@functools.cache
def _load() -> ctypes.CDLL:
    """Return the nvFatbin library of this process."""
    functions = ctypes.CDLL("nvFatbin", handle=open_library(LIBRARY)._handle_uint)
    functions.nvFatbinGetErrorString.restype = ctypes.c_char_p
    return functions


def _call(function: str, *args: Any) -> None:
    status = getattr(_load(), function)(*args)
    if status:
        meaning = (_load().nvFatbinGetErrorString(status) or b"unknown error").decode("utf-8", "replace")
        name = _NAMES[status] if status < len(_NAMES) else str(status)
        raise NVFatbinError(function, status, f"NVFATBIN_{name}", meaning)


_NAMES = (
    "SUCCESS", "ERROR_INTERNAL", "ERROR_ELF_ARCH_MISMATCH", "ERROR_ELF_SIZE_MISMATCH", "ERROR_MISSING_PTX_VERSION",
    "ERROR_NULL_POINTER", "ERROR_COMPRESSION_FAILED", "ERROR_COMPRESSED_SIZE_EXCEEDED", "ERROR_UNRECOGNIZED_OPTION",
    "ERROR_INVALID_ARCH", "ERROR_INVALID_NVVM", "ERROR_EMPTY_INPUT", "ERROR_MISSING_PTX_ARCH",
    "ERROR_PTX_ARCH_MISMATCH", "ERROR_MISSING_FATBIN", "ERROR_INVALID_INDEX", "ERROR_IDENTIFIER_REUSE",
    "ERROR_INTERNAL_PTX_OPTION",
)  # fmt: skip
