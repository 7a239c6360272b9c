# SPDX-License-Identifier: Apache-2.0
"""Views: their properties, how long they keep memory alive, and views of buffers."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import dlpack_producers
import numpy as np
import pytest
from dlpack_producers import (
    CUDA,
    CUDA_HOST,
    MANAGED,
    PADDED,
    PRODUCERS,
    READ_ONLY,
    Array,
    ExchangedArray,
    Exporter,
    OldArray,
    collect,
    host,
)

import cudacore_handles as ch
from cudacore_handles import Buffer, Device, Stream, StridedMemoryView, live_counts
from cudacore_handles._views.layout import _StridedLayout
from threads_at_once import in_threads

View = StridedMemoryView


# ---- properties of views


@PRODUCERS
def test_fields(producer: type[Array]) -> None:
    """A view would not have the address, shape or strides of the producer's array."""
    memory, ptr = host(np.arange(24))
    array = producer(ptr, (2, 3), (12, 2), offset=8, keep=memory)
    view = View.from_dlpack(array)
    assert (view.ptr, view.shape, view.strides, view.size) == (ptr + 8, (2, 3), (12, 2), 6)
    assert (view.device_id, view.is_device_accessible, view.readonly) == (-1, False, False)
    assert view.dtype == np.float32
    assert view.exporting_obj is array
    assert view._layout == _StridedLayout((2, 3), (12, 2), 4)
    assert view._layout is view._layout
    assert np.array_equal(np.from_dlpack(view), memory[2:].reshape(-1)[[[0, 2, 4], [12, 14, 16]]])
    assert repr(view) == (
        f"StridedMemoryView(ptr={ptr + 8:#x}, shape=(2, 3), strides=(12, 2), itemsize=4, dtype=float32, device_id=-1, "
        f"is_device_accessible=False, readonly=False, exporting_obj={producer.__name__})"
    )


@PRODUCERS
def test_no_strides(producer: type[Array]) -> None:
    """A tensor without strides, which old producers make, would be read through a null pointer."""
    memory, ptr = host(np.arange(6))
    view = View.from_dlpack(producer(ptr, (2, 3), keep=memory))
    assert view.strides is None
    assert view._layout == _StridedLayout((2, 3), None, 4)
    assert np.from_dlpack(view).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,) * 5, (2, 1, 3), (1,) * 64])
def test_shapes(shape: tuple[int, ...]) -> None:
    """Arrays without dimensions, without elements, or with unusually many dimensions would be misread."""
    memory, ptr = host(np.arange(6))
    view = View.from_dlpack(Array(ptr, shape, keep=memory))
    assert view.shape == shape
    assert view.size == np.prod(shape, dtype=int)
    if len(shape) <= np.asarray(0).ndim + 32:
        assert np.from_dlpack(view).shape == shape


@pytest.mark.parametrize("device", [(CUDA, 1), (CUDA_HOST, 0), (MANAGED, 0)])
def test_devices(device: tuple[int, int]) -> None:
    """An array would be attributed to another device, or to the host."""
    view = View.from_dlpack(Array(4096, (2,), device=device), -1)
    assert view.__dlpack_device__() == device
    assert view.device_id == device[1]
    assert view.is_device_accessible


DTYPES = ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str, buffer: Buffer) -> None:
    """Elements would be read as another type."""
    array = np.zeros(3, name)
    assert View.from_dlpack(array).dtype == array.dtype
    assert View.from_array_interface(array).dtype == array.dtype
    assert View.from_array_interface(array)._type == View.from_dlpack(array)._type
    named, given = View.from_buffer(buffer, 2, dtype=name), View.from_buffer(buffer, 2, dtype=array.dtype)
    assert named.dtype == given.dtype == array.dtype
    assert named._type == given._type
    assert View.from_cuda_array_interface(buffer.view(name), -1).dtype == array.dtype


SMALL = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8), "float8_e8m0fnu": (14, 8)}


@pytest.mark.parametrize("name", SMALL)
def test_types_that_numpy_lacks(name: str, buffer: Buffer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bfloat16 or float8 array would be refused, or read as another type."""
    view = View.from_buffer(buffer, (2, 2), dtype=name)
    code, bits = SMALL[name]
    assert view._type == code | bits << 8 | 1 << 16
    assert view._itemsize == bits // 8
    again = View.from_dlpack(view, -1)
    assert again._type == view._type
    made = np.dtype([("like " + name, f"V{bits // 8}")])
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(NotImplementedError, match=rf"no dtype for {name}; ml_dtypes has: pip install ml_dtypes.*uint"):
        view.dtype  # noqa: B018
    assert "dtype=?" in repr(view)
    assert view.view(dtype=f"uint{bits}").dtype == np.dtype(f"uint{bits}")
    module = types.ModuleType("ml_dtypes")
    module.__version__ = "0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ml_dtypes", module)
    with pytest.raises(NotImplementedError, match=rf"no {name}: pip install --upgrade"):
        view.dtype  # noqa: B018
    setattr(module, name, made)
    assert view.dtype == made
    assert view.dtype is view.dtype


def test_ml_dtypes(buffer: Buffer) -> None:
    """The types of ml_dtypes would not be recognized."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    for name in SMALL:
        view = View.from_buffer(buffer, 4, dtype=getattr(ml_dtypes, name))
        assert view._type == View.from_buffer(buffer, 4, dtype=name)._type
        assert view.dtype == np.dtype(getattr(ml_dtypes, name)) == View.from_dlpack(view, -1).dtype


@pytest.mark.parametrize(("dtype", "bits"), [((17, 4, 1), 4), ((0, 4, 1), 4), ((2, 0, 1), 0)])
def test_types_smaller_than_a_byte(dtype: tuple[int, int, int], bits: int) -> None:
    """Elements that share a byte would be addressed as if each had a byte of its own."""
    array = Array(4096, (4,), dtype=dtype)
    with pytest.raises(BufferError, match=f"elements of {bits} bits .*not supported; export it as bytes"):
        View.from_dlpack(array)
    assert (array.lent, array.deleted) == (1, 1)


def test_padded_types(api: Any) -> None:
    """4-bit elements that are padded to a byte each would be exported as if two of them shared a byte."""
    memory = np.arange(4, dtype=np.uint8)
    view = View.from_dlpack(Array(memory.ctypes.data, (4,), dtype=(17, 4, 1), flags=PADDED, keep=memory))
    assert view._itemsize == 1
    assert View.from_dlpack(view)._itemsize == 1
    with pytest.raises(BufferError, match=r"DLPack before 1\.0 cannot describe"):
        view.__dlpack__()
    read = dlpack_producers.TENSOR_FROM_OBJECT(api.tensor_from_object)
    with pytest.raises(BufferError, match="that a DLTensor cannot describe"):
        read(view, ctypes.byref(dlpack_producers.Tensor()))
    assert np.from_dlpack(view.view(dtype="uint8")).tolist() == [0, 1, 2, 3]


def test_lanes() -> None:
    """Vector types would lose their lanes, or their size."""
    memory, ptr = host(np.arange(8))
    view = View.from_dlpack(Array(ptr, (2,), dtype=(2, 32, 4), keep=memory))
    assert view._itemsize == 16
    assert view.dtype == np.dtype((np.float32, (4,)))


def test_unknown_type() -> None:
    """A future element type would be read as a known one."""
    view = View.from_dlpack(Array(4096, (4,), dtype=(99, 32, 1)))
    with pytest.raises(NotImplementedError, match="DLPack's type 99 with 32 bits"):
        view.dtype  # noqa: B018
    assert view.view(dtype="uint32").dtype == np.uint32


def test_read_only() -> None:
    """A view of read-only memory, or an export of the view, could be written to."""
    memory, ptr = host(np.arange(4))
    memory.flags.writeable = False
    for view in (
        View.from_dlpack(Array(ptr, (4,), flags=READ_ONLY, keep=memory)),
        View.from_any_interface(memory),
        View.from_array_interface(memory),
    ):
        assert view.readonly
        assert view.view().readonly
        with pytest.raises(BufferError, match=r"read-only, which DLPack before 1\.0 cannot express"):
            view.__dlpack__()
        assert View.from_dlpack(view).readonly
        assert not np.asarray(view).flags.writeable


@dlpack_producers.needs_versioned_numpy
def test_read_only_for_numpy() -> None:
    """NumPy would write to read-only memory that it imported by DLPack."""
    memory, ptr = host(np.arange(4))
    view = View.from_dlpack(Array(ptr, (4,), flags=READ_ONLY, keep=memory))
    assert not np.from_dlpack(view).flags.writeable


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"shape": (2**62, 4)}, OverflowError, "value too large"),
        ({"shape": (2**40, 2**40), "strides": (0, 0)}, OverflowError, "value too large"),
        ({"shape": (2, 2), "strides": (2**62, 2**62)}, OverflowError, "value too large"),
        ({"shape": (-1,)}, ValueError, "Extents must be non-negative, and one is -1"),
        ({"shape": (1,) * 65}, BufferError, "65 dimensions; 0 to 64 are known"),
        ({"shape": (2,), "device": (8, 0)}, BufferError, "device not supported.*DLPack type 8"),
        ({"shape": (2,), "version": 2}, ValueError, r"DLPack 2\.1, whose layout is not known"),
    ],
)
def test_bad_tensors(fields: Any, error: type[Exception], message: str) -> None:
    """An unusable tensor would be used, or leak."""
    array = Array(4096, **fields)
    with pytest.raises(error, match=message):
        View.from_dlpack(array, -1)
    assert array.lent == array.deleted
    exchanged = ExchangedArray(4096, **fields)
    with pytest.raises(error, match=message):
        View.from_dlpack(exchanged, -1)
    assert (exchanged.lent, exchanged.deleted) == (1, 1)


def test_enormous_but_empty() -> None:
    """An empty array would be refused because of its other extents, which do not matter."""
    assert View.from_dlpack(Array(4096, (0, 2**62, 2**62), keep=None)).size == 0


# ---- how long views keep memory alive


@PRODUCERS
def test_the_tensor_is_given_back_once(producer: type[Array]) -> None:
    """Memory would leak, be freed while a view uses it, or be freed twice."""
    memory, ptr = host(np.arange(6))
    array = producer(ptr, (2, 3), keep=memory)
    view = View.from_dlpack(array)
    inner = view.view(view._layout[1:])
    consumer = np.from_dlpack(inner)
    del view, inner
    gc.collect()
    assert (array.lent, array.deleted) == (1, 0)
    assert consumer.tolist() == [[3, 4, 5]]
    del consumer
    collect()
    assert (array.lent, array.deleted) == (1, 1)


@pytest.mark.parametrize(
    ("device", "error", "message"),
    [
        *((wrong, TypeError, "must return two ints") for wrong in (None, 1, (), (1.5, 0), "xy", {})),
        *(((n, 0), BufferError, "a device that is not CUDA's") for n in (2**32 + 1, 2**64 + 1, -(2**70))),
    ],
)
def test_what_is_no_device(device: Any, error: type[Exception], message: str) -> None:
    """The error of an invalid device would be about Python's internals, or a large number be that of the host."""
    array = type("Array", (), {"__dlpack__": None, "__dlpack_device__": lambda self: device})()
    with pytest.raises(error, match=message):
        View.from_dlpack(array, -1)


def test_a_capsule_is_used_once() -> None:
    """Two consumers of one capsule would both delete the tensor."""
    memory, ptr = host(np.arange(6))
    array = Array(ptr, (6,), keep=memory)
    exporter = Exporter(array.__dlpack__(max_version=(1, 0)))
    view = View.from_dlpack(exporter)
    with pytest.raises(ValueError, match='name is "used_dltensor_versioned"'):
        View.from_dlpack(exporter)
    del view
    assert array.deleted == 1
    array.name = b"used_dltensor"
    with pytest.raises(ValueError, match='name is "used_dltensor"'):
        View.from_dlpack(array)  # the destructor of the capsule runs while the exception is set
    with pytest.raises(TypeError, match="a DLPack capsule is needed, not <class 'int'>"):
        View.from_dlpack(Exporter(3))


def test_a_failing_producer() -> None:
    """An exception of the producer would be replaced by another one, or swallowed."""

    class Failing(Array):
        def __dlpack__(self, **_: Any) -> object:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        View.from_dlpack(Failing(4096, (2,)))


def test_cycles_are_collected() -> None:
    """If the array refers to its own view, both would never be collected."""
    memory, ptr = host(np.arange(6))
    array = Array(ptr, (6,), keep=memory)
    array.view = View.from_dlpack(array)  # type: ignore[attr-defined]
    array.view.view()  # type: ignore[attr-defined]
    alive = weakref.ref(array.view)  # type: ignore[attr-defined]
    lent = array
    del array
    assert lent.lent == 1
    del lent
    gc.collect()  # no effect: the producer's table keeps the array while it is exported
    assert alive() is not None
    view = alive()
    producer = view.exporting_obj
    del producer.view, view
    collect()
    assert producer.deleted == 1
    assert alive() is None


def test_fuzz_views_on_threads() -> None:
    """If threads use views during garbage collections, a tensor would be released twice, or never."""
    memory, ptr = host(np.arange(64))
    arrays = [kind(ptr, (8, 8), keep=memory) for kind in (Array, OldArray, ExchangedArray) for _ in range(2)]

    def work(seed: int) -> None:
        chance = random.Random(seed)
        views: list[Any] = []
        for _ in range(300):
            action = chance.randrange(7)
            if action < 3 or not views:
                views.append(View.from_any_interface(chance.choice(arrays), -1))
            elif action == 3:
                view = chance.choice(views)
                views.append(view.view(view._layout[chance.randrange(view.shape[0]) :]) if view.size else view)
            elif action == 4:
                views.append(View.from_dlpack(chance.choice(views)))
            elif action == 5:
                chance.choice(views).__dlpack__(max_version=(1, 0))
            else:
                del views[chance.randrange(len(views))]
            if not chance.randrange(60):
                gc.collect()

    in_threads(work, range(4))
    for _ in range(100):
        collect()
        if all(array.lent == array.deleted for array in arrays):
            break
    assert [array.lent - array.deleted for array in arrays] == [0] * len(arrays)
    assert all(array.lent for array in arrays)


@pytest.mark.parametrize("drop", ["buffer first", "view first"])
def test_a_view_keeps_a_buffers_memory(device: Device, stream: Stream, drop: str) -> None:
    """Memory would be freed while a view uses it, or leak with the view."""
    live = live_counts()["deviceptr"]
    buffer = device.allocate(64, stream=stream)
    view = buffer.view("float32", (4, 4))
    rows = view.view(view._layout[1:])
    capsule = rows.__dlpack__()
    if drop == "buffer first":
        buffer.close()
        assert live_counts()["deviceptr"] == live + 1
        del view, rows
        assert live_counts()["deviceptr"] == live + 1
        del capsule
    else:
        del view, rows, capsule
        assert live_counts()["deviceptr"] == live + 1
        buffer.close()
    assert live_counts()["deviceptr"] == live


@pytest.mark.parametrize("of", ["cuda_array_interface", "dlpack", "any_interface"])
def test_a_view_of_a_buffer_by_an_interface_keeps_its_memory(device: Device, stream: Stream, of: str) -> None:
    """A view would keep only the Buffer object, and lose the memory when the buffer is closed."""
    buffer = device.allocate(64, stream=stream)
    live = live_counts()["deviceptr"]
    for source in (buffer, buffer.view("float32")):
        view = getattr(StridedMemoryView, f"from_{of}")(source, -1)
        again = StridedMemoryView.from_cuda_array_interface(view, -1)
        if source is not buffer:
            del source
            buffer.close()
        assert live_counts()["deviceptr"] == live
        del view
        assert live_counts()["deviceptr"] == live
        del again
    assert live_counts()["deviceptr"] == live - 1


# ---- views of buffers


def test_from_buffer(buffer: Buffer) -> None:
    """A view of a buffer would have another address, shape, strides or type than requested."""
    view = View.from_buffer(buffer, (4, 4), (1, 4), dtype="float32", is_readonly=True)
    assert (view.ptr, view.shape, view.strides, view.readonly) == (buffer.handle, (4, 4), (1, 4), True)
    assert view.__dlpack_device__() == (CUDA, 0)
    assert view.exporting_obj is buffer
    raw = View.from_buffer(buffer, 16, itemsize=4)
    assert raw.shape == (16,)
    assert raw.dtype is None
    with pytest.raises(BufferError, match="has no dtype, which DLPack needs"):
        raw.__dlpack__()
    assert View.from_dlpack(raw.view(dtype="int32"), -1).dtype == np.int32


@pytest.mark.parametrize("dtype", ["f4,i4", "M8[s]", ">f8", "S8"])
def test_dtypes_that_dlpack_lacks(dtype: str, buffer: Buffer) -> None:
    """A type that DLPack does not have would be exported as another type."""
    view = View.from_buffer(buffer, 8, dtype=np.dtype(dtype))
    assert view.dtype == np.dtype(dtype)
    with pytest.raises(BufferError, match="no type like the view's dtype"):
        view.__dlpack__()
    with pytest.raises(BufferError, match="no type like the view's dtype"):
        View.from_any_interface(Exporter(view.__dlpack__()))
    assert view.__cuda_array_interface__["typestr"] == np.dtype(dtype).str


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (((4, 4),), {}, ValueError, "Either itemsize or dtype"),
        (((5, 4),), {"dtype": "float32"}, ValueError, "at least 80 bytes, got 64 bytes"),
        (((4,), (8,)), {"dtype": "float32"}, ValueError, "at least 100 bytes, got 64"),
        (((4,), (-1,)), {"dtype": "float32"}, ValueError, "min_offset is -3"),
        (((-4,),), {"dtype": "float32"}, ValueError, "must be non-negative"),
        (((2**62,),), {"dtype": "float32"}, OverflowError, "too large"),
        (((2**63,),), {"dtype": "float32"}, OverflowError, "a number in shape is 9223372036854775808, which does not"),
        (((4,), (2**63,)), {"dtype": "float32"}, OverflowError, "a number in strides is 9223372036854775808"),
        (((4,), (1, 2)), {"dtype": "float32"}, ValueError, "same length as shape"),
        (((4,),), {"dtype": "float32", "itemsize": 8}, ValueError, r"itemsize \(8\) does not match"),
        (((4,),), {"dtype": "float31"}, TypeError, "dtype is 'float31'.*bfloat16"),
        (((4,),), {"dtype": object}, TypeError, "Python objects"),
        (((4,),), {"dtype": "S"}, ValueError, "no bytes"),
        (((4,),), {"itemsize": 0}, ValueError, "itemsize must be positive"),
        (("ab",), {"itemsize": 1}, TypeError, r"shape must be a tuple of ints, not \('a', 'b'\)"),
        (((4,), (1.5,)), {"itemsize": 1}, TypeError, r"strides must be a tuple of ints, not \(1.5,\)"),
    ],
)
def test_bad_arguments(arguments: Any, options: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """A view would exceed the memory of the buffer, or the error would have no reason."""
    with pytest.raises(error, match=message):
        View.from_buffer(buffer, *arguments, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: View.from_buffer(np.zeros(4), (4,), itemsize=1), TypeError, "must be a Buffer, not numpy.ndarray"),
        (lambda b: b.view("int64", 9), ValueError, "at least 72 bytes"),
        (lambda b: b.view("float32").view(dtype="int64"), ValueError, "does not match the layout's itemsize"),
        (lambda b: b.view("float32").view((4, 4)), TypeError, "layout must be a _StridedLayout.*not tuple"),
        (lambda b: b.view("float32").view(_StridedLayout((17,), None, 4)), ValueError, "at least 68 bytes, got 64"),
        (lambda b: b[1:].view("float32", 4), ValueError, "not aligned to 4 bytes"),
    ],
)
def test_bad_views(call: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """A view of something else than memory, or beyond it, would be made."""
    with pytest.raises(error, match=message):
        call(buffer)


def test_a_closed_buffer(buffer: Buffer) -> None:
    """A view of freed memory would be made."""
    buffer.close()
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        buffer.view("float32", 4)
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        View.from_dlpack(buffer, -1)


def test_view_with_another_layout(pinned: Callable[[int], Buffer]) -> None:
    """A view with another layout would have the wrong elements."""
    memory = pinned(64)
    memory.__buffer__().cast("f")[:] = memoryview(np.arange(16, dtype=np.float32))
    view = memory.view("float32", (4, 4))
    part = view.view(view._layout[1:, ::-2])
    assert np.from_dlpack(part).tolist() == [[7, 5], [11, 9], [15, 13]]
    assert part.ptr == memory.handle + 7 * 4
    again = part.view(part._layout[1])
    assert np.from_dlpack(again).tolist() == [11, 9]
    assert np.from_dlpack(view.view(view._layout.repacked(8), "complex64")).shape == (4, 2)
    back = part.view(_StridedLayout((2,), (-7,), 4))
    assert np.from_dlpack(back).tolist() == [7, 0]
    with pytest.raises(ValueError, match="too small for the layout"):
        part.view(_StridedLayout((2,), (-8,), 4))


def test_view_beyond_an_array() -> None:
    """A view of another library's array would reach memory that is not the array's."""
    view = View.from_any_interface(np.arange(16)[4:8])
    view.view(_StridedLayout((2,), (3,), 8))
    for layout in (_StridedLayout((5,), None, 8), _StridedLayout((2,), (-1,), 8)):
        with pytest.raises(ValueError, match="too small for the layout"):
            view.view(layout)
