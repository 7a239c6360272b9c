# SPDX-License-Identifier: Apache-2.0
"""The controls of the simulated driver that this process has loaded (``cudacore_sim.h``)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cudacore_sim import _library, _origins
from cudacore_sim._library import SimulatorError

_NO_ENTRY_POINT = 2**64 - 1  # the result of cudasim_calls for an unknown name
_CHUNK = 4096  # the number of calls that are read from the log at a time


class Call(NamedTuple):
    """A call of the driver that has returned."""

    number: int
    """The number of the call, from 1. Missing numbers were dropped, because the log is bounded."""
    name: str
    """The symbol with its version, such as ``"cuMemAlloc_v2"``."""
    thread: int
    """The thread id (TID) that Linux gives the calling thread."""
    context: int
    """The context that was current when the call began; 0 is none."""
    result: int
    """The result, a ``CUresult``."""
    injected: bool
    """Whether `fail` made the call fail."""
    stream: int
    """The ``CUstream`` argument; 0 is none, or the default stream."""
    function: str
    """The name for ``cuGetProcAddress``, such as ``"cuMemAlloc"``."""


class Launch(NamedTuple):
    """The parameters of a launch."""

    number: int
    """The number of the launch, from 1."""
    kernel: str
    """The kernel's name in the code. That of a C++ kernel is mangled."""
    stream: int
    """The ``CUstream`` argument."""
    context: int
    """The context of the launch."""
    grid: tuple[int, int, int]
    """In blocks."""
    block: tuple[int, int, int]
    """In threads."""
    cluster: tuple[int, int, int]
    """In blocks; zeros if the launch has no clusters."""
    shared_bytes: int
    """Dynamic shared memory of a block, in bytes."""
    cooperative: bool
    """Whether it was a cooperative launch."""
    programmatic: bool
    """Whether it had programmatic stream serialization."""
    arguments: bytes
    """The argument block of the kernel."""


class _Call(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("thread", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("result", ctypes.c_int32),
        ("injected", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("function", ctypes.c_char_p),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32),
        ("programmatic", ctypes.c_uint32),
        ("name_size", ctypes.c_size_t),
        ("argument_size", ctypes.c_size_t),
    )


def _declare(library: ctypes.CDLL) -> None:
    size, number, text = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_char_p
    signatures: dict[str, tuple[object, ...]] = {
        "cudasim_version": (ctypes.c_int,),
        "cudasim_ignored_settings": (size, text, size),
        "cudasim_kind_name": (text, ctypes.c_int),
        "cudasim_live": (size, ctypes.c_int),
        "cudasim_describe_live": (size, ctypes.c_int, text, size),
        "cudasim_live_numbers": (size, ctypes.c_int, ctypes.POINTER(number), size),
        "cudasim_newest": (number,),
        "cudasim_on_create": (None, *(ctypes.c_void_p,) * 4),
        "cudasim_created": (size, ctypes.POINTER(number), size),
        "cudasim_log": (size, number, ctypes.POINTER(_Call), size),
        "cudasim_log_position": (number,),
        "cudasim_log_enable": (None, ctypes.c_int),
        "cudasim_calls": (number, text),
        "cudasim_fail": (ctypes.c_int, text, number, ctypes.c_int),
        "cudasim_gl_buffer": (ctypes.c_uint, size, ctypes.POINTER(ctypes.c_void_p)),
        "cudasim_gl_delete": (ctypes.c_int, ctypes.c_uint),
        "cudasim_injected": (number,),
        "cudasim_hide": (ctypes.c_int, text),
        "cudasim_hold": (ctypes.c_int, text),
        "cudasim_held": (number, text),
        "cudasim_let_go": (ctypes.c_int, text),
        "cudasim_forbid": (None, ctypes.c_int),
        "cudasim_depth": (size,),
        "cudasim_last_launch": (ctypes.c_int, ctypes.POINTER(_Launch), text, size, ctypes.c_void_p, size),
        "cudasim_reports": (number,),
        "cudasim_report": (size, number, text, size),
        "cudasim_explanations": (number,),
        "cudasim_explanation": (size, number, text, size),
        "cudasim_why": (size, text, size),
        "cudasim_clear_errors": (ctypes.c_int,),
        "cudasim_stop_kernels": (None, text),
        "cudasim_watch_signals": (None, ctypes.c_int),
        "cudasim_reset": (None,),
        "cudasim_reset_device": (None,),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


@functools.cache
def _controls() -> ctypes.CDLL:
    if not _library.is_loaded():
        raise SimulatorError(
            "the simulator is not the CUDA driver of this process: call cudacore_sim.load() first, "
            "or run the program with python -m cudacore_sim"
        )
    library = _library.load()
    _declare(library)
    return library


def _text(read: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """Return the text that `read(buffer, size)` copies to a buffer. `read` returns the length of the whole text."""
    size = read(None, 0) + 1
    while True:  # between two calls of `read`, the text may become longer
        buffer = ctypes.create_string_buffer(size)
        needed = read(buffer, size) + 1
        if needed <= size:
            return buffer.value.decode(errors="replace")
        size = needed


def _kinds() -> Iterator[str]:
    number = 0
    while (name := _controls().cudasim_kind_name(number)) is not None:
        yield name.decode()
        number += 1


def ignored_settings() -> list[str]:
    """Return the settings of the simulator that have invalid values. They were also printed on stderr at the start.

    Returns
    -------
    list of str
        A line for each setting, with the values that are allowed. An invalid setting has no effect.
    """
    return _text(lambda out, size: _controls().cudasim_ignored_settings(out, size)).splitlines()


def live() -> dict[str, int]:
    """Count the objects of the driver that are alive.

    An object counts from the call that creates it to the call that destroys it. This holds for stream-ordered memory,
    too: after ``cuMemFreeAsync``, memory no longer counts, although work of the stream may still use it.

    Returns
    -------
    dict
        The number of objects of each kind: ``"context"`` (a primary context while it is retained), ``"stream"``,
        ``"event"``, ``"pool"``, ``"device_memory"``, ``"host_memory"``, ``"managed_memory"``, ``"physical_memory"``,
        ``"address_range"``, ``"library"``, ``"module"``, ``"graph"`` (graphs in nodes do not count), ``"graph_exec"``,
        ``"user_object"``, ``"graphics"`` (resources that are registered), ``"array"``, ``"texture"``, ``"surface"``.

    Raises
    ------
    SimulatorError
        If the simulator is not this process's driver. All functions of this module raise this error then.
    """
    return {kind: _controls().cudasim_live(number) for number, kind in enumerate(_kinds())}


def describe_live(kind: str | None = None, *, after: int = 0, mine: bool = False) -> list[str]:
    """Describe the live objects of the driver.

    Parameters
    ----------
    kind : str, optional
        One of the kinds of `live`. Default: all.
    after : int, optional
        Only objects that were created after the object with this number; see `newest`. Default 0: all.
    mine : bool, optional
        Only objects that the program has created by the driver, ``cuda.bindings``, ``cuda.core`` or ``cudacore``, and
        no other library for it. The main thread must have created them, after `remember_origins`. Default False: all.

    Returns
    -------
    list of str
        A line for each object. After `remember_origins`, the line says where the object was created.

    Raises
    ------
    ValueError
        When there is no such kind.
    """
    kinds = list(_kinds())
    if kind is not None and kind not in kinds:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(kinds)}")
    number = -1 if kind is None else kinds.index(kind)
    lines = _text(lambda out, size: _controls().cudasim_describe_live(number, out, size)).splitlines()
    found = zip(live_numbers(number), lines, strict=False)
    return [
        line + _origins.text_of(created)
        for created, line in found
        if created > after and (not mine or _origins.is_of_program(created))
    ]


def live_numbers(kind: int) -> list[int]:
    """Return the numbers of the live objects of one kind, given as the number of the kind; -1 means all kinds."""
    numbers = (ctypes.c_uint64 * _controls().cudasim_live_numbers(kind, None, 0))()
    return numbers[: _controls().cudasim_live_numbers(kind, numbers, len(numbers))]


def newest() -> int:
    """Return the number of the newest object. Objects are numbered in the order in which they are created."""
    return int(_controls().cudasim_newest())


def remember_origins() -> None:
    """Remember from now on where the main thread creates objects, for `describe_live`.

    Lines of the program are remembered, but not lines of libraries. The pytest plugin calls this function.
    """
    _origins.watch(_controls(), lambda: live_numbers(-1))


def position() -> int:
    """Return the number of the last call in the log, for the argument ``after`` of `log`."""
    return int(_controls().cudasim_log_position())


def log(after: int = 0) -> list[Call]:
    """Return calls of the driver in the order in which they returned.

    Parameters
    ----------
    after : int, optional
        Only calls with numbers above this one. Default 0: all calls in the log, which keeps the last 16384.

    Returns
    -------
    list of Call
        Oldest first.
    """
    found: list[Call] = []
    chunk = (_Call * _CHUNK)()
    while True:
        count = _controls().cudasim_log(after, chunk, _CHUNK)
        found += [
            Call(
                call.number,
                call.name.decode(),
                call.thread,
                call.context or 0,
                call.result,
                bool(call.injected),
                call.stream or 0,
                call.function.decode(),
            )
            for call in chunk[:count]
        ]
        if count < _CHUNK:
            return found
        after = found[-1].number


def _no_entry_point(name: str | None) -> ValueError:
    return ValueError(f"name is {name!r}, and the driver has no entry point of that name")


def calls(name: str | None = None) -> int:
    """Count the calls of an entry point, including those that the log has dropped.

    Parameters
    ----------
    name : str, optional
        ``"cuMemAlloc"`` means all versions, ``"cuMemAlloc_v2"`` only that version. Default: all entry points.

    Returns
    -------
    int
        The number of calls since the start of the process or the last `reset`.

    Raises
    ------
    ValueError
        When there is no such entry point.
    """
    count = int(_controls().cudasim_calls(name.encode() if name is not None else None))
    if count == _NO_ENTRY_POINT:
        raise _no_entry_point(name)
    return count


@contextlib.contextmanager
def logging() -> Iterator[list[Call]]:
    """Collect the calls that a block of code makes.

    Yields
    ------
    list of Call
        Filled when the block is left.

    Examples
    --------
    >>> with cudacore_sim.logging() as made:
    ...     device.create_stream()
    >>> [call.name for call in made]
    """
    collected: list[Call] = []
    start = position()
    try:
        yield collected
    finally:
        collected += log(start)


def fail(name: str | None = None, nth: int = 1, error: int = 999) -> None:
    """Make a call of an entry point fail, before it does anything.

    Parameters
    ----------
    name : str, optional
        ``"cuMemAlloc"`` means any version, ``"cuMemAlloc_v2"`` only that version. Default: any entry point.
    nth : int, optional
        The number of the call, counted from now. 1, the default, is the next call; 0 means every call until `reset`.
    error : int, optional
        The ``CUresult`` that the failing call returns. Default 999, ``CUDA_ERROR_UNKNOWN``.

    Raises
    ------
    ValueError
        When there is no such entry point, or ``nth`` is negative.
    """
    if nth < 0:
        raise ValueError(f"nth is {nth}; 1 is the next call, 0 is every call")
    if _controls().cudasim_fail(name.encode() if name is not None else None, nth, int(error)):
        raise _no_entry_point(name)


@contextlib.contextmanager
def failing(name: str | None = None, nth: int = 1, error: int = 999) -> Iterator[None]:
    """Make a call in a block of code fail. At the end of the block, `reset` the simulator.

    Parameters
    ----------
    name, nth, error
        As for `fail`.

    Raises
    ------
    AssertionError
        If the block ends without an exception, and no call in it was made to fail, so that nothing was tested.
    """
    fail(name, nth, error)
    before, injected = calls(name), _controls().cudasim_injected()
    try:
        yield
        if _controls().cudasim_injected() == injected:
            raise AssertionError(
                f"call {nth or 1} of {name or 'the driver'} was to fail, and this block made {calls(name) - before}"
            )
    finally:
        reset()


def hide(name: str) -> None:
    """Hide a function from ``cuGetProcAddress`` until `reset`, as if the driver were too old for it.

    Code that looked the function up before this call can still call the function.

    Parameters
    ----------
    name : str
        The name for ``cuGetProcAddress``, without a version: ``"cuMemAlloc"``.

    Raises
    ------
    ValueError
        When there is no such function.
    """
    if _controls().cudasim_hide(name.encode()):
        raise ValueError(f"name is {name!r}, and the driver has no function of that name; versions are left out")


def hold(name: str) -> None:
    """Make every call of an entry point wait before it does anything, until `let_go` or `reset`.

    A test can then act while another thread is in the middle of the call.

    Parameters
    ----------
    name : str
        As for `fail`.

    Raises
    ------
    ValueError
        When there is no such entry point.
    """
    if _controls().cudasim_hold(name.encode()):
        raise _no_entry_point(name)


def held(name: str) -> int:
    """Count the calls of an entry point that wait because of `hold`.

    Parameters
    ----------
    name : str
        As for `fail`.

    Returns
    -------
    int
        The number of waiting calls.

    Raises
    ------
    ValueError
        When there is no such entry point.
    """
    count = int(_controls().cudasim_held(name.encode()))
    if count == _NO_ENTRY_POINT:
        raise _no_entry_point(name)
    return count


def let_go(name: str) -> None:
    """Let the held calls of an entry point continue, and do not hold later calls.

    Parameters
    ----------
    name : str
        As for `fail`.

    Raises
    ------
    ValueError
        When there is no such entry point.
    """
    if _controls().cudasim_let_go(name.encode()):
        raise _no_entry_point(name)


@contextlib.contextmanager
def forbidding() -> Iterator[None]:
    """Make the driver treat this thread, for a block of code, as if it ran a host function.

    Calls that are forbidden there fail with ``CUDA_ERROR_NOT_PERMITTED``. Such calls are not reported as misuse.
    """
    _controls().cudasim_forbid(1)
    try:
        yield
    finally:
        _controls().cudasim_forbid(0)


def depth() -> int:
    """Count the contexts on this thread's stack.

    Returns
    -------
    int
        The number of contexts. The one that was pushed last is current.
    """
    return int(_controls().cudasim_depth())


def last_launch() -> Launch:
    """Describe the last launch that the driver accepted.

    Returns
    -------
    Launch
        The parameters of the launch, and its arguments.

    Raises
    ------
    LookupError
        If nothing was launched yet.
    """
    found = _Launch()
    name, arguments = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(32768)
    if not _controls().cudasim_last_launch(ctypes.byref(found), name, len(name), arguments, len(arguments)):
        raise LookupError("nothing was launched yet")
    return Launch(
        found.number,
        name.value.decode(errors="replace"),
        found.stream or 0,
        found.context or 0,
        tuple(found.grid),
        tuple(found.block),
        tuple(found.cluster),
        found.shared_bytes,
        bool(found.cooperative),
        bool(found.programmatic),
        arguments.raw[: found.argument_size],
    )


def reset() -> None:
    """Clear the log, counts of calls, reports, explanations, failures, and hidden or held functions.

    Objects stay alive.
    """
    _controls().cudasim_reset()


def reset_device() -> None:
    """Wait for all work, then destroy every object and every context, as if the driver had just been initialised.

    Errors of kernels are cleared. Existing handles and device addresses become invalid. No other thread may be using
    CUDA.
    """
    _controls().cudasim_reset_device()
