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
    # Text and floats can be made ints too, and are never addresses.
    if isinstance(value, (bool, float, str, bytes, bytearray)) or not hasattr(value, "__int__"):
        raise TypeError(f"{what}, not {type(value).__name__}")
    address = int(value)
    if not 0 <= address < 2**64:
        raise ValueError(f"{what}; {address} is none")
    return address
