# SPDX-License-Identifier: Apache-2.0
"""Readable C++ names."""

from __future__ import annotations

import functools
import re
from typing import Any

_MANGLED = re.compile(r"_Z[\w$.]+", re.ASCII)
_MAX_LENGTH = 4096  # characters; only generated names are longer


def demangle(symbol: str) -> str:
    """Return a symbol's C++ name with its parameters.

    Return the symbol itself if it is not mangled, or there is no C++ library.
    """
    if not _MANGLED.fullmatch(symbol) or len(symbol) > _MAX_LENGTH:
        return symbol
    import ctypes  # imported late, because it takes longer to import than this package

    functions = _runtime()
    if functions is None:
        return symbol
    cxa_demangle, free = functions
    status = ctypes.c_int()
    text = cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    try:
        return ctypes.cast(text, ctypes.c_char_p).value.decode("utf-8", "replace")  # type: ignore[union-attr]
    finally:
        free(text)


@functools.cache
def _runtime() -> tuple[Any, Any] | None:
    """Return ``abi::__cxa_demangle`` of the system's C++ library, and the function that frees its results."""
    import ctypes

    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(name)
            cxa_demangle = library.__cxa_demangle
        except (OSError, AttributeError):
            continue
        cxa_demangle.restype = ctypes.c_void_p
        cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        free = ctypes.CDLL(None).free
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        return cxa_demangle, free
    return None


def bare_name(demangled: str) -> str:
    """Return a function's name without parameters and return type, as in a name expression."""
    end = end_of_name(demangled)
    depth = 0
    for at in range(end - 1, -1, -1):
        letter = demangled[at]
        if letter in ">)" and demangled[at - 1 : at + 1] != "->":
            depth += 1
        elif letter in "<(":
            depth -= 1
        elif letter == " " and depth == 0:
            return demangled[at + 1 : end]
    return demangled[:end]


def end_of_name(demangled: str) -> int:
    """Return the index at which the parameters begin."""
    text = demangled.replace("(anonymous namespace)", "\0" * len("(anonymous namespace)"))
    depth = 0
    for at, letter in enumerate(text):
        if letter == "<":
            depth += 1
        elif letter == ">" and text[at - 1] != "-":
            depth -= 1
        elif letter == "(" and depth == 0:
            return at
    return len(demangled)


_BLANK = re.compile(r"(?<![\w$]) | (?![\w$])")


def squeeze(name: str) -> str:
    """Return a C++ name with single blanks, and only where they separate words."""
    return _BLANK.sub("", " ".join(name.split()))
