# SPDX-License-Identifier: Apache-2.0
"""Conversion between faces and their boxes."""

from __future__ import annotations

from typing import Any, TypeVar

from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib

Face = TypeVar("Face", bound=_native.Handle)

_cast = ffi.cast
_gc = ffi.gc
_new = ffi.new
_unref_in = lib.unref_in


def hold(face: _native.Handle) -> Any:
    """Return a pointer to a face's box, with a reference of its own, for the functions of ``lib``.

    The box lives as long as the pointer, even if the face is closed in the meantime.

    Raises
    ------
    ClosedError
        If the face is closed.
    """
    return _native.hold(face)


def hold_box(box: Any) -> Any:
    """Return a pointer to a box with a reference of its own, like :func:`hold`."""
    return _native.hold(address(box))


def out_box(kind: str) -> Any:
    """Return memory for the out-parameter of a function that makes a box, such as ``out_box("cch_pool")``.

    The memory owns the reference that the function stores. So it is released if an exception, such as a
    KeyboardInterrupt, follows the call. :func:`adopt` takes it out.
    """
    return _gc(_new(f"{kind} **"), _unref_in)


def adopt(cls: type[Face], out: Any) -> Face:
    """Return a new face for the box in an out-parameter, and take the reference out of it."""
    return cls._adopt(address(out))


def share(cls: type[Face], box: Any) -> Face:
    """Return a new face with a reference of its own to a box, which must stay alive during this call."""
    return cls._share(address(box))


def address(pointer: Any) -> int:
    """Return the address in a pointer as an int, for the functions of ``_native``."""
    return int(_cast("uintptr_t", pointer))
