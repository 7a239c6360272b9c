# SPDX-License-Identifier: Apache-2.0
"""How values of other libraries become kernel arguments.

`_native` packs what Python itself has (int, float, bool, complex, None, bytes-likes) and types that were registered
with it. It asks `resolve` about any other type, once: the type is then registered, so that later values of it never
come here. Types are recognised by the names of their base classes and by their protocols, and nothing is imported for
that: NumPy, ctypes, CuPy or PyTorch are only known to programs that use them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import check

__all__ = ["resolve"]

# What _native.register() takes: a code, a converter, an exchange API, or the paths to an array's address and device.
_Code = int | Callable[[Any, int], bytes | int] | tuple[tuple[str, ...], tuple[str, ...] | None] | object

_POINTER_SIZE = 8
_ON_DEVICE = "copy it to the device and pass the array that is there"

# NumPy scalars by dtype.kind: how they are packed, and the item sizes that CUDA C++ has as well.
_NUMPY_KINDS: dict[str, tuple[int, tuple[int, ...]]] = {
    "b": (_native.BOOL, (1,)),
    "i": (_native.SIGNED, (1, 2, 4, 8)),
    "u": (_native.UNSIGNED, (1, 2, 4, 8)),
    "f": (_native.FLOAT, (2, 4, 8)),
    "c": (_native.COMPLEX, (8, 16)),
}

# ctypes' format characters. Not: long double, strings, Python objects.
_CTYPES_KINDS: dict[str, int] = {
    "?": _native.BOOL,
    **dict.fromkeys("bhilq", _native.SIGNED),
    **dict.fromkeys("BHILQ", _native.UNSIGNED),
    **dict.fromkeys("fd", _native.FLOAT),
}

# Arrays whose address and device are cheaper to have by attributes than by a protocol.
_ARRAYS: dict[str, _Code] = {
    "cupy.ndarray": (("data", "ptr"), ("data", "device_id")),
    "numba.cuda.cudadrv.devicearray.DeviceNDArrayBase": (("device_ctypes_pointer", "value"), None),
}


_ANY_DEVICE = -1


def resolve(cls: type, value: Any) -> bool:
    """Register with `_native` how values of a type are packed.

    Parameters
    ----------
    cls : type
        The exact type of `value`, which is not registered yet.
    value : Any
        The first value of that type.

    Returns
    -------
    bool
        Whether such values can be kernel arguments at all.
    """
    code = _code(cls, value)
    if code is None:
        return False
    _native.register(cls, code)
    return True


def _code(cls: type, value: Any) -> _Code | None:
    bases = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    # NumPy first: its float64, complex128 and bytes_ are subclasses of Python's types too.
    if "numpy.generic" in bases:
        return _numpy_code(value.dtype)
    if "_ctypes._CData" in bases:
        return _ctypes_code(cls, bases)
    for python_type, code in ((int, _native.SIGNED), (float, _native.FLOAT), (complex, _native.COMPLEX)):
        if issubclass(cls, python_type):
            return code
    if any(_is_pointer_code(_native.registered(base)) for base in cls.__mro__):
        return _native.POINTER
    if hasattr(cls, "__int__") and any(base.startswith("cuda.bindings.") for base in bases):
        return _handle
    # Arrays before __index__: theirs reads a single element, from the device at that.
    exchange_api = _exchange_api(cls)
    if exchange_api is not None:
        return exchange_api
    for base in bases & _ARRAYS.keys():
        return _ARRAYS[base]
    if _is_array(value):
        return _native.ARRAY
    if hasattr(cls, "__index__"):
        return _native.SIGNED
    return None


def _numpy_code(dtype: Any) -> _Code | None:
    kind, sizes = _NUMPY_KINDS.get(dtype.kind, (0, ()))
    itemsize: int = dtype.itemsize
    if itemsize in sizes:
        return kind | itemsize << 8
    # Neither long double, nor text, nor Python objects. What is left is raw data: structured scalars, dates, the
    # small floating-point types of other packages.
    return None if dtype.char in "gGUO" else _numpy_scalar


def _ctypes_code(cls: type, bases: set[str]) -> _Code | None:
    if "_ctypes._SimpleCData" in bases:
        # A type of the other byte order refers to its native twin.
        if getattr(cls, f"__ctype_{sys.byteorder[0]}e__", cls) is not cls:
            return None
        letter: str = cls._type_  # type: ignore[attr-defined]
        if letter in _CTYPES_KINDS:
            from ctypes import sizeof

            return _CTYPES_KINDS[letter] | sizeof(cls) << 8 | _native.HAS_VALUE
        return {"c": _exact_bytes, "P": _ctypes_pointer}.get(letter)
    if "_ctypes._Pointer" in bases:
        return _ctypes_pointer
    if hasattr(cls, "_swappedbytes_"):  # a struct of the other byte order
        return None
    return _exact_bytes if bases & {"_ctypes.Structure", "_ctypes.Union", "_ctypes.Array"} else None


def _exchange_api(cls: type) -> object | None:
    """Return the DLPack exchange API of a type, where it can be used."""
    owner = next((base for base in cls.__mro__ if "__dlpack_c_exchange_api__" in vars(base)), None)
    if owner is None:
        return None
    # A subclass that exports in a way of its own is not exported by the function of its base.
    if any("__dlpack__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(owner)]):
        return None
    api: object = cls.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    return api if _native.is_exchange_api(api) else None


def _is_pointer_code(code: _Code | None) -> bool:
    return isinstance(code, int) and code & 0xFF == _native.POINTER


def _is_array(value: Any) -> bool:
    if hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__"):
        return True
    try:
        memoryview(value).release()
    except TypeError:
        return False
    except (ValueError, BufferError):  # it has the protocol, and cannot be exported just now
        return True
    return True


# ---- converters: (value, size of the parameter in bytes) -> bytes of that size, or an address as an int


def _numpy_scalar(value: Any, size: int) -> bytes:
    if not value.dtype.isnative:
        import numpy as np

        value = np.asarray(value).astype(value.dtype.newbyteorder("="))
    data: bytes = value.tobytes()
    return data


def _exact_bytes(value: Any, size: int) -> bytes:
    return memoryview(value).tobytes()


def _ctypes_pointer(value: Any, size: int) -> bytes | int:
    from ctypes import c_void_p, cast

    if size != _POINTER_SIZE:
        return _exact_bytes(value, size)  # which says what its size is
    return cast(value, c_void_p).value or 0


def _handle(value: Any, size: int) -> int:
    """Pack a handle of cuda.bindings: CUdeviceptr, a texture object, a graph's conditional handle."""
    if size != _POINTER_SIZE:
        raise TypeError(f"{_name(value)} is passed as a pointer of {_POINTER_SIZE} bytes, but the parameter has {size}")
    return int(value)


# ---- arrays that are not read in C


def _read_array(value: Any, size: int) -> bytes | tuple[int, int, object]:
    """Return the address of an array, its device and what keeps it; or the bytes of one in host memory."""
    if not hasattr(value, "__dlpack__"):
        return _host_data(value, size)
    device_type, device = (int(number) for number in value.__dlpack_device__())
    if device_type == _native.DL_CPU:
        return _host_data(value, size)
    if device_type not in (_native.DL_CUDA, _native.DL_CUDA_HOST, _native.DL_CUDA_MANAGED):
        raise TypeError(f"{_name(value)} is on a device that is not CUDA's (DLPack type {device_type}); {_ON_DEVICE}")
    address, capsule = _dlpack_address(value, device_type)
    return address, device if device_type == _native.DL_CUDA else _ANY_DEVICE, capsule


def _check_device(value: object, address: int, device: int) -> None:
    """Raise for memory that a device cannot reach."""
    context = ffi.new("cch_context **")
    check(lib.cch_context_primary(context, device))
    there = ffi.gc(context[0], lib.cch_context_unref)
    check(lib.cch_context_current(context))
    here = ffi.gc(context[0], lib.cch_context_unref) if context[0] else ffi.NULL
    check(lib.cch_context_set_current(there))
    try:
        check(
            lib.cch_pointer_check(address),
            hint=f"{_name(value)} is given to a launch on device {device}: copy it there, or give devices access to it",
        )
    finally:
        check(lib.cch_context_set_current(here))


def _dlpack_address(value: Any, device_type: int) -> tuple[int, object]:
    """Return the address of an array's first element, and the capsule that it was exported in.

    The capsule is not consumed: dropping it runs its deleter. Nothing is synchronized (stream -1): the order of the
    array's work and the launch is the caller's.
    """
    stream = None if device_type == _native.DL_CUDA_HOST else -1
    try:
        capsule = value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0
        capsule = value.__dlpack__(stream=stream)
    return _native.read_capsule(capsule)[0], capsule


def _host_data(value: Any, size: int) -> bytes:
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{_name(value)} is in host memory; {_ON_DEVICE}") from None
    with view:
        if view.nbytes != size:
            raise TypeError(
                f"{_name(value)} has {view.nbytes} bytes in host memory, but the parameter has {size}; {_ON_DEVICE}, "
                f"or pass exactly {size} bytes to give them by value"
            )
        if size == _POINTER_SIZE and view.ndim:
            # A one-element array of doubles has the size of a pointer, and was most likely meant as one.
            raise TypeError(
                f"{_name(value)} is in host memory; {_ON_DEVICE}, or pass its 8 bytes as bytes to give them by value"
            )
        if any(order in view.format for order in ">!"):
            raise TypeError(f"{_name(value)} is big-endian; convert it to native byte order first")
        if not view.c_contiguous:
            raise TypeError(f"{_name(value)} is not contiguous; pass a contiguous copy of it")
        return view.tobytes()


def _name(value: Any) -> str:
    cls = type(value)
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}".removeprefix("builtins.")


_native.set_resolver(resolve)
_native.set_face("read_array", _read_array)
_native.set_face("check_device", _check_device)
