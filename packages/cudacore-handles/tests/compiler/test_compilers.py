# SPDX-License-Identifier: Apache-2.0
"""Calls of compilers. Functions of Python replace those of a library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from cudacore_handles import CUDAError, live_counts
from cudacore_handles._cffi import ffi
from cudacore_handles._compiler import compilers
from cudacore_handles._compiler.compilers import Compiler

Functions = dict[str, Callable[..., int]]
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_size_t] * 6)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Compiler]:
    """Make a compiler of a library that has only the given functions."""

    def make(title: str, given: Functions, *missing: str) -> Compiler:
        kept = {name: FUNCTION(function) for name, function in given.items()}

        def symbol(_: Any, name: str) -> Any:
            address = ctypes.cast(kept[name], ctypes.c_void_p).value if name in kept else 0
            return ffi.cast("cch_compiler_fn", address)

        monkeypatch.setattr(compilers, "_symbol", symbol)
        plain = {name.removeprefix("__").removesuffix("_12_1") for name in given}
        return Compiler(title, 0, dict.fromkeys(plain, "12.0") | dict.fromkeys(missing, "12.8"))

    return make


def store(kind: Any, value: object, result: int = 0) -> Callable[..., int]:
    """Return a function that stores a value where its last argument points."""

    def function(*words: int) -> int:
        address = [word for word in words if word][-1]
        kind.from_address(address).value = value
        return result

    return function


def version(major: int, minor: int, result: int = 0) -> Callable[..., int]:
    def function(at: int, then: int, *_: int) -> int:
        ctypes.c_int.from_address(at).value = major
        ctypes.c_int.from_address(then).value = minor
        return result

    return function


def destroy(*_: int) -> int:
    return 0


NVRTC: Functions = {
    "nvrtcCreateProgram": store(ctypes.c_size_t, 1),
    "nvrtcDestroyProgram": destroy,
    "nvrtcVersion": version(12, 1),
}


def test_arguments(make: Callable[..., Compiler]) -> None:
    """Text, lists, numbers or NULL would arrive as other values, or not at all."""

    def compile(number: int, text: int, count: int, texts: int, nothing: int, _: int) -> int:
        assert (number, ctypes.string_at(text), count, nothing) == (7, b"text", 2, 0)
        assert [ctypes.string_at(at) for at in (ctypes.c_size_t * 2).from_address(texts)] == [b"-a", b"-bc"]
        return 0

    make("NVRTC", {"nvrtcCompileProgram": compile}).call("nvrtcCompileProgram", 7, b"text", 2, [b"-a", b"-bc"], [])


def test_missing_function(make: Callable[..., Compiler]) -> None:
    """A function that an old library lacks would crash, disable others, or not be named with its version."""
    compiler = make("NVRTC", NVRTC, "nvrtcGetPCHHeapSize")
    assert (compiler.query_version(), compiler.has("nvrtcGetPCHHeapSize")) == ((12, 1), False)
    message = (
        r"^nvrtcGetPCHHeapSize: CCH_ENOSYMBOL \(-\d+\): needs NVRTC of CUDA 12\.8 or newer; the loaded one has version "
        r"12\.1$"
    )
    for use in (compiler.number, lambda name: compiler.output(None, name)):
        with pytest.raises(CUDAError, match=message):
            use("nvrtcGetPCHHeapSize")
    with pytest.raises(CUDAError, match=r"^nvrtcVersion: .*: needs NVRTC of CUDA 12\.8 or newer$"):
        make("NVRTC", {}, "nvrtcCreateProgram", "nvrtcVersion").query_version()


@pytest.mark.parametrize(("result", "code_name"), [(-1, "NVRTC_ERROR_UNRECOGNIZED"), (5, "NVRTC_ERROR_INVALID_OPTION")])
def test_failure(make: Callable[..., Compiler], result: int, code_name: str) -> None:
    """A failure of the library's function, whatever its code, would be lost, or reported as another one."""
    compiler = make("NVRTC", NVRTC | {"nvrtcVersion": version(7, 7, result)})
    with pytest.raises(CUDAError) as caught:
        compiler.query_version()
    names = {-1: "NVRTC_ERROR_UNRECOGNIZED", 5: "NVRTC_ERROR_INVALID_OPTION"}
    assert (caught.value.operation, caught.value.code, caught.value.code_name) == (
        "nvrtcVersion",
        result,
        names[result],
    )


def test_versioned_names(make: Callable[..., Compiler]) -> None:
    """nvJitLink 12.0 to 12.2, whose functions have other names, would not be usable."""
    old = {"__nvJitLinkCreate_12_1": store(ctypes.c_size_t, 1), "__nvJitLinkDestroy_12_1": destroy}
    compiler = make("nvJitLink", old, "nvJitLinkGetLinkedLTOIR")
    assert compiler.query_version() == (12, 1)
    assert compiler.raw(compiler.new()) == 1
    with pytest.raises(CUDAError, match=r"12\.8 or newer; the loaded one has version 12\.1$"):
        compiler.call("nvJitLinkGetLinkedLTOIR")


@pytest.mark.parametrize("result", [0, 3])
def test_program_is_destroyed(make: Callable[..., Compiler], result: int) -> None:
    """A program would leak, also if the library makes one and fails nevertheless, as nvJitLink does."""
    before, destroyed = live_counts()["nvrtc_program"], []
    compiler = make(
        "NVRTC",
        NVRTC
        | {
            "nvrtcCreateProgram": store(ctypes.c_size_t, 99, result),
            "nvrtcDestroyProgram": lambda at, *_: destroyed.append(ctypes.c_size_t.from_address(at).value) or 0,
        },
    )
    if result:
        with pytest.raises(CUDAError, match="NVRTC_ERROR_INVALID_INPUT"):
            compiler.new()
    else:
        assert compiler.raw(compiler.new()) == 99
    assert (destroyed, live_counts()["nvrtc_program"]) == ([99], before)


def test_empty_output_is_not_fetched(make: Callable[..., Compiler]) -> None:
    """NVRTC would be called for an output that it did not generate, and could crash."""
    fetched: list[int] = []
    functions = {"nvrtcGetCUBIN": lambda *_: fetched.append(1) or 0, "nvrtcGetCUBINSize": store(ctypes.c_size_t, 0)}
    compiler = make("NVRTC", NVRTC | functions)
    assert (compiler.output(compiler.new(), "nvrtcGetCUBIN"), fetched) == (b"", [])
