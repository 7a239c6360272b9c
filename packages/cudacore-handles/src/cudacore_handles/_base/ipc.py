# SPDX-License-Identifier: Apache-2.0
"""The code that memory and events have in common for sharing between processes."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import methodcaller
from typing import Any, ClassVar, TypeVar

from cudacore_handles._base.errors import closed
from cudacore_handles._base.made import Closing

S = TypeVar("S", bound="Sent")
HANDLE_SIZE = 64

# Protects the tables of shared resources. It is an RLock, because a garbage collection while a thread holds it can run
# a finalizer that takes it again on that thread.
lock = threading.RLock()
# Held during the driver call that opens a resource, so that it is opened only once. Callbacks of weak references do not
# take this lock.
opening_lock = threading.RLock()


def _renew_locks() -> None:
    """Replace the locks in a forked child, because the threads that hold the locks do not exist there."""
    global lock, opening_lock
    lock, opening_lock = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Descriptors:
    """File descriptors that are closed with the last reference to this object.

    It is made before the descriptors, so that a KeyboardInterrupt loses none of them. A call that uses the descriptors
    holds a reference to this object, so that no other thread closes them during the call.

    Parameters
    ----------
    numbers : list of int, or an array of cffi
        A function of the library stores descriptors in an array. Elements that are -1 are no descriptors.
    """

    __slots__ = ("numbers",)

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def __del__(self) -> None:
        for number in getattr(self, "numbers", ()):  # missing if a KeyboardInterrupt ended the constructor
            if number >= 0:
                with suppress(OSError):
                    os.close(number)

    @classmethod
    def copies(cls, numbers: Iterable[int]) -> Descriptors:
        """Duplicate file descriptors."""
        files = cls([])
        files.numbers.extend(map(os.dup, numbers))  # there is no bytecode between a call and the list
        return files


class Sent:
    """The base of objects that processes send to each other: the values of the attributes that `_names` lists."""

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]]

    @classmethod
    def _init(cls: type[S], *fields: Any) -> S:
        self = cls.__new__(cls)
        for name, field in zip(cls._names, fields, strict=True):
            setattr(self, name, field)
        return self

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._names)


class HasDescriptors(Sent, Closing):
    """The base of objects that have file descriptors until they are closed, and that ``multiprocessing`` sends."""

    __slots__ = ("_files",)
    _files: Descriptors | None  # None if closed; the first of `_names`
    _other_way: ClassVar[str]  # how to send the descriptors without multiprocessing

    @classmethod
    def _init(cls: type[S], *fields: Any) -> S:
        teach_multiprocessing(cls)
        return super()._init(*fields)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"an {type(self).__name__} has file descriptors, which pickle alone cannot send: send it by "
            f"multiprocessing (as an argument of a Process, or by a Queue or Pipe), or {self._other_way} by "
            "socket.send_fds"
        )

    def close(self) -> None:
        """Close the file descriptors.

        Closing them twice does nothing. Pools and memory that were imported with them remain. If another thread is
        using the descriptors, they are closed after that thread's call.
        """
        self._files = None

    def _open(self) -> Descriptors:
        files = self._files
        if files is None:
            raise closed(self)
        return files

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._files is None


def teach_multiprocessing(cls: type[Any], reduce: Callable[[Any], tuple[Any, ...]] | None = None) -> None:
    """Let multiprocessing send objects of a class with their file descriptors, which plain pickle cannot send.

    A pickler copies the registered functions when it is made, so this is called before an object is pickled.
    """
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(cls, reduce or _send)


def _send(handle: HasDescriptors) -> tuple[Any, ...]:
    # DupFd is used even for a process that is being started: the handle may be closed before that process has received
    # the descriptors.
    from multiprocessing.resource_sharer import DupFd

    files = handle._open()
    sent = [DupFd(descriptor) for descriptor in files.numbers]
    return _receive, (type(handle), sent, handle._fields()[1:])


def _receive(cls: Any, sent: list[Any], fields: tuple[Any, ...]) -> Any:
    files = Descriptors([])
    try:
        files.numbers.extend(map(methodcaller("detach"), sent))
    except (OSError, EOFError) as error:
        raise RuntimeError(
            f"the file descriptors of an {cls.__name__} were not received: they can be received once, while the "
            "process that sent them runs"
        ) from error
    return cls._init(files, *fields)


class SentFields(Sent):
    """An object that is pickled as its fields, with a checksum: the driver does not check what another process sent.

    The first field is a handle of the driver. Two objects are equal if their fields are.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[Any, ...]:
        fields = self._fields()
        return self._restore, (*fields, zlib.crc32(repr(fields).encode()))

    @classmethod
    def _restore(cls: type[S], *sent: Any) -> S:
        *fields, checksum = sent
        is_handle = len(fields) == len(cls._names) and isinstance(fields[0], bytes) and len(fields[0]) == HANDLE_SIZE
        if not is_handle or zlib.crc32(repr(tuple(fields)).encode()) != checksum:
            raise ValueError(f"the {cls.__name__} was damaged, or was pickled by another release")
        return cls._init(*fields)
