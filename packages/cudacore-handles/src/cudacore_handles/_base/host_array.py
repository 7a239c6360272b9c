# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays of memory that the host can access.

They are made from the buffer protocol. NumPy's ``__array_interface__`` differs between versions: NumPy 2.1.0 crashes
where the shape is one, and versions before 2.4 refuse empty arrays without an address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cudacore_handles._cffi import ffi


def host_bytes(address: int, size: int, owner: object, *, readonly: bool = False) -> memoryview:
    """Return the bytes at an address. The result, and everything made from it, has a reference to `owner`."""
    # The cast pointer's destructor has a reference to the owner, and the view has one to the cast pointer.
    view = memoryview(ffi.buffer(ffi.gc(ffi.cast("char *", address), lambda _: owner), size))
    return view.toreadonly() if readonly else view


def array_of_bytes(memory: memoryview) -> Any:
    """Return the NumPy array of some bytes."""
    import numpy as np

    return np.frombuffer(memory, np.uint8)


def host_array(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: Any,
    owner: object = None,
    *,
    readonly: bool = False,
) -> Any:
    """Return a NumPy array of the memory at an address, with strides in bytes. It has a reference to `owner`."""
    import numpy as np

    dtype = np.dtype(dtype)
    reaches = [step * (extent - 1) for extent, step in zip(shape, strides, strict=True)]
    low = sum(reach for reach in reaches if reach < 0)
    size = sum(map(abs, reaches)) + dtype.itemsize if 0 not in shape else 0
    memory = array_of_bytes(host_bytes(address + low, size, owner, readonly=readonly))
    return np.ndarray(shape, dtype, memory, -low if size else 0, strides)


def as_requested(array: Any, dtype: Any, copy: bool | None) -> Any:
    """Return what ``__array__(dtype, copy)`` returns for an array, with any version of NumPy."""
    import numpy as np

    if copy:
        return np.array(array, dtype)
    if copy is False and dtype is not None and np.dtype(dtype) != array.dtype:
        raise ValueError(f"an array of {array.dtype} can be one of {np.dtype(dtype)} only as a copy, and copy is False")
    return np.asarray(array, dtype)
