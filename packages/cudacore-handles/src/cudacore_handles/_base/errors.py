# SPDX-License-Identifier: Apache-2.0
"""Exceptions, and the functions that convert result codes to exceptions."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.address import as_integer, as_word
from cudacore_handles._base.drivers import WITHOUT_GPU, why_refused
from cudacore_handles._base.results import Status
from cudacore_handles._cffi import ffi, lib

__tracebackhide__ = True  # pytest shows the call of the program, and not the functions here that raise the error


class CUDAError(RuntimeError):
    """A CUDA operation failed.

    Parameters
    ----------
    operation : str
        The name of the function that failed: a function of the driver, of a compiler or of the handle library. If it
        is the only argument, it is the whole message, as in ``CUDAError("...")`` of programs written for ``cuda.core``.
    code : int
        The result code of that function: positive for CUDA's own codes, negative for codes of the handle library
        (``CCH_E*``). Default 0.
    code_name : str
        The code's name, such as ``"CUDA_ERROR_INVALID_VALUE"``. Default empty.
    meaning : str
        What the code means, in one line. Default empty.
    hint : str, optional
        What to do about the failure.
    log : str, optional
        The log of the compiler or linker.

    Attributes
    ----------
    operation, code, code_name, meaning, hint, log
        As given.
    args : tuple
        The message, as ``str`` returns it: programs read ``error.args[0]``. It can be replaced, as for any
        exception.
    """

    def __init__(
        self,
        operation: str,
        code: int = 0,
        code_name: str = "",
        meaning: str = "",
        *,
        hint: str = "",
        log: str = "",
    ) -> None:
        self.operation = operation
        self.code = code
        self.code_name = code_name
        self.meaning = meaning
        self.hint = hint
        self.log = log
        super().__init__(operation)

    def __str__(self) -> str:
        if "_args" in self.__dict__:
            return RuntimeError(*self._args).__str__()
        return self._message()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.args))})"

    def __reduce__(self) -> tuple[Any, ...]:
        # without the constructor, which can have other parameters in a subclass
        return type(self).__new__, (type(self), self.operation), self.__dict__

    @property
    def args(self) -> tuple[Any, ...]:
        # The hint and the log can be set later, so the message is not stored.
        return self.__dict__["_args"] if "_args" in self.__dict__ else (self._message(),)

    @args.setter
    def args(self, value: Iterable[Any]) -> None:
        self._args = tuple(value)

    def _message(self) -> str:
        """Return the message; subclasses extend it."""
        text = f"{self.operation}: {self.code_name} ({self.code}): {self.meaning}" if self.code_name else self.operation
        if self.hint:  # some of the driver's texts end with a full stop
            text = f"{text.removesuffix('.')}. {self.hint}"
        if self.log:
            text += f"\n{self.log}"
        return text


class OutOfMemoryError(CUDAError, MemoryError):
    """A device, a pool or the host has no memory left.

    It is also a ``MemoryError``, like the errors of RMM and CuPy, which programs catch if they can continue with less
    memory. The hint lists the requested size, the free memory, and what uses the rest.
    """


class ClosedError(RuntimeError, ValueError):
    """A closed object was used."""


class GoneError(CUDAError, ClosedError):
    """An object was used after another library, or another object, had destroyed its resource."""


class UnsupportedCodeError(RuntimeError, ValueError):
    """Code has a type that the driver cannot load, or that the compilers do not accept or produce."""


# Result codes of faults, with what the faulty kernel did. After a fault, every call in the context returns its code.
_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "read or wrote memory that is not its own",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "used an address that is not aligned as its type needs",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "used an address of another kind of memory than the instruction takes",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "ran an instruction that the device does not have",
    "CUDA_ERROR_INVALID_PC": "jumped to an address that is not code",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "used up its stack, or corrupted it",
    "CUDA_ERROR_ASSERT": "failed an assertion",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "never ended, or took longer than a device with a display allows",
    "CUDA_ERROR_LAUNCH_FAILED": "failed",
}
_FIND_FAULT = "compute-sanitizer finds the kernel and the line"

# Hints for result codes whose names and meanings do not say what to do.
_HINTS = {
    "CCH_ENODRIVER": (
        f"Running on a GPU needs the NVIDIA driver (libcuda.so.1) on this machine; compiling does not. {WITHOUT_GPU}"
    ),
    "CCH_EFORKED": (
        "Start worker processes with multiprocessing's 'spawn' method, or fork before the first CUDA call, and while "
        "nothing is compiled"
    ),
    "CUDA_ERROR_NO_DEVICE": "No GPU is visible: look at nvidia-smi, and at the variable CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_INVALID_CONTEXT": "No context is current on this thread: call Device().set_current() first",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": (
        "Another library reset the primary context of the device (cudaDeviceReset, cuDevicePrimaryCtxReset): its "
        "resources are lost. Device.set_current() retains the primary context again"
    ),
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "While a stream is captured this is not allowed in the capture's mode: begin_building('relaxed') allows it"
    ),
    "CUDA_ERROR_CAPTURED_EVENT": (
        "The event was recorded in a capture, and marks a place in its graph: record it again outside the capture. "
        "GraphBuilder.record(event) adds a node that records it each time the graph runs"
    ),
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": (
        "Captured work can wait only for work of the same capture: wait for the other before begin_building()"
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "The code was compiled for another GPU architecture than this device has",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": (
        "A cluster has at most 8 blocks, or up to 16 on some devices if the kernel allows it (the attribute "
        "non_portable_cluster_size_allowed), and a kernel compiled for clusters is launched with clusters of that size"
    ),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        "All blocks of a cooperative launch must fit on the device at once: "
        "kernel.occupancy.max_active_blocks_per_multiprocessor() returns how many do"
    ),
}


# Hints for operations that fail during a capture, whatever its mode (driver 580, CUDA 13.0).
_NO_WAIT = "Captured work does not run before its graph is launched, and cannot be waited for: end the capture first"
_NO_LAUNCH = "A graph cannot be launched into a capture: GraphBuilder.embed() adds it as a node"
_NO_QUERY = "The driver does not report this for a stream that is being captured: query it before the capture begins"
_NOT_CAPTURED = {
    "cuStreamSynchronize": _NO_WAIT,
    "cuStreamQuery": _NO_WAIT,
    "cuCtxSynchronize": _NO_WAIT,
    "cuGraphLaunch": _NO_LAUNCH,
    "cuGraphUpload": _NO_LAUNCH,
    "cuStreamGetFlags": _NO_QUERY,
    "cuMemcpyPeerAsync": "Copies between devices cannot be captured: GraphBuilder.embed() adds a graph that has one",
}


def _hint_for(name: str, operation: str) -> str:
    """Return the hint for a result code of an operation."""
    if name == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" and operation in _NOT_CAPTURED:
        return _NOT_CAPTURED[operation]
    if name in _FAULTS:
        return f"A kernel that ran earlier {_FAULTS[name]}; the context cannot be used any more. {_FIND_FAULT}"
    if name == "CUDA_ERROR_NOT_PERMITTED" and lib.cch_callback_active():
        return (
            "The driver does not allow calls of CUDA in a callback: do it after the work that the callback is part of"
        )
    if name == "CUDA_ERROR_OUT_OF_MEMORY" and operation not in _EXPLAINED_BY_CALLERS:
        return _memory_report()
    return _HINTS.get(name, "")


# Allocations that get no hint here: their callers try a second time, and add the hint if that fails too
# (_memory/out_of_memory.py).
_EXPLAINED_BY_CALLERS = {"cuMemAllocFromPoolAsync", "cuMemAlloc", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemCreate"}


def _memory_report() -> str:
    return ""


def set_memory_report(report: Callable[[], str]) -> None:
    """Set the function that makes the hint of out-of-memory errors: a description of the current device's memory."""
    global _memory_report
    _memory_report = report


def check(status: int, *, hint: str = "", hints: Mapping[int, str] = {}) -> None:
    """Raise :class:`CUDAError` for a failed call of the C library; do nothing for 0. `hints` has hints for codes."""
    if status:
        # No variable has the exception, because the exception and this frame would form a reference cycle.
        raise last_error(status, hints.get(int(status), hint))


def result_of(function: Callable[..., int], *args: Any, out: str = "int *", hints: Mapping[int, str] = {}) -> int:
    """Call a function of the C library whose first parameter is for a number, of the type `out`; return the number."""
    result = ffi.new(out)
    check(function(result, *args), hints=hints)
    return int(result[0])


def raise_status(status: int) -> NoReturn:
    """Raise :class:`CUDAError` for a failed call of the C library."""
    raise last_error(status)


def last_error(status: int, hint: str = "") -> CUDAError:
    """Make the exception for a failed call of the C library.

    Parameters
    ----------
    status : int
        The result of the call: a :class:`Status`, which has the record of the failure.
    hint : str, optional
        What to do about the failure. Default: the usual hint for this code.
    """
    if status == lib.CCH_NOT_READY:  # this code is an ordinary result, and is not recorded
        return CUDAError("query", status, "CUDA_ERROR_NOT_READY", "the work has not been completed yet")
    code = int(status)
    name = _text(lib.cch_error_name(code))
    operation = status.operation if isinstance(status, Status) else "cudacore"
    hint = hint or _hint_for(name, operation)
    if not isinstance(status, Status):  # a code without a record
        return _class_of(code)(operation, code, name, _text(lib.cch_error_string(code)), hint=hint)
    return _noted(_class_of(code)(operation, code, name, status.message, hint=hint), status.why)


def _class_of(code: int) -> type[CUDAError]:
    """Return the class of the error for a code of the driver or of the library."""
    if code == lib.CCH_EGONE:
        return GoneError
    return OutOfMemoryError if code in (lib.CCH_ENOMEM, lib.CCH_ELIMIT, results.OUT_OF_MEMORY) else CUDAError


@functools.cache
def bindings() -> Any:
    """Return the module ``cuda.bindings.driver``. It is imported when a program first asks for one of its objects."""
    return importlib.import_module("cuda.bindings.driver")


def driver_error(function: str, code: int) -> CUDAError:
    """Make the exception for a driver function that was called without the C library, and failed."""
    why = why_refused() if code > 0 else ""
    name = _text(lib.cch_error_name(code))
    return _noted(
        _class_of(code)(function, code, name, _text(lib.cch_error_string(code)), hint=_hint_for(name, function)), why
    )


def _noted(error: CUDAError, why: str) -> CUDAError:
    """Add the driver's explanation to an error: as a note, or on Python 3.10 at the end of its log."""
    if why and hasattr(error, "add_note"):
        error.add_note(f"The driver says: {why}")
    elif why:
        error.log = "\n".join(filter(None, (error.log, f"The driver says: {why}")))
    return error


def no_buffer(resource: object, made: object) -> TypeError:
    """Make the exception for a user's memory resource that returned something other than a buffer."""
    return TypeError(
        f"{type(resource).__name__}.allocate() returned {type(made).__name__}, and must return a Buffer: end it with "
        "return Buffer.from_handle(ptr, size, mr=self, stream=stream)"
    )


def closed(obj: object) -> ClosedError:
    """Make the exception for the use of a closed object."""
    return ClosedError(f"{type(obj).__name__} has been closed; make a new one")


def check_open(obj: Any) -> None:
    """Raise the exception for the use of a closed object if it is closed."""
    if obj.is_closed:
        raise closed(obj)


def _text(chars: Any) -> str:
    return ffi.string(chars).decode("utf-8", "replace")


_native.connect(
    "base",
    as_integer=as_integer,
    as_word=as_word,
    closed=closed,
    closed_error=ClosedError,
    cuda_error=CUDAError,
    raise_status=raise_status,
    cast=ffi.cast,
    gc=ffi.gc,
    unref=lib.cch_unref,
    void_pointer=ffi.typeof("void *"),
)
