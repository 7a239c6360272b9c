# SPDX-License-Identifier: Apache-2.0
"""What can happen at each bytecode of a package, for tests: a KeyboardInterrupt, or what another thread does."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, NoReturn, TypeVar

from cudacore_handles import ClosedError, live_counts
from pytest_cudacore import live_objects

T = TypeVar("T")


class _Interrupt:
    """A tracer that calls a function before the n-th bytecode of a folder's files."""

    def __init__(self, folder: str, number: int, function: Callable[[], object]) -> None:
        self._folder = folder
        self._left = number
        self._function = function
        self.place = ""

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self._folder) or (event == "call" and _is_in_finalizer(frame)):
            return None
        frame.f_trace_opcodes = True
        # Code without a line is the compiler's, such as Python 3.12's handler at the end of each generator. Signals are
        # not handled there, and Python drops an exception that is raised while an unfinished generator is released.
        if event == "opcode" and frame.f_lineno is not None:
            self._left -= 1
            if self._left == 0:
                self.place = f"{code.co_filename}:{frame.f_lineno}, bytecode {frame.f_lasti}"
                sys.settrace(None)
                self._function()
        return self


def _is_in_finalizer(frame: FrameType | None) -> bool:
    """Return whether a finalizer has called the function of a frame. Python drops the exceptions of finalizers."""
    while frame is not None and frame.f_code.co_name not in ("__del__", "_dropped"):
        frame = frame.f_back
    return frame is not None


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def check_interrupts(operation: Callable[[], object], package: ModuleType) -> None:
    """Interrupt an operation before each of its bytecodes in a package, and check that no object remains alive.

    The operation drops its result. It takes no Python lock, such as that of shared pools: a tracer can interrupt
    between a block and its ``__exit__``, where Python handles no signal, and the lock would never be released.
    """
    operation()  # imports what it needs, and makes what is made once
    sys._getframe().f_trace_opcodes = True  # in Python 3.12, settrace() ignores opcodes if no frame has asked for them
    before, files = live_objects() | {"context": 0}, _open_files()
    for number in itertools.count(1):
        interrupt = _Interrupt(os.path.dirname(str(package.__file__)), number, _interrupt)
        sys.settrace(interrupt)
        try:
            operation()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if not interrupt.place:
            break
        now = live_counts() | {"context": 0}
        assert now == before or live_objects() | {"context": 0} == before, f"objects remain after {interrupt.place}"
        assert _open_files() == files, f"a file remains open after {interrupt.place}"
    assert number > 1


def check_closing_meanwhile(make: Callable[[], Any], use: Callable[[Any], object], package: ModuleType) -> None:
    """Close an object before each bytecode of a use: the use may succeed, or say so."""
    check_changing_meanwhile(make, lambda face: face.close(), use, package)


def check_changing_meanwhile(
    make: Callable[[], T], change: Callable[[T], object], use: Callable[[T], object], package: ModuleType
) -> None:
    """Change an object before each bytecode of a use, as another thread can.

    The use may succeed, or say that the object is closed.
    """
    use(make())  # imports what it needs, and makes what is made once
    sys._getframe().f_trace_opcodes = True
    for number in itertools.count(1):
        made = make()
        changing = _Interrupt(os.path.dirname(str(package.__file__)), number, functools.partial(change, made))
        sys.settrace(changing)
        try:
            use(made)
        except ClosedError:
            pass
        except Exception as error:
            sys.settrace(None)
            raise AssertionError(f"another error after the change at {changing.place}: {error!r}") from error
        finally:
            sys.settrace(None)
        if not changing.place:
            break
