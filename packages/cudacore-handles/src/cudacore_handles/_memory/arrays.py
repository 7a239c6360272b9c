# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as plain memory for copies."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cudacore_handles import _native
from cudacore_handles._base.names import shorten
from cudacore_handles._cffi import ffi
from cudacore_handles._stream.stream import Stream


class Memory(NamedTuple):
    """The contiguous memory of an array."""

    address: int
    nbytes: int
    on_host: bool
    keeper: Any  #: kept alive as long as the address is used
    type: int | None  #: DLPack's type of the elements, packed; None: a type that DLPack does not have


def has_protocol(obj: Any, name: str) -> bool:
    """Return whether an object supports a protocol. A class does not: its attributes are for its instances."""
    if isinstance(obj, type):
        return False
    try:
        return hasattr(obj, name)
    except Exception:
        return True  # the attribute exists, but PyTorch raises an error if the tensor requires a gradient


def why_no_array(obj: Any, *names: str) -> tuple[str, AttributeError | None]:
    """Return text for the message that an object is not an array, and the cause.

    The cause is the AttributeError that a protocol's property raised, if one did: such a property would look like a
    missing one.
    """
    if isinstance(obj, type):
        return f": it is the class {obj.__name__} itself; give an instance", None
    for name in names or ("__cuda_array_interface__", "__array_interface__", "__dlpack__"):
        if hasattr(type(obj), name):
            try:
                getattr(obj, name)
            except AttributeError as error:
                return f": its {name} failed: {error}", error
    return "", None


def is_numpy_scalar(obj: Any) -> bool:
    """Return whether an object is a NumPy scalar. Its ``__array_interface__`` can refer to freed memory."""
    generic = getattr(sys.modules.get("numpy"), "generic", None)
    return generic is not None and isinstance(obj, generic)


def has_own_memory(scalar: Any) -> bool:
    """Return whether a NumPy scalar is a record or raw bytes: its ``__array_interface__`` refers to its own memory."""
    return isinstance(scalar, sys.modules["numpy"].void)


def check_values(array: Any, name: str) -> None:
    """Raise an error for an array whose memory does not hold its values.

    These are NumPy arrays with masked elements, and PyTorch tensors that will be conjugated or negated when PyTorch
    reads them.
    """
    for bit in ("conj", "neg"):
        is_set = getattr(type(array), f"is_{bit}", None)
        if is_set is not None and is_set(array):
            raise TypeError(
                f"{name} has PyTorch's {bit} bit set: its memory does not hold its values; give its resolve_{bit}()"
            )
    # While another thread imports numpy.ma, the module exists, but its class does not.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is None or not isinstance(array, masked):
        return
    # The mask of a structured array has a bool for each field.
    if sys.modules["numpy"].ascontiguousarray(array.mask).view(bool).any():
        raise TypeError(
            f"{name} has masked elements, and the mask would be lost; give the array's filled(value), or its data for "
            "the elements as they are"
        )


@contextmanager
def memory_of(array: Any, name: str, stream: Stream, *, writable: bool = False) -> Iterator[Memory]:
    """Provide the memory of an array's elements within a ``with`` block.

    For device memory, the stream waits for the producer's work if the producer reports its own stream or accepts the
    consumer's stream.

    Parameters
    ----------
    array : object
        An object with ``__cuda_array_interface__``, the buffer protocol, ``__array_interface__`` or DLPack.
    name : str
        The name of the argument, for errors.
    stream : Stream
        The stream on which the memory will be used.
    writable : bool, optional
        Whether the memory will be written. Default False.

    Raises
    ------
    TypeError
        If it is not an array, or has masked elements.
    ValueError
        If its elements are not contiguous, or it is read-only and would be written.
    BufferError
        If its description is invalid or not supported.
    """
    check_values(array, name)
    data = _export_of(array.tobytes() if is_numpy_scalar(array) else array)
    if data is None:
        yield _of_interface(array, name, stream, writable=writable)
        return
    with data:
        yield _of_buffer(data, name, writable=writable)


def host_memory_of(array: Any, name: str, *, writable: bool) -> tuple[Memory, bool]:
    """Return the memory of an array in host memory, which the result keeps alive, and whether it can be written.

    The arguments and errors are those of :func:`memory_of`. Memory that does not belong to the array is an error.
    """
    if is_numpy_scalar(array):
        raise TypeError(f"{name} is a NumPy scalar, which has no memory of its own; give an array")
    check_values(array, name)
    data = _export_of(array)
    if data is not None:
        return _of_buffer(data, name, writable=writable), not data.readonly
    from cudacore_handles._stream.stream import default_stream

    memory = _of_interface(array, name, default_stream(), writable=writable)
    if memory.keeper._device[0] != _native.DL_CPU:
        raise ValueError(f"{name} is memory that CUDA allocated or registered, not ordinary host memory")
    return memory, not memory.keeper.readonly


def _export_of(array: Any) -> memoryview | None:
    """Return the memory of an array that supports the buffer protocol; None for other arrays."""
    if has_protocol(array, "__cuda_array_interface__"):
        return None
    try:
        return memoryview(array)
    except (TypeError, ValueError, BufferError):
        return None  # not a buffer, or elements of a type that the protocol does not support, such as dates


def _of_interface(array: Any, name: str, stream: Stream, *, writable: bool) -> Memory:
    """Return the memory of an array that does not support the buffer protocol."""
    from cudacore_handles._views.dtypes import type_of_view
    from cudacore_handles._views.view import StridedMemoryView

    on_device = has_protocol(array, "__cuda_array_interface__")
    # tried first, because DLPack does not support dates and structures
    if not on_device and has_protocol(array, "__array_interface__"):
        view = StridedMemoryView.from_array_interface(array)
    elif on_device or has_protocol(array, "__dlpack__"):
        view = StridedMemoryView.from_any_interface(array, stream)
    else:
        text, cause = why_no_array(array)
        raise TypeError(
            f"{name} must be a Buffer, or an array (NumPy's, or any with the buffer protocol, DLPack or "
            f"__cuda_array_interface__), not {type(array).__name__}{text}"
        ) from cause
    _check(name, contiguous=view._layout.is_contiguous_c, read_only=writable and view.readonly)
    # Pinned memory counts as host memory only if the producer has DLPack. Other producers report only that kernels can
    # use the memory, so the copy is ordered on the stream.
    pinned_waits = hasattr(array, "__dlpack__")
    on_host = view._device[0] == _native.DL_CPU or (pinned_waits and view._device[0] == _native.DL_CUDA_HOST)
    kind = type_of_view(view._type, view._dtype_as_it_is)
    return Memory(view.ptr, view.size * view._itemsize, on_host, view, kind)


def _of_buffer(view: memoryview, name: str, *, writable: bool) -> Memory:
    if "O" in re.sub(":[^:]*:", "", view.format):  # the format without the names of fields
        raise TypeError(f"{name} is an array of Python objects, which cannot be copied; convert it to numbers first")
    _check(name, contiguous=view.c_contiguous, read_only=writable and view.readonly)
    from cudacore_handles._views.dtypes import type_of_format, type_of_view

    kind = type_of_format(view.format, view.itemsize)
    if kind is not None:  # NumPy's dtype has the fields of a structure
        kind = type_of_view(kind, getattr(view.obj, "dtype", None))
    return Memory(_address_of(view), view.nbytes, True, view, kind)


def _address_of(view: memoryview) -> int:
    """Return the address of a contiguous memoryview, which must be kept as long as the address is used."""
    if not view.nbytes:
        return 0
    # The export ends here, even after a KeyboardInterrupt, because no variable has it. CPython before 3.13 crashes when
    # it collects a memoryview with an export.
    return int(ffi.cast("uintptr_t", ffi.from_buffer(view)))


def _check(name: str, *, contiguous: bool, read_only: bool) -> None:
    if not contiguous:
        raise ValueError(f"{name} is not C-contiguous; copy it to an array that is")
    if read_only:
        raise ValueError(f"{name} is read-only, and must be writable")


def different_sizes(name: str, array: Any, nbytes: int, size: int) -> ValueError:
    """Return the error for a copy between an array and a buffer of a different size."""
    text = f"{name} has {nbytes} bytes, and the buffer {size}; they must be the same"
    if nbytes < size:
        text += f". A part of the buffer is buffer[:{nbytes}]"
    if hasattr(array, "dtype"):
        text += f". The type of {name} is {shorten(str(array.dtype))}"
    return ValueError(text)
