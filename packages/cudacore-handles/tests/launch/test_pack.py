# SPDX-License-Identifier: Apache-2.0
"""Packing of arguments: for parameters of unknown kind, from bytes, and into whole blocks."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing import BOOL, FLOAT, FLOAT_FORMAT, INT_SIZES, SIGNED_FORMAT, UNKNOWN, UNSIGNED_FORMAT, Address, layout, one

from cudacore_handles import _native

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
    halves[-1] = 65536.0  # doubles that are closer to this than to the largest half become infinity
    ties = (halves[:-1] + halves[1:]) / 2
    values = np.concatenate([halves[:-1], ties[:-1], np.nextafter(ties[:-1], 0), np.nextafter(ties, np.inf)[:-1]])
    for value in itertools.chain(values.tolist(), (-values).tolist()):
        assert one(value, 2, FLOAT) == struct.pack("=e", value)
    assert one(math.nextafter(ties[-1], 0), 2, FLOAT) == struct.pack("=e", 65504.0)
    for value in (5e-324, -(2.0**-1022), 2.0**-26):
        assert one(value, 2, FLOAT) == struct.pack("=e", value)
    for value in (ties[-1].item(), 1e5, -1e5, 1e300):
        with pytest.raises(OverflowError, match="binary16"):
            one(value, 2, FLOAT)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_infinity_and_nan_pass(size: int) -> None:
    """Infinity would be treated as an overflow, or NaN would become infinity."""
    form = "=" + FLOAT_FORMAT[size]
    assert one(math.inf, size, FLOAT) == struct.pack(form, math.inf)
    assert one(-math.inf, size, FLOAT) == struct.pack(form, -math.inf)
    assert math.isnan(struct.unpack(form, one(math.nan, size, FLOAT))[0])
    payload = struct.unpack("=d", struct.pack("=Q", 0x7FF0_0000_0000_0001))[0]  # a NaN whose payload does not fit
    assert math.isnan(struct.unpack(form, one(payload, size, FLOAT))[0])


def test_quiet_nans_keep_their_bits() -> None:
    """A NaN of a NumPy scalar would have another payload in a `half` parameter than in the scalar."""
    for bits in (0x7E00, 0x7E01, 0x7FFF, 0xFE00, 0xFFAB):
        value = np.uint16(bits).view(np.float16)
        assert one(value, 2, FLOAT) == one(float(value), 2, FLOAT) == value.tobytes()


# ---- arguments that are bytes


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
    """A strided memoryview would be copied with the bytes in between, or a released memoryview would be read."""
    view = memoryview(bytes(range(16)))
    assert one(view[::2], 8) == bytes(range(0, 16, 2))
    view.release()
    with pytest.raises(ValueError, match=r"argument 0: .*released"):
        one(view, 16)


# ---- the packed block of all arguments


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
    """Values would be at wrong offsets, or padding would contain stale memory."""
    form, places = "@", []
    for letter, _ in params:
        size = struct.calcsize(letter)
        form += letter
        places.append((struct.calcsize(form) - size, size))
    where = b"".join(struct.pack("=3I", *place, UNKNOWN) for place in places)
    values = tuple(v for _, v in params)
    expected = struct.pack(form, *(v.ptr if isinstance(v, Address) else v for v in values))
    assert _native.pack(where, values) == expected


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
        (struct.pack("=3I", 0, 8, 10), "parameter 0 has the kind 10; it must be less than 10"),
    ],
)
def test_malformed_layout_is_an_error(where: bytes, message: str) -> None:
    """A malformed layout would make the function write outside of the block."""
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
    """Surplus arguments would be dropped silently, or missing ones be read from memory beyond the arguments."""
    with pytest.raises(TypeError, match=message):
        _native.pack(layout(*sizes), (1,) * given_count)
