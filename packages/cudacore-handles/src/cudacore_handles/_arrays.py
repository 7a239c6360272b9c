# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as plain memory, to copy from and to."""

from __future__ import annotations

import math
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
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        if hasattr(array, "__dlpack__"):  # which can order the producer's work, in every version
            return _from_dlpack(array, name, stream, writable=writable)
        memory = _from_interface(interface, name, array, on_host=False, writable=writable)
        if interface.get("stream") is not None:
            stream.wait(Stream.from_handle(interface["stream"]))
        return memory
    try:
        view = memoryview(array)
    except (TypeError, ValueError, BufferError):
        view = None  # no buffer, or elements of a type that buffers do not have, such as dates
    if view is not None:
        if "O" in re.sub(":[^:]*:", "", view.format):  # the format without the names of a struct's fields
            raise TypeError(_of_objects(name))
        if not view.c_contiguous:
            raise ValueError(_not_contiguous(name))
        if writable and view.readonly:
            raise ValueError(_read_only(name))
        data = ffi.from_buffer(view.cast("B") if view.nbytes else b"")
        return Memory(int(ffi.cast("uintptr_t", data)) if view.nbytes else 0, view.nbytes, True, (data, view))
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        if "O" in str([interface["typestr"], *(field[1] for field in interface.get("descr", ()))]):
            raise TypeError(_of_objects(name))
        return _from_interface(interface, name, array, on_host=True, writable=writable)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, name, stream, writable=writable)
    raise TypeError(
        f"{name} must be a Buffer, or an array (NumPy's, or any with the buffer protocol, DLPack or "
        f"__cuda_array_interface__), not {type(array).__name__}"
    )


def _from_interface(interface: dict[str, Any], name: str, array: object, *, on_host: bool, writable: bool) -> Memory:
    typestr = interface["typestr"]
    itemsize = int(typestr[2:].partition("[")[0]) * (4 if typestr[1] == "U" else 1)  # "<M8[ns]", "<U3"
    shape = interface["shape"]
    nbytes = math.prod(shape) * itemsize
    strides = interface.get("strides")
    if strides is not None and nbytes:
        expected = itemsize
        for length, stride in zip(reversed(shape), reversed(strides), strict=True):
            if length != 1 and stride != expected:
                raise ValueError(_not_contiguous(name))
            expected *= length
    address, read_only = interface["data"]
    if writable and read_only:
        raise ValueError(_read_only(name))
    return Memory(int(address or 0), nbytes, on_host, (array, interface))


def _from_dlpack(array: Any, name: str, stream: Stream, *, writable: bool) -> Memory:
    device_type = int(array.__dlpack_device__()[0])
    # The producer makes this stream wait for its own work; memory of the host knows no streams.
    ordered = {} if device_type == _native.DL_CPU else {"stream": stream.__cuda_stream__()[1]}
    try:
        capsule = array.__dlpack__(**ordered, max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0
        capsule = array.__dlpack__(**ordered)
    address, nbytes, device_type, read_only = _native.tensor_memory(capsule)
    if nbytes < 0:
        raise ValueError(_not_contiguous(name))
    if writable and read_only:
        raise ValueError(_read_only(name))
    if device_type not in (_native.DL_CPU, _native.DL_CUDA, _native.DL_CUDA_HOST, _native.DL_CUDA_MANAGED):
        raise TypeError(f"{name} is on a device that is not CUDA's (DLPack type {device_type})")
    on_host = device_type in (_native.DL_CPU, _native.DL_CUDA_HOST)
    return Memory(address, nbytes, on_host, (array, capsule))


def _not_contiguous(name: str) -> str:
    return f"{name} is not C-contiguous: its elements do not lie one behind the other; copy it to an array that is"


def _of_objects(name: str) -> str:
    return f"{name} is an array of Python objects, which are no data that could be copied; convert it to numbers first"


def _read_only(name: str) -> str:
    return f"{name} is read-only, and would be written"
