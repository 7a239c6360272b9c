# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as kernel arguments: imitations and real arrays, read by interfaces or attributes."""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from dlpack_producers import (
    CUDA,
    TENSOR_FROM_OBJECT,
    Array,
    ExchangeAPI,
    ExchangedArray,
    Interface,
    OldArray,
    exchange_capsule,
    tensor_from_object,
)
from packing import ADDRESS, ADDRESS_OR_INT, FLOAT, INT, POINTER, UNKNOWN, one

from cudacore_handles import _native
from cudacore_handles._launch import argtypes

# ---- arrays with an interface


@pytest.fixture
def checked() -> Iterator[list[tuple[int, int]]]:
    """Replace the driver's check of addresses; give a list of the checks: (address, device)."""
    asked: list[tuple[int, int]] = []

    def check_device(value: object, address: int, device: int) -> None:
        asked.append((address, device))

    _native.connect("launch", check_device=check_device)
    yield asked
    _native.connect("launch", check_device=argtypes.check_device)


def test_cuda_array_interface(checked: list[tuple[int, int]]) -> None:
    """The current address of an array on the device would not arrive, or would not be checked."""
    value = Interface(data=(ADDRESS, True))
    assert one(value, 8) == struct.pack("=Q", ADDRESS)
    assert checked == []
    value.__cuda_array_interface__["data"] = (ADDRESS + 512, True)
    assert one(value, 8, device=1) == struct.pack("=Q", ADDRESS + 512)
    assert one(Interface(data=(0, True)), 8, device=1) == bytes(8)
    assert one(Interface(data=(None, True)), 8, device=1) == bytes(8)
    assert checked == [(ADDRESS + 512, 1)]
    with pytest.raises(TypeError, match=r"Interface is passed as a pointer of 8 bytes, but the parameter has 4"):
        one(value, 4)
    for wrong in ("x", 1.0, True):
        with pytest.raises(TypeError, match=r"the address that .*Interface has for its memory is not an int"):
            one(Interface(data=(wrong, True)), 8)
    for number in (np.int64(ADDRESS), np.uint64(ADDRESS)):
        assert one(Interface(data=(number, True)), 8) == struct.pack("=Q", ADDRESS)


class _Here:
    """An array in memory of a device. If `data` is 0, it has no elements."""

    def __init__(self, device_type: int = CUDA, device_id: int = 0, data: int = ADDRESS, byte_offset: int = 0) -> None:
        shape = (1 if data else 0,)
        super().__init__(data, shape, device=(device_type, device_id), offset=byte_offset)  # type: ignore[call-arg]


class DLPackArray(_Here, OldArray):
    pass


class VersionedArray(_Here, Array):
    pass


class Tensor(_Here, ExchangedArray):
    pass


@pytest.mark.parametrize("cls", [DLPackArray, VersionedArray])
@pytest.mark.parametrize(("device_type", "stream"), [(2, -1), (3, None), (13, -1)])
def test_dlpack(cls: type[DLPackArray], device_type: int, stream: int | None, checked: list[tuple[int, int]]) -> None:
    """A DLPack array would not arrive as its address, or streams would be synchronized, or its capsule would leak."""
    value = cls(device_type, byte_offset=256)
    assert one(value, 8, device=0) == struct.pack("=Q", ADDRESS + 256)
    assert value.deleted == 1
    assert value.streams == [stream]
    assert checked == []
    assert one(cls(device_type, byte_offset=256), 8, device=1) == struct.pack("=Q", ADDRESS + 256)
    # Host and managed memory is not checked, because every device can access it.
    assert checked == ([(ADDRESS + 256, 1)] if device_type == 2 else [])
    assert one(cls(device_type, data=0), 8, device=1) == bytes(8)
    with pytest.raises(TypeError, match="is passed as a pointer of 8 bytes, but the parameter has 4"):
        one(value, 4)
    assert value.deleted == 2


def test_capsule_is_kept_with_the_argument() -> None:
    """Memory that a producer has exported would be released while the other arguments are packed."""
    later = []

    class Later:
        def __index__(self) -> int:
            later.append(value.deleted)
            return 1

    value = DLPackArray()
    _native.pack(struct.pack("=6I", 0, 8, 0, 8, 8, 0), (value, Later()))
    assert later == [0]
    assert value.deleted == 1


# ---- DLPack's exchange API


def exporting(major: int, function: Any = tensor_from_object) -> ExchangeAPI:
    """Return an exchange API with one function. The caller must keep the API alive."""
    return ExchangeAPI(major=major, minor=3, tensor_from_object=ctypes.cast(function, ctypes.c_void_p))


def test_exchange_api(checked: list[tuple[int, int]]) -> None:
    """An array would be exported as a slower DLPack capsule, or its address, offset or device would be lost."""
    assert one(Tensor(), 8) == struct.pack("=Q", ADDRESS)
    assert one(Tensor(byte_offset=256), 8, POINTER, device=0) == struct.pack("=Q", ADDRESS + 256)
    assert one(type("Parameter", (Tensor,), {})(), 8) == struct.pack("=Q", ADDRESS)
    assert one(Tensor(data=0), 8, device=1) == bytes(8)
    assert checked == []
    one(Tensor(device_id=1), 8, device=1)
    one(Tensor(3), 8, device=1)
    one(Tensor(13), 8, device=1)
    assert checked == []
    one(Tensor(device_id=1), 8, device=0)
    assert checked == [(ADDRESS, 0)]
    for size, kind in ((4, 0), (8, FLOAT), (4, INT)):
        with pytest.raises(TypeError, match=r"Tensor is passed as a pointer of 8 bytes, but the parameter"):
            one(Tensor(), size, kind)


def test_exchange_api_of_other_devices() -> None:
    """A tensor in host memory, or of another vendor's device, would reach the kernel."""
    with pytest.raises(TypeError, match=r"Tensor is in host memory; copy it to the device"):
        one(Tensor(1), 8)
    with pytest.raises(TypeError, match=r"Tensor is on a device that is not CUDA's \(DLPack type 10\)"):
        one(Tensor(10), 8)


def test_exchange_api_that_fails() -> None:
    """A producer's reason for not exporting an array would be hidden, or a failure without a reason would crash."""

    @TENSOR_FROM_OBJECT
    def export(value: Any, out: Any) -> int:
        return -1

    api = exporting(1, export)
    cls = type("Tensor", (Tensor,), {"__dlpack_c_exchange_api__": exchange_capsule(api)})
    with pytest.raises(BufferError, match=r"Tensor cannot be exported by DLPack"):
        one(cls(), 8)


def test_exchange_api_that_cannot_be_used(checked: list[tuple[int, int]]) -> None:
    """An exchange API of another version would be called, or an object would be exported by its base class's API."""
    newer = exporting(2)
    exports = exporting(1)
    chained = ExchangeAPI(major=2, previous=ctypes.addressof(exports))
    without = ExchangeAPI(major=1)
    for api in (newer, without):
        cls = type("Array", (DLPackArray,), {"__dlpack_c_exchange_api__": exchange_capsule(api)})
        assert one(cls(data=ADDRESS + 16), 8) == struct.pack("=Q", ADDRESS + 16), "by __dlpack__"
        with pytest.raises(ValueError, match="the exchange API is of another DLPack"):
            _native.register(cls, exchange_capsule(api))
    cls = type("Array", (Tensor,), {"__dlpack_c_exchange_api__": exchange_capsule(chained)})
    assert one(cls(), 8) == struct.pack("=Q", ADDRESS)
    cls = type("Array", (Tensor,), {"__dlpack_c_exchange_api__": "no capsule"})
    with pytest.raises(AssertionError):
        one(cls(), 8)

    class Wrapper(Tensor):
        def __dlpack__(self, *, stream: Any = None) -> Any:
            return DLPackArray(data=ADDRESS + 32).__dlpack__()

    assert one(Wrapper(), 8) == struct.pack("=Q", ADDRESS + 32)


# ---- arrays whose attributes are read


def test_paths(checked: list[tuple[int, int]]) -> None:
    """The address or the device of an array would be read from the wrong attribute, or queried from the driver."""

    class Memory:
        ptr = ADDRESS
        device_id = 1

    class ndarray:  # noqa: N801 - as CuPy's
        data = Memory()

    ndarray.__module__ = "cupy"
    ndarray.__qualname__ = "ndarray"
    assert one(ndarray(), 8) == struct.pack("=Q", ADDRESS)
    assert one(type("Special", (ndarray,), {})(), 8, device=1) == struct.pack("=Q", ADDRESS)
    assert checked == []
    one(ndarray(), 8, device=0)
    assert checked == [(ADDRESS, 0)]
    for unknown in (-1, -2, -3):
        Memory.device_id = unknown
        one(ndarray(), 8, device=0)
    assert checked == [(ADDRESS, 0)] * 4, "the driver is queried if the device is not known"
    with pytest.raises(TypeError, match=r"ndarray is passed as a pointer of 8 bytes, .* of 8 is a float"):
        one(ndarray(), 8, FLOAT)


def test_numba_arrays(checked: list[tuple[int, int]]) -> None:
    """An array of Numba would be read by its interface, which it creates again each time."""

    class DeviceNDArrayBase:
        device_ctypes_pointer = ctypes.c_void_p(ADDRESS)

    DeviceNDArrayBase.__module__ = "numba.cuda.cudadrv.devicearray"
    DeviceNDArrayBase.__qualname__ = "DeviceNDArrayBase"
    cls = type("DeviceNDArray", (DeviceNDArrayBase,), {})
    assert one(cls(), 8) == struct.pack("=Q", ADDRESS)
    one(cls(), 8, device=0)
    assert checked == [(ADDRESS, 0)], "the driver knows the device"
    cls.device_ctypes_pointer = ctypes.c_void_p(None)
    assert one(cls(), 8, device=0) == bytes(8)


def test_paths_through_properties_of_c_types() -> None:
    """A cached descriptor of a property would be used for an object of another type, or would leak."""

    class Memory(ctypes.c_char * 7):  # type: ignore[misc]
        nbytes = 7

    def work() -> None:
        class Array(np.ndarray):
            pass

        _native.register(Array, (("base", "nbytes"), None, "dtype"))
        of_array, of_view = np.zeros(3).view(Array), np.asarray(memoryview(bytes(11))).view(Array)
        other = Array((7,), np.uint8, Memory())
        assert [type(value.base) for value in (of_array, other)] == [np.ndarray, Memory]
        for _ in range(3):
            assert one(of_array, 8) == struct.pack("=Q", 24)
            assert one(other, 8) == struct.pack("=Q", 7)
            assert one(of_view, 8) == struct.pack("=Q", 11)

    def references() -> list[int]:
        gc.collect()
        return [sys.getrefcount(item) for item in (np.ndarray.base, np.ndarray.nbytes)]

    work()
    before = references()
    for _ in range(3):
        work()
    # one for each leaked entry
    assert all(now - then < 3 for now, then in zip(references(), before, strict=True))

    class Empty(np.ndarray):
        pass

    _native.register(Empty, (("base", "nbytes"), None, "dtype"))
    with pytest.raises(AttributeError, match="nbytes"):
        one(np.ndarray.__new__(Empty, 1), 8)  # the array's `base` is None


def test_dlpack_that_cannot_be_read(checked: list[tuple[int, int]]) -> None:
    """An object that is not a CUDA array, or a capsule that cannot be read, would reach the kernel as some address."""

    future, used = VersionedArray(), DLPackArray()
    future.version, used.name = 2, b"used_dltensor"
    for value, message in ((future, "DLPack 2"), (used, "used_dltensor")):
        with pytest.raises(ValueError, match=rf"^argument 0: .*{message}"):
            one(value, 8)
    with pytest.raises(TypeError, match=r"not CUDA's \(DLPack type 10\); copy it to the device"):
        one(DLPackArray(10), 8)
    assert checked == []


def test_producer_errors_pass() -> None:
    """A producer's reason for not exporting an array would be hidden."""

    class Refuses(DLPackArray):
        def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
            raise BufferError("requires grad")

    with pytest.raises(BufferError, match="requires grad"):
        one(Refuses(), 8)


def test_host_arrays_are_refused_or_passed_by_value() -> None:
    """An array in host memory would reach the kernel as a host address."""
    with pytest.raises(TypeError, match=r"^argument 0: .*DLPackArray is in host memory; copy it to the device"):
        one(DLPackArray(1), 8)
    with pytest.raises(TypeError, match=r"numpy\.ndarray has 4096 bytes in host memory, .* 8; copy it to the device"):
        one(np.zeros(512), 8)
    vector = np.array([1, 2, 3], dtype=np.float32)
    assert one(vector, 12) == vector.tobytes()
    assert one(np.array(7, dtype=np.int16), 2) == struct.pack("=h", 7)
    with pytest.raises(TypeError, match=r"numpy\.ndarray is not contiguous; pass a contiguous copy"):
        one(np.arange(6, dtype=np.float32)[::2], 12)
    assert one(array.array("d", [1.5, 2.5]), 16) == struct.pack("=2d", 1.5, 2.5)
    for vector_of_a_pointers_size in (array.array("d", [1.5]), np.zeros(1), np.zeros(2, dtype=np.float32)):
        with pytest.raises(TypeError, match=r"is in host memory; copy it to the device .* as bytes"):
            one(vector_of_a_pointers_size, 8)


class Changeable:
    """A custom integer that can also have the protocols of an array on the device or on the host."""

    def __init__(self, **protocols: Any) -> None:
        self.protocols = protocols

    def __index__(self) -> int:
        return 7

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["protocols"][name]
        except KeyError:
            raise AttributeError(name) from None


def test_the_first_value_does_not_decide_for_its_type(checked: list[tuple[int, int]]) -> None:
    """A launch would depend on earlier launches: an array would be treated as an integer."""
    interface = {"data": (ADDRESS, False), "shape": (1,), "typestr": "<f4", "version": 3}
    expected = {"array": struct.pack("=Q", ADDRESS), "number": struct.pack("=Q", 7)}
    for order in itertools.permutations(expected):
        cls = type("Some", (Changeable,), {})
        values = {"array": cls(__cuda_array_interface__=interface), "number": cls()}
        for name in order + order:
            assert one(values[name], 8) == expected[name], (order, name)
        with pytest.raises(
            TypeError, match="Some is passed as a pointer of 8 bytes, but the parameter of 4 is a signed"
        ):
            one(values["array"], 4, INT)
        assert one(values["number"], 4, FLOAT) == struct.pack("=f", 7)


@pytest.mark.parametrize("cls", [Interface, DLPackArray, Tensor, np.ndarray, np.float32, ctypes.c_int, int, Changeable])
def test_a_class_is_no_value(cls: type) -> None:
    """A class that is passed instead of an instance would cause an error about a 'property', or become an address."""
    with pytest.raises(TypeError, match=r"^argument 0: cannot pass a '.*' to a kernel"):
        one(cls, 8)


def test_an_attribute_error_inside_of_an_interface() -> None:
    """An error of the producer would be hidden, as if the object were not an array."""

    class Broken:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"data": (self.pointer, False)}  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match=r"its __cuda_array_interface__ failed: .*no attribute 'pointer'") as caught:
        one(Broken(), 8)
    assert isinstance(caught.value.__cause__, AttributeError)


@pytest.mark.parametrize("kind", [INT, FLOAT, UNKNOWN])
def test_a_masked_value(kind: int) -> None:
    """A masked value would arrive as 0, or as the value under the mask."""
    for value in (np.ma.masked, np.ma.array(3, dtype="i4", mask=True)):
        with pytest.raises(TypeError, match="has masked elements, and the mask would be lost"):
            one(value, 4, kind)
    assert one(np.ma.array(3, dtype="i4"), 4, INT) == struct.pack("=i", 3)


@pytest.mark.parametrize("cls", [DLPackArray, VersionedArray, Tensor])
def test_an_empty_tensor_with_an_offset(cls: Any) -> None:
    """A slice of an empty tensor would arrive as the address 8 instead of a null pointer."""
    assert one(cls(data=0, byte_offset=8), 8) == bytes(8)


def test_handles_of_the_host() -> None:
    """A stream that is passed instead of an array would arrive as an address of the driver's own memory on the host."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    for value in (driver.CUstream(ADDRESS), driver.CUevent(ADDRESS), driver.CUcontext(ADDRESS), driver.CUdevice(0)):
        for kind in (UNKNOWN, POINTER, ADDRESS_OR_INT):
            with pytest.raises(TypeError, match=rf"{type(value).__name__} is a handle that only the host can use"):
                one(value, 8, kind)
    assert one(driver.CUtexObject(5), 8, ADDRESS_OR_INT) == struct.pack("=Q", 5)


# ---- real arrays of PyTorch and CuPy


def test_pytorch() -> None:
    """PyTorch's tensors would not be read by the exchange API, or arrive with wrong addresses."""
    torch = pytest.importorskip("torch", minversion="2.11", reason="needs PyTorch 2.11")
    tensor = torch.zeros(4)
    for value in (tensor, torch.nn.Parameter(tensor)):
        with pytest.raises(TypeError, match=r"is in host memory; copy it to the device"):
            one(value, 8)
    if torch.cuda.is_available():
        tensor = torch.zeros(8, device="cuda")
        assert one(tensor, 8) == struct.pack("=Q", tensor.data_ptr())
        assert one(tensor[2:], 8, POINTER) == struct.pack("=Q", tensor.data_ptr() + 8)
        del tensor, value
        torch.cuda.empty_cache()  # otherwise PyTorch's own memory counts as leaked at exit


def test_cupy() -> None:
    """CuPy's arrays would be read by an interface instead of by their attributes, or arrive with wrong addresses."""
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(ADDRESS, 64, None, device_id=0), 0)
    array = cupy.ndarray(8, dtype=cupy.float32, memptr=memory)
    assert one(array, 8, device=0) == struct.pack("=Q", ADDRESS)
    assert one(array[2:], 8, POINTER, device=0) == struct.pack("=Q", ADDRESS + 8)
