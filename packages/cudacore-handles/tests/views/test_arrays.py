# SPDX-License-Identifier: Apache-2.0
"""Copies between buffers and the arrays of other libraries."""

from __future__ import annotations

import ctypes
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import dlpack_producers as producers
import numpy as np
import pytest
from kernel_sources import PTX

import cudacore_handles as ch


@pytest.fixture
def buffer(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    """Give 16 bytes of device memory."""
    return device.allocate(16, stream=stream)


class Exported:
    """An array with one protocol only."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Tensor:
    """A tensor in host memory that has only the DLPack protocol."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()  # type: ignore[no-any-return]


ARRAYS = {
    "float32": np.arange(4, dtype=np.float32),
    "two dimensions": np.arange(6, dtype=np.int16).reshape(2, 3),
    "no dimension": np.array(2.5),
    "no elements": np.zeros((3, 0)),
    "big-endian": np.arange(4, dtype=">i4"),
    "complex": np.array([1 + 2j, 3]),
    "half": np.arange(4, dtype=np.float16),
    "struct": np.array([(1, 2.5)], dtype=[("O", "i4"), ("x", "f8")]),
    "dates": np.array(["2020-01-01", "NaT"], "M8[ns]"),
    "text": np.array(["a", "bcd"]),
    "ctypes": (ctypes.c_int * 3)(1, 2, 3),
    "bytearray": bytearray(b"abc"),
}


@pytest.mark.parametrize("source", ARRAYS.values(), ids=ARRAYS)
def test_there_and_back(device: ch.Device, stream: ch.Stream, source: Any) -> None:
    """Arrays that NumPy supports would be refused, or would be copied incorrectly."""
    data = np.asarray(source).tobytes()
    buffer = device.allocate(len(data), stream=stream)
    buffer.copy_from(source, stream=stream)
    back = bytearray(len(data)) if isinstance(source, bytearray) else np.zeros_like(np.asarray(source))
    assert buffer.copy_to(back, stream=stream) is back
    assert np.asarray(back).tobytes() == data  # no sync, because copy_to() waits for the bytes


def test_dlpack_of_the_host(buffer: ch.Buffer, stream: ch.Stream) -> None:
    """Host tensors of libraries other than NumPy could not be copied."""
    source, back = np.arange(2.0), np.zeros(2)
    buffer.copy_from(Tensor(source), stream=stream)
    buffer.copy_to(Tensor(back), stream=stream)
    assert np.array_equal(source, back)


READ_ONLY = np.zeros(16, np.uint8)
READ_ONLY.flags.writeable = False
OBJECTS = np.zeros(2, object)


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.zeros(3), ValueError, "{name} has 24 bytes, and the buffer 16; they must be the same"),
        (np.zeros(0), ValueError, "{name} has 0 bytes, and the buffer 16"),
        (np.zeros((2, 2), np.int32, order="F")[:, ::1], ValueError, "{name} is not C-contiguous"),
        (np.zeros(8, np.int32)[::2], ValueError, "{name} is not C-contiguous"),
        (np.zeros(8, "M8[s]")[::4], ValueError, "{name} is not C-contiguous"),
        (OBJECTS, TypeError, "{name} is an array of Python objects"),
        (memoryview(OBJECTS), TypeError, "{name} is an array of Python objects"),
        (np.zeros(1, [("a", object), ("b", "i8")]), TypeError, "{name} is an array of Python objects"),
        (np.zeros(1, [("a", object), ("b", "M8[s]")]), TypeError, "Python objects cannot be used on a device"),
        ((ctypes.py_object * 2)(), TypeError, "{name} is an array of Python objects"),
        ([1, 2], TypeError, "{name} must be a Buffer, or an array"),
        ("text", TypeError, "{name} must be a Buffer, or an array"),
        (16, TypeError, "{name} must be a Buffer, or an array"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, (str, type)) else None,
)
def test_what_cannot_be_copied(
    buffer: ch.Buffer, stream: ch.Stream, array: Any, error: type[Exception], message: str
) -> None:
    """A copy would overwrite Python objects and crash the interpreter, or would copy only a part of the data."""
    with pytest.raises(error, match=re.escape(message.format(name="src"))):
        buffer.copy_from(array, stream=stream)
    with pytest.raises(error, match=re.escape(message.format(name="dst"))):
        buffer.copy_to(array, stream=stream)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"mask": np.zeros(16, bool)}, BufferError, "mask is not supported"),
        ({"shape": 16}, TypeError, "shape must be a tuple of ints, not 16"),
        ({"shape": (-16,)}, ValueError, "Extents must be non-negative"),
        ({"shape": (2**62, 2**62, 0)}, ValueError, "has 0 bytes"),
        ({"typestr": 3}, TypeError, "the typestr of Exported is 3"),
        ({"strides": ()}, ValueError, "Strides, if provided, must have the same length as shape"),
        ({"data": None}, BufferError, "{interface}"),
        ({"data": (-1, False)}, BufferError, "the data of the {interface} is (-1, False)"),
        ({"data": (2**64, False)}, BufferError, "the data of the {interface} is"),
        ({"data": (0, False)}, BufferError, "has no address, but 16 elements"),
    ],
)
@pytest.mark.parametrize("interface", ["__array_interface__", "__cuda_array_interface__"])
def test_bad_interfaces(
    buffer: ch.Buffer, stream: ch.Stream, interface: str, fields: Any, error: type[Exception], message: str
) -> None:
    """Masked elements would be copied, or the error would be about Python's internals."""
    source = np.zeros(16, np.uint8)
    whole = {"shape": (16,), "typestr": "|u1", "data": (source.ctypes.data, False), "version": 3}
    if interface == "__cuda_array_interface__":
        whole["data"] = (buffer.handle, False)
    array = Exported(**{interface: {**whole, **fields}})
    with pytest.raises(error, match=re.escape(message.format(interface=interface))):
        buffer.copy_from(array, stream=stream)


@pytest.mark.parametrize(
    "masked",
    [
        np.ma.array(np.zeros(4, np.int32), mask=[0, 1, 0, 0]),
        np.ma.array(np.zeros(4, "i2, i2"), mask=[(0, 0), (0, 0), (0, 1), (0, 0)]),
        np.ma.array(np.zeros(16, "u1"), mask=True),
    ],
    ids=["some", "fields", "all"],
)
def test_masked_arrays(buffer: ch.Buffer, stream: ch.Stream, masked: Any) -> None:
    """Values under the mask would be copied as if they were valid, or be written and stay hidden."""
    viewed = ch.StridedMemoryView
    calls: list[tuple[str, Callable[[Any], object]]] = [
        ("src", lambda array: buffer.copy_from(array, stream=stream)),
        ("dst", lambda array: buffer.copy_to(array, stream=stream)),
        ("obj", viewed.from_any_interface),
        ("obj", viewed.from_array_interface),
    ]
    if masked.dtype.names is None:
        calls.append(("obj", viewed.from_dlpack))
    for name, call in calls:
        with pytest.raises(TypeError, match=f"^{name} has masked elements, and the mask would be lost; give the"):
            call(masked)
        call(np.ma.array(masked.data))


def test_masked_values_of_fills(buffer: ch.Buffer, stream: ch.Stream) -> None:
    """A fill with a masked value would use the value under the mask."""
    for value in (np.ma.masked, np.ma.array(3, dtype="i4", mask=True), np.ma.array([3], dtype="u1", mask=[True])):
        with pytest.raises(TypeError, match=r"^value has masked elements, and the mask would be lost; give the"):
            buffer.fill(value, stream=stream)
    buffer.fill(np.ma.array([3], dtype="u1"), stream=stream)


@pytest.mark.parametrize(
    "array",
    [READ_ONLY, bytes(16), pytest.param(Tensor(READ_ONLY), marks=producers.needs_versioned_numpy)],
    ids=["NumPy", "bytes", "DLPack"],
)
def test_read_only(buffer: ch.Buffer, stream: ch.Stream, array: Any) -> None:
    """A copy to a bytes object or a read-only array would change the object."""
    with pytest.raises(ValueError, match="dst is read-only, and must be writable"):
        buffer.copy_to(array, stream=stream)


class LazyTensor(producers.ExchangedArray):
    """A tensor like PyTorch's with a flag: its values are the conjugates, or the negatives, of those in memory."""

    bit = ""

    def is_conj(self) -> bool:
        return self.bit == "conj"

    def is_neg(self) -> bool:
        return self.bit == "neg"


class LazyInterface(LazyTensor):
    """A LazyTensor with an array interface, which does not report the flag."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = "<c8" if self.bit == "conj" else "<f4"
        strides = tuple(8 for _ in self.shape)
        return {"version": 2, "shape": self.shape, "typestr": typestr, "data": (self.ptr, False), "strides": strides}


@pytest.mark.parametrize("cls", [LazyTensor, LazyInterface])
@pytest.mark.parametrize(
    ("bit", "dtype", "shape", "strides"),
    [("conj", (5, 64, 1), (2,), (1,)), ("neg", (2, 32, 1), (2,), (2,)), ("neg", (2, 32, 1), (), ())],
)
def test_tensors_that_are_conjugated_lazily(
    buffer: ch.Buffer, stream: ch.Stream, cls: Any, bit: str, dtype: Any, shape: Any, strides: Any
) -> None:
    """A kernel, a view or a copy would silently use other values than PyTorch shows."""
    tensor = cls(buffer.handle, shape, strides, device=(producers.CUDA, buffer.device_id), dtype=dtype)
    add = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
    one = ch.LaunchConfig(grid=1, block=1)
    uses = [
        lambda: ch.StridedMemoryView.from_any_interface(tensor, stream),
        lambda: ch.StridedMemoryView.from_dlpack(tensor, stream),
        lambda: ch.launch(stream, one, add, tensor, 1),
        lambda: add.prepare(stream, one, tensor, 1),
        lambda: buffer[: tensor.nbytes].copy_from(tensor, stream=stream),
        lambda: buffer[: tensor.nbytes].copy_to(tensor, stream=stream),
    ]
    if cls is LazyInterface:
        uses.append(lambda: ch.StridedMemoryView.from_cuda_array_interface(tensor, stream))
    for use in uses:
        tensor.bit = bit
        with pytest.raises(TypeError, match=rf"PyTorch's {bit} bit set: .*resolve_{bit}\(\)"):
            use()
    assert tensor.deleted == tensor.lent
    tensor.bit = ""
    uses[0]()
    uses[2]()


def test_tensors_without_memory(buffer: ch.Buffer, stream: ch.Stream) -> None:
    """PyTorch's fake tensors, which have no memory, would be NULL in a kernel, and the context would be lost."""
    add = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
    one = ch.LaunchConfig(grid=1, block=1)
    for cls in (producers.ExchangedArray, producers.Array):
        fake = cls(0, (4,), (1,), device=(producers.CUDA, buffer.device_id))
        with pytest.raises(BufferError, match="has elements, but no memory"):
            ch.StridedMemoryView.from_any_interface(fake, stream)
    with pytest.raises(BufferError, match="has elements, but no memory"):
        ch.launch(stream, one, add, producers.ExchangedArray(0, (4,), (1,), device=(producers.CUDA, 0)), 1)
    empty = producers.ExchangedArray(0, (4, 0), (1, 1), device=(producers.CUDA, buffer.device_id))
    assert ch.StridedMemoryView.from_any_interface(empty, stream).size == 0


def test_an_interface_that_raises(device: ch.Device, buffer: ch.Buffer, stream: ch.Stream) -> None:
    """A copy would refuse PyTorch's tensors that require a gradient, although kernels and views accept them."""

    class Tensor(producers.ExchangedArray):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad")

    there = device.allocate(16, stream=stream)
    tensor = Tensor(there.handle, (4,), (1,), device=(producers.CUDA, device.device_id))
    buffer.copy_from(tensor, stream=stream)
    buffer.copy_to(tensor, stream=stream)


def test_numpy_is_being_imported(buffer: ch.Buffer, stream: ch.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy would fail while another thread is importing NumPy: NumPy's modules exist, but are still empty."""
    for name in ("numpy", "numpy.ma"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    back = bytearray(buffer.size)
    buffer.copy_from(bytes(range(buffer.size)), stream=stream)
    buffer.copy_to(back, stream=stream)
    assert back == bytes(range(buffer.size))


def test_shape(device: ch.Device, stream: ch.Stream) -> None:
    """Each use of a view's shape would make another tuple, or views would share one."""
    view = device.allocate(24, stream=stream).view("u1", (2, 3, 4))
    assert view.shape == (2, 3, 4)
    assert view.shape is view.shape
    assert (view[1].shape, view[:, 0].shape, view.shape) == ((3, 4), (2, 4), (2, 3, 4))


def test_copies_of_arrays(device: ch.Device, stream: ch.Stream) -> None:
    """An array of NumPy would need to be wrapped for a copy, or a part of a view would have other elements."""
    values = np.arange(24, dtype="f4").reshape(4, 6)
    view = device.allocate(values.nbytes, stream=stream).view("f4", values.shape)
    view.copy_from(values[::-1], stream)
    result = np.zeros((6, 4), "f4")
    view.view(view._layout.permuted((1, 0))).copy_to(result, stream)
    assert (result == values[::-1].T).all()
    for key in (np.s_[1], np.s_[:, 1], np.s_[1:3, ::-2], np.s_[:, -1], np.s_[2, 3]):
        part = np.zeros_like(values[key])
        view[key].copy_to(part, stream)
        assert (part == values[::-1][key]).all(), key
    assert [row.shape for row in view] == [(6,)] * 4
    with pytest.raises(IndexError):
        view[4]
    read_only = np.zeros((4, 6), "f4")
    read_only.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        view.copy_to(read_only, stream)
    view.copy_from(read_only, stream)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="f4").reshape(2, 3),
        np.arange(24, dtype="i2").reshape(4, 6)[::2, ::-3],
        np.array(2.5),
        np.zeros((0, 3)),
        np.array([(1, 2.5)], "i4,f8"),
        np.array(["2026-01-01"], "M8[D]"),
    ],
    ids=["dense", "strided", "scalar", "empty", "struct", "date"],
)
def test_to_device(device: ch.Device, stream: ch.Stream, array: Any) -> None:
    """The copy on the device would have another shape, type or order than the array."""
    copy = device.to_device(array, stream=stream)
    assert (copy.shape, copy.dtype) == (array.shape, array.dtype)
    assert copy._layout.is_contiguous_c
    result = np.zeros(array.shape, array.dtype)
    copy.copy_to(result, stream)
    assert (result == array).all()
    again = device.to_device(copy, stream=stream)
    assert array.size == 0 or again.ptr != copy.ptr
    with pytest.raises(BufferError, match="list"):
        device.to_device([1, 2], stream=stream)  # type: ignore[arg-type]


# ---- fields of structures

PARTICLE = np.dtype([("x", "f4"), ("id", "i4"), ("move", "f8", (2, 3))], align=True)


def test_fields_of_structures(device: ch.Device, stream: ch.Stream) -> None:
    """A field would have other values, shape or strides than NumPy's, or not keep the memory alive."""
    array = np.zeros((3, 2), PARTICLE)
    array["x"] = np.arange(6).reshape(3, 2)
    array["move"] = np.arange(36).reshape(3, 2, 2, 3)
    particles = device.to_device(array, stream=stream)
    for part, expected in ((particles, array), (particles[1:, ::-1], array[1:, ::-1])):
        for name in ("x", "id", "move"):
            field = part.field(name)
            assert (field.shape, field.dtype) == (expected[name].shape, expected[name].dtype)
            assert field.ptr - part.ptr == PARTICLE.fields[name][1]
            found = np.zeros(expected[name].shape, expected[name].dtype)
            field.copy_to(found, stream)
            np.testing.assert_array_equal(found, expected[name])
    x = particles["x"]  # the same as field("x")
    del particles, part, field
    x.copy_from(np.full((3, 2), 7, np.float32), stream)
    found = np.zeros((3, 2), np.float32)
    x.copy_to(found, stream)
    assert (found == 7).all()


def test_fields_that_cannot_be_viewed(device: ch.Device, stream: ch.Stream) -> None:
    """A field would be at a wrong address, or the error would not say which fields there are."""
    plain = device.to_device(np.zeros(4, "f4"), stream=stream)
    with pytest.raises(ValueError, match="no field 'x': the type is float32, and it is not a structure"):
        plain.field("x")
    packed = device.to_device(np.zeros(4, [("a", "i4"), ("b", "f8")]), stream=stream)
    with pytest.raises(ValueError, match=r"no field 'c': .* its fields are 'a', 'b'"):
        packed.field("c")
    with pytest.raises(ValueError, match=r"no field \['a'\]: "):
        packed.field(["a"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"strides must be divisible by itemsize, and they are \(12,\) bytes"):
        packed.field("b")
    assert packed.field("a").strides == (3,)
