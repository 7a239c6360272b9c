# SPDX-License-Identifier: Apache-2.0
"""Addresses and handles that callers give as numbers."""

from __future__ import annotations


def as_address(value: object, what: str) -> int:
    """Return what an int, or an object of ``cuda.bindings``, has for an address.

    Parameters
    ----------
    value : object
        What was given.
    what : str
        The argument and what it should be, for the error: ``"handle must be an int, the kernel's address"``.
    """
    # Text, and floats and bools of any library, can be made ints too, and are never addresses.
    is_float = hasattr(value, "__float__") and not hasattr(value, "__index__")
    if isinstance(value, (bool, str, bytes, bytearray)) or is_float or not hasattr(value, "__int__"):
        raise TypeError(f"{what}, not {type(value).__name__}")
    try:
        address = int(value)
    except (TypeError, ValueError):  # an array of several
        raise TypeError(f"{what}, not {type(value).__name__}") from None
    if not 0 <= address < 2**64:
        raise ValueError(f"{what}; {address} is none")
    return address
