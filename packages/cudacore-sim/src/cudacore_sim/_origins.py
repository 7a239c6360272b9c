# SPDX-License-Identifier: Apache-2.0
"""Where a program creates objects of the driver.

The driver's functions run without the GIL, so they cannot look at Python's frames. Instead, a function that creates an
object asks Python for a pending call. Python makes that call on the main thread, as soon as the driver's function has
returned to Python code.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterable

_MAX_OBJECTS = 1024  # the maximum number of new objects that one pending call handles
_MAX_LINES = 4
_LIBRARIES = tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib"))

_OURS = ("cudacore", "cudacore_handles", "cudacore_compile", "cudacore_graph", "cudacore_sim")

# Packages whose calls of the driver count as calls of their callers.
_BINDINGS = frozenset({*_OURS, "ctypes", "cuda"})

_Line = tuple[str, int, str]  # the name of the file, the number of the line, and the name of the function

# The keys are the numbers of objects. The values are whether the program itself called the driver, and its lines.
_origins: dict[int, tuple[bool, tuple[_Line, ...]]] = {}
_limit = 10_000  # with more origins than this, the origins of destroyed objects are removed
_numbers = (ctypes.c_uint64 * _MAX_OBJECTS)()
_controls: ctypes.CDLL
_live: Callable[[], Iterable[int]]


def watch(controls: ctypes.CDLL, live: Callable[[], Iterable[int]]) -> None:
    """Remember where the main thread creates objects; `live` returns the numbers of the objects that are alive."""
    global _controls, _live
    if threading.current_thread() is not threading.main_thread():
        return
    _controls, _live = controls, live
    python = ctypes.pythonapi
    later, interpreter = python.Py_AddPendingCall, None
    if sys.version_info < (3, 12):
        # Py_AddPendingCall reads the state of whichever thread has the GIL, which can end meanwhile.
        python.PyInterpreterState_Main.restype = ctypes.c_void_p
        later, interpreter = python._PyEval_AddPendingCall, python.PyInterpreterState_Main()
    # The pending call is PyObject_IsTrue(_notes). A callback of ctypes would lose what a signal handler raises in it.
    function = ctypes.cast(python.PyObject_IsTrue, ctypes.c_void_p)
    controls.cudasim_on_create(ctypes.cast(later, ctypes.c_void_p), interpreter, function, id(_notes))
    atexit.register(controls.cudasim_on_create, None, None, None, None)


def text_of(number: int) -> str:
    """Return a text to append to the description of an object: where it was created; empty if that is not known."""
    _, origin = _origins.get(number, (False, ()))
    lines = [f"{_short(file)}:{line} in {name}" for file, line, name in origin]
    return ", created at " + ", called at ".join(lines) if lines else ""


def is_of_program(number: int) -> bool:
    """Return whether the program itself created an object, and not a library that it called."""
    return _origins.get(number, (False, ()))[0]


def _short(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


class _Notes:
    def __bool__(self) -> bool:
        """Remember, for each new object, the lines of the program that led to the driver call that created it."""
        global _limit
        count = _controls.cudasim_created(_numbers, _MAX_OBJECTS)
        lines: list[_Line] = []
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BINDINGS:
            frame = frame.f_back
        itself = frame is not None and _is_of_program(frame.f_code.co_filename)
        while frame is not None and len(lines) < _MAX_LINES:
            code = frame.f_code
            if _is_of_program(code.co_filename):
                lines.append((code.co_filename, frame.f_lineno, code.co_name))
            elif lines:
                break
            frame = frame.f_back
        if len(_origins) > _limit:
            for number in _origins.keys() - set(_live()):
                del _origins[number]
            _limit = max(2 * len(_origins), _limit)
        _origins.update(dict.fromkeys(_numbers[:count], (itself, tuple(lines))))
        return False  # the result of a pending call that succeeds


_notes = _Notes()


@functools.lru_cache(maxsize=1024)
def _is_of_program(file: str) -> bool:
    # `_LIBRARIES` does not have the folders of our packages if they are editable installs
    ours = [sys.modules[name].__file__ or "" for name in _OURS if name in sys.modules]
    libraries = (*_LIBRARIES, *(os.path.realpath(os.path.dirname(path)) + os.sep for path in ours))
    return not (file.startswith("<") or os.path.realpath(file).startswith(libraries))
