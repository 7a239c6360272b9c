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
    INT,
    INT_SIZES,
    POINTER,
    UINT,
    UNKNOWN,
    Address,
    one,
    quantity,
)

from cudacore_handles import _native

INTEGERS = (INT, UINT, BITS)
FLOATS = {(4, FLOAT): "f", (8, FLOAT): "d", (2, FLOAT): "e"}


@settings(deadline=None)  # a busy machine can be slow
@given(st.data())
def test_int_for_a_float(data: st.DataObject) -> None:
    """3 given to a `float` would arrive as 4.2e-45, or a large int as another number."""
    size, kind = data.draw(st.sampled_from(sorted(FLOATS)))
    value = data.draw(st.one_of(st.integers(-3000, 3000), st.integers(-(1 << 130), 1 << 130), st.integers(-1, 1)))
    value <<= data.draw(st.integers(0, 1100))
    form = "=" + FLOATS[size, kind]
    try:
        expected = struct.pack(form, value)
        exact = int(struct.unpack(form, expected)[0]) == value
    except (OverflowError, struct.error):
        exact = False
    if exact:
        assert one(value, size, kind) == expected
        assert one(quantity(_native.SIGNED, value), size, kind) == expected
    else:
        with pytest.raises((TypeError, OverflowError), match=r"^argument 0: .*(is not exact|does not fit)"):
            one(value, size, kind)


def test_int_that_is_no_float_is_an_error() -> None:
    """An int that a floating-point parameter cannot represent exactly would be rounded silently."""
    assert one((1 << 24) + 2, 4, FLOAT) == struct.pack("=f", (1 << 24) + 2)
    with pytest.raises(TypeError, match=r"16777217 is not exact as a floating-point number of 4 bytes"):
        one((1 << 24) + 1, 4, FLOAT)
    with pytest.raises(TypeError, match=r"^argument 0: an int of 4001 bits is not exact"):
        one(1 << 4000, 8, FLOAT)
    with pytest.raises(OverflowError, match=r"does not fit a parameter of 2 bytes \(binary16\)"):
        one(1 << 16, 2, FLOAT)
    assert one(True, 8, FLOAT) == struct.pack("=d", 1.0)


@pytest.mark.parametrize("size", INT_SIZES)
@pytest.mark.parametrize("kind", INTEGERS)
def test_float_for_an_integer(size: int, kind: int) -> None:
    """3.0 given to an `int` would arrive as 1077936128, or 3.5 as 3."""
    assert one(3.0, size, kind) == (3).to_bytes(size, sys.byteorder)
    assert one(-0.0, size, kind) == bytes(size)
    for value in (3.5, math.inf, -math.inf, math.nan, 5e-324):
        with pytest.raises(TypeError, match=rf"{value} is not an integer, and the parameter of {size} bytes is an? "):
            one(value, size, kind)
    with pytest.raises(OverflowError, match=r"does not fit a parameter of"):
        one(2.0**64, size, kind)


MAY_BE_POINTERS = {
    POINTER: "a pointer; pass an array, a buffer, or an address as an int",
    ADDRESS_OR_INT: "a pointer or an integer; pass an array, a buffer or an int",
}


@pytest.mark.parametrize(("kind", "remedy"), MAY_BE_POINTERS.items())
def test_float_for_an_address(kind: int, remedy: str) -> None:
    """A float instead of an array would become an address from which the kernel reads: 2.0 would be 0x2."""
    values = (
        2.0,
        1.5,
        float(1 << 40),
        0.0,
        quantity(_native.FLOAT | 8 << 8, 2.0),
        quantity(_native.FLOAT | 4 << 8, 2.0),
    )
    for value in values:
        with pytest.raises(TypeError, match=f"a float cannot fill a parameter of 8 bytes that is {remedy}"):
            one(value, 8, kind)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(("kind", "remedy"), MAY_BE_POINTERS.items())
def test_bool_for_a_pointer(value: bool, kind: int, remedy: str) -> None:
    """A bool instead of an array would become an address from which the kernel reads: 1, or NULL."""
    refused = f"a bool cannot fill a parameter of 8 bytes that is {remedy}"
    with pytest.raises(TypeError, match=refused):
        one(value, 8, kind)
    # The value comes after an int for a pointer, because a separate loop packs such ints.
    with pytest.raises(TypeError, match=f"argument 1: {refused}"):
        _native.pack(struct.pack("=6I", 0, 8, POINTER, 8, 8, kind), (ADDRESS, value))
    for code in (_native.BOOL | 1 << 8, _native.BOOL | 1 << 8 | _native.HAS_VALUE):  # the bools of NumPy and of ctypes
        with pytest.raises(TypeError, match=refused):
            one(quantity(code, value), 8, kind)
    for integer in (UINT, INT, BITS, UNKNOWN):
        assert one(value, 8, integer) == struct.pack("=Q", value)


@pytest.mark.parametrize("size", INT_SIZES)
def test_signs(size: int) -> None:
    """A negative number would wrap around in an `unsigned`, or a large number would become negative in an `int`."""
    high = (1 << 8 * size) - 1
    assert one(-1, size, BITS) == one(high, size, BITS) == one(-1, size, INT) == one(high, size, UINT) == b"\xff" * size
    with pytest.raises(OverflowError, match=rf"-1 does not fit a parameter of {size} byte.* \(0 to {high}\)"):
        one(-1, size, UINT)
    with pytest.raises(OverflowError, match=rf"{high} does not fit a parameter of {size} byte"):
        one(high, size, INT)
    with pytest.raises(OverflowError, match=r"-1 does not fit"):
        one(quantity(_native.SIGNED | size << 8, -1), size, UINT)
    with pytest.raises(OverflowError, match=rf"{high} does not fit"):
        one(quantity(_native.UNSIGNED | size << 8, high), size, INT)
    assert one(quantity(_native.SIGNED | size << 8, 5), size, UINT) == (5).to_bytes(size, sys.byteorder)


def test_bool_parameter() -> None:
    """2 given to a `bool` would be neither true nor false."""
    assert one(True, 1, BOOL) == one(1, 1, BOOL) == one(1.0, 1, BOOL) == b"\1"
    assert one(quantity(_native.BOOL | 1 << 8, False), 1, BOOL) == one(0, 1, BOOL) == b"\0"
    assert one(quantity(_native.SIGNED | 4 << 8, 1), 1, BOOL) == b"\1"
    for value in (2, -1, 255):
        with pytest.raises(OverflowError, match=rf"{value} does not fit a parameter of 1 byte \(0 to 1\)"):
            one(value, 1, BOOL)


@pytest.mark.parametrize(("size", "form"), [(4, "=f"), (8, "=d"), (2, "=e")])
def test_scalars_of_other_sorts(size: int, form: str) -> None:
    """An integer scalar given to a `float`, or a float scalar given to an `int`, would arrive as its bits."""
    for code, value in ((_native.SIGNED | 4 << 8, 1), (_native.UNSIGNED | 8 << 8, 1), (_native.BOOL | 1 << 8, True)):
        assert one(quantity(code, value), size, FLOAT) == struct.pack(form, 1.0)
    assert one(quantity(_native.FLOAT | size << 8, 7.0), 4, INT) == struct.pack("=i", 7)
    with pytest.raises(TypeError, match=r"7.5 is not an integer"):
        one(quantity(_native.FLOAT | size << 8, 7.5), 4, INT)
    with pytest.raises(TypeError, match=r"is not exact as a floating-point number"):
        one(quantity(_native.SIGNED | 8 << 8, (1 << 53) + 1), size, FLOAT)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("size", INT_SIZES)
@pytest.mark.parametrize("own", INT_SIZES)
def test_integer_scalars_of_another_size(kind: int, size: int, own: int) -> None:
    """A NumPy integer would be refused for an `int` parameter, or a value that does not fit would be truncated."""
    for code in (_native.SIGNED | own << 8, _native.UNSIGNED | own << 8):
        assert one(quantity(code, 7), size, kind) == (7).to_bytes(size, sys.byteorder)
    for value in (-(1 << 8 * own - 1), (1 << 8 * own - 1) - 1):
        try:
            expected = one(value, size, kind)
        except OverflowError:
            with pytest.raises(OverflowError, match=rf"{value} does not fit a parameter of {size} byte"):
                one(quantity(_native.SIGNED | own << 8, value), size, kind)
        else:
            assert one(quantity(_native.SIGNED | own << 8, value), size, kind) == expected


def test_float_scalars_of_another_size() -> None:
    """np.float64(0.1), which NumPy's functions return, would be refused by a `float`, or arrive as infinity."""
    for own in (2, 4, 8):
        for size, form in ((2, "=e"), (4, "=f"), (8, "=d")):
            assert one(quantity(_native.FLOAT | own << 8, 0.1), size, FLOAT) == struct.pack(form, 0.1)
    with pytest.raises(OverflowError, match=r"1e\+300 does not fit a parameter of 4 bytes \(binary32\)"):
        one(quantity(_native.FLOAT | 8 << 8, 1e300), 4, FLOAT)


def test_scalars_keep_their_size_where_nothing_is_known() -> None:
    """A scalar for a parameter of unknown kind would be converted by guessing, or an int be accepted as a pointer."""
    for code, size in ((_native.FLOAT | 8 << 8, 4), (_native.SIGNED | 8 << 8, 4), (_native.UNSIGNED | 4 << 8, 8)):
        has = rf"Quantity has {code >> 8} bytes, but the parameter has {size}"
        with pytest.raises(
            TypeError,
            match=has + "; pass a Python number, such as value.item",
        ):
            one(quantity(code, 1), size, UNKNOWN)
        with pytest.raises(TypeError, match=has):
            one(quantity(code, 1), size, BYTES)
    narrow = quantity(_native.SIGNED | 4 << 8, 5)
    with pytest.raises(TypeError, match="Quantity has 4 bytes, but the parameter is a pointer of 8; pass an array"):
        one(narrow, 8, POINTER)
    assert one(narrow, 8, ADDRESS_OR_INT) == struct.pack("=Q", 5)


def test_bfloat16() -> None:
    """A number given to an `__nv_bfloat16` would arrive in the format of a `__half`."""
    for value in (0.0, -0.0, 1.0, -2.5, 3.0, 2.0**127, 2.0**-126, 2.0**-133, 1 + 2**-7, 1e-41):
        bits = int.from_bytes(struct.pack("=f", value), sys.byteorder)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        assert one(value, 2, BFLOAT) == struct.pack("=H", rounded), value
    assert one(256, 2, BFLOAT) == struct.pack("=H", 0x4380)
    assert one(math.inf, 2, BFLOAT) == struct.pack("=H", 0x7F80)
    with pytest.raises(TypeError, match=r"257 is not exact as a bfloat16 of 2 bytes"):
        one(257, 2, BFLOAT)
    with pytest.raises(OverflowError, match=r"3.4e\+38 does not fit a parameter of 2 bytes \(bfloat16\)"):
        one(3.4e38, 2, BFLOAT)


def test_half_for_a_bfloat16() -> None:
    """A `half` scalar would arrive as its bits, which are another number in the format of the parameter."""
    half = quantity(_native.FLOAT | 2 << 8, 1 + 2**-10)
    assert one(half, 2, BFLOAT) == struct.pack("=H", 0x3F80), "rounded, as a Python float is"
    assert one(half, 2, FLOAT) == struct.pack("=e", 1 + 2**-10)
    # A number without a format of its own.
    assert one(quantity(_native.FLOAT, 1.5), 2, BFLOAT) == struct.pack("=H", 0x3FC0)


def test_complex_for_a_number_is_an_error() -> None:
    """A complex number would fill a `double` with two floats."""
    for kind in (FLOAT, INT, UINT, ADDRESS_OR_INT, POINTER):
        with pytest.raises(TypeError, match="a complex number cannot fill a parameter of 8 bytes that is"):
            one(1j, 8, kind)
    assert one(1j, 8, BYTES) == struct.pack("=ff", 0, 1)


@pytest.mark.parametrize("value", [None, "address"])
def test_pointers_are_no_numbers(value: Any) -> None:
    """A pointer given to a `double`, an `int` or a `bool` would arrive as an address, or a part of it."""
    value = Address(ADDRESS) if value else None
    for size, kind in ((8, FLOAT), (4, FLOAT), (4, INT), (4, UINT), (4, BITS), (1, BOOL), (2, BFLOAT), (12, BYTES)):
        with pytest.raises(TypeError, match=rf"pointer of 8 bytes, but the parameter of {size} is a"):
            one(value, size, kind)
    for kind in (POINTER, ADDRESS_OR_INT, UNKNOWN, BYTES):
        assert one(value, 8, kind) == struct.pack("=Q", ADDRESS if value else 0)


def test_addresses_as_integers() -> None:
    """A buffer could not be given to an `unsigned long long` that holds an address, or None would arrive there as 0."""
    for kind in (INT, UINT):
        assert one(Address(ADDRESS), 8, kind) == struct.pack("=Q", ADDRESS)
        with pytest.raises(TypeError, match="None is a null pointer of 8 bytes, but the parameter of 8 is a"):
            one(None, 8, kind)
    assert one(ADDRESS, 8, POINTER) == struct.pack("=Q", ADDRESS)


def test_numbers_for_structs() -> None:
    """A Python number given to a struct of the same size would fill the struct's bytes."""
    for value, what in ((1, "an int"), (True, "an int"), (1.5, "a float"), (quantity(_native.SIGNED, 1), "an int")):
        with pytest.raises(TypeError, match=rf"{what} cannot fill a parameter of 4 bytes that is a struct; pass bytes"):
            one(value, 4, BYTES)
    assert one(b"1234", 4, BYTES) == b"1234"
    assert one(quantity(_native.FLOAT | 4 << 8, 1.5), 4, BYTES) == struct.pack("=f", 1.5)
    assert one(quantity(_native.SIGNED | 4 << 8, -5), 4, BYTES) == struct.pack("=i", -5)


@pytest.mark.parametrize("kind", [BYTES, UNKNOWN])
def test_floats_for_two_bytes_of_unknown_format(kind: int) -> None:
    """A float given to an `__nv_bfloat16` of an `extern "C"` kernel would arrive as 0.125 instead of 1.5."""
    for value in (1.5, quantity(_native.FLOAT, 1.5)):
        with pytest.raises(
            TypeError, match=r"a float cannot fill a parameter of 2 bytes .* pass np.float16\(x\) or ml_"
        ):
            one(value, 2, kind)
    half = quantity(_native.FLOAT | 2 << 8, 1.5)  # its bytes are passed
    assert one(half, 2, kind) == struct.pack("=e", 1.5)


@pytest.mark.parametrize("kind", [POINTER, ADDRESS_OR_INT])
def test_bytes_are_no_pointers(kind: int) -> None:
    """Eight bytes of text would be used as an address."""
    for value in (b"12345678", bytearray(8), memoryview(bytes(8)), b"1"):
        with pytest.raises(TypeError, match="in host memory, and the parameter is a pointer of 8; pass an array"):
            one(value, 8, kind)


@settings(deadline=None)  # a busy machine can be slow
@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from([UNKNOWN, POINTER, ADDRESS_OR_INT]))))
def test_addresses_take_the_short_way(params: list[tuple[int, int]]) -> None:
    """Integers for pointers would be packed differently if all arguments are such integers."""
    where = b"".join(struct.pack("=3I", 8 * i, 8, kind) for i, (_, kind) in enumerate(params))
    values = tuple(value for value, _ in params)
    expected = b"".join(value.to_bytes(8, sys.byteorder, signed=value < 0) for value in values)
    assert _native.pack(where, values) == expected


def test_the_short_way_is_for_addresses_only() -> None:
    """An int given to a `double` between pointers would be packed as an address."""
    where = struct.pack("=9I", 0, 8, POINTER, 8, 8, FLOAT, 16, 8, UINT)
    assert _native.pack(where, (1, 2, 3)) == struct.pack("=QdQ", 1, 2.0, 3)
    with pytest.raises(OverflowError, match="argument 2: -1 does not fit"):
        _native.pack(where, (1, 2, -1))
