# SPDX-License-Identifier: Apache-2.0
"""Conversion between faces and their boxes."""

from __future__ import annotations

from typing import Any, TypeVar

from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib

Face = TypeVar("Face", bound=_native.Handle)

_cast = ffi.cast
_gc = ffi.gc
_unref = lib.cch_unref


def hold(face: _native.Handle) -> Any:
    """Return a pointer to a face's box, with a reference of its own, for the functions of ``lib``.

    The box lives as long as the pointer, even if the face is closed in the meantime.

    Raises
    ------
    ClosedError
        If the face is closed.
    """
    return _gc(_cast("void *", face._reference()), _unref)


def adopt(cls: type[Face], box: Any) -> Face:
    """Return a new face that takes over one reference to a box."""
    return cls._adopt(int(_cast("uintptr_t", box)))


def address(box: Any) -> int:
    """Return the address of a box as an int, for the functions of ``_native``."""
    return int(_cast("uintptr_t", box))
