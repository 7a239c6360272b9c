# SPDX-License-Identifier: Apache-2.0
"""Reads ``__cuda_array_interface__`` and ``__array_interface__``."""

from __future__ import annotations

from typing import Any

from cudacore_handles._base.address import as_integer
from cudacore_handles._memory.arrays import check_values, has_own_memory, has_protocol, is_numpy_scalar, why_no_array

_NO_PROTOCOL = (
    "the input object does not support any data exchange protocol: obj is of type {}, and has none of __dlpack__, "
    "__cuda_array_interface__ and __array_interface__"
)


def read_interface(obj: Any, name: str) -> tuple[dict[str, Any], int]:
    """Return the array interface of an object, and the address in it."""
    if not has_protocol(obj, name):
        text, cause = why_no_array(obj, name)
        raise AttributeError(
            f"obj is of type {type(obj).__name__}, which has no {name}{text}", name=name, obj=obj
        ) from cause
    check_values(obj, "obj")
    if is_numpy_scalar(obj) and not has_own_memory(obj):
        raise TypeError(
            f"obj is a scalar of NumPy, {type(obj).__name__}, whose {name} refers to memory that is already freed; "
            "give np.asarray(obj)"
        )
    interface = getattr(obj, name)
    if not isinstance(interface, dict):
        raise TypeError(f"Expected dict, got {type(interface).__name__}: the {name} of {type(obj).__name__}")
    if interface.get("mask") is not None:
        raise BufferError("mask is not supported: fill in the masked elements, and export the array without")
    try:
        given, _ = interface["data"]
    except (KeyError, TypeError, ValueError):
        given = ()
    address = 0 if given is None else as_integer(given)
    if address is None or not 0 <= address < 2**64:
        raise BufferError(f"the data of the {name} is {interface.get('data')!r}; it must be (address, read-only)")
    return interface, address


def no_protocol(obj: object) -> BufferError:
    """Return the error for an object that no protocol can read."""
    text, cause = why_no_array(obj)
    if isinstance(obj, (list, tuple, int, float)):
        text += "; write np.array(values, dtype=...)"
    error = BufferError(_NO_PROTOCOL.format(type(obj).__name__) + text)
    error.__cause__ = cause
    return error
