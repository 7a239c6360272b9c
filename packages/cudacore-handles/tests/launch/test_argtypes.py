# SPDX-License-Identifier: Apache-2.0
"""Values of other libraries as kernel arguments: numbers, structs, host memory."""

from __future__ import annotations

import array
import ctypes
import enum
import math
import struct
import types
from typing import Any

import numpy as np
import pytest
from packing import ADDRESS, ADDRESS_OR_INT, BFLOAT, BITS, BOOL, BYTES, FLOAT, INT, POINTER, UINT, UNKNOWN, one

from cudacore_handles import _native

# ---- scalars


@pytest.mark.parametrize(
    "value",
    [
        np.int8(-5),
        np.uint8(250),
        np.int16(-300),
        np.uint16(65535),
        np.int32(-70000),
        np.uint32(4294967295),
        np.int64(-(2**63)),
        np.uint64(2**64 - 1),
        np.longlong(-1),
        np.float16(1.5),
        np.float32(0.1),
        np.float64(0.1),
        np.complex64(1 - 2j),
        np.complex128(0.1 - 2j),
        np.bool_(True),
        np.bool_(False),
        np.datetime64("2024-01-01"),
        np.timedelta64(-5, "s"),
        np.bytes_(b"abc"),
        np.void(b"12345"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0],
        np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0],
    ],
    ids=lambda value: type(value).__name__,
)
def test_numpy_scalar_keeps_its_own_size(value: Any) -> None:
    """A NumPy scalar would be converted, or be accepted for a parameter of another size."""
    assert one(value, value.itemsize) == value.tobytes()
    for size in {1, 2, 4, 8, 16} - {value.itemsize}:
        with pytest.raises(TypeError, match=rf"numpy\.{type(value).__name__} has {value.itemsize} byte.* has {size}\b"):
            one(value, size)


@pytest.mark.parametrize("value", [np.longdouble(1), np.clongdouble(1), np.str_("x")])
def test_numpy_scalars_that_no_kernel_has(value: Any) -> None:
    """Scalars in formats that only the host has would reach the kernel as raw bytes."""
    with pytest.raises(
        TypeError, match=r"cannot pass a 'numpy|longdouble has a format that kernels do not support; pass float"
    ):
        one(value, value.itemsize)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (ctypes.c_bool(True), "?"),
        (ctypes.c_char(b"x"), "B"),
        (ctypes.c_int8(-5), "b"),
        (ctypes.c_uint8(250), "B"),
        (ctypes.c_int16(-300), "h"),
        (ctypes.c_uint16(65535), "H"),
        (ctypes.c_int32(-70000), "i"),
        (ctypes.c_uint32(4294967295), "I"),
        (ctypes.c_int64(-(2**63)), "q"),
        (ctypes.c_uint64(2**64 - 1), "Q"),
        (ctypes.c_size_t(7), "N"),
        (ctypes.c_float(0.1), "f"),
        (ctypes.c_double(0.1), "d"),
        (ctypes.c_void_p(ADDRESS), "P"),
        (ctypes.c_void_p(None), "P"),
    ],
)
def test_ctypes_scalar_keeps_its_own_size(value: Any, form: str) -> None:
    """A ctypes scalar would be converted, or accepted for another size; or c_void_p() would not become null."""
    itemsize = struct.calcsize(form)
    content = ord(value.value) if isinstance(value, ctypes.c_char) else value.value
    assert one(value, itemsize) == struct.pack("@" + form, content or 0)
    for size in {1, 2, 4, 8, 12} - {itemsize}:
        with pytest.raises(TypeError, match=rf"ctypes\..* has {itemsize} byte.*, but the parameter has {size}"):
            one(value, size)


@pytest.mark.parametrize(
    "value",
    [
        ctypes.c_longdouble(1),
        ctypes.c_char_p(b"x"),
        ctypes.c_wchar_p("x"),
        ctypes.py_object(1),
        ctypes.c_int32.__ctype_be__(1),
        ctypes.CFUNCTYPE(None)(print),
    ],
)
def test_ctypes_values_that_no_kernel_has(value: Any) -> None:
    """Addresses of strings and objects on the host, and numbers of the other byte order, would reach the kernel."""
    with pytest.raises(TypeError, match="argument 0: cannot pass a '"):
        one(value, ctypes.sizeof(value))


def test_subclasses_of_python_numbers() -> None:
    """An IntEnum or a subclass of float would be refused, or arrive as another value."""

    class Color(enum.IntEnum):
        RED = 3

    class MyInt(int):
        pass

    class MyFloat(float):
        pass

    class MyComplex(complex):
        pass

    assert one(Color.RED, 4) == struct.pack("=i", 3)
    assert one(MyInt(-2), 8) == struct.pack("=q", -2)
    assert one(MyInt(200), 1) == b"\xc8"
    assert one(MyFloat(0.1), 4) == struct.pack("=f", 0.1)
    assert one(MyComplex(1j), 8) == struct.pack("=ff", 0, 1)
    with pytest.raises(OverflowError, match=r"argument 0: .*300.* does not fit a parameter of 1 byte"):
        one(MyInt(300), 1)


def test_subclass_of_a_pointer_type() -> None:
    """An instance of a subclass of a registered type could not be passed, or would be mistaken for an array."""

    class Buffer:
        def __init__(self, ptr: int | None) -> None:
            self._ptr = ptr

    class Special(Buffer):
        def __dlpack__(self) -> None:
            raise AssertionError

    _native.register(Buffer, _native.POINTER)
    assert one(Special(ADDRESS), 8) == struct.pack("=Q", ADDRESS)
    with pytest.raises(ValueError, match="Special is closed"):
        one(Special(None), 8)


def test_cuda_bindings_handles() -> None:
    """Handles of cuda.bindings, such as a buffer's address or a conditional handle, could not be passed to a kernel."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    assert one(driver.CUdeviceptr(ADDRESS), 8) == struct.pack("=Q", ADDRESS)
    assert one(driver.CUgraphConditionalHandle(5), 8) == struct.pack("=Q", 5)
    with pytest.raises(TypeError, match=r"CUdeviceptr is passed as a pointer of 8 bytes, but the parameter has 4"):
        one(driver.CUdeviceptr(ADDRESS), 4)


@pytest.mark.parametrize("value", [ctypes.c_void_p(ADDRESS), ctypes.cast(ADDRESS, ctypes.POINTER(ctypes.c_double))])
def test_ctypes_pointers_are_no_numbers(value: Any) -> None:
    """A host address given to a `double` would arrive as the bits of the address."""
    assert one(value, 8, POINTER) == struct.pack("=Q", ADDRESS)
    with pytest.raises(TypeError, match="is passed as a pointer of 8 bytes, but the parameter of 8 is a floating"):
        one(value, 8, FLOAT)
    assert one(type(value)(), 8, POINTER) == bytes(8)


def test_numpy_values_of_the_other_byte_order() -> None:
    """A big-endian structured scalar, or array passed by value, would arrive with its bytes swapped."""
    native = np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])
    swapped = native.astype(native.dtype.newbyteorder(">"))
    assert not swapped[0].dtype.isnative
    assert one(swapped[0], 12) == one(native[0], 12) == native.tobytes()
    with pytest.raises(TypeError, match=r"numpy\.ndarray is big-endian; convert it"):
        one(np.array([1, 2, 3], dtype=">f4"), 12)
    assert one(np.dtype(">i4").type(3), 4) == struct.pack("=i", 3)


def test_ctypes_structs_of_the_other_byte_order() -> None:
    """The members of a struct would arrive with their bytes swapped."""

    class Pair(ctypes.BigEndianStructure):
        _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_int32))

    with pytest.raises(TypeError, match=r"cannot pass a '.*Pair'"):
        one(Pair(1, 2), 8)


# ---- values that are in host memory, for each kind of parameter


@pytest.mark.parametrize(
    "make", [np.asarray, lambda value: memoryview(np.asarray(value)), lambda value: np.ma.array(value)]
)
def test_arrays_of_no_dimension_are_numbers(make: Any) -> None:
    """np.asarray(3) given to a `double` would arrive as 1.5e-323, np.array(5.0) given to a `long long` as 4.6e18."""
    assert one(make(3), 8, FLOAT) == struct.pack("=d", 3.0)
    assert one(make(3), 4, FLOAT) == struct.pack("=f", 3.0)
    assert one(make(5.0), 8, INT) == struct.pack("=q", 5)
    assert one(make(0.1), 4, FLOAT) == struct.pack("=f", 0.1)
    assert one(make(np.int16(7)), 8, UINT) == struct.pack("=Q", 7)
    assert one(make(True), 1, BOOL) == b"\1"
    for value, size, kind, error in (
        (5.5, 8, INT, "is not an integer"),
        (300, 1, UINT, "does not fit"),
        (1e300, 4, FLOAT, "does not fit"),
        (2, 1, BOOL, "does not fit"),
        (1j, 8, FLOAT, "complex number cannot fill|is of the format"),
    ):
        with pytest.raises((TypeError, OverflowError), match=error):
            one(make(value), size, kind)


HOST_ARRAYS = [
    np.array(5.0),
    np.array(5),
    np.array([5.0]),
    np.zeros(2, "f4"),
    memoryview(np.array([5.0])),
    array.array("d", [5.0]),
    (ctypes.c_double * 1)(5.0),
    np.zeros(1, "M8[s]"),
]


@pytest.mark.parametrize("value", HOST_ARRAYS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", [POINTER, ADDRESS_OR_INT, UNKNOWN])
def test_host_arrays_are_no_addresses(value: Any, kind: int) -> None:
    """np.array(5.0) given to a `float*` would arrive as the bits of 5.0, which the kernel uses as an address."""
    with pytest.raises(TypeError, match=r"is in host memory; copy it to the device by device\.to_device\("):
        one(value, 8, kind)
    assert one(value, 8, BYTES) == bytes(memoryview(value) if value is not HOST_ARRAYS[-1] else bytes(8))


@pytest.mark.parametrize(
    "value",
    [np.ones(1, "f4"), array.array("f", [1.0]), (ctypes.c_float * 1)(1.0), memoryview(np.ones(1, "f4"))],
    ids=lambda value: type(value).__name__,
)
def test_host_arrays_are_no_numbers(value: Any) -> None:
    """array.array("f", [1.0]) given to an `int` would arrive as 1065353216."""
    for kind in (INT, UINT, BITS, FLOAT):
        with pytest.raises(TypeError, match="is an array in host memory, but the parameter is of the kind"):
            one(value, 4, kind)
    assert one(value, 4, BYTES) == one(value, 4, UNKNOWN) == struct.pack("=f", 1.0)


def test_host_arrays_of_objects() -> None:
    """Addresses of Python objects would reach the kernel."""
    with pytest.raises(TypeError, match="has Python objects in it"):
        one(np.array([None, None]), 16, BYTES)
    with pytest.raises(TypeError, match="has Python objects in it"):
        one(np.array([(None, 1)], dtype="O,i8")[0], 16, BYTES)
    with pytest.raises(TypeError, match="has Python objects in it"):
        one(np.array(None), 8, FLOAT)


@pytest.mark.parametrize("value", [np.datetime64(5, "s"), np.timedelta64(5, "ns"), np.array(5, "M8[s]")], ids=repr)
def test_dates(value: Any) -> None:
    """A date given to a `double` or a pointer would arrive as the bits of the date."""
    for kind in (INT, UINT, BITS):
        assert one(value, 8, kind) == struct.pack("=q", 5)
    for size, kind in ((8, FLOAT), (1, BOOL)):
        with pytest.raises(TypeError, match=r"is a count of units in 8 bytes, but the parameter is of the kind"):
            one(value, size, kind)
    with pytest.raises(TypeError, match=r"is a count of units|is in host memory"):
        one(value, 8, POINTER)


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
    value = make(1.5)
    assert one(value, 2, FLOAT) == struct.pack("=e", 1.5)
    assert one(value, 4, FLOAT) == struct.pack("=f", 1.5)
    assert one(value, 8, FLOAT) == struct.pack("=d", 1.5)
    assert one(value, 2, BFLOAT) == one(value, 2, UNKNOWN) == one(value, 2, BYTES) == struct.pack("=f", 1.5)[2:]
    assert one(make(3.0), 4, INT) == struct.pack("=i", 3)
    with pytest.raises(TypeError, match=r"1\.5 is not an integer"):
        one(value, 2, INT)
    for kind in (POINTER, ADDRESS_OR_INT):
        with pytest.raises(TypeError, match="a float cannot fill a parameter of 8 bytes that is a pointer"):
            one(value, 8, kind)
    with pytest.raises(OverflowError, match="does not fit"):
        one(make(2.0**100), 2, FLOAT)


def test_arrays_of_other_formats() -> None:
    """The user would see NumPy's error about its own buffers, or a `__half` would get the bits of a bfloat16."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    three = np.array([1, 2, 3], ml_dtypes.bfloat16)
    assert one(three, 6) == one(three, 6, BYTES) == three.tobytes()
    assert one(np.array(1.5, ml_dtypes.bfloat16), 2, FLOAT) == struct.pack("=e", 1.5)
    with pytest.raises(TypeError, match="is an array in host memory, but the parameter is of the kind 'float'"):
        one(three[:1], 2, FLOAT)


def test_long_doubles() -> None:
    """np.longdouble(0.5) could not be given to a `double`, or a large np.longdouble would arrive as infinity."""
    assert one(np.longdouble(0.5), 8, FLOAT) == struct.pack("=d", 0.5)
    with pytest.raises(TypeError, match=r"0\.5 is not an integer"):
        one(np.longdouble(0.5), 4, INT)
    large = np.longdouble(2.0) ** 5000
    if np.isfinite(large):
        with pytest.raises(OverflowError, match="does not fit a parameter of 8 bytes"):
            one(large, 8, FLOAT)
    assert one(np.longdouble("inf"), 8, FLOAT) == struct.pack("=d", math.inf)


class OneDouble(ctypes.Structure):
    _fields_ = (("a", ctypes.c_double),)


@pytest.mark.parametrize("value", [OneDouble(5.0), np.array([(5.0,)], dtype=[("a", "f8")])[0]], ids=["ctypes", "numpy"])
def test_structs_are_no_numbers(value: Any) -> None:
    """A struct of a `double` given to a `long long` or a pointer would arrive as the bits of the `double`."""
    assert one(value, 8, BYTES) == one(value, 8, UNKNOWN) == struct.pack("=d", 5.0)
    for kind in (INT, UINT, BITS, FLOAT, POINTER, ADDRESS_OR_INT):
        with pytest.raises(
            TypeError, match=r"is a struct, but the parameter is of the kind .*; pass one of its members"
        ):
            one(value, 8, kind)
