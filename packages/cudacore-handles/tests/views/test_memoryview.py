# SPDX-License-Identifier: Apache-2.0
"""Views of arrays: where they come from, what they say, who may take them, and what keeps the memory."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import dlpack_producers
import numpy as np
import pytest
from dlpack_producers import (
    CPU,
    CUDA,
    CUDA_HOST,
    MANAGED,
    PADDED,
    READ_ONLY,
    Array,
    ExchangedArray,
    Interface,
    OldArray,
)

import cudacore_handles as ch
from cudacore_handles import Buffer, Device, Stream, StridedMemoryView, _native, live_counts
from cudacore_handles._views.layout import _StridedLayout

View = StridedMemoryView
PRODUCERS = pytest.mark.parametrize("producer", [Array, OldArray, ExchangedArray])


@pytest.fixture
def buffer(device: Device, stream: Stream) -> Iterator[Buffer]:
    """64 bytes of device memory."""
    buffer = device.allocate(64, stream=stream)
    yield buffer
    buffer.close()


@pytest.fixture
def producer_stream(device: Device) -> Iterator[Stream]:
    """The stream that arrays with the C exchange API say they are used on."""
    stream = device.create_stream()
    dlpack_producers.current_stream = int(stream.handle)
    yield stream
    dlpack_producers.current_stream = 0


class Exporter:
    """An object whose ``__dlpack__`` returns a capsule that exists."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)


def host(values: Any) -> tuple[Any, int]:
    array = np.ascontiguousarray(values, np.float32)
    return array, int(array.ctypes.data)


# ---- what a view says


@PRODUCERS
def test_fields(producer: type[Array]) -> None:
    """A kernel would be given another array than the producer's."""
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
    """Arrays of no dimension, of no element, or of more dimensions than usual would be misread."""
    memory, ptr = host(np.arange(6))
    view = View.from_dlpack(Array(ptr, shape, keep=memory))
    assert view.shape == shape
    assert view.size == np.prod(shape, dtype=int)
    if len(shape) <= np.asarray(0).ndim + 32:
        assert np.from_dlpack(view).shape == shape


@pytest.mark.parametrize("device", [(CUDA, 1), (CUDA_HOST, 0), (MANAGED, 0)])
def test_devices(device: tuple[int, int]) -> None:
    """An array would be taken for one of another device, or of the host."""
    view = View.from_dlpack(Array(4096, (2,), device=device), -1)
    assert view.__dlpack_device__() == device
    assert view.device_id == device[1]
    assert view.is_device_accessible


DTYPES = ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str, buffer: Buffer) -> None:
    """Elements would be taken for another type."""
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
    """A bfloat16 or float8 array would be refused, or taken for something else."""
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
    """Elements that share a byte would be addressed as if each had its own."""
    array = Array(4096, (4,), dtype=dtype)
    with pytest.raises(BufferError, match=f"elements of {bits} bits .*not supported; export it as bytes"):
        View.from_dlpack(array)
    assert (array.lent, array.deleted) == (1, 1)


def test_padded_types(api: Any) -> None:
    """Elements that are smaller than a byte, and have one each, would be passed on as if they shared them."""
    memory = np.arange(4, dtype=np.uint8)
    view = View.from_dlpack(Array(memory.ctypes.data, (4,), dtype=(17, 4, 1), flags=PADDED, keep=memory))
    assert view._itemsize == 1
    assert View.from_dlpack(view)._itemsize == 1
    with pytest.raises(BufferError, match=r"DLPack before 1\.0 cannot say to be padded"):
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
    """An element type of the future would be taken for one that is known."""
    view = View.from_dlpack(Array(4096, (4,), dtype=(99, 32, 1)))
    with pytest.raises(NotImplementedError, match="DLPack's type 99 with 32 bits"):
        view.dtype  # noqa: B018
    assert view.view(dtype="uint32").dtype == np.uint32


def test_read_only() -> None:
    """Memory that must not be written would be."""
    memory, ptr = host(np.arange(4))
    memory.flags.writeable = False
    for view in (
        View.from_dlpack(Array(ptr, (4,), flags=READ_ONLY, keep=memory)),
        View.from_any_interface(memory),
        View.from_array_interface(memory),
    ):
        assert view.readonly
        assert view.view().readonly
        with pytest.raises(BufferError, match=r"read-only, which DLPack before 1\.0 cannot say"):
            view.__dlpack__()
        assert View.from_dlpack(view).readonly
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
    """A tensor that nobody can use would be used, or leak."""
    array = Array(4096, **fields)
    with pytest.raises(error, match=message):
        View.from_dlpack(array, -1)
    assert array.lent == array.deleted
    exchanged = ExchangedArray(4096, **fields)
    with pytest.raises(error, match=message):
        View.from_dlpack(exchanged, -1)
    assert (exchanged.lent, exchanged.deleted) == (1, 1)


def test_enormous_but_empty() -> None:
    """An empty array would be refused for extents that are never used."""
    assert View.from_dlpack(Array(4096, (0, 2**62, 2**62), keep=None)).size == 0


# ---- what keeps the memory, and for how long


@PRODUCERS
def test_the_tensor_is_given_back_once(producer: type[Array]) -> None:
    """Memory would leak, be freed under a view, or be freed twice."""
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


def collect() -> None:
    """Have owners released that were let go of, which takes a safe point of the interpreter."""
    for _ in range(3):
        gc.collect()
        sum(range(100))


@pytest.mark.parametrize("device", [None, 1, (), (1.5, 0), "xy", {}])
def test_what_is_no_device(device: Any) -> None:
    """Python would complain of its own inside, or of nothing."""
    array = type("Array", (), {"__dlpack__": None, "__dlpack_device__": lambda self: device})()
    with pytest.raises(TypeError, match=r"__dlpack_device__\(\) must return two ints, \(type, ordinal\), not"):
        StridedMemoryView.from_dlpack(array, -1)


@pytest.mark.parametrize("number", [2**32 + 1, 2**64 + 1, -(2**70)])
def test_numbers_that_are_no_device(number: int) -> None:
    """Of a large number a part would be taken, and be the host."""
    array = type("Array", (), {"__dlpack__": None, "__dlpack_device__": lambda self: (number, 0)})()
    with pytest.raises(BufferError, match="a device that is not CUDA's"):
        StridedMemoryView.from_dlpack(array, -1)


def test_a_capsule_is_used_once() -> None:
    """Two consumers would both give the tensor back."""
    memory, ptr = host(np.arange(6))
    array = Array(ptr, (6,), keep=memory)
    exporter = Exporter(array.__dlpack__(max_version=(1, 0)))
    view = View.from_dlpack(exporter)
    with pytest.raises(ValueError, match='name is "used_dltensor_versioned"'):
        View.from_dlpack(exporter)
    del view
    assert array.deleted == 1
    with pytest.raises(TypeError, match="a DLPack capsule is needed, not <class 'int'>"):
        View.from_dlpack(Exporter(3))


def test_a_failing_producer() -> None:
    """An exception of the producer would be replaced by another one, or swallowed."""

    class Failing(Array):
        def __dlpack__(self, **_: Any) -> object:
            raise TypeError("mine")

    class NoDevice(Array):
        def __dlpack_device__(self) -> Any:
            return 3

    with pytest.raises(TypeError, match="mine"):
        View.from_dlpack(Failing(4096, (2,)))
    with pytest.raises(TypeError):
        View.from_dlpack(NoDevice(4096, (2,)))


def test_cycles_are_collected() -> None:
    """A view that its own exporter refers to would never go."""
    memory, ptr = host(np.arange(6))
    array = Array(ptr, (6,), keep=memory)
    array.view = View.from_dlpack(array)  # type: ignore[attr-defined]
    array.view.view()  # type: ignore[attr-defined]
    alive = weakref.ref(array.view)  # type: ignore[attr-defined]
    lent = array
    del array
    assert lent.lent == 1
    del lent
    gc.collect()  # the producer's own table keeps the array, as long as it is lent
    assert alive() is not None
    view = alive()
    producer = view.exporting_obj
    del producer.view, view
    collect()
    assert producer.deleted == 1
    assert alive() is None


def test_fuzz_views_on_threads() -> None:
    """Somewhere between threads and collections a tensor would be given back twice, or never."""
    memory, ptr = host(np.arange(64))
    arrays = [kind(ptr, (8, 8), keep=memory) for kind in (Array, OldArray, ExchangedArray) for _ in range(2)]
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        views: list[Any] = []
        try:
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
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for _ in range(100):
        collect()
        if all(array.lent == array.deleted for array in arrays):
            break
    assert [array.lent - array.deleted for array in arrays] == [0] * len(arrays)
    assert all(array.lent for array in arrays)


@pytest.mark.parametrize("drop", ["buffer first", "view first"])
def test_a_view_keeps_a_buffers_memory(device: Device, stream: Stream, drop: str) -> None:
    """Memory would be freed under a view, or leak with it."""
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
    """A view would keep the buffer's object, and lose the memory when that is closed."""
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


def test_interpreter_exit_with_views(run_on_driver: Callable[..., str]) -> None:
    """Views in globals, in cycles, and lent ones would crash, or complain, while the interpreter goes away."""
    run_on_driver("""
        import numpy as np
        from cudacore_handles import Device, StridedMemoryView

        device = Device()
        device.set_current()
        buffer = device.allocate(64, stream=device.create_stream())
        view = buffer.view("float32", (4, 4))
        capsule = view.__dlpack__()
        other = StridedMemoryView.from_any_interface(np.zeros(4))
        array = np.from_dlpack(other)
        cycle = [view, other, array]
        cycle.append(cycle)
    """)


# ---- views of buffers


def test_from_buffer(buffer: Buffer) -> None:
    """A buffer's memory would be viewed elsewhere, or as something else."""
    view = View.from_buffer(buffer, (4, 4), (1, 4), dtype="float32", is_readonly=True)
    assert (view.ptr, view.shape, view.strides, view.readonly) == (buffer.handle, (4, 4), (1, 4), True)
    assert view.__dlpack_device__() == (CUDA, 0)
    assert view.exporting_obj is buffer
    raw = View.from_buffer(buffer, 16, itemsize=4)
    assert raw.shape == (16,)
    assert raw.dtype is None
    with pytest.raises(BufferError, match="has no dtype, which DLPack wants"):
        raw.__dlpack__()
    assert View.from_dlpack(raw.view(dtype="int32"), -1).dtype == np.int32


def test_view_of_a_buffer_by_one_call(buffer: Buffer, pinned: Callable[[int], Buffer]) -> None:
    """A buffer would not become an array."""
    assert buffer.view("float32").shape == (16,)
    assert buffer.view(np.int16, (4, 8)).shape == (4, 8)
    memory = pinned(64)
    array = np.from_dlpack(memory.view("float32", (4, 4)))
    array[1, 2] = 3
    assert memory.__buffer__().cast("f")[6] == 3
    assert np.from_dlpack(memory.view("float32", (2, 2), (8, 2))).shape == (2, 2)


@pytest.mark.parametrize("dtype", ["f4,i4", "M8[s]", ">f8", "S8"])
def test_dtypes_that_dlpack_lacks(dtype: str, buffer: Buffer) -> None:
    """A type that DLPack does not have would be exported as another one."""
    view = View.from_buffer(buffer, 8, dtype=np.dtype(dtype))
    assert view.dtype == np.dtype(dtype)
    with pytest.raises(BufferError, match="no type like the view's dtype"):
        view.__dlpack__()
    with pytest.raises(BufferError, match="no type like the view's dtype"):
        View.from_any_interface(Exporter(view.__dlpack__()))
    assert view.__cuda_array_interface__["typestr"] == np.dtype(dtype).str


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: View.from_buffer(b, (4, 4)), ValueError, "Either itemsize or dtype"),
        (lambda b: View.from_buffer(b, (5, 4), dtype="float32"), ValueError, "at least 80 bytes, got 64 bytes"),
        (lambda b: View.from_buffer(b, (4,), (8,), dtype="float32"), ValueError, "at least 100 bytes, got 64"),
        (lambda b: View.from_buffer(b, (4,), (-1,), dtype="float32"), ValueError, "min_offset is -3"),
        (lambda b: View.from_buffer(b, (-4,), dtype="float32"), ValueError, "must be non-negative"),
        (lambda b: View.from_buffer(b, (2**62,), dtype="float32"), OverflowError, "too large"),
        (lambda b: View.from_buffer(b, (4,), (1, 2), dtype="float32"), ValueError, "same length as shape"),
        (
            lambda b: View.from_buffer(b, (4,), dtype="float32", itemsize=8),
            ValueError,
            r"itemsize \(8\) does not match",
        ),
        (lambda b: View.from_buffer(b, (4,), dtype="float31"), TypeError, "dtype is 'float31'.*bfloat16"),
        (lambda b: View.from_buffer(b, (4,), dtype=object), TypeError, "Python objects"),
        (lambda b: View.from_buffer(b, (4,), dtype="S"), ValueError, "no bytes"),
        (lambda b: View.from_buffer(b, (4,), itemsize=0), ValueError, "itemsize must be positive"),
        (lambda b: View.from_buffer(b, "ab", itemsize=1), TypeError, "shape must be a tuple of ints"),
        (
            lambda b: View.from_buffer(np.zeros(4), (4,), itemsize=1),
            TypeError,
            "buffer must be a Buffer, not numpy.ndarray",
        ),
        (lambda b: b.view("int64", 9), ValueError, "at least 72 bytes"),
        (lambda b: b.view("float32").view(dtype="int64"), ValueError, "does not match the layout's itemsize"),
        (lambda b: b.view("float32").view((4, 4)), TypeError, "layout must be a _StridedLayout.*not tuple"),
        (lambda b: b.view("float32").view(_StridedLayout((17,), None, 4)), ValueError, "at least 68 bytes, got 64"),
        (
            lambda b: Buffer.from_handle(b.handle + 1, 63, owner=b).view("float32", 4),
            ValueError,
            "not aligned to 4 bytes",
        ),
    ],
)
def test_bad_arguments(call: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """Memory that is not the buffer's would be viewed, or nobody be told why not."""
    with pytest.raises(error, match=message):
        call(buffer)


def test_a_closed_buffer(buffer: Buffer) -> None:
    """Memory that is gone would be viewed."""
    buffer.close()
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        buffer.view("float32", 4)
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        View.from_dlpack(buffer, -1)


def test_view_with_another_layout(pinned: Callable[[int], Buffer]) -> None:
    """A part of an array would be another part."""
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


# ---- NumPy


def test_numpy_arrays(buffer: Buffer, pinned: Callable[[int], Buffer]) -> None:
    """NumPy would make an array of one Python object of a view, or copy what it can share."""
    memory = pinned(24)
    view = memory.view("int32", (2, 3))
    array = np.asarray(view)
    assert (array.dtype, array.shape, array.ctypes.data) == (np.int32, (2, 3), memory.handle)
    array[1, 2] = 7
    assert np.array(view.view(view._layout[::-1, ::2]), dtype="f8").tolist() == [[0, 7], [0, 0]]
    assert np.array(view).ctypes.data != memory.handle
    memory.close()  # the array keeps the memory
    del view, memory
    gc.collect()
    assert array[1, 2] == 7
    with pytest.raises(TypeError, match=r"a view of device memory is not a NumPy array: .*copy_to"):
        np.asarray(buffer.view("int32"))


@pytest.mark.parametrize("dtype", ["f4", ">f4", "M8[s]", "U3", "S5", "c16", "?", "f4, i2", "V7"])
def test_numpy_arrays_of_every_type(dtype: str) -> None:
    """The elements would be read as something else, or not at all."""
    source = np.zeros((2, 3), dtype)
    source.view("u1")[:] = np.arange(source.nbytes, dtype="u1").reshape(source.view("u1").shape) % 2
    expected = source[:, ::-1]
    view = View.from_array_interface(expected)
    array = np.asarray(view.view(view._layout, np.dtype(dtype)))
    assert (array.dtype, array.shape, array.strides) == (expected.dtype, expected.shape, expected.strides)
    assert array.tobytes() == expected.tobytes()


def test_numpy_arrays_of_vectors(pinned: Callable[[int], Buffer]) -> None:
    """Elements of several numbers would lose some of them."""
    buffer = pinned(32)
    buffer.__buffer__()[:] = np.arange(8, dtype="f4").tobytes()
    array = np.asarray(buffer.view(np.dtype("(2,)f4"), (2, 2)))
    assert array.tolist() == np.arange(8).reshape(2, 2, 2).tolist()


def test_numpy_arrays_of_views_without_a_type(pinned: Callable[[int], Buffer]) -> None:
    """Elements of which only the size is known would be taken for numbers; a read-only array be written to."""
    buffer = pinned(24)
    array = np.asarray(View.from_buffer(buffer, (2, 3), itemsize=4, is_readonly=True))
    assert array.dtype == "V4"
    assert not array.flags.writeable
    assert np.asarray(View.from_buffer(buffer, (0, 3), dtype="i4")).shape == (0, 3)
    assert np.asarray(View.from_buffer(buffer, (), dtype="i4")).shape == ()


# ---- interfaces


def test_cuda_array_interface(buffer: Buffer, stream: Stream) -> None:
    """CuPy and Numba would be given another array, or not be told whom to wait for."""
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


def test_round_trip_by_cuda_array_interface(buffer: Buffer, stream: Stream) -> None:
    """What we give out we would not take back."""
    view = buffer.view("int32", (2, 4), (8, 2))
    array = Interface(**view.__cuda_array_interface__)
    back = View.from_any_interface(array, stream)
    assert (back.ptr, back.shape, back.strides, back.dtype) == (view.ptr, (2, 4), (8, 2), np.int32)
    assert back.__dlpack_device__() == (CUDA, 0)
    assert back.exporting_obj is array


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
        ({"data": (0, False)}, BufferError, "no address, and 4 elements"),
        ({"shape": (-4,)}, ValueError, "non-negative"),
        ({"stream": 0}, BufferError, "stream of the __cuda_array_interface__ is 0"),
    ],
)
def test_bad_cuda_array_interface(fields: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """An interface that is wrong would be used as if it were right."""
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
    """An interface of freed memory, or of the host's, would be taken for device memory."""
    memory, ptr = host(np.arange(4))
    with pytest.raises(BufferError, match="which CUDA does not know"):
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
    """An array could not be used, because the first of its interfaces refuses it."""
    array = Fallback(error)
    assert np.array_equal(np.asarray(View.from_any_interface(array, -1)), array.array)
    with pytest.raises(type(error)):
        View.from_dlpack(array, -1)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), ch.CUDAError("cuCall", 1, "X", "meaning")])
def test_no_next_interface_for_other_errors(error: BaseException) -> None:
    """An interrupt, or an error of the driver, would be swallowed."""
    with pytest.raises(type(error)):
        View.from_any_interface(Fallback(error), -1)


def test_the_first_error_where_all_interfaces_fail() -> None:
    """The reason why an array is refused would be replaced by that of an interface that nobody thinks of."""

    class Refuses(Fallback):
        @property
        def __array_interface__(self) -> dict[str, Any]:
            raise ValueError("the second")

    with pytest.raises(BufferError, match="the first"):
        View.from_any_interface(Refuses(BufferError("the first")), -1)


def test_dates_by_any_interface() -> None:
    """DLPack has no dates: NumPy refuses to export them, and its other interface was not tried."""
    dates = np.array(["2026-01-01", "2026-01-02"], "M8[D]")
    assert np.array_equal(np.asarray(View.from_any_interface(dates, -1)), dates)


@pytest.mark.parametrize("cls", [np.ndarray, StridedMemoryView, Buffer, Fallback, int])
def test_a_class_is_no_array(cls: type) -> None:
    """A class would be asked for what it defines for its instances: "'property' object is not subscriptable"."""
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
    """A mistake in a producer's interface would be hidden: it would look as if there were none."""

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
    """The interface of a NumPy scalar names memory that is freed already."""
    for value in (np.float32(1), np.datetime64(1, "s")):
        with pytest.raises(TypeError, match=r"is freed already; give np\.asarray\(obj\)"):
            View.from_any_interface(value, -1)
        with pytest.raises(TypeError, match=r"is freed already; give np\.asarray\(obj\)"):
            View.from_array_interface(value)


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


class CupyLike:
    """As the arrays of CuPy are, whose attributes are read."""

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
    """CuPy's arrays would be misread, or be taken without order where an order is asked for."""
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
    """A program of ``cuda.core`` that calls the class would not run, or not be told what to call."""
    array = np.arange(4)
    with pytest.warns(DeprecationWarning, match="from_any_interface"):
        view = View(array, -1)
    assert view.ptr == array.ctypes.data
    with pytest.raises(ValueError, match="obj is missing"):
        View()


def test_args_viewable_as_strided_memory() -> None:
    """A function would be given another array, or one without its stream."""

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


# ---- the order of streams


def test_stream_is_needed_for_device_memory(buffer: Buffer, stream: Stream) -> None:
    """Work would not wait for the producer's where nobody said on which stream it is."""
    arrays: list[Any] = [
        buffer, buffer.view("float32"), Array(buffer.handle, (4,), device=(CUDA, 0)),
        ExchangedArray(buffer.handle, (4,), device=(CUDA, 0)), Interface(shape=(4,), data=(buffer.handle, False)),
    ]  # fmt: skip
    for array in arrays:
        with pytest.raises(BufferError, match="stream=None is ambiguous"):
            View.from_any_interface(array)
        for given in (-1, stream, int(stream.handle)):
            assert View.from_any_interface(array, given).ptr == buffer.handle


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (-2, ValueError, "stream_ptr is -2"),
        (2**64, ValueError, "stream_ptr is 18446744073709551616"),
        ("x", TypeError, "stream_ptr must be an int"),
        (True, TypeError, "stream_ptr must be an int"),
    ],
)
def test_bad_streams(given: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """Something would be taken for a stream's address."""
    with pytest.raises(error, match=message):
        View.from_dlpack(buffer, given)


def test_a_closed_stream(buffer: Buffer, device: Device) -> None:
    """The address of a stream that is gone would be given to the producer."""
    stream = device.create_stream()
    stream.close()
    with pytest.raises(ch.ClosedError, match="Stream has been closed"):
        View.from_dlpack(buffer, stream)


def test_producer_is_told_the_stream(buffer: Buffer, stream: Stream) -> None:
    """A producer could not order its work before the consumer's, or would be told of a stream for host memory."""
    for array, given, told in (
        (Array(buffer.handle, (4,), device=(CUDA, 0)), stream, int(stream.handle)),
        (OldArray(buffer.handle, (4,), device=(CUDA, 0)), int(stream.handle), int(stream.handle)),
        (Array(buffer.handle, (4,), device=(CUDA, 0)), -1, -1),
        (Array(buffer.handle, (4,), device=(CUDA, 0)), 0, 1),
        (Array(4096, (4,)), stream, None),
    ):
        View.from_dlpack(array, given)
        assert array.streams == [told]


def waits(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Count the waits of streams for others in a call."""
    sim = pytest.importorskip("cudacore_sim", reason="needs cudacore-sim")
    before = sim.calls("cuStreamWaitEvent")
    function(*args, **kwargs)
    return int(sim.calls("cuStreamWaitEvent") - before)


@pytest.mark.cuda_sim
def test_consumer_waits(buffer: Buffer, stream: Stream, device: Device, producer_stream: Stream) -> None:
    """Work on an array would begin before the producer has made it, or wait where it need not."""
    other = device.create_stream()
    exchanged = ExchangedArray(buffer.handle, (4,), device=(CUDA, 0))
    assert waits(View.from_dlpack, exchanged, other) == 1
    assert waits(View.from_dlpack, exchanged, producer_stream) == 0
    assert waits(View.from_dlpack, exchanged, -1) == 0
    assert waits(View.from_dlpack, ExchangedArray(4096, (4,)), other) == 0

    told = Interface(shape=(4,), data=(buffer.handle, False), stream=int(stream.handle))
    assert waits(View.from_any_interface, told, other) == 1
    assert waits(View.from_any_interface, told, stream) == 0
    assert waits(View.from_any_interface, told, -1) == 0
    assert waits(View.from_any_interface, Interface(shape=(4,), data=(buffer.handle, False)), other) == 0

    for ours in (buffer, buffer.view("float32")):
        assert waits(ours.__dlpack__, stream=int(other.handle)) == 1
        assert waits(ours.__dlpack__, stream=int(stream.handle)) == 0
        assert waits(ours.__dlpack__, stream=-1) == 0
        assert waits(ours.__dlpack__) == 1  # the legacy default stream
        assert waits(View.from_any_interface, ours, other) == 1

    # a view of another library's array has its producer order the next consumer
    borrowed = View.from_dlpack(exchanged, producer_stream)
    assert waits(borrowed.__dlpack__, stream=int(other.handle)) == 1
    assert waits(borrowed.__dlpack__) == 1  # the legacy default stream
    assert waits(borrowed.__dlpack__, stream=-1) == 0
    collect()
    assert exchanged.lent == exchanged.deleted + 1

    # version 2 of the interface names no stream
    exchanged.__cuda_array_interface__ = {**told.__cuda_array_interface__, "version": 2}  # type: ignore[attr-defined]
    assert waits(View.from_cuda_array_interface, exchanged, other) == 1
    assert waits(View.from_cuda_array_interface, exchanged, producer_stream) == 0
    assert waits(View.from_cuda_array_interface, exchanged, -1) == 0


def test_the_stream_of_a_borrowed_array(buffer: Buffer, stream: Stream, producer_stream: Stream) -> None:
    """A consumer would use the array before its producer, which speaks DLPack alone, has written it."""
    place: Any = {"shape": (4,), "device": (CUDA, 0)}
    array, old = Array(buffer.handle, **place), OldArray(buffer.handle, **place)
    for producer in (array, old):
        view = View.from_dlpack(producer, stream)
        view.__dlpack__()
        assert producer.streams == [int(stream.handle), 1]
        assert view.__cuda_array_interface__["stream"] == 1
        assert producer.streams == [int(stream.handle), 1, 1]
    exchanged = View.from_dlpack(ExchangedArray(buffer.handle, **place), stream)
    assert exchanged.__cuda_array_interface__["stream"] == int(producer_stream.handle)
    assert exchanged.view(exchanged._layout[1:]).__cuda_array_interface__["stream"] == int(producer_stream.handle)
    told = Interface(shape=(4,), data=(buffer.handle, False), stream=int(stream.handle))
    assert View.from_any_interface(told, -1).__cuda_array_interface__["stream"] == int(stream.handle)
    told = Interface(shape=(4,), data=(buffer.handle, False))  # which says that there is nothing to wait for
    assert View.from_any_interface(told, -1).__cuda_array_interface__["stream"] is None
    pinned = View.from_dlpack(Array(4096, (4,), device=(CUDA_HOST, 0)), -1)
    pinned.__dlpack__()
    assert pinned.exporting_obj.streams == [-1]  # type: ignore[attr-defined]


def test_the_stream_of_a_borrowed_array_in_a_capture(
    buffer: Buffer, stream: Stream, producer_stream: Stream, device: Device
) -> None:
    """A consumer would be told to wait for a stream that is captured, which it cannot."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    view = View.from_dlpack(ExchangedArray(buffer.handle, (4,), device=(CUDA, 0)), stream)
    with producer_stream.create_graph_builder():
        assert view.__cuda_array_interface__["stream"] is None


def test_default_streams_are_those_of_the_memorys_device(
    buffer: Buffer, in_new_thread: Callable[[Callable[[], Any]], Any]
) -> None:
    """A consumer on a thread that has no context, or that of another device, could not take our memory."""

    def take() -> list[Any]:
        taken = [buffer.__dlpack__(), *(buffer.view("int8").__dlpack__(stream=stream) for stream in (1, 2))]
        exchanged = ExchangedArray(buffer.handle, (4,), device=(CUDA, 0))
        told = Interface(shape=(4,), data=(buffer.handle, False), stream=1)
        return [*taken, *(View.from_any_interface(array, 2) for array in (exchanged, told, buffer))]

    assert len(in_new_thread(take)) == 6
    assert len(take()) == 6


def test_streams_of_another_device(buffer: Buffer, device: Device, other_device: Device) -> None:
    """Memory of one device could not be taken on a stream of another, or the current context would change."""
    other_device.set_current()
    stream = other_device.create_stream()
    assert View.from_dlpack(buffer, stream).device_id == 0
    buffer.__dlpack__()
    assert _native.current_device() == 1
    device.set_current()


def test_no_order_with_a_capture(buffer: Buffer, stream: Stream, device: Device) -> None:
    """A consumer's stream would be drawn into a capture, or the capture end."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    other = device.create_stream()
    with stream.create_graph_builder() as builder:
        buffer.fill(0, stream=builder)
        View.from_dlpack(buffer, other)
        assert buffer.__cuda_array_interface__["stream"] is None
    builder.complete().launch(other)
    other.sync()


# ---- our own exchange API


@pytest.fixture
def api() -> dlpack_producers.ExchangeAPI:
    """The functions that other libraries call."""
    assert Buffer.__dlpack_c_exchange_api__ is View.__dlpack_c_exchange_api__
    address = dlpack_producers.get_pointer(View.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return dlpack_producers.ExchangeAPI.from_address(address)


def lend(api: Any, obj: object) -> Any:
    out = ctypes.c_void_p()
    assert dlpack_producers.FROM_OBJECT(api.from_object)(obj, ctypes.byref(out)) == 0
    return dlpack_producers.Versioned.from_address(out.value)


def test_exchange_api(api: Any, buffer: Buffer) -> None:
    """Another library's C code would read another array than ours."""
    assert (api.major, api.minor) == (1, 3)
    view = View.from_buffer(buffer, (2, 3), (6, 2), dtype="int32")
    for obj, shape, strides, dtype, flags in (
        (view, [2, 3], [6, 2], (0, 32, 1), 0),
        (buffer, [64], [1], (0, 8, 1), 0),
    ):
        managed = lend(api, obj)
        for tensor in (managed.tensor, dlpack_producers.Tensor()):
            if not tensor.data:
                read = dlpack_producers.TENSOR_FROM_OBJECT(api.tensor_from_object)
                assert read(obj, ctypes.byref(tensor)) == 0
            assert (tensor.data, tensor.device_type, tensor.device_id) == (buffer.handle, CUDA, 0)
            assert tensor.shape[: tensor.ndim] == shape
            assert tensor.strides[: tensor.ndim] == strides
            assert (tensor.code, tensor.bits, tensor.lanes) == dtype
        assert managed.flags == flags
        dlpack_producers.DELETER(managed.deleter)(ctypes.addressof(managed))
    with pytest.raises(TypeError, match="int is neither a Buffer nor"):
        dlpack_producers.FROM_OBJECT(api.from_object)(3, ctypes.byref(ctypes.c_void_p()))
    with pytest.raises(BufferError, match="no dtype"):
        dlpack_producers.FROM_OBJECT(api.from_object)(
            View.from_buffer(buffer, 4, itemsize=4), ctypes.byref(ctypes.c_void_p())
        )


def test_exchange_api_of_read_only_views(api: Any, buffer: Buffer) -> None:
    """Another library's C code would write to what must not be written: a DLTensor cannot say so."""
    view = View.from_buffer(buffer, (2, 3), (6, 2), dtype="int32", is_readonly=True)
    managed = lend(api, view)
    assert managed.flags == READ_ONLY
    dlpack_producers.DELETER(managed.deleter)(ctypes.addressof(managed))
    with pytest.raises(BufferError, match="read-only, which a DLTensor cannot say"):
        dlpack_producers.TENSOR_FROM_OBJECT(api.tensor_from_object)(view, ctypes.byref(dlpack_producers.Tensor()))


def test_exchange_api_keeps_and_gives_back(api: Any, device: Device, stream: Stream) -> None:
    """Memory would be freed under another library's tensor, or leak."""
    live = live_counts()["deviceptr"]
    buffer = device.allocate(64, stream=stream)
    tensors = [lend(api, buffer), lend(api, buffer.view("float32"))]
    buffer.close()
    assert live_counts()["deviceptr"] == live + 1
    to_object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))(api.to_object)
    views = []
    for tensor in tensors:
        out = ctypes.py_object()
        assert to_object(ctypes.addressof(tensor), ctypes.byref(out)) == 0
        views.append(out.value)
        ctypes.pythonapi.Py_DecRef(out)  # the reference that was returned; `out` has one of its own
    assert [view.dtype for view in views] == [np.int8, np.float32]
    assert live_counts()["deviceptr"] == live + 1
    views.clear()
    del out
    assert live_counts()["deviceptr"] == live


@pytest.mark.parametrize("place", [(CUDA, 0), (CUDA_HOST, 0), (CPU, 0)])
def test_exchange_api_allocates(api: Any, device: Device, place: tuple[int, int]) -> None:
    """Another library's C code could not make arrays of ours."""
    set_error = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    errors = []
    callback = set_error(lambda _, kind, message: errors.append((kind, message)))
    allocate = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, set_error
    )(api.allocator)
    prototype, out = dlpack_producers.Tensor(), ctypes.c_void_p()
    kept = Array(0, (3, 5), device=place, dtype=(0, 64, 1)).fill(prototype)
    assert allocate(ctypes.addressof(prototype), ctypes.byref(out), None, callback) == 0
    managed = dlpack_producers.Versioned.from_address(out.value)
    assert managed.tensor.strides[:2] == [5, 1]
    assert (managed.tensor.device_type, managed.tensor.device_id) == place
    assert managed.tensor.data
    assert managed.tensor.data % 256 == 0
    dlpack_producers.DELETER(managed.deleter)(ctypes.addressof(managed))
    for shape in ((0, 2**40, 2**40), (2**40, 2**40, 0)):  # enormous, but empty
        empty = Array(0, shape, device=place, dtype=(0, 64, 1)).fill(prototype)
        assert allocate(ctypes.addressof(prototype), ctypes.byref(out), None, callback) == 0, errors
        managed = dlpack_producers.Versioned.from_address(out.value)
        assert managed.tensor.strides[:3] == [0, 0, 0]
        dlpack_producers.DELETER(managed.deleter)(ctypes.addressof(managed))
        del empty
    kept = Array(0, (3, 5), device=place, dtype=(0, 64, 1)).fill(prototype)
    prototype.device_type = 8
    assert allocate(ctypes.addressof(prototype), ctypes.byref(out), None, callback) == -1
    prototype.device_type, prototype.shape[0] = place[0], 2**62
    assert allocate(ctypes.addressof(prototype), ctypes.byref(out), None, callback) == -1
    assert [kind for kind, _ in errors] == [b"BufferError", b"OverflowError"]
    del kept


def test_kernels_take_views(
    read_argument: Callable[..., bytes], buffer: Buffer, device: Device, stream: Stream, code: ch.ObjectCode
) -> None:
    """A view could not be a kernel's argument, or its memory not outlive the launch."""
    view = buffer.view("int32", (4, 4))
    part = view.view(view._layout[2:])
    address = _native.pack(b"\0\0\0\0\x08\0\0\0\x07\0\0\0", (part,))
    assert int.from_bytes(address, "little") == buffer.handle + 32


# ---- other libraries


def test_pytorch_on_the_host() -> None:
    """PyTorch's tensors would not be viewed, or ours not be taken by it."""
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
    """PyTorch would not take our memory without a copy, or we not its own."""
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
    """CuPy or Numba would not take our memory without a copy, or we not their own."""
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
        import cudacore_handles as ch

        device = ch.Device()
        device.set_current()
        buffer = device.allocate(64, stream=device.create_stream())
        view = buffer.view("bfloat16", (4, 4))
        view = ch.StridedMemoryView.from_any_interface(view.view(view._layout[1:]), -1)
        view.__cuda_array_interface__ if view._type >> 16 > 1 else None
        assert view.shape == (3, 4)
        assert not {"numpy", "ml_dtypes", "cuda.bindings"} & set(sys.modules)
    """)
