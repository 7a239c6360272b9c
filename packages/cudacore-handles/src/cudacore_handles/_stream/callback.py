# SPDX-License-Identifier: Apache-2.0
"""Host functions that graphs and streams call."""

from __future__ import annotations

import atexit
import sys
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.address import as_address, as_integer

_PYTHON_API = 4  # a flag of ctypes for functions that need the GIL, which the driver's thread does not hold


def host_function(function: Any, data: Any) -> tuple[int, int, tuple[object, ...]] | None:
    """Return the address of a ctypes function, the argument for it, and the objects that must be kept alive.

    Returns None for a Python function.
    """
    ctypes = sys.modules.get("ctypes")
    if ctypes is None or not isinstance(function, ctypes._CFuncPtr):
        if not callable(function):
            raise TypeError(f"fn must be a callable or a function of ctypes, not {type(function).__name__}")
        if data is not None:
            raise ValueError(
                "user_data is only supported with functions of ctypes; functools.partial() gives a Python function its "
                "arguments"
            )
        return None
    _check_prototype(ctypes, function)
    address = ctypes.cast(function, ctypes.c_void_p).value
    if not address:
        raise ValueError("fn is a NULL pointer of ctypes")
    if data is None:
        return address, 0, (function,)
    number = as_integer(data)  # tried first, because NumPy's integers are bytes-like too
    if number is not None:
        return address, as_address(number, "user_data must be an address or bytes-like"), (function,)
    try:
        copy = bytearray(memoryview(data))
    except TypeError:
        raise TypeError(f"user_data must be an int or bytes-like, not {type(data).__name__}") from None
    argument = (ctypes.c_char * max(len(copy), 1)).from_buffer(copy or bytearray(1))
    return address, ctypes.addressof(argument), (function, argument)


def _check_prototype(ctypes: Any, function: Any) -> None:
    """Raise an error for a function with another signature, or one that needs the GIL."""
    arguments = function.argtypes
    wanted = "fn must be a function of the type ctypes.CFUNCTYPE(None, ctypes.c_void_p), as cuLaunchHostFunc calls it"
    if type(function)._flags_ & _PYTHON_API:
        raise TypeError(f"{wanted}; one of PYFUNCTYPE or PyDLL needs the GIL, which the driver does not acquire")
    if function.restype is not None:
        raise TypeError(f"{wanted}; this one returns {getattr(function.restype, '__name__', function.restype)}")
    if arguments is None or tuple(arguments) != (ctypes.c_void_p,):
        given = "no declared arguments" if arguments is None else tuple(a.__name__ for a in arguments)
        raise TypeError(f"{wanted}; this one has {given}: set fn.argtypes = [ctypes.c_void_p]")


atexit.register(_native.end_callbacks)
