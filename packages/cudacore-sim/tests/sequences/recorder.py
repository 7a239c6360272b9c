# SPDX-License-Identifier: Apache-2.0
"""The operations of which sequences consist: driver calls, and listing the results and visible state.

A sequence is a function whose parameter is a `Recorder`. Each call, and each visible value, becomes a line of a
listing. Equal listings from a GPU and from the simulator mean equal behaviour. Addresses, handles and times are not
portable, so only their relations are listed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from ctypes import c_uint32, c_uint64, c_void_p
from typing import Any

Sequence = Callable[["Recorder"], None]

SEQUENCES: dict[str, Sequence] = {}

HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


class PreparationError(Exception):
    """The error for a call that a sequence makes as preparation, and that fails."""


def sequence(function: Sequence) -> Sequence:
    """Register a sequence that begins with the primary context of device 0 current."""

    @functools.wraps(function)
    def prepared(cu: Recorder) -> None:
        cu.use_primary_context()
        function(cu)

    bare(prepared)
    return function


def bare(function: Sequence) -> Sequence:
    """Register a sequence that begins before cuInit."""
    name = _name_of(function)
    assert name not in SEQUENCES, name
    SEQUENCES[name] = function
    return function


def _name_of(function: Sequence) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


class Recorder:
    """The driver that a sequence calls, and the listing of its calls and values.

    Arguments are objects of Python: int for every integer, handle and address, None for NULL, bytes for a
    string. An object of ctypes is passed by reference, and a type of ctypes stands for an output of that type.

    Parameters
    ----------
    library
        The driver's library.
    write
        Called with each line of the listing immediately, because the next call may crash.
    """

    def __init__(self, library: str, write: Callable[[str], None]) -> None:
        self._library = ctypes.CDLL(library)
        self._write = write
        self._kept: list[Any] = []

    # ---- calls

    def call(self, name: str, *arguments: Any) -> int:
        """Make a call and list only its code; return the code."""
        code, _ = self._call(name, arguments)
        self._write(f"{name}: {self._code_name(code)}")
        return code

    def call_each(self, *calls: tuple[Any, ...]) -> None:
        """Make several calls, each given as a tuple of name and arguments, and list their codes."""
        for name, *arguments in calls:
            self.call(name, *arguments)

    def new(self, name: str, *arguments: Any) -> Any:
        """Make a call and list only its code; return its outputs, such as handles and addresses."""
        code, outputs = self._call(name, arguments)
        self._write(f"{name}: {self._code_name(code)}")
        return outputs

    def read(self, name: str, *arguments: Any) -> Any:
        """Make a call, and list its outputs if it succeeds; return the outputs."""
        code, outputs = self._call(name, arguments)
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        shown = " ".join(map(str, values)) if code == 0 else ""
        self._write(f"{name}: {self._code_name(code)} {shown}".rstrip())
        return outputs

    def attempt(self, name: str, *arguments: Any) -> None:
        """Make a call without listing it, because its code depends on timing or has no meaning."""
        self._call(name, arguments)

    def silent(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """Make a call without listing it; return the name of its code and its outputs."""
        code, outputs = self._call(name, arguments)
        return self._code_name(code), outputs

    def prepare(self, name: str, *arguments: Any) -> Any:
        """Make a call as preparation: it is not listed, and must succeed. Return its outputs."""
        code, outputs = self._call(name, arguments)
        if code:
            raise PreparationError(f"{name}: {self._code_name(code)}")
        return outputs

    def address_of(self, name: str) -> int:
        """Return the address of a symbol of the driver's library."""
        return ctypes.cast(getattr(self._library, name), c_void_p).value or 0

    def see(self, what: str, value: object) -> None:
        """List a value, with the text `what` before it."""
        self._write(f"  {what}: {value}")

    def _call(self, name: str, arguments: tuple[Any, ...]) -> tuple[int, Any]:
        outputs: list[Any] = []
        converted = [self._convert(argument, outputs) for argument in arguments]
        code = getattr(self._library, name)(*converted)
        values = tuple(output.value or 0 for output in outputs)
        return int(code), values[0] if len(values) == 1 else values

    def _convert(self, argument: Any, outputs: list[Any]) -> Any:
        if isinstance(argument, type):
            outputs.append(argument())
            return ctypes.byref(outputs[-1])
        if isinstance(argument, int):
            # Each integer is passed as 64 bits. The driver function reads only as many bits as its parameter has.
            return c_uint64(argument & (1 << 64) - 1)
        if argument is None or isinstance(argument, bytes):
            return ctypes.c_char_p(argument)
        if isinstance(argument, HOST_FUNCTION.__mro__[1]):
            self._kept.append(argument)
            return argument
        return ctypes.byref(argument)

    def _code_name(self, code: int) -> str:
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        return name.value.decode() if name.value else str(code)

    # ---- calls that most sequences need

    def use_primary_context(self) -> int:
        """Make the primary context of device 0 current."""
        self.prepare("cuInit", 0)
        context = self.prepare("cuDevicePrimaryCtxRetain", c_void_p, 0)
        self.prepare("cuCtxSetCurrent", context)
        return int(context)

    def memory(self, size: int, fill: int | None = None) -> int:
        """Allocate device memory. If `fill` is given, set each byte to this value."""
        address = int(self.prepare("cuMemAlloc_v2", c_uint64, size))
        if fill is not None:
            self.prepare("cuMemsetD8_v2", address, fill, size)
            self.prepare("cuCtxSynchronize")
        return address

    def stream(self, flags: int = 0) -> int:
        """Create a stream."""
        return int(self.prepare("cuStreamCreate", c_void_p, flags))

    def event(self, flags: int = 0) -> int:
        """Create an event."""
        return int(self.prepare("cuEventCreate", c_void_p, flags))

    @contextlib.contextmanager
    def gate(self, stream: int) -> Iterator[None]:
        """Block a stream until the end of the ``with`` statement."""
        opened = threading.Event()
        self.prepare("cuLaunchHostFunc", stream, HOST_FUNCTION(lambda _: opened.wait()), None)
        try:
            yield
        finally:
            opened.set()

    def library(self, code: bytes) -> int:
        """Load code as a library."""
        return int(self.prepare("cuLibraryLoadData", c_void_p, code, None, None, 0, None, None, 0))

    def kernel(self, code: bytes, name: str) -> int:
        """Load code as a library, and return a kernel in it."""
        return int(self.prepare("cuLibraryGetKernel", c_void_p, self.library(code), name.encode()))

    def function(self, code: bytes, name: str) -> int:
        """Load code as a library, and return the function of a kernel in it for the current context."""
        return int(self.prepare("cuKernelGetFunction", c_void_p, self.kernel(code, name)))

    def launch(
        self,
        function: int | None,
        *arguments: Any,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        shared: int = 0,
        stream: int = 0,
    ) -> int:
        """Launch a kernel; its arguments are objects of ctypes."""
        return self.call("cuLaunchKernel", function, *grid, *block, shared, stream, pointers(*arguments), None)

    def see_bytes(self, what: str, address: int, size: int) -> None:
        """List the contents of device memory."""
        data = (ctypes.c_ubyte * size)()
        self.prepare("cuMemcpyDtoH_v2", data, address, size)
        self.see(what, bytes(data).hex())

    def see_words(self, what: str, address: int, count: int) -> None:
        """List 32-bit words of device memory."""
        data = (c_uint32 * count)()
        self.prepare("cuMemcpyDtoH_v2", data, address, 4 * count)
        self.see(what, list(data))

    def in_thread(self, function: Callable[[], None], context: int | None = None) -> None:
        """Run a part of a sequence on a new thread, in which `context` is current, and wait until the thread ends."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                if context is not None:
                    self.prepare("cuCtxSetCurrent", context)
                function()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        for failure in failures:
            raise failure

    def host_function(self, function: Callable[[], None]) -> Any:
        """Return a C function for the driver, which calls `function` without the driver's argument."""
        return HOST_FUNCTION(lambda _: function())

    def see_printed(self, function: Callable[[], None]) -> None:
        """Run a part of a sequence, and list what it writes to standard output."""
        with tempfile.TemporaryFile() as file:
            before = os.dup(1)
            os.dup2(file.fileno(), 1)
            try:
                function()
                ctypes.CDLL(None).fflush(None)
            finally:
                os.dup2(before, 1)
                os.close(before)
            file.seek(0)
            self.see("printed", file.read().decode(errors="replace").splitlines())


def pointers(*arguments: Any) -> Any:
    """Return the array of pointers to arguments that a launch takes. The array keeps the arguments alive."""
    array: Any = (c_void_p * max(len(arguments), 1))(*map(ctypes.addressof, arguments))
    array.arguments = arguments
    return array
