# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import cudacore_handles as ch
from cudacore_handles._base.driver_calls import call_driver, query_driver
from cudacore_handles._base.errors import check, closed, driver_error
from cudacore_handles._cffi import ffi, lib
from threads_at_once import GIL

FULL = {"hint": "Do this", "log": "line 1\nline 2"}


class DerivedError(ch.CUDAError):
    """An error class with its own constructor and attribute, like the error classes of the compilers."""

    def __init__(self, program: str) -> None:
        super().__init__("compile", 6, "ERROR_COMPILATION", "compilation failed", **FULL)
        self.program = program


@pytest.fixture(params=[ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "meaning", **FULL), DerivedError("p")])
def error(request: pytest.FixtureRequest) -> ch.CUDAError:
    return request.param


# ---- CUDAError


def test_message() -> None:
    """The message of an error would lack the operation, the code, its meaning, what to do, or the compiler's log."""
    bare = ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "the meaning")
    assert str(bare) == "cuCall: CUDA_ERROR_X (1): the meaning"
    assert isinstance(bare, RuntimeError)
    full = ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "the meaning", **FULL)
    assert str(full) == "cuCall: CUDA_ERROR_X (1): the meaning. Do this\nline 1\nline 2"


def test_attributes() -> None:
    """A program could distinguish errors only by their texts."""
    error = ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "the meaning", **FULL)
    assert (error.operation, error.code, error.code_name, error.meaning) == ("cuCall", 1, "CUDA_ERROR_X", "the meaning")
    assert (error.hint, error.log) == ("Do this", "line 1\nline 2")
    bare = ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "the meaning")
    assert (bare.hint, bare.log) == ("", "")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_pickle_and_copy(error: ch.CUDAError, duplicate: Callable[[Any], Any]) -> None:
    """An error that is raised in a worker process would arrive without its log, or not at all."""
    twin = duplicate(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_first_argument_is_the_message(error: ch.CUDAError) -> None:
    """A program that reads ``error.args[0]``, as numba-cuda does, would get the operation, not the whole message."""
    assert error.args == (str(error),)
    assert "line 2" in error.args[0]
    error = ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "the meaning")
    error.hint, error.log = "Do this", "the log"  # both can be set on an existing error
    assert error.args == ("cuCall: CUDA_ERROR_X (1): the meaning. Do this\nthe log",)
    assert repr(error) == f"CUDAError({error.args[0]!r})"


def test_arguments_are_replaced(error: ch.CUDAError) -> None:
    """A program that changes an error's message by assigning to `args` would add nothing, or lose the rest."""
    twin = copy.copy(error)
    twin.args = (f"{twin.args[0]}\nin the file x",)
    assert str(twin) == f"{error}\nin the file x"
    again = pickle.loads(pickle.dumps(twin))
    assert (str(again), again.args, again.log) == (str(twin), twin.args, error.log)
    twin.args = ("one", 2)
    assert str(twin) == "('one', 2)"


def test_error_of_a_message_alone() -> None:
    """A CUDAError could not be created from a message alone, as with ``cuda.core``, or from another error's `args`."""
    error = ch.CUDAError("it failed")
    assert (str(error), error.args, error.code, error.code_name) == ("it failed", ("it failed",), 0, "")
    full = ch.CUDAError("cuCall", 1, "CUDA_ERROR_X", "the meaning", **FULL)
    assert str(type(full)(*full.args)) == str(full)


# ---- errors that are not CUDAErrors


@pytest.mark.parametrize("cls", [ch.ClosedError, ch.UnsupportedCodeError])
def test_both_classes_that_programs_catch(cls: type[Exception]) -> None:
    """A program that catches RuntimeError or ValueError, as cuda.core raises them, would not catch our error."""
    assert issubclass(cls, RuntimeError)
    assert issubclass(cls, ValueError)
    assert not issubclass(cls, (TypeError, ch.CUDAError))


def test_closed_names_the_class() -> None:
    """In a call with several objects, the error would not name the class of the closed object."""
    error = closed(ch.LaunchConfig(grid=1, block=1))
    assert type(error) is ch.ClosedError
    assert str(error) == "LaunchConfig has been closed; make a new one"


# ---- the functions that raise a CUDAError


def test_success_is_silent(device: ch.Device) -> None:
    """A successful call would raise an error, or its result would be lost."""
    check(0)
    assert query_driver("cuDeviceGetAttribute", 10, 0) == device.properties.warp_size


def test_failure_of_the_driver_names_the_operation(device: ch.Device) -> None:
    """A failed call of the driver would be ignored, or its error would not name the call."""
    with pytest.raises(ch.CUDAError, match=r"^cuDeviceGet: CUDA_ERROR_INVALID_DEVICE \(101\): ") as caught:
        query_driver("cuDeviceGet", 99)
    assert (caught.value.operation, caught.value.code) == ("cuDeviceGet", 101)
    assert (caught.value.code_name, caught.value.meaning) == ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: call_driver("cuInit2"), ch.CUDAError, "cuInit2: CCH_EINVAL .* not in the table"),
        (lambda: call_driver("cuInit", *range(9)), TypeError, "at most 8 arguments"),
    ],
)
def test_wrong_calls_of_the_driver(device: ch.Device, make: Any, error: type[Exception], message: str) -> None:
    """A wrong name, or an argument too many, would reach the driver as garbage."""
    with pytest.raises(error, match=message):
        make()


def test_a_closed_object_in_a_call_of_the_driver(device: ch.Device) -> None:
    """The driver would be given the handle of a closed object."""
    stream, flags = device.create_stream(), ffi.new("unsigned *")
    call_driver("cuStreamGetFlags", stream, flags)
    assert flags[0] == 1
    stream.close()
    with pytest.raises(ch.ClosedError):
        call_driver("cuStreamGetFlags", stream, flags)


def test_the_hint_of_a_kernel_that_failed(device: ch.Device) -> None:
    """On the simulated driver, the hint would recommend a tool that needs a GPU, instead of the driver's own report."""
    assert driver_error("cuCall", 700).hint.endswith("compute-sanitizer finds the kernel and the line")


def test_an_impossible_code_is_reported_as_it_is(device: ch.Device) -> None:
    """A code that only a newer driver has would make the report fail, or would be mistaken for another code."""
    error = driver_error("cuCall", 987654)
    assert error.code == 987654
    assert str(error) == "cuCall: CUDA_ERROR_UNRECOGNIZED (987654): unrecognized error code"


def test_each_thread_has_its_own_failure(device: ch.Device, in_new_thread: Any) -> None:
    """An error would describe a failure that happened on another thread."""
    from cudacore_handles._cffi import ffi, lib

    out = ffi.new("cch_stream **")
    status = lib.cch_stream_create(out, ffi.NULL, 0, 0)

    def fail_otherwise() -> None:
        with pytest.raises(ch.CUDAError, match="cch_event_create"):
            check(lib.cch_event_create(ffi.new("cch_event **"), ffi.NULL, 0))

    in_new_thread(fail_otherwise)
    with pytest.raises(ch.CUDAError, match="cch_stream_create: CCH_EINVAL"):
        check(status)


# ---- finalizers that run between a failed call and the reading of its error record


class Failing:
    """An object in a reference cycle. Its finalizer makes a call that fails, and creates another such object."""

    ended = 0
    goes_on = True

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        status = lib.cch_kernel_wrap(ffi.new("cch_kernel **"), ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL)
        assert status == lib.CCH_EINVAL
        Failing.ended += 1
        if Failing.goes_on:
            Failing()


@pytest.fixture
def failing_finalizers() -> Iterator[None]:
    """Make nearly every memory allocation of Python run a finalizer in which a call fails."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    Failing.ended, Failing.goes_on = 0, True
    Failing()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)
    Failing.goes_on = False
    gc.unfreeze()
    gc.collect()
    assert Failing.ended > 100


def fails_in_cffi(device: ch.Device) -> None:
    check(lib.cch_stream_create(ffi.new("cch_stream **"), ffi.NULL, 0, 0))


def fails_in_native(device: ch.Device) -> None:
    device.memory_resource.allocate(1 << 50, stream=device.default_stream)


@pytest.mark.skipif(not GIL, reason="without a GIL, collections are too rare to come between two steps")
@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (fails_in_cffi, ("cch_stream_create", -2, "CCH_EINVAL", "the argument context is NULL")),
        (fails_in_native, ("cuMemAllocFromPoolAsync", 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")),
    ],
)
def test_an_error_is_of_its_own_call(
    device: ch.Device, failing_finalizers: None, fails: Callable[..., None], expected: tuple[str, int, str, str]
) -> None:
    """An exception would describe the failure of a call that a finalizer has made in the meantime."""
    for _ in range(200):
        try:
            fails(device)
        except ch.CUDAError as error:
            told = (error.operation, error.code, error.code_name, error.meaning)
        assert told == expected
