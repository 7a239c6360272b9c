# SPDX-License-Identifier: Apache-2.0
"""Conversion of integers, addresses and handles that callers pass."""

from __future__ import annotations

import operator
from typing import Any

from cudacore_handles._cffi import ffi

_WORD, _cast = ffi.typeof("uintptr_t"), ffi.cast


def is_bool(value: Any) -> bool:
    """Return whether a value is a bool of any library, or an array of bools.

    PyTorch and some versions of NumPy convert their bools to ints.
    """
    return isinstance(value, bool) or str(getattr(value, "dtype", "")).rpartition(".")[2] in ("bool", "bool_")


def as_integer(value: Any) -> int | None:
    """Return the int that a value of Python or another library represents; None if it is not an int, such as a bool."""
    if type(value) is int:
        return value
    try:
        return None if is_bool(value) else operator.index(value)
    except TypeError:
        return None


def check_int(name: str, value: Any, what: str = "an int") -> int:
    """Return an argument as an int. For any other value, raise an error that says: it must be `what`."""
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} must be {what}, not {type(value).__name__}")
    return number


def as_address(value: Any, what: str) -> int:
    """Return the address that an int, or an object of ``cuda.bindings``, represents.

    Parameters
    ----------
    value : object
        The argument.
    what : str
        The argument and what it should be, for the error: ``"handle must be an int, the kernel's address"``.
    """
    address = as_integer(value)
    if address is None:
        # Handles of cuda.bindings and pointers of CuPy are recognized by __int__. Floats, bools and strings, which
        # int() also converts, are not addresses.
        if is_bool(value) or isinstance(value, str) or hasattr(value, "__float__") or not hasattr(value, "__int__"):
            raise TypeError(f"{what}, not {type(value).__name__}")
        address = int(value)
    if not 0 <= address < 2**64:
        raise ValueError(f"{what}; {address} is not an address")
    return address


def as_word(argument: Any, kept: list[Any]) -> int:
    """Return a pointer or a number as a word; bytes and lists of bytes become pointers. `kept` gets what is made."""
    if isinstance(argument, list):
        items = [ffi.from_buffer("char[]", item) for item in argument]
        argument = ffi.new("char const *[]", items) if items else ffi.NULL
        kept += (items, argument)
    elif isinstance(argument, bytes):
        argument = ffi.from_buffer("char[]", argument)
        kept.append(argument)
    return int(_cast(_WORD, argument))
