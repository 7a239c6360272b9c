# SPDX-License-Identifier: Apache-2.0
"""Views of NumPy arrays, by each of the interfaces, and of the arrays of other libraries."""

from __future__ import annotations

import ctypes
import gc
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dlpack_producers import CUDA, PRODUCERS, Array, ExchangedArray, Interface, host

import cudacore_handles as ch
from cudacore_handles import Buffer, Device, Stream, StridedMemoryView
from cudacore_handles._views.layout import _StridedLayout

View = StridedMemoryView

# ---- NumPy


def test_numpy_arrays(buffer: Buffer, pinned: Callable[[int], Buffer]) -> None:
    """NumPy would make an array of one Python object from a view, or copy memory that it can share."""
    memory = pinned(24)
    view = memory.view("int32", (2, 3))
    array = np.asarray(view)
    assert (array.dtype, array.shape, array.ctypes.data) == (np.int32, (2, 3), memory.handle)
    array[1, 2] = 7
    assert np.array(view.view(view._layout[::-1, ::2]), dtype="f8").tolist() == [[0, 7], [0, 0]]
    assert np.array(view).ctypes.data != memory.handle
    memory.close()  # the array still keeps the memory
    del view, memory
    gc.collect()
    assert array[1, 2] == 7
    with pytest.raises(TypeError, match=r"a view of device memory is not a NumPy array: .*copy_to"):
        np.asarray(buffer.view("int32"))


@pytest.mark.parametrize("dtype", ["f4", ">f4", "M8[s]", "U3", "S5", "c16", "?", "f4, i2", "V7"])
def test_numpy_arrays_of_every_type(dtype: str) -> None:
    """Elements of a NumPy type would be read as another type, or the array would be refused."""
    source = np.zeros((2, 3), dtype)
    source.view("u1")[:] = np.arange(source.nbytes, dtype="u1").reshape(source.view("u1").shape) % 2
    expected = source[:, ::-1]
    view = View.from_array_interface(expected)
    array = np.asarray(view.view(view._layout, np.dtype(dtype)))
    assert (array.dtype, array.shape, array.strides) == (expected.dtype, expected.shape, expected.strides)
    assert array.tobytes() == expected.tobytes()


def test_numpy_arrays_of_vectors(pinned: Callable[[int], Buffer]) -> None:
    """Elements that consist of several numbers would lose some numbers."""
    buffer = pinned(32)
    buffer.__buffer__()[:] = np.arange(8, dtype="f4").tobytes()
    array = np.asarray(buffer.view(np.dtype("(2,)f4"), (2, 2)))
    assert array.tolist() == np.arange(8).reshape(2, 2, 2).tolist()


def test_numpy_arrays_of_views_without_a_type(pinned: Callable[[int], Buffer]) -> None:
    """Elements of unknown type would be mistaken for numbers; a read-only array would be written to."""
    buffer = pinned(24)
    array = np.asarray(View.from_buffer(buffer, (2, 3), itemsize=4, is_readonly=True))
    assert array.dtype == "V4"
    assert not array.flags.writeable
    assert np.asarray(View.from_buffer(buffer, (0, 3), dtype="i4")).shape == (0, 3)
    assert np.asarray(View.from_buffer(buffer, (), dtype="i4")).shape == ()


def test_copies_for_numpy(pinned: Callable[[int], Buffer]) -> None:
    """With some versions of NumPy, an array would be an error, or a copy instead of the memory, or the reverse."""
    memory = pinned(8)
    for exported, dtype in ((memory, "u1"), (memory.view("i4"), "i4")):
        for how in ({}, {"copy": None}, {"copy": False}, {"dtype": dtype, "copy": False}):
            assert exported.__array__(**how).ctypes.data == memory.handle
        for how in ({"copy": True}, {"dtype": "f8"}):
            assert exported.__array__(**how).ctypes.data != memory.handle
        with pytest.raises(ValueError, match="float64 only as a copy"):
            exported.__array__("f8", copy=False)


# ---- interfaces


def test_cuda_array_interface(buffer: Buffer, stream: Stream) -> None:
    """CuPy and Numba would get another array, or would not get the stream to wait for."""
    view = buffer.view("float32", (4, 4))
    assert view.__cuda_array_interface__ == {
        "shape": (4, 4), "strides": None, "typestr": "<f4", "data": (buffer.handle, False), "version": 3,
        "stream": int(stream.handle),
    }  # fmt: skip
    part = View.from_buffer(buffer, (2, 2), (8, 2), dtype="int16", is_readonly=True).__cuda_array_interface__
    assert (part["strides"], part["typestr"], part["data"]) == ((16, 4), "<i2", (buffer.handle, True))
    assert view.view(_StridedLayout((0,), None, 4)).__cuda_array_interface__["data"] == (0, False)
    assert buffer.__cuda_array_interface__["shape"] == (64,)
    assert not hasattr(View.from_any_interface(np.zeros(3)), "__cuda_array_interface__")


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"version": 1}, BufferError, "only versions 2 and 3 .* are supported, and the array's is 1"),
        ({"mask": 3}, BufferError, "mask is not supported"),
        ({"strides": (3,)}, ValueError, "divisible by itemsize"),
        ({"typestr": "xx"}, TypeError, "dtype is 'xx'"),
        ({"typestr": 3}, TypeError, "the typestr of Interface is 3"),
        ({"typestr": "|O"}, TypeError, "Python objects"),
        ({"data": 3}, BufferError, r"must be \(address, read-only\)"),
        ({"data": (0, False)}, BufferError, "no address, but 4 elements"),
        ({"shape": (-4,)}, ValueError, "non-negative"),
        ({"stream": 0}, BufferError, "stream of the __cuda_array_interface__ is 0"),
        ({"stream": 2**64}, BufferError, "stream of the __cuda_array_interface__ is 18446744073709551616"),
    ],
)
def test_bad_cuda_array_interface(fields: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """An invalid CUDA array interface would be accepted."""
    good = {"shape": (4,), "data": (buffer.handle, False)}
    with pytest.raises(error, match=message):
        View.from_cuda_array_interface(Interface(**(good | fields)), -1)


def test_version_2_of_the_cuda_array_interface(
    buffer: Buffer, stream: Stream, device: Device, producer_stream: Stream
) -> None:
    """PyTorch's tensors, whose interface names no stream, would be refused, or be used before they are written."""
    fields = {"shape": (2, 4), "strides": (32, 4), "data": (buffer.handle, True), "version": 2}
    view = View.from_cuda_array_interface(Interface(**fields), stream)
    assert (view.ptr, view.shape, view.strides, view.readonly) == (buffer.handle, (2, 4), (8, 1), True)
    assert View.from_any_interface(Interface(**fields), -1).shape == (2, 4)

    tensor = ExchangedArray(buffer.handle, (2, 4), device=(CUDA, 0))
    tensor.__cuda_array_interface__ = Interface(**fields).__cuda_array_interface__  # type: ignore[attr-defined]
    assert View.from_cuda_array_interface(tensor, stream).exporting_obj is tensor


def test_memory_that_cuda_does_not_know() -> None:
    """A CUDA array interface with an address that CUDA has not allocated would be accepted."""
    memory, ptr = host(np.arange(4))
    with pytest.raises(BufferError, match="which is not memory of CUDA"):
        View.from_cuda_array_interface(Interface(shape=(4,), data=(ptr, False)), -1)
    del memory


@PRODUCERS
def test_an_empty_tensor_with_an_offset(producer: type[Array]) -> None:
    """A slice of an empty tensor would be a view of the address 8."""
    array = producer(0, (0,), offset=8)
    assert View.from_any_interface(array, -1).ptr == 0


class Fallback:
    """An array whose DLPack export fails, and that has another interface."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.array = np.arange(3, dtype=np.float32)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


@pytest.mark.parametrize("error", [BufferError("read-only"), TypeError("no"), NotImplementedError(), RuntimeError("x")])
def test_the_next_interface_where_the_first_fails(error: Exception) -> None:
    """An array could not be used if one of its interfaces fails, although another one works."""
    array = Fallback(error)
    assert np.array_equal(np.asarray(View.from_any_interface(array, -1)), array.array)
    with pytest.raises(type(error)):
        View.from_dlpack(array, -1)


def test_errors_of_producers_before_dlpack_1() -> None:
    """The reason why an array is refused would be replaced by a keyword that its library does not have."""

    class Older:
        def __dlpack__(self, stream: object = None) -> object:
            raise BufferError("the reason")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(BufferError, match="the reason"):
        View.from_dlpack(Older(), -1)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), ch.CUDAError("cuCall", 1, "X", "meaning")])
def test_no_next_interface_for_other_errors(error: BaseException) -> None:
    """An interrupt, or an error of the driver, would be swallowed."""
    with pytest.raises(type(error)):
        View.from_any_interface(Fallback(error), -1)


def test_the_first_error_where_all_interfaces_fail() -> None:
    """The reason why an array is refused would be replaced by the reason of another interface."""

    class Refuses(Fallback):
        @property
        def __array_interface__(self) -> dict[str, Any]:
            raise ValueError("the second")

    with pytest.raises(BufferError, match="the first"):
        View.from_any_interface(Refuses(BufferError("the first")), -1)


@pytest.mark.parametrize("cls", [np.ndarray, StridedMemoryView, Buffer, Fallback, int])
def test_a_class_is_no_array(cls: type) -> None:
    """Attributes for instances would be read from a class: "'property' object is not subscriptable"."""
    itself = rf"it is the class {cls.__name__} itself; give an instance"
    with pytest.raises(BufferError, match=itself):
        View.from_any_interface(cls, -1)
    with pytest.raises(AttributeError, match=itself):
        View.from_cuda_array_interface(cls)
    with pytest.raises(AttributeError, match=itself):
        View.from_array_interface(cls)
    with pytest.raises(BufferError, match=itself):
        ch.args_viewable_as_strided_memory((0,))(lambda array: None)(cls)


def test_an_attribute_error_inside_of_an_interface() -> None:
    """An error in a producer's interface would be hidden, as if the object had no interface."""

    class Broken:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"data": (self.pointer, False)}  # type: ignore[attr-defined]

    failed = r"its __cuda_array_interface__ failed: .*no attribute 'pointer'"
    with pytest.raises(BufferError, match=failed) as caught:
        View.from_any_interface(Broken(), -1)
    assert isinstance(caught.value.__cause__, AttributeError)
    with pytest.raises(AttributeError, match=failed):
        View.from_cuda_array_interface(Broken(), -1)


def test_scalars_of_numpy_have_no_memory() -> None:
    """A view would read freed memory: the interface of a NumPy scalar has the address of a temporary."""
    for value in (np.float32(1), np.datetime64(1, "s")):
        with pytest.raises(TypeError, match=r"is already freed; give np\.asarray\(obj\)"):
            View.from_any_interface(value, -1)
        with pytest.raises(TypeError, match=r"is already freed; give np\.asarray\(obj\)"):
            View.from_array_interface(value)


def test_records_of_numpy() -> None:
    """A record, which has its own memory, would be refused like other scalars, or not be kept."""
    array = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f4")])
    alone = np.array((5, 6.0), dtype=array.dtype)[()]
    for record, first in ((array[1], 3), (array.view(np.recarray)[1], 3), (alone, 5)):
        view = View.from_array_interface(record)
        assert view.shape == ()
        assert view.dtype.itemsize == array.dtype.itemsize
        assert view.exporting_obj is record
        assert ctypes.c_int.from_address(view.ptr).value == first
    assert View.from_array_interface(array[1]).ptr == array.ctypes.data + array.itemsize


def test_integers_of_numpy_in_an_interface(buffer: Buffer) -> None:
    """An interface whose address or stream is an integer of NumPy would be refused."""
    given = buffer.__cuda_array_interface__
    interface = given | {"data": (np.uint64(given["data"][0]), False), "version": np.int64(3), "stream": np.int64(1)}
    array = type("Array", (), {"__cuda_array_interface__": interface})()
    assert View.from_any_interface(array, 1).ptr == given["data"][0]
    for fields in ({"data": (True, False)}, {"stream": np.bool_(True)}, {"data": ("x", False)}):
        array = type("Array", (), {"__cuda_array_interface__": interface | fields})()
        with pytest.raises(BufferError, match=r"the (data|stream) of the __cuda_array_interface__ is"):
            View.from_cuda_array_interface(array, 1)


def test_array_interface() -> None:
    """An array in host memory without DLPack would be refused or misread."""
    array = np.arange(6).astype("M8[s]")[::-2]
    view = View.from_array_interface(array)
    assert (view.ptr, view.shape, view.strides) == (array.ctypes.data, (3,), (-2,))
    assert view.dtype == array.dtype
    assert view.device_id == -1

    class Wrapped:
        __array_interface__ = array.__array_interface__

    assert View.from_any_interface(Wrapped()).dtype == array.dtype
    with pytest.raises(BufferError, match=r"does not support any data exchange protocol.*type int"):
        View.from_any_interface(3)
    with pytest.raises(AttributeError, match="type int, which has no __dlpack__"):
        View.from_dlpack(3)
    with pytest.raises(TypeError, match="Python objects"):
        View.from_array_interface(np.array([None]))


PADDED = np.dtype([("flag", "i1"), ("xy", "f4", (2,)), ("inner", [("O", "u2")])], align=True)


@pytest.mark.parametrize("dtype", [PADDED, np.dtype([("x", ">f4"), ("y", "M8[s]")]), np.dtype("V8"), np.dtype("S3")])
def test_structures(dtype: Any) -> None:
    """Structured arrays would lose the names, types and offsets of their fields."""
    array = np.zeros(3, dtype)

    class Wrapped:
        __array_interface__ = array.__array_interface__

    assert View.from_any_interface(array).dtype == dtype
    described = View.from_any_interface(Wrapped()).dtype
    assert described == np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype))
    assert described.itemsize == dtype.itemsize


def test_a_structure_of_another_size(buffer: Buffer) -> None:
    """Elements would be read with fields beyond their end."""
    fields = Interface(shape=(4,), data=(buffer.handle, False), typestr="|V8", descr=[("x", "<f8"), ("y", "<f8")])
    with pytest.raises(BufferError, match=r"has the typestr '\|V8', and a descr of 16 bytes"):
        View.from_cuda_array_interface(fields, -1)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_arrays_of_ml_dtypes(name: str) -> None:
    """The type of an array would be lost, because the array interface has only the size of these elements."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    array = np.zeros(3, getattr(ml_dtypes, name))
    view = View.from_any_interface(array)
    assert view.dtype == array.dtype
    with pytest.raises(ValueError, match="the types differ"):
        view.view(dtype=f"int{8 * array.itemsize}").copy_from(view, ch.Device().default_stream)


class CupyLike:
    """An array like CuPy's. Views read its attributes instead of an interface."""

    def __init__(self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> None:
        self.data = types.SimpleNamespace(ptr=ptr, device_id=0)
        self.shape, self.strides, self.dtype = shape, strides, np.dtype(dtype)
        self.streams: list[int] = []

    def __dlpack__(self, *, stream: int, max_version: Any) -> object:
        self.streams.append(stream)
        strides = tuple(step // self.dtype.itemsize for step in self.strides)
        return Array(self.data.ptr, self.shape, strides, device=(CUDA, 0)).__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        raise AssertionError("its arrays are on CUDA devices")


CupyLike.__module__, CupyLike.__qualname__ = "cupy", "ndarray"


def test_arrays_by_attributes(buffer: Buffer, stream: Stream) -> None:
    """CuPy's arrays would be misread, or the requested order between streams would not be established."""
    array = CupyLike(buffer.handle, (2, 3), (16, 4), "f4")
    for _ in range(2):
        view = View.from_any_interface(array, -1)
        assert (view.ptr, view.shape, view.strides, view.dtype) == (buffer.handle, (2, 3), (4, 1), np.float32)
        assert view.exporting_obj is array
        assert view.__dlpack_device__() == (CUDA, 0)
    assert View.from_dlpack(CupyLike(buffer.handle, (2,), (8,), "f4,i4"), -1).dtype == np.dtype("f4,i4")
    assert not array.streams
    assert View.from_any_interface(array, stream).strides == (4, 1)
    assert array.streams == [int(stream.handle)]
    with pytest.raises(BufferError, match="stream=None is ambiguous"):
        View.from_any_interface(array)
    with pytest.raises(ValueError, match="strides must be divisible by itemsize"):
        View.from_any_interface(CupyLike(buffer.handle, (2,), (5,), "f4"), -1)


def test_deprecated_constructor() -> None:
    """A cuda.core program that calls StridedMemoryView() would not run, or the warning would not name the method."""
    array = np.arange(4)
    with pytest.warns(DeprecationWarning, match="from_any_interface"):
        view = View(array, -1)
    assert view.ptr == array.ctypes.data
    with pytest.raises(ValueError, match="obj is missing"):
        View()


def test_args_viewable_as_strided_memory() -> None:
    """A decorated function would get a view of a wrong array, or lose its docstring, or bad arguments be accepted."""

    @ch.args_viewable_as_strided_memory((1, -1))
    def shapes(scale: int, first: Any, second: Any) -> Any:
        """Its text."""
        assert first.has_dlpack
        return scale, first.view(-1).shape, second.view().shape

    assert shapes(2, np.zeros(3), np.zeros((2, 2))) == (2, (3,), (2, 2))
    assert shapes.__doc__ == "Its text."
    with pytest.raises(IndexError, match=r"shapes\(\) takes an array as its positional argument 1, and was given 1"):
        shapes(2)
    with pytest.raises(BufferError, match="type int"):
        shapes(2, 3, np.zeros(3))
    with pytest.raises(TypeError, match="arg_indices must be a tuple of ints, not 0"):
        ch.args_viewable_as_strided_memory(0)  # type: ignore[arg-type]


# ---- other libraries


def test_pytorch_on_the_host() -> None:
    """PyTorch's tensors could not be viewed, or PyTorch could not use our views."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4).t()
    view = View.from_any_interface(tensor)
    assert (view.ptr, view.shape, view.strides) == (tensor.data_ptr(), (4, 3), (1, 4))
    assert torch.equal(torch.from_dlpack(view), tensor)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool):
        other = torch.zeros(2, 3, dtype=dtype)
        assert torch.from_dlpack(View.from_dlpack(other)).dtype == dtype


@pytest.mark.cuda_gpu
def test_pytorch_on_the_device(device: Device, stream: Stream) -> None:
    """PyTorch could not use our memory without a copy, or we could not use PyTorch's."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("needs PyTorch with CUDA")
    tensor = torch.arange(12, dtype=torch.bfloat16, device="cuda:0").reshape(3, 4)
    view = View.from_any_interface(tensor, stream)
    assert (view.ptr, view.shape) == (tensor.data_ptr(), (3, 4))
    buffer = device.allocate(64, stream=stream)
    buffer.fill(b"\0\0\x80\x3f", stream=stream)
    taken = torch.from_dlpack(buffer.view("float32", (4, 4)))
    assert taken.data_ptr() == buffer.handle
    assert taken.sum().item() == 16


@pytest.mark.cuda_gpu
@pytest.mark.parametrize("library", ["cupy", "numba"])
def test_array_libraries_on_the_device(device: Device, stream: Stream, library: str) -> None:
    """CuPy or Numba could not use our memory without a copy, or we could not use theirs."""
    module: Any = pytest.importorskip("numba.cuda" if library == "numba" else library, reason=f"needs {library}")
    buffer = device.allocate(64, stream=stream)
    buffer.fill(b"\0\0\x80\x3f", stream=stream)
    view = buffer.view("float32", (4, 4))
    if library == "cupy":
        taken, made = module.asarray(view), module.zeros((3, 4), "f4")
        assert module.from_dlpack(view).data.ptr == buffer.handle
        assert (taken.data.ptr, float(taken.sum())) == (buffer.handle, 16)
    else:
        taken, made = module.as_cuda_array(view), module.device_array((3, 4), "f4")
        assert taken.device_ctypes_pointer.value == buffer.handle
        assert taken.copy_to_host().sum() == 16
    for given in (-1, stream):
        assert View.from_any_interface(made, given).shape == (3, 4)


def test_numpy_is_imported_when_it_is_needed(run_on_driver: Callable[..., str]) -> None:
    """Programs without NumPy could not use views."""
    run_on_driver("""
        import sys
        before = set(sys.modules)  # cuda-bindings 12.9.0 is imported at the start of Python
        import cudacore_handles as ch

        device = ch.Device()
        device.set_current()
        buffer = device.allocate(64, stream=device.create_stream())
        view = buffer.view("bfloat16", (4, 4))
        view = ch.StridedMemoryView.from_any_interface(view.view(view._layout[1:]), -1)
        view.__cuda_array_interface__ if view._type >> 16 > 1 else None
        assert view.shape == (3, 4)
        assert not {"numpy", "ml_dtypes", "cuda.bindings"} & set(sys.modules) - before
    """)
