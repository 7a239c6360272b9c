# SPDX-License-Identifier: Apache-2.0
"""Packing of numbers for parameters of known kind."""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing import (
    ADDRESS,
    ADDRESS_OR_INT,
    BFLOAT,
    BITS,
    BOOL,
    BYTES,
    FLOAT,
    FLOAT_FORMAT,
    INT,
    INT_SIZES,
    POINTER,
    UINT,
    UNKNOWN,
    Address,
    Row,
    check_rows,
    one,
    quantity,
)

from cudacore_handles import _native

INTEGERS = (INT, UINT, BITS)
POINTERS = (POINTER, ADDRESS_OR_INT)


def signed(size: int, value: int) -> Any:
    """Return a scalar that is a signed integer of a size; 0: of no size of its own."""
    return quantity(_native.SIGNED | size << 8, value)


def unsigned(size: int, value: int) -> Any:
    return quantity(_native.UNSIGNED | size << 8, value)


def floating(size: int, value: float) -> Any:
    return quantity(_native.FLOAT | size << 8, value)


def numpy_bool(value: bool) -> Any:
    return quantity(_native.BOOL | 1 << 8, value)


def ctypes_bool(value: bool) -> Any:
    return quantity(_native.BOOL | 1 << 8 | _native.HAS_VALUE, value)


def bits(form: str, *values: Any) -> bytes:
    return struct.pack("=" + form, *values)


@settings(deadline=None)  # a busy machine can be slow
@given(st.data())
def test_int_for_a_float(data: st.DataObject) -> None:
    """3 given to a `float` would arrive as 4.2e-45, or a large int as another number."""
    size = data.draw(st.sampled_from(sorted(FLOAT_FORMAT)))
    value = data.draw(st.one_of(st.integers(-3000, 3000), st.integers(-(1 << 130), 1 << 130), st.integers(-1, 1)))
    value <<= data.draw(st.integers(0, 1100))
    form = FLOAT_FORMAT[size]
    try:
        expected = bits(form, value)
        exact = int(struct.unpack("=" + form, expected)[0]) == value
    except (OverflowError, struct.error):
        exact = False
    if exact:
        check_rows([(value, size, FLOAT, expected), (signed(0, value), size, FLOAT, expected)])
    else:
        check_rows([(value, size, FLOAT, ((TypeError, OverflowError), "(is not exact|does not fit)"))])  # type: ignore[list-item]


NO_NUMBER = (TypeError, "a {} cannot fill a parameter of 8 bytes that is {}")
REMEDIES = {
    POINTER: "a pointer; pass an array, a buffer, or an address as an int",
    ADDRESS_OR_INT: "a pointer or an integer; pass an array, a buffer or an int",
}
UNKNOWN_FORMAT = (TypeError, r"a float cannot fill a parameter of 2 bytes .* pass np.float16\(x\) or ml_")
IN_HOST_MEMORY = (TypeError, "in host memory, and the parameter is a pointer of 8; pass an array")
A_STRUCT = (TypeError, "cannot fill a parameter of 4 bytes that is a struct; pass bytes")
NO_COMPLEX = (TypeError, "a complex number cannot fill a parameter of 8 bytes that is")

# What would be broken, and the rows that show it.
CASES: dict[str, list[Row]] = {
    "the error for a huge int would contain all its digits, or exceed Python's limit on digits": [
        (1 << 1_000_000, 8, UNKNOWN, (OverflowError, "an int of 1000001 bits does not fit a parameter of 8 bytes")),
    ],
    "a float given for a `char` would store one byte of its binary form": [
        (1.5, 1, UNKNOWN, (TypeError, "a float cannot fill a parameter of 1 byte; pass bytes of exactly 1 byte")),
    ],
    "a complex number would lose its imaginary part, or its precision": [
        (1.5 - 2.5j, 8, UNKNOWN, bits("ff", 1.5, -2.5)),
        (0.1 + 0.2j, 16, UNKNOWN, bits("dd", 0.1, 0.2)),
        (1 + 1e300j, 8, UNKNOWN, (OverflowError, r"1e\+300 does not fit a parameter of 4 bytes")),
    ],
    "an int that a float cannot represent would be rounded": [
        ((1 << 24) + 2, 4, FLOAT, bits("f", (1 << 24) + 2)),
        ((1 << 24) + 1, 4, FLOAT, (TypeError, "16777217 is not exact as a floating-point number of 4 bytes")),
        (1 << 4000, 8, FLOAT, (TypeError, "an int of 4001 bits is not exact")),
        (1 << 16, 2, FLOAT, (OverflowError, r"does not fit a parameter of 2 bytes \(binary16\)")),
        (True, 8, FLOAT, bits("d", 1.0)),
    ],
    "a float instead of an array would become an address: 2.0 would be 0x2": [
        (value, 8, kind, (TypeError, NO_NUMBER[1].format("float", remedy)))
        for kind, remedy in REMEDIES.items()
        for value in (2.0, 1.5, float(1 << 40), 0.0, floating(8, 2.0), floating(4, 2.0))
    ],
    "a bool instead of an array would become an address: 1, or NULL": [
        (make(value), 8, kind, (TypeError, NO_NUMBER[1].format("bool", remedy)))
        for kind, remedy in REMEDIES.items()
        for value in (True, False)
        for make in (bool, numpy_bool, ctypes_bool)
    ],
    "a bool would be refused as an integer": [
        (value, 8, (*INTEGERS, UNKNOWN), bits("Q", value)) for value in (True, False)
    ],
    "2 given to a `bool` would be neither true nor false": [
        *((value, 1, BOOL, b"\1") for value in (True, 1, 1.0, signed(4, 1))),
        *((value, 1, BOOL, b"\0") for value in (numpy_bool(False), 0)),
        *((n, 1, BOOL, (OverflowError, rf"{n} does not fit a parameter of 1 byte \(0 to 1\)")) for n in (2, -1, 255)),
    ],
    "a scalar would be converted by guessing, or an int be a pointer": [
        *(
            (value, size, kinds, (TypeError, f"Quantity has {has} bytes, but the parameter has {size}{more}"))
            for value, has, size in ((floating(8, 1), 8, 4), (signed(8, 1), 8, 4), (unsigned(4, 1), 4, 8))
            for kinds, more in ((UNKNOWN, "; pass a Python number, such as value.item"), (BYTES, ""))
        ),
        (
            signed(4, 5),
            8,
            POINTER,
            (TypeError, "Quantity has 4 bytes, but the parameter is a pointer of 8; pass an array"),
        ),
        (signed(4, 5), 8, ADDRESS_OR_INT, bits("Q", 5)),
    ],
    "a number given to an `__nv_bfloat16` would be a `__half`": [
        *(
            (value, 2, BFLOAT, bits("H", (word + 0x7FFF + (word >> 16 & 1)) >> 16))
            for value in (0.0, -0.0, 1.0, -2.5, 3.0, 2.0**127, 2.0**-126, 2.0**-133, 1 + 2**-7, 1e-41)
            for word in struct.unpack("=I", bits("f", value))
        ),
        (256, 2, BFLOAT, bits("H", 0x4380)),
        (math.inf, 2, BFLOAT, bits("H", 0x7F80)),
        (257, 2, BFLOAT, (TypeError, "257 is not exact as a bfloat16 of 2 bytes")),
        (3.4e38, 2, BFLOAT, (OverflowError, r"3.4e\+38 does not fit a parameter of 2 bytes \(bfloat16\)")),
        (floating(2, 1 + 2**-10), 2, BFLOAT, bits("H", 0x3F80)),  # rounded, as a Python float is
        (floating(2, 1 + 2**-10), 2, FLOAT, bits("e", 1 + 2**-10)),
        (floating(0, 1.5), 2, BFLOAT, bits("H", 0x3FC0)),
    ],
    "a complex number would fill a `double` with two floats": [
        (1j, 8, (FLOAT, INT, UINT, *POINTERS), NO_COMPLEX),
        (1j, 8, BYTES, bits("ff", 0, 1)),
    ],
    "a pointer given to a number would arrive as an address": [
        *(
            (value, size, kinds, (TypeError, f"pointer of 8 bytes, but the parameter of {size} is a"))
            for value in (None, Address(ADDRESS))
            for size, kinds in ((8, FLOAT), (4, (FLOAT, *INTEGERS)), (1, BOOL), (2, BFLOAT), (12, BYTES))
        ),
        (None, 8, (*POINTERS, UNKNOWN, BYTES), bytes(8)),
        (Address(ADDRESS), 8, (*POINTERS, UNKNOWN, BYTES), bits("Q", ADDRESS)),
    ],
    "an address could not be given to an `unsigned long long`": [
        (Address(ADDRESS), 8, (INT, UINT), bits("Q", ADDRESS)),
        (None, 8, (INT, UINT), (TypeError, "None is a null pointer of 8 bytes, but the parameter of 8 is a")),
        (ADDRESS, 8, POINTER, bits("Q", ADDRESS)),
    ],
    "a number given to a struct of its size would fill the bytes of the struct": [
        *((value, 4, BYTES, (TypeError, "an int " + A_STRUCT[1])) for value in (1, True, signed(0, 1))),
        (1.5, 4, BYTES, (TypeError, "a float " + A_STRUCT[1])),
        (b"1234", 4, BYTES, b"1234"),
        (floating(4, 1.5), 4, BYTES, bits("f", 1.5)),
        (signed(4, -5), 4, BYTES, bits("i", -5)),
    ],
    "a float for two bytes of unknown format would be 0.125 instead of 1.5": [
        (1.5, 2, (BYTES, UNKNOWN), UNKNOWN_FORMAT),
        (floating(0, 1.5), 2, (BYTES, UNKNOWN), UNKNOWN_FORMAT),
        (floating(2, 1.5), 2, (BYTES, UNKNOWN), bits("e", 1.5)),  # its bytes are passed
    ],
    "eight bytes of text would be used as an address": [
        (value, 8, POINTERS, IN_HOST_MEMORY) for value in (b"12345678", bytearray(8), memoryview(bytes(8)), b"1")
    ],
    "np.float64(0.1) would be refused by a `float`, or arrive as infinity": [
        *(
            (floating(own, 0.1), size, FLOAT, bits(form, 0.1))
            for own in FLOAT_FORMAT
            for size, form in FLOAT_FORMAT.items()
        ),
        (floating(8, 1e300), 4, FLOAT, (OverflowError, r"1e\+300 does not fit a parameter of 4 bytes \(binary32\)")),
    ],
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
def test_conversions(rows: list[Row]) -> None:
    """A value would reach the kernel as another one, or the error would not explain why it does not fit."""
    check_rows(rows)


@pytest.mark.parametrize("size", INT_SIZES)
def test_floats_and_signs(size: int) -> None:
    """3.5 given to an `int` would arrive as 3, or a negative number would wrap around in an `unsigned`."""
    high, integer = (1 << 8 * size) - 1, f"is not an integer, and the parameter of {size} bytes is an? "
    fits = f"does not fit a parameter of {size} byte"
    five = (5).to_bytes(size, sys.byteorder)
    check_rows([
        (3.0, size, INTEGERS, (3).to_bytes(size, sys.byteorder)),
        (-0.0, size, INTEGERS, bytes(size)),
        *((n, size, INTEGERS, (TypeError, f"{n} {integer}")) for n in (3.5, math.inf, -math.inf, math.nan, 5e-324)),
        (2.0**64, size, INTEGERS, (OverflowError, "does not fit a parameter of")),
        (-1, size, (BITS, INT), b"\xff" * size),
        (high, size, (BITS, UINT), b"\xff" * size),
        (-1, size, UINT, (OverflowError, rf"-1 {fits}.* \(0 to {high}\)")),
        (high, size, INT, (OverflowError, f"{high} {fits}")),
        (signed(size, -1), size, UINT, (OverflowError, "-1 does not fit")),
        (unsigned(size, high), size, INT, (OverflowError, f"{high} does not fit")),
        (signed(size, 5), size, UINT, five),
    ])  # fmt: skip


@pytest.mark.parametrize(("size", "form"), FLOAT_FORMAT.items())
def test_scalars_of_other_sorts(size: int, form: str) -> None:
    """An integer scalar given to a `float`, or a float scalar given to an `int`, would arrive as its bits."""
    check_rows([
        *((value, size, FLOAT, bits(form, 1.0)) for value in (signed(4, 1), unsigned(8, 1), numpy_bool(True))),
        (floating(size, 7.0), 4, INT, bits("i", 7)),
        (floating(size, 7.5), 4, INT, (TypeError, "7.5 is not an integer")),
        (signed(8, (1 << 53) + 1), size, FLOAT, (TypeError, "is not exact as a floating-point number")),
    ])  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("size", INT_SIZES)
@pytest.mark.parametrize("own", INT_SIZES)
def test_integer_scalars_of_another_size(kind: int, size: int, own: int) -> None:
    """A NumPy integer would be refused for an `int` parameter, or a value that does not fit would be truncated."""
    seven = (7).to_bytes(size, sys.byteorder)
    check_rows([(signed(own, 7), size, kind, seven), (unsigned(own, 7), size, kind, seven)])
    for value in (-(1 << 8 * own - 1), (1 << 8 * own - 1) - 1):
        try:
            expected: Any = one(value, size, kind)
        except OverflowError:
            expected = (OverflowError, f"{value} does not fit a parameter of {size} byte")
        check_rows([(signed(own, value), size, kind, expected)])


@settings(deadline=None)  # a busy machine can be slow
@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from([UNKNOWN, *POINTERS]))))
def test_addresses_take_the_short_way(params: list[tuple[int, int]]) -> None:
    """Integers for pointers would be packed differently if all arguments are such integers."""
    where = b"".join(struct.pack("=3I", 8 * i, 8, kind) for i, (_, kind) in enumerate(params))
    values = tuple(value for value, _ in params)
    expected = b"".join(value.to_bytes(8, sys.byteorder, signed=value < 0) for value in values)
    assert _native.pack(where, values) == expected


def test_the_short_way_is_for_addresses_only() -> None:
    """A bool after an int, or an int for a `double` between pointers, would be packed as an address."""
    where = struct.pack("=9I", 0, 8, POINTER, 8, 8, FLOAT, 16, 8, UINT)
    assert _native.pack(where, (1, 2, 3)) == struct.pack("=QdQ", 1, 2.0, 3)
    with pytest.raises(OverflowError, match="argument 2: -1 does not fit"):
        _native.pack(where, (1, 2, -1))
    for kind, remedy in REMEDIES.items():
        with pytest.raises(TypeError, match="argument 1: " + NO_NUMBER[1].format("bool", remedy)):
            _native.pack(struct.pack("=6I", 0, 8, POINTER, 8, 8, kind), (ADDRESS, True))
