# SPDX-License-Identifier: Apache-2.0
"""Arrays of imaginary libraries, which export memory by every protocol and count the exports that were deleted."""

from __future__ import annotations

import ctypes
import gc
import math
import threading
from typing import Any

import numpy as np
import pytest

CPU, CUDA, CUDA_HOST, MANAGED = 1, 2, 3, 13
READ_ONLY, PADDED = 1, 4

# Older versions of NumPy neither export nor import versioned tensors, and cannot express that memory is read-only.
needs_versioned_numpy = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (2, 1), reason="needs NumPy 2.1, whose DLPack has versions"
)

_api = ctypes.pythonapi
new_capsule = _api.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
get_pointer = _api.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
is_valid = _api.PyCapsule_IsValid
is_valid.restype, is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
# The same for capsules that are being destroyed, to which there are no references.
_is_valid_at = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

# Threads count at once, and without a GIL would lose counts. Reentrant, because a collection can run a deleter.
COUNTING = threading.RLock()


def fields(kind: Any, *names: str) -> list[tuple[str, Any]]:
    """Return the descriptions of several fields of the same type, for a ctypes structure."""
    return [(name, kind) for name in names]


class Tensor(ctypes.Structure):
    """The C structure DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        *fields(ctypes.c_int32, "device_type", "device_id", "ndim"),
        *fields(ctypes.c_uint8, "code", "bits"),
        ("lanes", ctypes.c_uint16),
        *fields(ctypes.POINTER(ctypes.c_int64), "shape", "strides"),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """The C structure DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """The C structure DLManagedTensorVersioned."""

    _fields_ = (
        *fields(ctypes.c_uint32, "major", "minor"),
        *fields(ctypes.c_void_p, "manager_ctx", "deleter"),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


class Exporter:
    """An object whose ``__dlpack__`` returns an existing capsule."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)


class ExchangeAPI(ctypes.Structure):
    """The C structure DLPackExchangeAPI."""

    _fields_ = (
        *fields(ctypes.c_uint32, "major", "minor"),
        *fields(ctypes.c_void_p, "previous", "allocator", "from_object", "to_object"),
        *fields(ctypes.c_void_p, "tensor_from_object", "current_work_stream"),
    )


DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
TENSOR_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
CURRENT_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))

# Maps the address of a structure to the objects that it points to, and the array.
_lent: dict[int, tuple[Any, ...]] = {}


def _delete(address: int) -> None:
    array = _lent.pop(address)[-1]
    with COUNTING:
        array.deleted += 1


_deleter = DELETER(_delete)


def _destroy(capsule: int) -> None:
    """Delete the tensor of a capsule that nobody has consumed, as the destructors of all libraries do."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid_at(capsule, name):
            _delete(_get_pointer_at(capsule, name))


_destructor = DELETER(_destroy)


class Array:
    """An array of a library that supports DLPack, in memory at a given address."""

    name = b""  # the name of capsules, if it is not DLPack's

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        *,
        device: tuple[int, int] = (CPU, 0),
        dtype: tuple[int, int, int] = (2, 32, 1),
        flags: int = 0,
        offset: int = 0,
        version: int = 1,
        keep: object = None,
    ) -> None:
        self.ptr, self.shape, self.strides = ptr, shape, strides
        self.device, self.dtype, self.flags, self.offset, self.version = device, dtype, flags, offset, version
        self.keep = keep
        self.lent = self.deleted = 0
        self.streams: list[Any] = []

    def fill(self, tensor: Tensor) -> tuple[Any, ...]:
        """Fill in a structure, and return the objects that it points to. The caller must keep these objects."""
        ndim = len(self.shape)
        shape = (ctypes.c_int64 * max(ndim, 1))(*self.shape)
        strides = (ctypes.c_int64 * max(ndim, 1))(*(self.strides or ()))
        tensor.data, tensor.byte_offset = self.ptr, self.offset
        tensor.device_type, tensor.device_id = self.device
        tensor.ndim = ndim
        tensor.code, tensor.bits, tensor.lanes = self.dtype
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = None if self.strides is None else ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        return shape, strides

    def lend(self, versioned: bool) -> int:
        """Return the address of a new managed tensor."""
        managed: Any = Versioned() if versioned else Managed()
        if versioned:
            managed.major, managed.minor, managed.flags = self.version, 1, self.flags
        managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p)
        address = ctypes.addressof(managed)
        _lent[address] = (managed, *self.fill(managed.tensor), self)
        with COUNTING:
            self.lent += 1
        return address

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        self.streams.append(stream)
        versioned = max_version is not None
        name = self.name or (b"dltensor_versioned" if versioned else b"dltensor")
        return new_capsule(self.lend(versioned), name, ctypes.cast(_destructor, ctypes.c_void_p))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype[1] // 8


class OldArray(Array):
    """An array of a library from before DLPack 1.0."""

    def __dlpack__(self, *, stream: Any = None) -> object:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


current_stream = 0  # the current stream of the library that ExchangedArray imitates


class ExchangedArray(Array):
    """An array of a library that has the C exchange API."""

    __dlpack_c_exchange_api__: object

    def __dlpack__(self, **_: Any) -> object:
        raise AssertionError("the C exchange API is there")


def _from_object(array: Any, out: Any) -> int:
    out[0] = array.lend(True)
    return 0


def _tensor_from_object(array: Any, out: Any) -> int:
    array.kept = array.fill(out[0])
    return 0


def _current_stream(device_type: int, device_id: int, out: Any) -> int:
    out[0] = current_stream
    return 0


tensor_from_object = TENSOR_FROM_OBJECT(_tensor_from_object)
_functions = (FROM_OBJECT(_from_object), tensor_from_object, CURRENT_STREAM(_current_stream))
_addresses = [ctypes.cast(function, ctypes.c_void_p) for function in _functions]
_exchange = ExchangeAPI(1, 3, None, None, _addresses[0], None, *_addresses[1:])
_NAME = b"dlpack_exchange_api"  # kept in a variable, because a capsule stores only a pointer to its name


def exchange_capsule(api: ExchangeAPI) -> object:
    """Return a capsule of an exchange API. The caller must keep the API alive."""
    return new_capsule(ctypes.addressof(api), _NAME, None)


ExchangedArray.__dlpack_c_exchange_api__ = exchange_capsule(_exchange)


PRODUCERS = pytest.mark.parametrize("producer", [Array, OldArray, ExchangedArray])


class Interface:
    """An array with ``__cuda_array_interface__`` alone."""

    def __init__(self, **fields: Any) -> None:
        self.__cuda_array_interface__ = {"version": 3, "typestr": "<f4", **fields}


def host(values: Any) -> tuple[Any, int]:
    """Return a NumPy array of float32, and its address."""
    array = np.ascontiguousarray(values, np.float32)
    return array, int(array.ctypes.data)


def collect() -> None:
    """Collect garbage, and let the interpreter reach a point where it releases dropped owners."""
    for _ in range(3):
        gc.collect()
        sum(range(100))
