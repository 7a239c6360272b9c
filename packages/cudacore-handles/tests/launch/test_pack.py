# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import importlib.util
import itertools
import math
import random
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudacore_handles import _native
from cudacore_handles._launch import argtypes
from threads_at_once import in_threads

INT_SIZES = (1, 2, 4, 8)
SIGNED_FORMAT = {1: "b", 2: "h", 4: "i", 8: "q"}
UNSIGNED_FORMAT = {1: "B", 2: "H", 4: "I", 8: "Q"}
FLOAT_FORMAT = {2: "e", 4: "f", 8: "d"}
UNKNOWN, INT, UINT, BITS, BOOL, FLOAT, BFLOAT, POINTER, ADDRESS_OR_INT, BYTES = range(10)  # param_kind of native.h
ADDRESS = 0x7F12_3456_7800


def layout(*sizes: int, align: int = 16) -> bytes:
    """Lay parameters out as a C compiler does, each at a multiple of its size (at most `align`)."""
    end, params = 0, []
    for size in sizes:
        step = min(size & -size, align)
        offset = (end + step - 1) // step * step
        params += [offset, size, UNKNOWN]
        end = offset + size
    return struct.pack(f"={len(params)}I", *params)


def one(value: Any, size: int, kind: int = UNKNOWN) -> bytes:
    return _native.pack(struct.pack("=3I", 0, size, kind), (value,))


class Address:
    """A registered object with an address, as the package's own buffers are."""

    __slots__ = ("__weakref__", "_ptr")

    def __init__(self, ptr: Any) -> None:
        self._ptr = ptr


_native.register(Address, _native.POINTER)


@pytest.fixture
def resolver() -> Iterator[Callable[..., None]]:
    """Set another resolver for the time of a test."""
    yield _native.set_resolver
    _native.set_resolver(argtypes.resolve)


# ---- numbers


@settings(deadline=None)  # a busy machine can be slow
@given(st.data())
def test_int_takes_the_size_of_its_parameter(data: st.DataObject) -> None:
    """An int would arrive truncated, sign-flipped or in the neighbouring parameter."""
    size = data.draw(st.sampled_from(INT_SIZES))
    value = data.draw(st.integers(-(1 << 8 * size - 1), (1 << 8 * size) - 1))
    form = SIGNED_FORMAT if value < 0 else UNSIGNED_FORMAT
    assert one(value, size) == struct.pack("=" + form[size], value)


@pytest.mark.parametrize("size", INT_SIZES)
def test_int_that_does_not_fit_is_an_error(size: int) -> None:
    """An int too large for its parameter would reach the kernel as garbage."""
    low, high = -(1 << 8 * size - 1), (1 << 8 * size) - 1
    assert one(low, size) == struct.pack("=" + SIGNED_FORMAT[size], low)
    assert one(high, size) == b"\xff" * size
    for value in (low - 1, high + 1, 1 << 63, 1 << 64, -(1 << 64), 1 << 100):
        if low <= value <= high:
            continue
        with pytest.raises(OverflowError, match=rf"argument 0: {value} does not fit a parameter of {size} byte"):
            one(value, size)


def test_huge_int_error_does_not_print_it() -> None:
    """The message of a huge int would take a megabyte, or fail by Python's own limit on digits."""
    with pytest.raises(OverflowError, match=r"^argument 0: an int of 1000001 bits does not fit a parameter of 8 bytes"):
        one(1 << 1_000_000, 8)


@pytest.mark.parametrize("size", INT_SIZES)
def test_bool_is_an_int(size: int) -> None:
    """True would not reach a `bool` or `int` parameter."""
    assert one(True, size) == (1).to_bytes(size, sys.byteorder)
    assert one(False, size) == bytes(size)


@pytest.mark.parametrize(
    ("value", "name"), [(1, "an int"), (True, "an int"), (1.0, "a float"), (1j, "a complex number")]
)
def test_number_for_a_struct_is_an_error(value: complex, name: str) -> None:
    """A number given for a struct would fill a part of it."""
    with pytest.raises(TypeError, match=rf"^argument 0: {name} cannot fill .* pass bytes of exactly 12 bytes$"):
        one(value, 12)


@settings(deadline=None)  # a busy machine can be slow
@given(st.floats(), st.sampled_from([4, 8]))
def test_float_takes_the_size_of_its_parameter(value: float, size: int) -> None:
    """A Python float would arrive as 0.0 in a `float` parameter."""
    try:
        expected = struct.pack("=" + FLOAT_FORMAT[size], value)
    except OverflowError:
        with pytest.raises(OverflowError, match=r"^argument 0: .* does not fit a parameter of 4 bytes \(binary32\)"):
            one(value, size)
    else:
        assert one(value, size) == expected or math.isnan(value)


def test_every_half_and_every_tie_between_halves() -> None:
    """A float would be rounded wrongly in a `half` parameter."""
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves[-1] = 65536.0  # the bound from which rounding gives infinity
    ties = (halves[:-1] + halves[1:]) / 2
    values = np.concatenate([halves[:-1], ties[:-1], np.nextafter(ties[:-1], 0), np.nextafter(ties, np.inf)[:-1]])
    for value in itertools.chain(values.tolist(), (-values).tolist()):
        assert one(value, 2) == struct.pack("=e", value)
    assert one(math.nextafter(ties[-1], 0), 2) == struct.pack("=e", 65504.0)
    for value in (ties[-1].item(), 1e5, -1e5, 1e300):
        with pytest.raises(OverflowError, match="binary16"):
            one(value, 2)


@settings(deadline=None)  # a busy machine can be slow
@given(st.floats(allow_nan=False))
def test_half_of_any_double(value: float) -> None:
    """Tiny or large doubles would hit an undefined shift on their way to binary16."""
    try:
        expected = struct.pack("=e", value)
    except OverflowError:
        with pytest.raises(OverflowError):
            one(value, 2)
    else:
        assert one(value, 2) == expected


@pytest.mark.parametrize("size", [2, 4, 8])
def test_infinity_and_nan_pass(size: int) -> None:
    """Infinity would be treated as an overflow, or NaN would become infinity."""
    form = "=" + FLOAT_FORMAT[size]
    assert one(math.inf, size) == struct.pack(form, math.inf)
    assert one(-math.inf, size) == struct.pack(form, -math.inf)
    assert math.isnan(struct.unpack(form, one(math.nan, size))[0])
    payload = struct.unpack("=d", struct.pack("=Q", 0x7FF0_0000_0000_0001))[0]  # a NaN whose payload does not fit
    assert math.isnan(struct.unpack(form, one(payload, size))[0])


def test_float_for_a_parameter_of_one_byte_is_an_error() -> None:
    """A float given for a `char` would store one byte of its binary form."""
    with pytest.raises(TypeError, match=r"a float cannot fill a parameter of 1 byte; pass bytes of exactly 1 byte"):
        one(1.5, 1)


def test_complex_is_two_floats() -> None:
    """A complex would lose its imaginary part, or its precision."""
    assert one(1.5 - 2.5j, 8) == struct.pack("=ff", 1.5, -2.5)
    assert one(0.1 + 0.2j, 16) == struct.pack("=dd", 0.1, 0.2)
    with pytest.raises(OverflowError, match=r"1e\+300 does not fit a parameter of 4 bytes"):
        one(1 + 1e300j, 8)


def test_none_is_a_null_pointer() -> None:
    """None would not be a null pointer, or fill an int."""
    assert one(None, 8) == bytes(8)
    with pytest.raises(TypeError, match="argument 0: None is a null pointer of 8 bytes, but the parameter has 4"):
        one(None, 4)


# ---- numbers for parameters whose kinds are known

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
    """An int would be rounded silently."""
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
    # after ints, which are packed in a separate loop
    with pytest.raises(TypeError, match=f"argument 1: {refused}"):
        _native.pack(struct.pack("=6I", 0, 8, POINTER, 8, 8, kind), (ADDRESS, value))
    for code in (_native.BOOL | 1 << 8, _native.BOOL | 1 << 8 | _native.HAS_VALUE):  # the bools of NumPy and of ctypes
        with pytest.raises(TypeError, match=refused):
            one(quantity(code, value), 8, kind)
    for integer in (UINT, INT, BITS, UNKNOWN):
        assert one(value, 8, integer) == struct.pack("=Q", value)


@pytest.mark.parametrize("size", INT_SIZES)
def test_signs(size: int) -> None:
    """A negative number would wrap around in an `unsigned`, or a large one turn negative in an `int`."""
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
    """An integer scalar given to a `float` would arrive as its bits, and a float scalar given to an `int`, too."""
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
    """np.int64(7), which NumPy's functions return, would be refused by an `int`, or truncated if it does not fit."""
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
    """A scalar would be converted to a guessed kind, or a misplaced integer become an address."""
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
    assert one(quantity(_native.FLOAT, 1.5), 2, BFLOAT) == struct.pack("=H", 0x3FC0)  # it does not have its own format


def test_complex_for_a_number_is_an_error() -> None:
    """A complex would fill a `double` with two floats."""
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
    """A kernel that takes an address as an `unsigned long long` could not be given a buffer; None would pass for 0."""
    for kind in (INT, UINT):
        assert one(Address(ADDRESS), 8, kind) == struct.pack("=Q", ADDRESS)
        with pytest.raises(TypeError, match="None is a null pointer of 8 bytes, but the parameter of 8 is a"):
            one(None, 8, kind)
    assert one(ADDRESS, 8, POINTER) == struct.pack("=Q", ADDRESS)


def test_numbers_for_structs() -> None:
    """A Python number given to a struct of its size would arrive as something else than its members."""
    for value, what in ((1, "an int"), (True, "an int"), (1.5, "a float"), (quantity(_native.SIGNED, 1), "an int")):
        with pytest.raises(TypeError, match=rf"{what} cannot fill a parameter of 4 bytes that is a struct; pass bytes"):
            one(value, 4, BYTES)
    assert one(b"1234", 4, BYTES) == b"1234"
    assert one(quantity(_native.FLOAT | 4 << 8, 1.5), 4, BYTES) == struct.pack("=f", 1.5)
    assert one(quantity(_native.SIGNED | 4 << 8, -5), 4, BYTES) == struct.pack("=i", -5)
    assert one(1.5, 2, BYTES) == struct.pack("=e", 1.5), "a __half, whose header's class is not named"


@pytest.mark.parametrize("kind", [INT, FLOAT, POINTER, BYTES, BOOL])
def test_bytes_fill_any_kind(kind: int) -> None:
    """Packed values could not be passed on."""
    assert one(b"12345678", 8, kind) == b"12345678"


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


# ---- bytes


def test_memoryview_of_the_other_byte_order() -> None:
    """Big-endian numbers would arrive with their bytes swapped."""
    view = memoryview(np.array([1, 2, 3], dtype=">i4"))
    with pytest.raises(TypeError, match=r"argument 0: memoryview is big-endian; convert it to native byte order"):
        one(view, 12)
    assert one(view.cast("B"), 12) == struct.pack(">iii", 1, 2, 3)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, np.bytes_, np.void])
def test_bytes_for_a_bool(make: Callable[[bytes], Any]) -> None:
    """b"x" given to a `bool` would be neither true nor false."""
    assert [one(make(value), 1, BOOL) for value in (b"\0", b"\1")] == [b"\0", b"\1"]
    with pytest.raises(ValueError, match=r"has the byte 120, which is neither true nor false; pass True or False"):
        one(make(b"x"), 1, BOOL)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [1, 3, 8, 12, 4096])
def test_bytes_fill_a_struct_exactly(make: Callable[[bytes], Any], size: int) -> None:
    """A struct passed by value would be cut off or padded with garbage."""
    data = bytes(range(256)) * 17
    assert one(make(data[:size]), size) == data[:size]
    for wrong in (0, size - 1, size + 1):
        with pytest.raises(TypeError, match=rf"^argument 0: .* has {wrong} byte.* but the parameter has {size}\b"):
            one(make(data[:wrong]), size)


def test_memoryview_need_not_be_contiguous() -> None:
    """A strided memoryview would be copied with the bytes in between, or a released one would be read."""
    view = memoryview(bytes(range(16)))
    assert one(view[::2], 8) == bytes(range(0, 16, 2))
    view.release()
    with pytest.raises(ValueError, match=r"argument 0: .*released"):
        one(view, 16)


# ---- the block


NUMBERS = st.one_of(
    st.tuples(st.just("b"), st.integers(-128, 127)),
    st.tuples(st.just("H"), st.integers(0, 65535)),
    st.tuples(st.just("i"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("Q"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("f"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("d"), st.floats(allow_nan=False)),
    st.tuples(st.just("P"), st.builds(Address, st.integers(0, 2**64 - 1))),
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(f"{n}s"), st.binary(min_size=n, max_size=n))),
)


@settings(deadline=None)  # a busy machine can be slow
@given(st.lists(NUMBERS, max_size=40))
def test_block_is_what_a_compiler_lays_out(params: list[tuple[str, Any]]) -> None:
    """Values would lie at wrong offsets, or padding carry stale memory."""
    form, places = "@", []
    for letter, _ in params:
        size = struct.calcsize(letter)
        form += letter
        places.append((struct.calcsize(form) - size, size))
    where = b"".join(struct.pack("=3I", *place, UNKNOWN) for place in places)
    values = tuple(v for _, v in params)
    expected = struct.pack(form, *(v._ptr if isinstance(v, Address) else v for v in values))
    assert _native.pack(where, values) == expected


def test_no_parameters() -> None:
    """A kernel without parameters could not be launched."""
    assert _native.pack(b"", ()) == b""


@pytest.mark.parametrize("count", [511, 512, 513, 8192])
def test_blocks_beyond_the_stack(count: int) -> None:
    """Large blocks would overrun the buffer on the stack."""
    values = tuple(range(count))
    expected = struct.pack(f"={count}Q", *values)
    assert _native.pack(layout(*[8] * count), values) == expected
    assert _native.pack(layout(8 * count), (expected,)) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (bytes(8), "layout must be an array of .* not 8 bytes"),
        (struct.pack("=6I", 8, 8, 0, 0, 8, 0), "parameter 1 overlaps"),
        (struct.pack("=6I", 0, 8, 0, 4, 8, 0), "parameter 1 overlaps"),
        (struct.pack("=9I", 0, 4, 0, 24, 8, 0, 8, 8, 0), "parameter 2 overlaps"),
        (struct.pack("=3I", 65536, 1, 0), "parameter 0 .* beyond 65536 bytes"),
        (struct.pack("=3I", 0xFFFFFFFF, 0xFFFFFFFF, 0), "parameter 0 .* beyond 65536 bytes"),
        (struct.pack("=3I", 0, 8, 10), "parameter 0 is of kind 10, which is none"),
    ],
)
def test_malformed_layout_is_an_error(where: bytes, message: str) -> None:
    """A malformed layout would write outside of the block."""
    values = (1,) * (len(where) // 12)
    with pytest.raises(ValueError, match=message):
        _native.pack(where, values)


@pytest.mark.parametrize(
    ("sizes", "given_count", "message"),
    [
        ((8, 4, 4, 8, 8), 3, r"takes 5 arguments \(parameter sizes: 8, 4, 4, 8, 8 bytes\) but 3 were given"),
        ((8,), 0, r"takes 1 argument \(parameter size: 8 bytes\) but 0 were given"),
        ((8, 8), 1, r"takes 2 arguments \(parameter sizes: 8, 8 bytes\) but 1 was given"),
        ((), 2, r"takes no arguments but 2 were given"),
        ((8,) * 257, 256, r"takes 257 arguments \(parameter sizes: (8, ){16}\.\.\. bytes\) but 256 were given"),
    ],
)
def test_wrong_count_names_the_parameters(sizes: tuple[int, ...], given_count: int, message: str) -> None:
    """Surplus arguments would be dropped silently, and missing ones read from beyond the block."""
    with pytest.raises(TypeError, match=message):
        _native.pack(layout(*sizes), (1,) * given_count)


@pytest.mark.parametrize("value", ["text", [1], {}, object(), print, int, {1}])
def test_unpackable_value_is_named(value: Any) -> None:
    """A useless argument would be reported without its place or type."""
    name = type(value).__name__
    with pytest.raises(TypeError, match=rf"^argument 2: cannot pass a '{name}' to a kernel; pass an int, float"):
        _native.pack(layout(8, 8, 8), (1, 2, value))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _native.pack("x", ()), "layout must be bytes, not 'str'"),  # type: ignore[arg-type]
        (lambda: _native.pack(b"", []), "args must be a tuple, not 'list'"),  # type: ignore[arg-type]
        (lambda: _native.pack(b""), r"pack\(layout, args\) takes 2 arguments, but 1 was given"),  # type: ignore[call-arg]
        (lambda: _native.register(1, 0), "cls must be a class, not a 'int'"),  # type: ignore[arg-type]
        (lambda: _native.register(Address, "x"), "code must be an int, a callable, paths or an exchange API, not "),  # type: ignore[arg-type]
        (lambda: _native.set_resolver(1), "resolver must be callable or None, not 'int'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_of_the_functions_own_arguments(call: Callable[[], None], message: str) -> None:
    """A wrong call from within the package would crash the interpreter."""
    with pytest.raises(TypeError, match=message):
        call()


# ---- registered types


class Quantity:
    """An object that is every kind of number at once."""

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


@pytest.mark.parametrize(
    ("kind", "itemsize", "value", "form"),
    [
        *((_native.SIGNED, n, -5, f) for n, f in SIGNED_FORMAT.items()),
        *((_native.UNSIGNED, n, (1 << 8 * n) - 2, f) for n, f in UNSIGNED_FORMAT.items()),
        *((_native.BOOL, n, True, f) for n, f in UNSIGNED_FORMAT.items()),
        *((_native.FLOAT, n, -1.5, f) for n, f in FLOAT_FORMAT.items()),
    ],
)
def test_codes(kind: int, itemsize: int, value: Any, form: str) -> None:
    """A registered scalar would be converted to another kind, or to another size than its own."""
    expected = struct.pack("=" + form, value)
    assert one(quantity(kind | itemsize << 8, value), itemsize) == expected
    assert one(quantity(kind, value), itemsize) == expected, "itemsize 0 takes the parameter's size"
    for size in {1, 2, 4, 8, 12} - {itemsize}:
        with pytest.raises(TypeError, match=rf"Quantity has {itemsize} byte.*, but the parameter has {size}"):
            one(quantity(kind | itemsize << 8, value), size)
    with pytest.raises(TypeError, match="cannot fill a parameter of 12 bytes"):
        one(quantity(kind, value), 12)


@pytest.mark.parametrize(("itemsize", "form"), [(8, "=ff"), (16, "=dd")])
def test_complex_code(itemsize: int, form: str) -> None:
    """A registered complex scalar would lose its imaginary part."""
    assert one(quantity(_native.COMPLEX | itemsize << 8, 1.5 - 2j), itemsize) == struct.pack(form, 1.5, -2.0)
    assert one(quantity(_native.COMPLEX, 1.5 - 2j), itemsize) == struct.pack(form, 1.5, -2.0)
    with pytest.raises(TypeError, match=rf"Quantity has {itemsize} bytes, but the parameter has 4"):
        one(quantity(_native.COMPLEX | itemsize << 8, 1j), 4)


def test_signedness_of_a_code_is_checked() -> None:
    """A scalar outside of its own type's range would be reinterpreted."""
    with pytest.raises(OverflowError, match=r"argument 0: 128 does not fit a parameter of 1 byte \(-128 to 127\)"):
        one(quantity(_native.SIGNED | 1 << 8, 128), 1)
    with pytest.raises(OverflowError, match=r"argument 0: -1 does not fit a parameter of 1 byte \(0 to 255\)"):
        one(quantity(_native.UNSIGNED | 1 << 8, -1), 1)
    with pytest.raises(OverflowError, match=r"9223372036854775808 does not fit a parameter of 8 bytes"):
        one(quantity(_native.SIGNED | 8 << 8, 1 << 63), 8)
    assert one(quantity(_native.UNSIGNED | 8 << 8, (1 << 64) - 1), 8) == b"\xff" * 8


def test_pointer_code() -> None:
    """A buffer would not arrive as its address, or a closed one arrive as null."""
    assert one(Address(ADDRESS), 8) == struct.pack("=Q", ADDRESS)
    assert one(Address((1 << 64) - 1), 8) == b"\xff" * 8
    with pytest.raises(ValueError, match=r"^argument 1: .*Address is closed"):
        _native.pack(layout(8, 8), (1, Address(None)))
    with pytest.raises(TypeError, match=r"Address is passed as a pointer of 8 bytes, but the parameter has 4"):
        one(Address(ADDRESS), 4)
    for wrong in ("x", 1.0, True):
        with pytest.raises(TypeError, match=r"the address that .*Address has for its memory is not an int"):
            one(Address(wrong), 8)
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError, match=r"the address that .*Address has for its memory is not one of 64 bits"):
            one(Address(wrong), 8)
    assert one(Address(np.uint64(ADDRESS)), 8) == struct.pack("=Q", ADDRESS)
    with pytest.raises(AttributeError, match="_ptr"):
        one(quantity(_native.POINTER, 1), 8)


@pytest.mark.parametrize(
    "code",
    [
        -1,
        8,
        255,
        1 << 64,
        _native.SIGNED | 3 << 8,
        _native.FLOAT | 1 << 8,
        _native.BOOL | 16 << 8,
        _native.COMPLEX | 4 << 8,
        _native.POINTER | 4 << 8,
        _native.SIGNED | 1 << 40,
        _native.ARRAY | 8 << 8,
        _native.COMPLEX | _native.HAS_VALUE,
    ],
)
def test_invalid_code_is_an_error(code: int) -> None:
    """A wrong code would write beyond its parameter."""
    with pytest.raises(ValueError, match="code must be kind"):
        _native.register(type("Wrong", (), {}), code)


@pytest.mark.parametrize("cls", [int, bool, float, complex, type(None), bytes, bytearray, memoryview])
def test_builtin_types_cannot_be_registered(cls: type) -> None:
    """One package could change what an int means for all kernels of the process."""
    with pytest.raises(ValueError, match="cannot be registered"):
        _native.register(cls, _native.SIGNED)
    assert _native.registered(cls) is None


def test_registered_answers_what_was_registered() -> None:
    """A subclass of a buffer would not be recognised."""
    cls = type("Thing", (), {})
    assert _native.registered(cls) is None
    _native.register(cls, _native.FLOAT | 4 << 8)
    assert _native.registered(cls) == _native.FLOAT | 4 << 8

    def converter(value: Any, size: int, kind: int) -> int:
        return size

    _native.register(cls, converter)
    assert _native.registered(cls) is converter
    assert one(cls(), 4) == (4).to_bytes(4, sys.byteorder)


def returning(result: Any) -> Callable[[Any, int, int], Any]:
    return lambda value, size, kind: result


def test_converter_results() -> None:
    """The result of a converter would be packed without a check."""
    assert one(quantity(lambda value, size, kind: bytes([size]) * size, 0), 12) == bytes([12]) * 12
    assert one(quantity(lambda value, size, kind: -2, 0), 2) == struct.pack("=h", -2)
    for result, error, message in (
        (b"123", TypeError, "Quantity has 3 bytes, but the parameter has 4"),
        (1 << 32, OverflowError, "4294967296 does not fit"),
        (bytearray(4), TypeError, "the converter of .*Quantity must return bytes, a number, or a place in memory"),
        (None, TypeError, "must return bytes, a number, or a place in memory"),
        ([], TypeError, "cannot pass a 'list'"),
        ((1, 2), TypeError, "place"),
    ):
        with pytest.raises(error, match="argument 0: .*" + message):
            one(quantity(returning(result), 0), 4)


@pytest.mark.parametrize("error", [TypeError, ValueError, OverflowError])
def test_converter_errors_name_the_argument(error: type[Exception]) -> None:
    """An error of a conversion would not name the argument, or would hide where it was raised."""

    def converter(value: Any, size: int, kind: int) -> bytes:
        raise error("no good") from KeyError("cause")

    with pytest.raises(error, match=r"^argument 1: no good$") as caught:
        _native.pack(layout(8, 4), (0, quantity(converter, 0)))
    assert caught.traceback[-1].name == "converter"
    assert isinstance(caught.value.__cause__, KeyError)


class CustomError(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@pytest.mark.parametrize("error", [KeyError("x"), CustomError(3), KeyboardInterrupt(), MemoryError()])
def test_other_errors_of_converters_pass_unchanged(error: BaseException) -> None:
    """An exception with a custom constructor would be changed, or an interrupt would be lost."""

    def converter(value: Any, size: int, kind: int) -> bytes:
        raise error

    args = error.args
    with pytest.raises(type(error)) as caught:
        one(quantity(converter, 0), 4)
    assert caught.value is error
    assert error.args == args


def test_error_whose_message_fails() -> None:
    """An exception that cannot be printed would be replaced by its failure to print."""

    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError

    def converter(value: Any, size: int, kind: int) -> bytes:
        raise ValueError(Unprintable())

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it has no message
        one(quantity(converter, 0), 4)
    assert isinstance(caught.value.args[0], Unprintable)


def test_class_with_strange_names_can_be_reported() -> None:
    """A metaclass that returns a wrong class name would crash the error message."""

    class Meta(type):
        @property
        def __name__(cls) -> Any:  # type: ignore[override]
            return 42

        @property
        def __module__(cls) -> Any:  # type: ignore[override]
            return None

    class Strange(metaclass=Meta):
        pass

    with pytest.raises(TypeError, match="cannot pass a '42'"):
        one(Strange(), 8)


# ---- conversions that call back


def test_converter_that_replaces_itself() -> None:
    """A converter that replaces itself would be freed while it runs."""

    class Self:
        def __call__(self, value: Any, size: int, kind: int) -> int:
            for i in range(500):  # the registry grows and moves meanwhile
                cls = type(f"T{i}", (), {})
                kept.append(cls)
                _native.register(cls, _native.SIGNED)
            _native.register(type(value), _native.SIGNED)
            return 1

    kept: list[type] = []
    converter = Self()
    alive = weakref.ref(converter)
    value = quantity(converter, 2)
    del converter
    assert _native.pack(layout(8, 8), (value, value)) == struct.pack("=2Q", 1, 2)
    assert alive() is None


def test_values_that_live_only_in_the_tuple() -> None:
    """A value would be freed while it is converted."""

    def converter(value: Any, size: int, kind: int) -> int:
        gc.collect()
        return value.value

    cls = type("Only", (Quantity,), {})
    _native.register(cls, converter)
    assert _native.pack(layout(8, 8), (cls(1), cls(2))) == struct.pack("=2Q", 1, 2)
    assert _native.pack(layout(8), (cls(3),)) == struct.pack("=Q", 3)


def test_converter_that_packs() -> None:
    """Packing within packing would share a buffer."""
    inner = layout(4, 4)
    value = quantity(lambda value, size, kind: _native.pack(inner, (1, 2)), 0)
    assert _native.pack(layout(8, 8, 8), (7, value, 9)) == struct.pack("=QIIQ", 7, 1, 2, 9)


def test_value_that_changes_its_class(resolver: Callable[..., None]) -> None:
    """A value whose class changes after the lookup would be packed as the old class."""

    class Before:
        pass

    class After:
        def __index__(self) -> int:
            return 5

    def become(value: Any, size: int, kind: int) -> int:
        value.__class__ = After
        return 1

    _native.register(Before, become)
    value = Before()
    assert _native.pack(layout(8, 8), (value, value)) == struct.pack("=2Q", 1, 5)

    def resolve(cls: type, value: Any) -> bool:
        _native.register(cls, _native.POINTER)
        value.__class__ = After
        return True

    resolver(resolve)
    assert one(type("Brief", (), {})(), 8) == struct.pack("=Q", 5)


# ---- the resolver


def test_resolver_is_asked_once_for_a_type(resolver: Callable[..., None]) -> None:
    """Every launch would resolve a type that is already registered."""
    asked = []

    def resolve(cls: type, value: Any) -> bool:
        asked.append((cls, value))
        _native.register(cls, _native.SIGNED)
        return True

    resolver(resolve)
    cls = type("Unknown", (Quantity,), {})
    first = cls(1)
    assert _native.pack(layout(8, 8), (first, cls(2))) == struct.pack("=2Q", 1, 2)
    assert asked == [(cls, first)]


def test_resolver_that_does_not_help(resolver: Callable[..., None]) -> None:
    """A value of an unknown type would be packed if the resolver refuses it, registers nothing, or raises an error."""
    value = object()
    for answer in (lambda cls, value: False, lambda cls, value: True, None):
        resolver(answer)
        with pytest.raises(TypeError, match="argument 0: cannot pass a 'object'"):
            one(value, 8)

    def refuses_after_all(cls: type, value: Any) -> bool:
        _native.register(cls, _native.POINTER)
        return False

    resolver(refuses_after_all)
    with pytest.raises(TypeError, match="argument 0: cannot pass"):
        one(type("Refused", (), {})(), 8)

    def replaces_itself(cls: type, value: Any) -> bool:
        resolver(None)
        gc.collect()
        raise LookupError("lost")

    resolver(replaces_itself)
    del replaces_itself
    with pytest.raises(LookupError, match="lost"):
        one(value, 8)


# ---- memory


def test_registry_does_not_keep_types_alive() -> None:
    """Classes that a program makes would never be freed, or a new class at an old address be packed as the old one."""
    for i in range(300):
        cls = type("Passing", (), {"__slots__": ()})
        assert _native.registered(cls) is None
        _native.register(cls, _native.SIGNED if i % 2 else lambda value, size, kind: 0)
        gone = weakref.ref(cls)
        del cls
        gc.collect(0)
        if gone() is not None:
            gc.collect()
        assert gone() is None


def test_registry_under_random_use() -> None:
    """A type would be lost, or mistaken for another one, when neighbouring types are removed from the table."""
    rng = random.Random(5)
    model: dict[type, int] = {}
    for step in range(4000):
        if model and rng.random() < (0.3 if step < 2000 else 0.7):
            cls = rng.choice(list(model))
            del model[cls]
            del cls
        elif model and rng.random() < 0.3:
            cls = rng.choice(list(model))
            model[cls] = rng.choice([_native.SIGNED, _native.FLOAT | 4 << 8])
            _native.register(cls, model[cls])
        else:
            cls = type("Some", (), {"__slots__": ()})
            model[cls] = _native.UNSIGNED | 8 << 8
            _native.register(cls, model[cls])
        cls = object
        if step % 100 == 0:
            gc.collect()
            assert {c: _native.registered(c) for c in model} == model
    assert one(True, 4) == (1).to_bytes(4, sys.byteorder)


def test_no_references_leak() -> None:
    """Each launch would leak a reference to its arguments, or give one too many back."""
    floats = 1.25
    number = 1 << 40
    address = Address(ADDRESS + 1)
    scalar = np.float32(1)
    raising = quantity(lambda value, size, kind: 1 / 0, 0)
    converted = quantity(lambda value, size, kind: number, 0)
    indexed = quantity(_native.SIGNED, number)
    twofold = 1.5 + 2.5j
    where = layout(8, 8, 8, 4, 8, 8, 8)
    watched = [floats, number, address, address._ptr, scalar, raising, converted, indexed, twofold, where]
    watched += [Address, type(scalar), type(indexed)]

    def work() -> None:
        args = (number, floats, address, scalar, converted, indexed, twofold)
        for _ in range(100):
            _native.pack(where, args)
            bad: Any
            for bad in ([], 1 << 64, raising, Address(None), b"", 1e300j, None, np.int64(1)):
                with pytest.raises((TypeError, OverflowError, ZeroDivisionError, ValueError)):
                    _native.pack(where, (number, floats, address, bad, converted, indexed, twofold))
            with pytest.raises(TypeError):
                _native.pack(where, ())

    def measure() -> tuple[list[int], int]:
        work()
        gc.collect()
        return [sys.getrefcount(item) for item in watched], sys.getallocatedblocks()

    measure()
    refs, blocks = measure()
    growth = []
    for _ in range(3):  # caches elsewhere grow in some rounds; a leak would grow in each
        again, blocks_again = measure()
        assert again == refs
        growth.append(abs(blocks_again - blocks))
        blocks = blocks_again
    assert min(growth) < 50  # a round has hundreds of calls of each kind


def test_module_instances_are_independent() -> None:
    """Two interpreters would share a registry."""
    spec = importlib.util.find_spec("cudacore_handles._native")
    assert spec is not None
    assert spec.loader is not None
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    assert other is not _native
    with pytest.raises(TypeError, match="cannot pass"):
        other.pack(layout(8), (Address(1),))


def test_exit_with_registered_types() -> None:
    """The interpreter would crash or complain at exit."""
    code = """if True:
        import struct
        from cudacore_handles import _native
        from cudacore_handles._launch import argtypes
        class Late:
            def __init__(self): self.pack, self.where = _native.pack, struct.pack("=3I", 0, 8, 0)
            def __index__(self): return 1
            def __del__(self): self.pack(self.where, (self,))
        late = Late()
        late.cycle = late
        Late.keep = late
        _native.pack(late.where, (late,))
        _native.register(type("Other", (), {}), lambda value, size, kind: late)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_threads() -> None:
    """Launches from several threads would mix their arguments, or find a half-made registry."""

    def work(seed: int) -> None:
        where = layout(8, 4, 8, 8)
        for i in range(300):
            cls = type("Local", (Quantity,), {})
            _native.register(cls, lambda value, size, kind: _native.pack(layout(8), (value.value,)))
            value = seed * 1000 + i
            expected = struct.pack("@QfxxxxQQ", value, 0.5, value + 1, value + 2)
            args = (cls(value), np.float32(0.5), value + 1, Address(value + 2))
            assert _native.pack(where, args) == expected

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(work, range(4))
    finally:
        sys.setswitchinterval(interval)
