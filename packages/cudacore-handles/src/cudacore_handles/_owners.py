# SPDX-License-Identifier: Apache-2.0
"""Python objects that C boxes keep alive."""

from __future__ import annotations

import atexit
import sys
from types import SimpleNamespace
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


def _unraisable(exc: Any, value: Any, traceback: Any) -> None:
    # A callback has nobody to raise to. Python's hook says it once, with the traceback.
    message = "Exception ignored while memory was being freed"
    sys.unraisablehook(
        SimpleNamespace(exc_type=exc, exc_value=value, exc_traceback=traceback, err_msg=message, object=None)
    )


def _release(owner: Any) -> None:
    drop(owner)


def _free(owner: Any, ptr: int, size: int, stream: Any) -> None:
    drop(owner)(ptr, size, stream)


ffi.def_extern(name="cudacore_release", onerror=_unraisable)(_release)
ffi.def_extern(name="cudacore_free", onerror=_unraisable)(_free)

# From here on the library leaks Python owners instead of calling into an interpreter that is going away.
atexit.register(lib.cch_process_exiting)
