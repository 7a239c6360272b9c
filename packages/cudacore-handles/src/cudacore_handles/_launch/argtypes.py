# SPDX-License-Identifier: Apache-2.0
"""Converts values of other libraries to kernel arguments.

`_native` packs Python's own types (int, float, bool, complex, None, bytes-likes) and registered types. For any other
type, it calls `resolve` once, which registers the type, so that later values of that type are packed without calling
this module. Types are recognised by the names of their base classes and by their protocols. So NumPy, ctypes, CuPy and
PyTorch need not be imported.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.element_types import C_NAMES, name_of_element
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import out_box
from cudacore_handles._cffi import lib
from cudacore_handles._code.param_kinds import KINDS, ParamKind, kinds_that
from cudacore_handles._memory.arrays import check_values, has_protocol, why_no_array

__all__ = ["resolve"]

# What _native.register() accepts: a code, a converter, an exchange API, or the names of the attributes that lead to an
# array's address and device, and of the one with its dtype.
_Code = int | Callable[[Any, int, int], Any] | tuple[tuple[str, ...], tuple[str, ...] | None, str] | object

# The result of converting a value: its bytes, a number, or a place in memory.
# Address, device (or _native.ANY_DEVICE), another object to keep alive (or None), and the type of an array's elements
# (DLPack's code | bits << 8).
_Place = tuple[int, int, object] | tuple[int, int, object, int]
_Answer = bytes | int | float | _Place

_POINTER_SIZE = 8
_ON_DEVICE = "copy it to the device by device.to_device(array, stream=stream), and pass that"

# NumPy scalars by dtype.kind: how they are packed, and the item sizes for which CUDA C++ has a type.
_NUMPY_KINDS: dict[str, tuple[int, tuple[int, ...]]] = {
    "b": (_native.BOOL, (1,)),
    "i": (_native.SIGNED, (1, 2, 4, 8)),
    "u": (_native.UNSIGNED, (1, 2, 4, 8)),
    "f": (_native.FLOAT, (2, 4, 8)),
    "c": (_native.COMPLEX, (8, 16)),
}

# The format characters of ctypes, without long double, strings and Python objects.
_CTYPES_KINDS: dict[str, int] = {
    "?": _native.BOOL,
    **dict.fromkeys("bhilq", _native.SIGNED),
    **dict.fromkeys("BHILQ", _native.UNSIGNED),
    **dict.fromkeys("fd", _native.FLOAT),
}

# Arrays for which reading the address and the device from attributes is cheaper than using a protocol.
_ARRAYS: dict[str, _Code] = {
    "cupy.ndarray": (("data", "ptr"), ("data", "device_id"), "dtype"),
    "numba.cuda.cudadrv.devicearray.DeviceNDArrayBase": (("device_ctypes_pointer", "value"), None, "dtype"),
}
# NumPy 2.3 changed the name of the module of MaskedArray.
_MASKED_ARRAYS = {"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}

_TAKE_BYTES = kinds_that(_native.TAKES_BYTES)
_POINTERS = kinds_that(_native.IS_POINTER)

_TEXTURES = {f"cudacore_handles.texture.{name}" for name in ("TextureObject", "SurfaceObject")}
# Classes of cuda.bindings whose values a kernel can use. Values of its other classes are handles for the host.
_DEVICE_HANDLES = frozenset({
    "CUdeviceptr", "CUtexObject", "CUsurfObject", "CUgraphConditionalHandle", "CUgraphDeviceNode", "cuuint64_t",
    "cudaTextureObject_t", "cudaSurfaceObject_t", "cudaGraphConditionalHandle", "cudaGraphDeviceNode_t",
})  # fmt: skip


def resolve(cls: type, value: Any) -> bool:
    """Register with `_native` how values of a type are packed.

    The registered conversion must be right for all values of the type, not only for the first one.

    Parameters
    ----------
    cls : type
        The exact type of `value`, which is not registered yet.
    value : Any
        The first value of that type.

    Returns
    -------
    bool
        Whether such values can be kernel arguments.
    """
    code = _code(cls, value)
    if code is None:
        return False
    _native.register(cls, code)
    return True


def _code(cls: type, value: Any) -> _Code | None:
    bases = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    if issubclass(cls, type):  # the value is itself a class; its attributes are for its instances
        return None
    # NumPy's types come first, because float64, complex128 and bytes_ are also subclasses of Python's types.
    if "numpy.generic" in bases:
        return _numpy_code(value.dtype)
    if "_ctypes._CData" in bases:
        return _ctypes_code(cls, bases)
    # Then come Python's own types, and ours.
    for python_type, code in ((int, _native.SIGNED), (float, _native.FLOAT), (complex, _native.COMPLEX)):
        if issubclass(cls, python_type):
            return code
    if issubclass(cls, _native.BufferHandle) or (issubclass(cls, _native.Handle) and bases & _TEXTURES):
        return _native.POINTER
    if issubclass(cls, _native.TensorMapHandle):
        return _native.TENSOR_MAP
    if hasattr(cls, "__int__") and any(base.startswith("cuda.bindings.") for base in bases):
        return _handle
    # Arrays before __index__, because the __index__ of an array reads its element, possibly from the device.
    if bases & _MASKED_ARRAYS:
        return _read_masked_array
    exchange_api = _exchange_api(cls)
    if exchange_api is not None:
        return exchange_api
    for base in bases & _ARRAYS.keys():
        return _ARRAYS[base]
    # Some values of a type can be arrays while others are integers or neither, because an attribute can be missing in
    # some values. For example, an array may be on the host at first. So each value is examined.
    return _native.ARRAY if _is_array(value) or hasattr(cls, "__index__") else None


def _numpy_code(dtype: Any) -> _Code | None:
    kind, sizes = _NUMPY_KINDS.get(dtype.kind, (0, ()))
    itemsize: int = dtype.itemsize
    if itemsize in sizes:
        return kind | itemsize << 8
    if dtype.kind == "S" or any(f"{base.__module__}.{base.__name__}" == "numpy.void" for base in dtype.type.__mro__):
        return _raw_data
    # The remaining types are text, dates and Python objects, which kernels cannot take, and numbers in formats of other
    # packages.
    return None if dtype.char in "GUOMm" else _other_number


def _ctypes_code(cls: type, bases: set[str]) -> _Code | None:
    if "_ctypes._SimpleCData" in bases:
        # A ctypes type of the other byte order has a reference to the native type.
        if getattr(cls, f"__ctype_{sys.byteorder[0]}e__", cls) is not cls:
            return None
        letter: str = cls._type_  # type: ignore[attr-defined]
        if letter in _CTYPES_KINDS:
            from ctypes import sizeof

            return _CTYPES_KINDS[letter] | sizeof(cls) << 8 | _native.HAS_VALUE
        return {"c": _exact_bytes, "P": _ctypes_pointer}.get(letter)
    if "_ctypes._Pointer" in bases:
        return _ctypes_pointer
    if "_ctypes.Array" in bases:
        return _exact_bytes if cls._type_.__name__ == "c_char" else _read_host_array  # type: ignore[attr-defined]
    if hasattr(cls, "_swappedbytes_"):  # a struct of the other byte order
        return None
    return _struct if bases & {"_ctypes.Structure", "_ctypes.Union"} else None


def _exchange_api(cls: type) -> object | None:
    """Return the DLPack exchange API of a type; None if there is none that can be used."""
    owner = next((base for base in cls.__mro__ if "__dlpack_c_exchange_api__" in vars(base)), None)
    if owner is None:
        return None
    # A subclass with its own export method must not be exported by the function of its base.
    if any("__dlpack__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(owner)]):
        return None
    api: object = cls.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    return api if _native.is_exchange_api(api) else None


def _is_array(value: Any) -> bool:
    # An attribute that only the class has is a property that failed for this value. Such a value counts as an array, so
    # that the error of the property is raised later.
    cls = type(value)
    for name in ("__cuda_array_interface__", "__dlpack__"):
        if hasattr(cls, name) or has_protocol(value, name):
            return True
    try:
        memoryview(value).release()
    except TypeError:
        return False
    except (ValueError, BufferError):  # the value supports the buffer protocol, but cannot be exported now
        return True
    return True


# ---- converters: (value, size of the parameter in bytes, number of its kind) -> a result


def _raw_data(value: Any, size: int, kind: int) -> bytes:
    """Pack NumPy's bytes and structured scalars. Their bytes are copied, whatever the parameter's kind is."""
    if value.dtype.names is None and value.dtype.subdtype is None:
        return bytes(value.tobytes())
    if value.dtype.hasobject:
        raise TypeError(f"{_name(value)} has Python objects in it, which no kernel can use")
    _check_takes_struct(value, kind)
    return bytes(_native_order(value).tobytes())


def _other_number(value: Any, size: int, kind: int) -> _Answer:
    """Pack a NumPy scalar in another package's format, such as bfloat16, or a long double."""
    if KINDS[kind] in _TAKE_BYTES:
        if value.dtype.char == "g":
            raise TypeError(f"{_name(value)} has a format that kernels do not support; pass float(value)")
        return bytes(_native_order(value).tobytes())
    number = float(value)
    if math.isinf(number) and number != value:
        raise OverflowError(f"{value} does not fit a parameter of {size} bytes")
    return number


def _struct(value: Any, size: int, kind: int) -> bytes:
    _check_takes_struct(value, kind)
    return memoryview(value).tobytes()


def _check_takes_struct(value: Any, kind: int) -> None:
    if KINDS[kind] not in _TAKE_BYTES:
        raise TypeError(
            f"{_name(value)} is a struct, but the parameter is of the kind '{KINDS[kind]}'; pass one of its members"
        )


def _exact_bytes(value: Any, size: int, kind: int) -> bytes:
    return memoryview(value).tobytes()


def _native_order(value: Any) -> Any:
    if value.dtype.isnative:
        return value
    import numpy as np

    return np.asarray(value).astype(value.dtype.newbyteorder("="))


def _ctypes_pointer(value: Any, size: int, kind: int) -> bytes | _Place:
    from ctypes import c_void_p, cast

    if size != _POINTER_SIZE:
        return _exact_bytes(value, size, kind)  # _native rejects these bytes with an error that states their size
    return cast(value, c_void_p).value or 0, _native.ANY_DEVICE, None


def _handle(value: Any, size: int, kind: int) -> _Place:
    """Pack a handle of cuda.bindings."""
    name = type(value).__name__
    if name.partition("_v")[0] not in _DEVICE_HANDLES and name not in _DEVICE_HANDLES:
        raise TypeError(
            f"{_name(value)} is a handle that only the host can use; a kernel takes CUdeviceptr, texture and surface "
            "objects, and conditional handles"
        )
    if size != _POINTER_SIZE:
        raise TypeError(f"{_name(value)} is passed as a pointer of {_POINTER_SIZE} bytes, but the parameter has {size}")
    return int(value), _native.ANY_DEVICE, None


# ---- arrays that the C code does not read


def read_array(value: Any, size: int, kind: int) -> _Answer:
    """Convert a value that may be an array (exported by DLPack, or in host memory), or otherwise an integer."""
    check_values(value, _name(value))
    if not has_protocol(value, "__dlpack__"):
        return _read_host_array(value, size, kind)
    device_type, device = (int(number) for number in value.__dlpack_device__())
    if device_type == _native.DL_CPU:
        return _read_host_array(value, size, kind)
    if device_type not in (_native.DL_CUDA, _native.DL_CUDA_HOST, _native.DL_CUDA_MANAGED):
        raise TypeError(
            f"{_name(value)} is on a device that is not CUDA's (DLPack type {device_type}); copy it to the device first"
        )
    # Nothing is synchronized (stream -1): the caller must order the launch after the array's work.
    view = _native.from_dlpack(_native.ViewHandle, value, -1)
    return view.ptr, device if device_type == _native.DL_CUDA else _native.ANY_DEVICE, view, view._type & 0xFFFF


def _read_host_array(value: Any, size: int, kind: int) -> _Answer:
    """Return the bytes of an array in host memory, or its only element."""
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    if ndarray is not None and isinstance(value, ndarray):
        return _read_numpy_array(value, size, kind)
    try:
        view = memoryview(value)
    except TypeError:
        return _read_no_buffer(value)
    with view:
        _check_host_array(value, view.ndim, view.nbytes, size, kind)
        if KINDS[kind] not in _TAKE_BYTES:
            return _element(value, view)
        if "O" in view.format:
            raise TypeError(f"{_name(value)} has Python objects in it, which no kernel can use")
        _check_bytes(value, any(order in view.format for order in ">!"), view.c_contiguous)
        return view.tobytes()


def _element(value: Any, view: memoryview) -> _Answer:
    """Return the element of a memoryview without dimensions."""
    try:
        return view.tolist()  # type: ignore[return-value]
    except NotImplementedError:
        raise TypeError(f"{_name(value)} is of the format '{view.format}'; pass a Python number") from None


def _read_masked_array(value: Any, size: int, kind: int) -> _Answer:
    check_values(value, _name(value))
    return _read_numpy_array(value, size, kind)


def _read_numpy_array(value: Any, size: int, kind: int) -> _Answer:
    """Return the bytes of a NumPy array, or its only element, which can have a type that the buffer protocol lacks."""
    _check_host_array(value, value.ndim, value.nbytes, size, kind)
    if value.dtype.hasobject:
        raise TypeError(f"{_name(value)} has Python objects in it, which no kernel can use")
    if KINDS[kind] not in _TAKE_BYTES:
        import numpy as np

        element = value.view(np.ndarray)[()]
        code = _numpy_code(element.dtype)
        if code is None:
            raise TypeError(f"{_name(value)} has the dtype {value.dtype}, which kernels do not support")
        return code(element, size, kind) if callable(code) else element
    _check_bytes(value, not value.dtype.isnative, value.flags.c_contiguous)
    return bytes(value.tobytes())


def _check_bytes(value: Any, is_swapped: bool, is_contiguous: bool) -> None:
    """Raise an error if the bytes of an array in host memory are not the elements that a kernel would read."""
    if is_swapped:
        raise TypeError(f"{_name(value)} is big-endian; convert it to native byte order first")
    if not is_contiguous:
        raise TypeError(f"{_name(value)} is not contiguous; pass a contiguous copy of it")


def _check_host_array(value: Any, ndim: int, nbytes: int, size: int, kind: int) -> None:
    """Raise an error for an array in host memory, unless its bytes or its only element can be the argument."""
    wanted = KINDS[kind]
    if wanted in _POINTERS:
        raise TypeError(f"{_name(value)} is in host memory; {_ON_DEVICE}")
    if wanted not in _TAKE_BYTES:
        if ndim:
            raise TypeError(
                f"{_name(value)} is an array in host memory, but the parameter is of the kind '{wanted}'; pass one of "
                "its elements"
            )
    elif nbytes != size:
        raise TypeError(
            f"{_name(value)} has {nbytes} bytes in host memory, but the parameter has {size}; {_ON_DEVICE}, "
            f"or pass exactly {size} bytes to give them by value"
        )
    elif size == _POINTER_SIZE and wanted is ParamKind.UNKNOWN:
        # An array of one double has the size of a pointer, and the caller most likely meant a pointer.
        raise TypeError(
            f"{_name(value)} is in host memory; {_ON_DEVICE}, or pass its 8 bytes as bytes to give them by value"
        )


def _read_no_buffer(value: Any) -> int:
    """Return the integer for a value that could not be read as an array."""
    if has_protocol(value, "__dlpack__"):
        raise TypeError(f"{_name(value)} is in host memory; {_ON_DEVICE}")
    if hasattr(type(value), "__index__"):
        return operator.index(value)
    text, cause = why_no_array(value)
    raise TypeError(f"{_name(value)} is neither a number nor an array{text}") from cause


def check_device(value: object, address: int, device: int) -> None:
    """Raise an error if a device cannot access memory."""
    context = out_box("cch_context")
    check(lib.cch_context_primary(context, device))
    current = out_box("cch_context")
    check(lib.cch_context_current(current))
    check(lib.cch_context_set_current(context[0]))
    try:
        check(
            lib.cch_pointer_check(address),
            hint=f"{_name(value)} is given to a launch on device {device}: copy it there, or give devices access to it",
        )
    finally:
        check(lib.cch_context_restore(current[0]))


def refuse_element(value: Any, wanted: int, given: int) -> NoReturn:
    """Raise the error for an array whose elements are not of the type that the kernel's pointer points to."""
    name = name_of_element(wanted)
    raise TypeError(
        f"{_name(value)} is an array of {name_of_element(given)}, but the parameter is a pointer to {C_NAMES[name]}; "
        f"convert it to {name}, or pass its view as {name}, or its address, if this is meant"
    )


def _name(value: Any) -> str:
    cls = type(value)
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}".removeprefix("builtins.")
