# SPDX-License-Identifier: Apache-2.0
"""Calls of driver functions for which the C library has no function of its own, and the version of the driver.

The functions are those in ``src/lib/driver/driver_table.h``. A call takes a few microseconds longer than one of a
function of the library.
"""

from __future__ import annotations

from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.errors import CUDAError, check, result_of
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import ffi, lib

_WORD, _WORDS = ffi.typeof("uintptr_t"), ffi.typeof("uintptr_t[8]")
_cast, _new, _call, _NULL = ffi.cast, ffi.new, lib.cch_driver_call, ffi.NULL
_NO_BOXES = ffi.new("void *[]", [_NULL])
_MAX_WORD = 2**64 - 1


def as_word(argument: Any, kept: list[Any]) -> int:
    """Return a pointer or a number as a word; bytes and lists of bytes become pointers. `kept` gets what is made."""
    if type(argument) is int:
        return argument & _MAX_WORD
    if isinstance(argument, list):
        items = [ffi.from_buffer("char[]", item) for item in argument]
        argument = ffi.new("char const *[]", items) if items else ffi.NULL
        kept += (items, argument)
    elif isinstance(argument, bytes):
        argument = ffi.from_buffer("char[]", argument)
        kept.append(argument)
    return int(_cast(_WORD, argument))


def driver_status(function: str, *arguments: Any, context: _native.Handle | None = None) -> int:
    """Call a function of the driver; return its result, as the functions of the library do.

    Parameters
    ----------
    function : str
        The name of the function.
    *arguments
        Up to eight pointers, numbers, bytes, and objects such as streams, which stand for their handles. A device is
        given by its ordinal.
    context : Context, optional
        The context that is made current for the call.

    Raises
    ------
    ClosedError
        If an object is closed.
    """
    words = _new(_WORDS)
    kept: list[Any] = []
    boxes: list[Any] = []
    for place, argument in enumerate(arguments):
        if isinstance(argument, _native.Handle):
            boxes.append(hold(argument))
            argument = argument._raw
        words[place] = as_word(argument, kept)
    given = [*boxes, _NULL] if boxes else _NO_BOXES
    within = _NULL if context is None else hold(context)
    status: int = _call(function.encode(), words, given, within)
    return status


def call_driver(function: str, *arguments: Any) -> None:
    """Call a function of the driver as :func:`driver_status` does; raise an error if it fails."""
    check(driver_status(function, *arguments))


def query_driver(function: str, *arguments: Any, out: str = "int *") -> int:
    """Call a function of the driver whose first parameter is for a number, of the type `out`; return the number."""
    result = _new(out)
    call_driver(function, result, *arguments)
    return int(result[0])


def driver_version() -> int:
    """Return the version of CUDA that the driver supports, such as 12040 (cuDriverGetVersion)."""
    return result_of(lib.cch_driver_version)


def version_text(version: int) -> str:
    """Return a version as text: ``"12.4"`` for 12040."""
    return f"{version // 1000}.{version % 1000 // 10}"


def need_driver(version: int, operation: str, what: str) -> None:
    """Raise an error if the driver is older than a version, because the driver's error would only be "invalid value".

    Parameters
    ----------
    version : int
        The oldest version that works, such as 12040.
    operation : str
        The function of the driver that would fail.
    what : str
        A sentence for the hint: what that version added, and an alternative if there is one.
    """
    have = driver_version()
    if have < version:
        raise CUDAError(
            operation,
            lib.CCH_ENOSYMBOL,
            "CCH_ENOSYMBOL",
            f"needs a driver for CUDA {version_text(version)} or newer; the loaded driver is for CUDA "
            f"{version_text(have)}",
            hint=what,
        )
