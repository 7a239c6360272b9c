# SPDX-License-Identifier: Apache-2.0
"""Values of other libraries as kernel arguments: numbers, structs, host memory."""

from __future__ import annotations

import array
import ctypes
import enum
import math
import struct
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from packing import (
    ADDRESS,
    ADDRESS_OR_INT,
    BFLOAT,
    BITS,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    POINTER,
    UINT,
    UNKNOWN,
    Row,
    check_rows,
)

POINTERS = (POINTER, ADDRESS_OR_INT)
INTEGERS = (INT, UINT, BITS)

# ---- scalars

PAIR = [("a", "i4"), ("b", "f8")]
NUMPY_SCALARS = [
    np.int8(-5), np.uint8(250), np.int16(-300), np.uint16(65535), np.int32(-70000), np.uint32(4294967295),
    np.int64(-(2**63)), np.uint64(2**64 - 1), np.longlong(-1), np.float16(1.5), np.float32(0.1), np.float64(0.1),
    np.complex64(1 - 2j), np.complex128(0.1 - 2j), np.bool_(True), np.bool_(False),
    np.bytes_(b"abc"), np.void(b"12345"), np.array([(1, 2.5)], PAIR)[0],
    np.rec.array([(1, 2.5)], PAIR)[0],
]  # fmt: skip


@pytest.mark.parametrize("value", NUMPY_SCALARS, ids=lambda value: type(value).__name__)
def test_numpy_scalar_keeps_its_own_size(value: Any) -> None:
    """A NumPy scalar would be converted, or be accepted for a parameter of another size."""
    has = rf"numpy\.{type(value).__name__} has {value.itemsize} byte.* has"
    others = {1, 2, 4, 8, 16} - {value.itemsize}
    check_rows([(value, value.itemsize, UNKNOWN, value.tobytes())])
    check_rows([(value, size, UNKNOWN, (TypeError, rf"{has} {size}\b")) for size in others])


CTYPES_SCALARS = [
    (ctypes.c_bool(True), "?"), (ctypes.c_char(b"x"), "B"), (ctypes.c_int8(-5), "b"), (ctypes.c_uint8(250), "B"),
    (ctypes.c_int16(-300), "h"), (ctypes.c_uint16(65535), "H"), (ctypes.c_int32(-70000), "i"),
    (ctypes.c_uint32(4294967295), "I"), (ctypes.c_int64(-(2**63)), "q"), (ctypes.c_uint64(2**64 - 1), "Q"),
    (ctypes.c_size_t(7), "N"), (ctypes.c_float(0.1), "f"), (ctypes.c_double(0.1), "d"),
    (ctypes.c_void_p(ADDRESS), "P"), (ctypes.c_void_p(None), "P"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "form"), CTYPES_SCALARS)
def test_ctypes_scalar_keeps_its_own_size(value: Any, form: str) -> None:
    """A ctypes scalar would be converted, or accepted for another size; or c_void_p() would not become null."""
    itemsize = struct.calcsize(form)
    content = ord(value.value) if isinstance(value, ctypes.c_char) else value.value
    has = rf"ctypes\..* has {itemsize} byte.*, but the parameter has"
    check_rows([(value, itemsize, UNKNOWN, struct.pack("@" + form, content or 0))])
    check_rows([(value, size, UNKNOWN, (TypeError, f"{has} {size}")) for size in {1, 2, 4, 8, 12} - {itemsize}])


class BigEndianPair(ctypes.BigEndianStructure):
    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_int32))


@pytest.mark.parametrize(
    "value",
    [
        np.longdouble(1), np.clongdouble(1), np.str_("x"), ctypes.c_longdouble(1), ctypes.c_char_p(b"x"),
        ctypes.c_wchar_p("x"), ctypes.py_object(1), ctypes.c_int32.__ctype_be__(1), ctypes.CFUNCTYPE(None)(print),
        BigEndianPair(1, 2),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_that_no_kernel_has(value: Any) -> None:
    """Host formats, addresses of strings, and numbers of the other byte order would reach the kernel as raw bytes."""
    refused = "cannot pass a '|longdouble has a format that kernels do not support; pass float"
    check_rows(
        [(value, getattr(value, "itemsize", None) or ctypes.sizeof(value), UNKNOWN, (TypeError, f"({refused})"))]
    )


class Color(enum.IntEnum):
    RED = 3


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyComplex(complex):
    pass


def test_subclasses_of_python_numbers() -> None:
    """An IntEnum or a subclass of float would be refused, or arrive as another value."""
    check_rows([
        (Color.RED, 4, UNKNOWN, struct.pack("=i", 3)),
        (MyInt(-2), 8, UNKNOWN, struct.pack("=q", -2)),
        (MyInt(200), 1, UNKNOWN, b"\xc8"),
        (MyFloat(0.1), 4, UNKNOWN, struct.pack("=f", 0.1)),
        (MyComplex(1j), 8, UNKNOWN, struct.pack("=ff", 0, 1)),
        (MyInt(300), 1, UNKNOWN, (OverflowError, "300.* does not fit a parameter of 1 byte")),
    ])  # fmt: skip


def test_cuda_bindings_handles() -> None:
    """Handles of cuda.bindings, such as a buffer's address or a conditional handle, could not be passed to a kernel."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    passed = "CUdeviceptr is passed as a pointer of 8 bytes, but the parameter has 4"
    check_rows([
        (driver.CUdeviceptr(ADDRESS), 8, UNKNOWN, struct.pack("=Q", ADDRESS)),
        (driver.CUgraphConditionalHandle(5), 8, UNKNOWN, struct.pack("=Q", 5)),
        (driver.CUdeviceptr(ADDRESS), 4, UNKNOWN, (TypeError, passed)),
    ])  # fmt: skip


@pytest.mark.parametrize("value", [ctypes.c_void_p(ADDRESS), ctypes.cast(ADDRESS, ctypes.POINTER(ctypes.c_double))])
def test_ctypes_pointers_are_no_numbers(value: Any) -> None:
    """A host address given to a `double` would arrive as the bits of the address."""
    check_rows([
        (value, 8, POINTER, struct.pack("=Q", ADDRESS)),
        (value, 8, FLOAT, (TypeError, "is passed as a pointer of 8 bytes, but the parameter of 8 is a floating")),
        (type(value)(), 8, POINTER, bytes(8)),
    ])  # fmt: skip


# ---- values that are in host memory, for each kind of parameter


@pytest.mark.parametrize(
    "make", [np.asarray, lambda value: memoryview(np.asarray(value)), lambda value: np.ma.array(value)]
)
def test_arrays_of_no_dimension_are_numbers(make: Callable[[Any], Any]) -> None:
    """np.asarray(3) given to a `double` would arrive as 1.5e-323, np.array(5.0) given to a `long long` as 4.6e18."""
    check_rows([
        (make(3), 8, FLOAT, struct.pack("=d", 3.0)),
        (make(3), 4, FLOAT, struct.pack("=f", 3.0)),
        (make(5.0), 8, INT, struct.pack("=q", 5)),
        (make(0.1), 4, FLOAT, struct.pack("=f", 0.1)),
        (make(np.int16(7)), 8, UINT, struct.pack("=Q", 7)),
        (make(True), 1, BOOL, b"\1"),
        (make(5.5), 8, INT, (TypeError, "is not an integer")),
        (make(300), 1, UINT, (OverflowError, "does not fit")),
        (make(1e300), 4, FLOAT, (OverflowError, "does not fit")),
        (make(2), 1, BOOL, (OverflowError, "does not fit")),
        (make(1j), 8, FLOAT, (TypeError, "(complex number cannot fill|is of the format)")),
    ])  # fmt: skip


HOST_ARRAYS = [
    np.array(5.0), np.array(5), np.array([5.0]), np.zeros(2, "f4"), memoryview(np.array([5.0])),
    array.array("d", [5.0]), (ctypes.c_double * 1)(5.0), np.zeros(1, "M8[s]"),
]  # fmt: skip
FLOAT_ARRAYS = [np.ones(1, "f4"), array.array("f", [1.0]), (ctypes.c_float * 1)(1.0), memoryview(np.ones(1, "f4"))]
NATIVE = np.array([(1, 2.5)], PAIR)
SWAPPED = NATIVE.astype(NATIVE.dtype.newbyteorder(">"))


class OneDouble(ctypes.Structure):
    _fields_ = (("a", ctypes.c_double),)


STRUCTS: list[Any] = [OneDouble(5.0), np.array([(5.0,)], dtype=[("a", "f8")])[0]]
DATES = [np.datetime64(5, "s"), np.timedelta64(5, "ns")]

# What would be broken, and the rows that show it.
HOST_CASES: dict[str, list[Row]] = {
    "np.array(5.0) given to a `float*` would arrive as the bits of 5.0": [
        (value, 8, (*POINTERS, UNKNOWN), (TypeError, r"in host memory; copy it to the device by device\.to_device\("))
        for value in HOST_ARRAYS
    ],
    "an array in host memory could not be given by value": [
        *((value, 8, BYTES, bytes(memoryview(value))) for value in HOST_ARRAYS[:-1]),
        (HOST_ARRAYS[-1], 8, BYTES, bytes(8)),
        *((value, 4, (BYTES, UNKNOWN), struct.pack("=f", 1.0)) for value in FLOAT_ARRAYS),
    ],
    'array.array("f", [1.0]) given to an `int` would arrive as 1065353216': [
        (value, 4, (*INTEGERS, FLOAT), (TypeError, "is an array in host memory, but the parameter is of the kind"))
        for value in FLOAT_ARRAYS
    ],
    "addresses of Python objects would reach the kernel": [
        (value, size, kind, (TypeError, "has Python objects in it"))
        for value, size, kind in (
            (np.array([None, None]), 16, BYTES),
            (np.array([(None, 1)], dtype="O,i8")[0], 16, BYTES),
            (np.array(None), 8, FLOAT),
        )
    ],
    "big-endian values would arrive with their bytes swapped": [
        (SWAPPED[0], 12, UNKNOWN, NATIVE.tobytes()),
        (NATIVE[0], 12, UNKNOWN, NATIVE.tobytes()),
        (np.array([1, 2, 3], dtype=">f4"), 12, UNKNOWN, (TypeError, r"numpy\.ndarray is big-endian; convert it")),
        (np.dtype(">i4").type(3), 4, UNKNOWN, struct.pack("=i", 3)),
    ],
    "a date given to a `double` or a pointer would arrive as the bits of the date": [
        *((date, 8, (FLOAT, UNKNOWN, *INTEGERS, *POINTERS), (TypeError, "cannot pass a 'numpy.")) for date in DATES),
        (np.array(5, "M8[s]"), 8, INT, (TypeError, r"has the dtype datetime64\[s\], which kernels do not support")),
    ],
    "a struct of a `double` given to a `long long` or a pointer would arrive as the bits of the `double`": [
        *((value, 8, (BYTES, UNKNOWN), struct.pack("=d", 5.0)) for value in STRUCTS),
        *(
            (
                value, 8, (*INTEGERS, FLOAT, *POINTERS),
                (TypeError, "is a struct, but the parameter is of the kind .*; pass one of its members"),
            )
            for value in STRUCTS
        ),
    ],
    "np.longdouble(0.5) could not be given to a `double`": [
        (np.longdouble(0.5), 8, FLOAT, struct.pack("=d", 0.5)),
        (np.longdouble(0.5), 4, INT, (TypeError, r"0\.5 is not an integer")),
        (np.longdouble("inf"), 8, FLOAT, struct.pack("=d", math.inf)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("rows", HOST_CASES.values(), ids=HOST_CASES)
def test_host_memory(rows: list[Row]) -> None:
    """A value in host memory would arrive as other bits, which the kernel can use as an address."""
    check_rows(rows)


def test_large_long_doubles() -> None:
    """A large np.longdouble would arrive as infinity."""
    large = np.longdouble(2.0) ** 5000
    if np.isfinite(large):
        check_rows([(large, 8, FLOAT, (OverflowError, "does not fit a parameter of 8 bytes"))])


class generic:  # noqa: N801 - as NumPy's
    """Imitates numpy.generic, the base class of NumPy's and ml_dtypes' scalars."""


generic.__module__, generic.__qualname__ = "numpy", "generic"


class OtherFloat(generic):
    """A scalar of a floating-point format that NumPy itself does not have."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.dtype = types.SimpleNamespace(kind="V", char="E", itemsize=2, isnative=True, type=OtherFloat)

    def __float__(self) -> float:
        return self.value

    def __eq__(self, other: object) -> bool:
        return other == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def tobytes(self) -> bytes:
        return struct.pack("=f", self.value)[2:]


def bfloat16(value: float) -> Any:
    return pytest.importorskip("ml_dtypes", reason="needs ml_dtypes").bfloat16(value)


@pytest.mark.parametrize("make", [OtherFloat, bfloat16])
def test_scalars_of_other_formats(make: Any) -> None:
    """ml_dtypes.bfloat16(1.5) given to a `__half` would arrive as 1.9375, and given to an `int` as its bits."""
    check_rows([
        *((make(1.5), size, FLOAT, struct.pack(form, 1.5)) for size, form in ((2, "=e"), (4, "=f"), (8, "=d"))),
        (make(1.5), 2, (BFLOAT, UNKNOWN, BYTES), struct.pack("=f", 1.5)[2:]),
        (make(3.0), 4, INT, struct.pack("=i", 3)),
        (make(1.5), 2, INT, (TypeError, r"1\.5 is not an integer")),
        (make(1.5), 8, POINTERS, (TypeError, "a float cannot fill a parameter of 8 bytes that is a pointer")),
        (make(2.0**100), 2, FLOAT, (OverflowError, "does not fit")),
    ])  # fmt: skip


def test_arrays_of_other_formats() -> None:
    """The user would see NumPy's error about its own buffers, or a `__half` would get the bits of a bfloat16."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    three = np.array([1, 2, 3], ml_dtypes.bfloat16)
    refused = "is an array in host memory, but the parameter is of the kind 'float'"
    check_rows([
        (three, 6, (UNKNOWN, BYTES), three.tobytes()),
        (np.array(1.5, ml_dtypes.bfloat16), 2, FLOAT, struct.pack("=e", 1.5)),
        (three[:1], 2, FLOAT, (TypeError, refused)),
    ])  # fmt: skip
