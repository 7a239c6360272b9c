# SPDX-License-Identifier: Apache-2.0
"""A KeyboardInterrupt at each bytecode of a package, for tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

from cudacore_handles import live_counts


class _Interrupt:
    """A tracer that raises a KeyboardInterrupt before the n-th bytecode of a folder's files."""

    def __init__(self, folder: str, number: int) -> None:
        self._folder = folder
        self._left = number
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
                raise KeyboardInterrupt
        return self


def _is_in_finalizer(frame: FrameType | None) -> bool:
    """Return whether a finalizer has called the function of a frame. Python drops the exceptions of finalizers."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _interrupted(operation: Callable[[], object], folder: str) -> Iterator[str]:
    """Interrupt an operation before each of its bytecodes in turn, and yield the places."""
    number = 0
    sys._getframe().f_trace_opcodes = True  # in Python 3.12, settrace() ignores opcodes if no frame has asked for them
    while True:
        number += 1
        interrupt = _Interrupt(folder, number)
        sys.settrace(interrupt)
        try:
            operation()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if not interrupt.place:
            return
        yield interrupt.place


def _counts() -> dict[str, int]:
    return {kind: count for kind, count in live_counts().items() if kind != "context"}


def check_interrupts(operation: Callable[[], object], package: ModuleType) -> None:
    """Interrupt an operation before each of its bytecodes in a package, and check that no object remains alive.

    The operation drops its result.
    """
    operation()  # imports what it needs, and makes what is made once
    gc.collect()
    before = _counts()
    places = 0
    for place in _interrupted(operation, os.path.dirname(str(package.__file__))):
        places += 1
        if _counts() != before:
            gc.collect()
        assert _counts() == before, f"objects remain after an interrupt at {place}"
    assert places > 0
