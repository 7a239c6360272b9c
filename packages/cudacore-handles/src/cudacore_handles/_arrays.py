# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as plain memory, to copy from and to."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cudacore_handles import _native
from cudacore_handles._cffi import ffi
from cudacore_handles._stream import Stream


class Memory(NamedTuple):
    """Contiguous memory of an array."""

    address: int
    nbytes: int
    on_host: bool
    keeper: object  #: what must live as long as the address is used


def memory_of(array: Any, name: str, stream: Stream, *, writable: bool = False) -> Memory:
    """Return where an array's elements are.

    Where the producer of device memory tells of its stream, or can be told who the consumer is, the stream waits for
    its work.

    Parameters
    ----------
    array : object
        What has ``__cuda_array_interface__``, the buffer protocol, ``__array_interface__`` or DLPack.
    name : str
        The argument, for errors.
    stream : Stream
        Where the memory will be used.
    writable : bool, optional
        Whether it will be written. Default False.

    Raises
    ------
    TypeError
        When it is no array.
    ValueError
        When its elements do not lie one behind the other, or it is read-only and would be written.
    BufferError
        When what it says of itself cannot be, or is not supported.
    """
    on_device = hasattr(array, "__cuda_array_interface__")
    if not on_device:
        try:
            data = memoryview(array)
        except (TypeError, ValueError, BufferError):
            pass  # no buffer, or elements of a type that buffers do not have, such as dates
        else:
            return _of_buffer(data, name, writable=writable)
    from cudacore_handles._memoryview import StridedMemoryView

    if not on_device and hasattr(array, "__array_interface__"):  # first: dates and structures are not DLPack's
        view = StridedMemoryView.from_array_interface(array)
    elif on_device or hasattr(array, "__dlpack__"):
        view = StridedMemoryView.from_any_interface(array, stream)
    else:
        raise TypeError(
            f"{name} must be a Buffer, or an array (NumPy's, or any with the buffer protocol, DLPack or "
            f"__cuda_array_interface__), not {type(array).__name__}"
        )
    _check(name, contiguous=view._layout.is_contiguous_c, read_only=writable and view.readonly)
    # An array that says of itself no more than that kernels can use it is ordered on the stream, pinned memory too.
    pinned_waits = hasattr(array, "__dlpack__")
    on_host = view._device[0] == _native.DL_CPU or (pinned_waits and view._device[0] == _native.DL_CUDA_HOST)
    return Memory(view.ptr, view.size * view._itemsize, on_host, view)


def _of_buffer(view: memoryview, name: str, *, writable: bool) -> Memory:
    if "O" in re.sub(":[^:]*:", "", view.format):  # the format without the names of a struct's fields
        raise TypeError(
            f"{name} is an array of Python objects, which are no data that could be copied; convert it to numbers first"
        )
    _check(name, contiguous=view.c_contiguous, read_only=writable and view.readonly)
    data = ffi.from_buffer(view.cast("B") if view.nbytes else b"")
    return Memory(int(ffi.cast("uintptr_t", data)) if view.nbytes else 0, view.nbytes, True, (data, view))


def _check(name: str, *, contiguous: bool, read_only: bool) -> None:
    if not contiguous:
        raise ValueError(
            f"{name} is not C-contiguous: its elements do not lie one behind the other; copy it to an array that is"
        )
    if read_only:
        raise ValueError(f"{name} is read-only, and would be written")
