# SPDX-License-Identifier: Apache-2.0
"""What sharing memory and sharing events between processes have in common."""

from __future__ import annotations

import os
import threading
import weakref
import zlib
from contextlib import suppress
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.errors import ClosedError
from cudacore_handles._base.handle import hold

HANDLE_SIZE = 64

# An RLock, because a garbage collection can come while it is held, and run what asks again.
lock = threading.RLock()
# Held during a driver's call, by which something is opened only once. Weak references do not wait for it.
opening_lock = threading.RLock()


def _renew_locks() -> None:
    """Replace the locks in a forked child: the threads that held them may not be there."""
    global lock, opening_lock
    lock, opening_lock = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Shared:
    """Objects of what processes share, by what names it between them.

    A resource can have several objects, of which each can be closed. Any that is open leads to the resource.
    """

    def __init__(self) -> None:
        self._references: dict[object, list[weakref.ref[_native.Handle]]] = {}

    def add(self, name: object, face: _native.Handle) -> None:
        """Remember an object of what has a name."""

        def forget(reference: weakref.ref[_native.Handle]) -> None:
            with lock:
                references = self._references[name]
                references.remove(reference)
                if not references:
                    del self._references[name]

        reference = weakref.ref(face, forget)
        with lock:
            self._references.setdefault(name, []).append(reference)

    def hold(self, name: object) -> Any:
        """Return a pointer to the box of a resource that is open, as :func:`hold` does; or None."""
        with lock:
            faces = [reference() for reference in self._references.get(name, ())]
        for face in faces:
            if face is not None:
                with suppress(ClosedError):
                    return hold(face)
        return None


def check_restored(name: str, fields: tuple[Any, ...], checksum: int) -> None:
    """Refuse what was changed on the way: the driver would take it for what it says."""
    if not isinstance(fields[0], bytes) or len(fields[0]) != HANDLE_SIZE or checksum_of(*fields) != checksum:
        raise ValueError(f"the {name} was damaged on its way, or is of another release: it is not what was pickled")


def checksum_of(*fields: Any) -> int:
    """Return a checksum of what a pickle says."""
    return zlib.crc32(repr(fields).encode())


def check_type(name: str, value: Any, cls: type) -> Any:
    """Return an argument that must be of a class."""
    if not isinstance(value, cls):
        raise TypeError(f"{name} must be of type {cls.__name__}, not {type(value).__name__}")
    return value
