# SPDX-License-Identifier: Apache-2.0
"""The controls of the driver's test double (tests/c/fakecuda.h), for the process that runs on it."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

KINDS = ("context", "stream", "event", "pool", "memory", "library", "kernel")
_ARGS_SIZE = 32764


class _Call(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("thread", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("result", ctypes.c_int64),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32),
        ("programmatic", ctypes.c_uint32),
        ("args_size", ctypes.c_size_t),
        ("args", ctypes.c_ubyte * _ARGS_SIZE),
    )


class Launch(NamedTuple):
    """One launch, as the driver saw it."""

    stream: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared_bytes: int
    cooperative: bool
    programmatic: bool
    args: bytes


def _library() -> ctypes.CDLL:
    # The path under which cudacore loads it: the same copy.
    library = ctypes.CDLL(os.environ["CUDACORE_DRIVER"])
    library.fake_live.restype = library.fake_violations.restype = library.fake_calls.restype = ctypes.c_size_t
    library.fake_log.restype = library.fake_held.restype = ctypes.c_size_t
    library.fake_log.argtypes = (ctypes.c_size_t, ctypes.POINTER(_Call), ctypes.c_size_t)
    library.fake_last_violation.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return library


def reset() -> None:
    """Forget the log, the violations, and what was to fail."""
    _library().fake_reset()


def fail(name: str | None, nth: int, result: int) -> None:
    """Make the nth call from now of an entry point (None: of any) give a CUresult; 0 means every one."""
    _library().fake_fail(name and name.encode(), nth, result)


def hide(name: str) -> None:
    """Make the driver lack an entry point."""
    _library().fake_hide(name.encode())


def live() -> dict[str, int]:
    """Count the driver's objects that are alive."""
    return {kind: _library().fake_live(number) for number, kind in enumerate(KINDS)}


def log() -> list[str]:
    """Return the names of the entry points that were called, in order."""
    calls = (_Call * 4096)()
    return [calls[i].name.decode() for i in range(_library().fake_log(0, calls, len(calls)))]


def last_launch() -> Launch:
    """Return the last launch."""
    launch = _Launch()
    if not _library().fake_last_launch(ctypes.byref(launch)):
        raise LookupError("nothing was launched")
    return Launch(
        launch.stream or 0,
        tuple(launch.grid),
        tuple(launch.block),
        tuple(launch.cluster),
        launch.shared_bytes,
        bool(launch.cooperative),
        bool(launch.programmatic),
        bytes(launch.args[: launch.args_size]),
    )


def check() -> None:
    """Raise when the driver was misused."""
    text = ctypes.create_string_buffer(256)
    if _library().fake_violations():
        _library().fake_last_violation(text, len(text))
        raise AssertionError(
            f"the driver was misused {_library().fake_violations()} times, last: {text.value.decode()}"
        )
