# SPDX-License-Identifier: Apache-2.0
"""Python objects that C boxes keep alive."""

from __future__ import annotations

import atexit
from typing import Any

from cudacore_handles._cffi import ffi, lib

# The handle of each object that a box holds. What is in here is alive; C holds the address only.
_kept: dict[int, Any] = {}


def keep(obj: object) -> Any:
    """Return a ``void *`` for C that keeps `obj` alive until :func:`drop`, or until a box gives it to a callback."""
    handle = ffi.new_handle(obj)
    _kept[int(ffi.cast("uintptr_t", handle))] = handle
    return handle


def drop(handle: Any) -> Any:
    """End what :func:`keep` began and return the object."""
    return ffi.from_handle(_kept.pop(int(ffi.cast("uintptr_t", handle))))


def _release(owner: Any) -> None:
    drop(owner)


def _free(owner: Any, ptr: int, size: int, stream: Any) -> None:
    drop(owner)(ptr, size, stream)


# An exception in one has nobody to go to: cffi hands it to sys.unraisablehook().
ffi.def_extern(name="cudacore_release")(_release)
ffi.def_extern(name="cudacore_free")(_free)

# From here on the library leaks Python owners instead of calling into an interpreter that is going away.
atexit.register(lib.cch_process_exiting)
