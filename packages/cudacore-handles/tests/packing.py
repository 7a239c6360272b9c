# SPDX-License-Identifier: Apache-2.0
"""Pack values as kernel arguments, for parameters of each kind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from cudacore_handles import _native

# The kinds by their numbers, as in PARAM_KINDS of launch.h.
UNKNOWN, INT, UINT, BITS, BOOL, FLOAT, BFLOAT, POINTER, ADDRESS_OR_INT, BYTES = range(10)
ADDRESS = 0x7F12_3456_7800
INT_SIZES = (1, 2, 4, 8)
SIGNED_FORMAT = {1: "b", 2: "h", 4: "i", 8: "q"}
UNSIGNED_FORMAT = {1: "B", 2: "H", 4: "I", 8: "Q"}
FLOAT_FORMAT = {2: "e", 4: "f", 8: "d"}


class Address:
    """An array on the device at an address."""

    __slots__ = ("__weakref__", "ptr")

    def __init__(self, ptr: Any) -> None:
        self.ptr = ptr

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.ptr, False)}


class Quantity:
    """A number that can be converted to int, float and complex."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return self.value

    def __complex__(self) -> complex:
        return self.value

    def __bool__(self) -> bool:
        return self.value


def quantity(code: int | Callable[[Any, int, int], Any], value: Any) -> Any:
    cls = type("Quantity", (Quantity,), {})
    _native.register(cls, code)
    return cls(value)


def layout(*sizes: int, align: int = 16) -> bytes:
    """Return the layout of parameters of these sizes, each aligned to its size (at most `align`), as in C."""
    end, params = 0, []
    for size in sizes:
        step = min(size & -size, align)
        offset = (end + step - 1) // step * step
        params += [offset, size, UNKNOWN]
        end = offset + size
    return struct.pack(f"={len(params)}I", *params)


def one(value: Any, size: int, kind: int = UNKNOWN, *, device: int | None = None) -> bytes:
    """Pack a value for one parameter of a size and a kind, and return its bytes."""
    return _native.pack(struct.pack("=3I", 0, size, kind), (value,), device)


# The bytes that a value must be packed as; or the class of the error, and a pattern for its message.
Expected = bytes | tuple[type[Exception], str]
# A value, the size of the parameter, its kinds, and what must come of it.
Row = tuple[Any, int, int | tuple[int, ...], Expected]


def check_rows(rows: list[Row]) -> None:
    """Pack the value of each row for a parameter of each of its kinds, and compare the result."""
    for value, size, kinds, expected in rows:
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            if isinstance(expected, bytes):
                assert one(value, size, kind) == expected, (value, size, kind)
                continue
            error, message = expected
            with pytest.raises(error, match=f"^argument 0: .*{message}"):
                one(value, size, kind)
