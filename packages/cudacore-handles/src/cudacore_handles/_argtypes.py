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
from cudacore_handles._cffi import lib
from cudacore_handles._errors import check

__all__ = ["resolve"]

_Code = int | Callable[[Any, int], bytes | int]

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

# ctypes' format characters of numbers and addresses. Not: long double, strings, Python objects.
_CTYPES_FORMATS = frozenset("?cbBhHiIlLqQfdP")

# DLDeviceType of dlpack.h.
_DLPACK_CPU = 1
_DLPACK_CUDA = 2
_DLPACK_CUDA_HOST = 3
_DLPACK_CUDA_MANAGED = 13


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
    if _is_array(value):
        return _array
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
        if cls._type_ not in _CTYPES_FORMATS:  # type: ignore[attr-defined]
            return None
        # A type of the other byte order refers to its native twin.
        return _exact_bytes if getattr(cls, f"__ctype_{sys.byteorder[0]}e__", cls) is cls else None
    if bases & {"_ctypes.Structure", "_ctypes.Union", "_ctypes.Array", "_ctypes._Pointer"}:
        return _exact_bytes
    return None


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


# ---- converters: (value, size of the parameter in bytes) -> bytes of that size, or an int


def _numpy_scalar(value: Any, size: int) -> bytes:
    data: bytes = value.tobytes()
    return data


def _exact_bytes(value: Any, size: int) -> bytes:
    return memoryview(value).tobytes()


def _handle(value: Any, size: int) -> int:
    """Pack a handle of cuda.bindings: CUdeviceptr, a texture object, a graph's conditional handle."""
    return _pointer(value, int(value), size)


def _array(value: Any, size: int) -> bytes | int:
    """Pack an array on the device as its address, and one in host memory by value."""
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _checked_pointer(value, interface["data"][0], size)
    if not hasattr(value, "__dlpack__"):
        return _host_data(value, size)
    device_type = int(value.__dlpack_device__()[0])
    if device_type == _DLPACK_CPU:
        return _host_data(value, size)
    if device_type not in (_DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED):
        raise TypeError(f"{_name(value)} is on a device that is not CUDA's (DLPack type {device_type}); {_ON_DEVICE}")
    return _checked_pointer(value, _dlpack_address(value, device_type), size)


def _checked_pointer(value: Any, address: int, size: int) -> int:
    pointer = _pointer(value, address, size)
    if pointer:  # an empty array has no address
        check(lib.cch_pointer_check(pointer))
    return pointer


def _pointer(value: Any, address: int, size: int) -> int:
    if size != _POINTER_SIZE:
        raise TypeError(f"{_name(value)} is passed as a pointer of {_POINTER_SIZE} bytes, but the parameter has {size}")
    return address


def _dlpack_address(value: Any, device_type: int) -> int:
    """Return the address of an array's first element.

    The capsule is not consumed: dropping it, here, runs its deleter. The array itself stays alive, as the caller's
    argument. Nothing is synchronized (stream -1): the order of the array's work and the launch is the caller's.
    """
    from cudacore_handles import _native

    stream = None if device_type == _DLPACK_CUDA_HOST else -1
    try:
        capsule = value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0
        capsule = value.__dlpack__(stream=stream)
    return _native.read_capsule(capsule)[0]


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
        if not view.c_contiguous:
            raise TypeError(f"{_name(value)} is not contiguous; pass a contiguous copy of it")
        return view.tobytes()


def _name(value: Any) -> str:
    cls = type(value)
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}".removeprefix("builtins.")


_native.set_resolver(resolve)
