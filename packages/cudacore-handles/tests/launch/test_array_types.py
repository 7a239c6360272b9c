# SPDX-License-Identifier: Apache-2.0
"""Arrays whose elements are not of the type that the kernel's pointer points to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from dlpack_producers import CUDA, Array, ExchangedArray, Interface
from packing import ADDRESS

import cudacore_handles as ch
from cudacore_handles import _native
from cudacore_handles._base.element_types import BY_NAME, C_NAMES
from cudacore_handles._code.param_kinds import ParamKind, pack_layout

POINTER = (0, 8, ParamKind.POINTER)
ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)


class CupyArray:
    """An array whose address, device and dtype are read from attributes."""

    class Memory:
        ptr = ADDRESS
        device_id = 0

    data = Memory()

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class Ndarray(CupyArray):
    pass


CupyArray.__module__, CupyArray.__qualname__ = "cupy", "ndarray"


class DType(Interface):
    """An array with ``__cuda_array_interface__`` and a dtype."""

    dtype = "of some library"


class DLPackArray(Array):
    pass


def exported(cls: type[Array], name: str, lanes: int = 1) -> Array:
    return cls(ADDRESS, (4,), device=(CUDA, 0), dtype=(*BY_NAME[name], lanes))


def by_interface(name: str) -> Interface:
    return DType(data=(ADDRESS, False), shape=(4,), typestr=np.dtype(name).str)


# How an array of a type is made, by the protocol that it is read by.
MAKERS: dict[str, Callable[[str], Any]] = {
    "exchange API": lambda name: exported(ExchangedArray, name),
    "DLPack": lambda name: exported(DLPackArray, name),
    "interface": by_interface,
    "attributes": lambda name: Ndarray(np.dtype(name)),
}
NUMPY_TYPES = [*(f"{k}{bits}" for k in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32", "float64",
               "complex64", "complex128", "bool"]  # fmt: skip
# The types of arrays that a pointer takes besides its own.
ALSO = {
    "bool": {"int8", "uint8"},
    "int8": {"uint8", "bool"},
    **{f"int{bits}": {f"uint{bits}"} for bits in (16, 32, 64)},
    **{f"uint{bits}": {f"int{bits}"} for bits in (16, 32, 64)},
    "float32": {"complex64"},
    "float64": {"complex128"},
    "complex64": {"float32"},
    "complex128": {"float64"},
    "bfloat16": {"int16", "uint16"},
    **{name: {"int8", "uint8", "bool"} for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")},
}


def pack(value: Any, pointee: str) -> bytes:
    return _native.pack(pack_layout([ch.ParamInfo(*POINTER, pointee)]), (value,), None)


@pytest.mark.parametrize("protocol", MAKERS)
@pytest.mark.parametrize("pointee", C_NAMES)
def test_types(pointee: str, protocol: str) -> None:
    """A kernel would read float64 as float, or an array that it can read would be refused."""
    for name in NUMPY_TYPES:
        array = MAKERS[protocol](name)
        if name == pointee or name in ALSO.get(pointee, ()):
            assert pack(array, pointee) == ADDRESS.to_bytes(8, "little")
        else:
            message = f"is an array of {name}, but the parameter is a pointer to {re.escape(C_NAMES[pointee])}; convert"
            with pytest.raises(TypeError, match=message):
                pack(array, pointee)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("cls", [ExchangedArray, DLPackArray])
def test_types_that_numpy_does_not_have(cls: type[Array], name: str) -> None:
    """bfloat16 would be taken for half, or one format of 8 bits for the other."""
    array = exported(cls, name)
    pack(array, name)
    for pointee in C_NAMES:
        if pointee != name:
            with pytest.raises(TypeError, match=f"is an array of {name}, but the parameter is a pointer to "):
                pack(array, pointee)


def test_message() -> None:
    """The error would not say which argument it is, what was given, what is wanted, and what to do."""
    with pytest.raises(TypeError) as caught:
        _native.pack(pack_layout([ch.ParamInfo(*POINTER), ch.ParamInfo(8, 8, ParamKind.POINTER, "float32")]),
                     (0, exported(ExchangedArray, "float64")), None)  # fmt: skip
    assert str(caught.value) == (
        "argument 1: dlpack_producers.ExchangedArray is an array of float64, but the parameter is a pointer to float; "
        "convert it to float32, or pass its view as float32, or its address, if this is meant"
    )


@pytest.mark.parametrize("protocol", MAKERS)
def test_pointers_to_anything(protocol: str) -> None:
    """``void *``, ``char *`` and pointers to structures would not take every array."""
    for name in NUMPY_TYPES:
        pack(MAKERS[protocol](name), "")


def test_dtype_as_a_property_of_a_c_type() -> None:
    """Each launch would release a reference to the property that it does not own, as with arrays of CuPy."""

    class CArray(np.ndarray):
        ptr = ADDRESS

    _native.register(CArray, (("ptr",), None, "dtype"))
    array = np.zeros(3, np.float32).view(CArray)
    pack(array, "float32")
    before = sys.getrefcount(np.ndarray.dtype)
    for _ in range(3):
        pack(array, "float32")
    now = sys.getrefcount(np.ndarray.dtype)  # in the assertion, pytest would keep another reference
    assert now == before


def test_property_of_another_c_type() -> None:
    """The function of a property would be called with an object that it is not for, and read any memory."""

    class Meta(type):
        dtype = property(lambda cls: np.ndarray.dtype)

    class Other(metaclass=Meta):
        ptr = ADDRESS

        def __init__(self) -> None:
            self.dtype = np.dtype("f4")

    class Address(int):
        """An address, whose property is that of its base class."""

    class Path:
        dtype = np.dtype("f4")

        def __init__(self, address: int) -> None:
            self.data = Address(address)

    _native.register(Other, (("ptr",), None, "dtype"))
    _native.register(Path, (("data", "real"), None, "dtype"))
    for address in (ADDRESS, ADDRESS + 8):
        pack(Other(), "float32")
        assert pack(Path(address), "float32") == address.to_bytes(8, "little")


def test_elements_without_a_type() -> None:
    """Memory without a type, structures, dates and vectors would be refused."""
    bytes_of_a_buffer = Interface(data=(ADDRESS, False), shape=(4,), typestr="|u1")  # without a dtype, as RMM's buffers
    values = [
        bytes_of_a_buffer,
        exported(ExchangedArray, "float32", lanes=4),
        ExchangedArray(ADDRESS, (4,), device=(CUDA, 0), dtype=(3, 64, 1)),  # opaque handles
        *(DType(data=(ADDRESS, False), shape=(4,), typestr=typestr) for typestr in ("|V12", "<M8[s]", ">f4", "", "|b")),
        Interface(data=(ADDRESS, False), shape=(4,), typestr=None),
        Ndarray(np.dtype("i4, f8")),
        Ndarray(np.dtype("M8[s]")),
    ]
    for value in values:
        assert pack(value, "float32") == ADDRESS.to_bytes(8, "little")
    without = Interface(data=(ADDRESS, False), shape=(4,), typestr="<f4")
    del without.__cuda_array_interface__["typestr"]
    pack(without, "float64")
    for raw in ("<f8", "|b1"):
        with pytest.raises(TypeError, match="is an array of"):
            pack(Interface(data=(ADDRESS, False), shape=(4,), typestr=raw), "float32")


@pytest.fixture
def unchecked() -> Iterator[None]:
    assert ch.set_array_type_checks(False)
    yield
    assert not ch.set_array_type_checks(True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("protocol", MAKERS)
def test_checks_that_are_turned_off(protocol: str) -> None:
    """A program that passes other types on purpose could not run."""
    for name in NUMPY_TYPES:
        pack(MAKERS[protocol](name), "float32")


def test_turning_off() -> None:
    """A wrong argument would turn the checks off, or the earlier setting could not be restored."""
    with pytest.raises(TypeError, match="enabled must be a bool, not a 'int'"):
        ch.set_array_type_checks(0)  # type: ignore[arg-type]
    assert ch.set_array_type_checks(True)
    with pytest.raises(TypeError):
        pack(exported(ExchangedArray, "int32"), "float32")


# ---- launches

PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry _Z5scalePKfPhPi(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }
"""


@pytest.fixture
def scale() -> ch.Kernel:
    return ch.ObjectCode.from_ptx(PTX).get_kernel("_Z5scalePKfPhPi")


def test_parameters(scale: ch.Kernel, device: ch.Device) -> None:
    """Programs could not see which types a kernel takes."""
    device.set_current()
    assert [p.pointee for p in scale.arguments_info] == ["float32", "", "int32"]
    assert repr(scale.arguments_info[0]) == "ParamInfo(offset=0, size=8, kind='pointer', pointee='float32')"


def test_launches(scale: ch.Kernel, device: ch.Device, stream: ch.Stream) -> None:
    """A launch would run with an array of another type; or a Buffer, which has no type, would be refused."""
    buffer = device.allocate(64, stream=stream)
    right, wrong = buffer.view("float32"), buffer.view("float64")
    for _ in "ab":  # the first launch of a kernel runs other code than later ones
        ch.launch(stream, ONE_BLOCK, scale, right, wrong, buffer.view("uint32"))
        ch.launch(stream, ONE_BLOCK, scale, buffer, buffer, buffer)
        with pytest.raises(TypeError, match=r"argument 0: .*StridedMemoryView is an array of float64, .* to float;"):
            ch.launch(stream, ONE_BLOCK, scale, wrong, buffer, buffer)
    prepared = scale.prepare(stream, ONE_BLOCK, right, buffer, buffer)
    with pytest.raises(TypeError, match=r"argument 0: .*of float64"):
        scale.prepare(stream, ONE_BLOCK, wrong, buffer, buffer)
    with pytest.raises(TypeError, match=r"argument 2: .*of float64"):
        prepared(right, buffer, wrong)
    prepared[1] = wrong
    with pytest.raises(TypeError, match=r"argument 2: .*of float64"):
        prepared[2] = wrong
    prepared()
    stream.sync()
