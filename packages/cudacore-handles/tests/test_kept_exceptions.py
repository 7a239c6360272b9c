# SPDX-License-Identifier: Apache-2.0
"""Exceptions that a program keeps. Until one is freed or collected, its traceback keeps the frames' variables alive.

CPython up to 3.12 crashes when it collects a memoryview while there is another view of its memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles._base.errors import check

PROGRAM = """
import array, ctypes, gc, sys, threading
import numpy as np
import cudacore_handles as ch

def keep(call):
    try:
        call()
    except Exception as error:
        kept = error  # a cycle: this frame, the exception, its traceback, this frame
    else:
        raise AssertionError(f"{name} did not fail")

def collect(what, call):
    global name
    name = what
    for _ in range(3):
        keep(call)
        gc.collect()

def in_thread(call):
    # On a thread that has no current context, as each thread begins.
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

device = ch.Device()
device.set_current()
stream = device.create_stream()
config = ch.LaunchConfig(grid=1, block=1)
b = device.allocate(8, stream=stream)
no_code = ch.ObjectCode.from_cubin(b"nothing that could be loaded")
gc.collect()
gc.freeze()  # the modules, so that the collections below are short

WRONG = {
    "bytes": lambda: bytes(3), "bytearray": lambda: bytearray(3), "memoryview": lambda: memoryview(bytearray(3)),
    "array.array": lambda: array.array("b", bytes(3)), "ctypes": lambda: (ctypes.c_char * 3)(),
    "numpy": lambda: np.zeros(3, "u1"), "dates": lambda: np.zeros(3, "M8[s]"),
    "strided": lambda: np.zeros(6, "u1")[::2],
    "memoryview of numpy": lambda: memoryview(np.zeros(3)), "empty": lambda: bytearray(),
}
RIGHT = {
    "bytearray": lambda: bytearray(8), "memoryview": lambda: memoryview(bytearray(8)),
    "numpy": lambda: np.zeros(8, "u1"), "memoryview of numpy": lambda: memoryview(np.zeros(1)),
}
"""

CALLS = {
    "copies": """
for kind, make in WRONG.items():
    collect(f"copy_from {kind}", lambda: b.copy_from(make(), stream=stream))
    collect(f"copy_to {kind}", lambda: b.copy_to(make(), stream=stream))
    collect(f"copy_from {kind}, no stream", lambda: b.copy_from(make(), stream=None))
collect("copy_to read-only", lambda: b.copy_to(bytes(8), stream=stream))
""",
    "copies without a context": """
def work():
    for kind, make in RIGHT.items():
        collect(f"copy_from {kind}", lambda: b.copy_from(make(), stream=ch.LEGACY_DEFAULT_STREAM))
        collect(f"copy_to {kind}", lambda: b.copy_to(make(), stream=ch.LEGACY_DEFAULT_STREAM))
        collect(f"fill {kind}", lambda: b.fill(make()[:4], stream=ch.LEGACY_DEFAULT_STREAM))
in_thread(work)
""",
    "fills": """
for kind, make in WRONG.items():
    collect(f"fill {kind}", lambda: b.fill(make(), stream=stream))
""",
    "closed": """
closed = device.allocate(8, stream=stream)
closed.close()
for kind, make in RIGHT.items():
    collect(f"copy_from {kind}", lambda: closed.copy_from(make(), stream=stream))
    collect(f"copy_to {kind}", lambda: closed.copy_to(make(), stream=stream))
    collect(f"fill {kind}", lambda: closed.fill(make()[:4], stream=stream))
""",
    "code": """
def load(code):
    ch.ObjectCode.from_cubin(code).get_kernel("none")
for kind, make in (WRONG | RIGHT).items():
    collect(f"ObjectCode {kind}", lambda: load(make()))
    collect(f"from_handle {kind}", lambda: ch.Buffer.from_handle(make(), 8))
""",
    "arguments": """
from cudacore_handles import _native
import struct
for kind, make in (WRONG | RIGHT).items():
    for parameter in range(10):
        collect(f"pack {kind} {parameter}", lambda: _native.pack(struct.pack("=3I", 0, 5, parameter), (make(),)))
""",
    "views": """
def copy(to):
    source = ch.StridedMemoryView.from_any_interface(np.zeros(5), -1)
    target = ch.StridedMemoryView.from_any_interface(to, -1)
    source.copy_to(target, stream)
for kind, make in WRONG.items():
    collect(f"view {kind}", lambda: copy(make()))
frozen = np.zeros(5)
frozen.flags.writeable = False
collect("read-only view", lambda: copy(frozen))
""",
    "callbacks": """
lost = device.create_stream()
lost.close()
wrong = ctypes.CFUNCTYPE(None)(lambda: None)
right = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: None)
for kind, make in RIGHT.items():
    collect(f"callback {kind}", lambda: stream.callback(wrong, user_data=make()))
    collect(f"callback {kind}, closed", lambda: lost.callback(right, user_data=make()))
""",
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
def test_collected_with_what_their_frames_hold(run_on_driver: Callable[..., str], calls: str) -> None:
    """Long after an exception about host memory was handled, the garbage collector would crash the process."""
    run_on_driver(PROGRAM + calls)


def cycles_after(call: Callable[[], Any]) -> list[BaseException]:
    """Return the exceptions that only a garbage collection could free, once a failed call has been handled."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with suppress(Exception):
            call()
        gc.collect()
        return [found for found in gc.garbage if isinstance(found, BaseException)]
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.garbage.clear()


REFUSED: dict[str, Callable[[ch.Device, ch.Stream, ch.ObjectCode], object]] = {
    "array": lambda device, stream, _: device.allocate(8, stream=stream).copy_from(bytearray(3), stream=stream),
    "code": lambda *_: ch.ObjectCode.from_cubin(b"no cubin").get_kernel("none"),
    "time": lambda device, *_: device.create_event() - device.create_event(),
    "status": lambda *_: check(1, hint="None"),
    "kernel": lambda *_: ch.Kernel.from_handle(0),
    "array's view": lambda *_: ch.StridedMemoryView.from_any_interface(np.zeros(3, object), -1),
    "launch": lambda _, stream, code: ch.launch(  # the kernel allows at most 64 threads
        stream, ch.LaunchConfig(grid=1, block=1024), code.get_kernel("small_blocks"), None
    ),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_exceptions_are_no_cycles(device: ch.Device, stream: ch.Stream, code: ch.ObjectCode, call: Any) -> None:
    """An exception that was handled would keep the variables of its frames until the next garbage collection."""
    with pytest.raises((RuntimeError, ValueError, BufferError)):
        call(device, stream, code)
    assert cycles_after(lambda: call(device, stream, code)) == []


def test_an_error_without_a_context_is_no_cycle(device: ch.Device, in_new_thread: Callable[..., Any]) -> None:
    """A driver's error on a thread without a context would keep its frames' variables until a garbage collection."""
    stream = device.create_stream()
    buffer = device.allocate(8, stream=stream)
    on = ch.LEGACY_DEFAULT_STREAM
    assert in_new_thread(lambda: cycles_after(lambda: buffer.copy_to(bytearray(8), stream=on))) == []
