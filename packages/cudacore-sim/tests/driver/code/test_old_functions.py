# SPDX-License-Identifier: Apache-2.0
"""Functions from before CUDA 4: launches in several calls, contexts with a use count, and cuProfilerInitialize."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_uint, c_uint64, c_void_p
from typing import Any

import pytest
from kernels import PTX

INVALID_VALUE, INVALID_CONTEXT = 1, 201


@pytest.mark.parametrize("end", ["cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync"])
def test_launches_in_steps(cuda: Any, end: str) -> None:
    """A launch would ignore the shape or the arguments that separate calls have set before."""
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), PTX)
    cuda.cuModuleGetFunction(byref(function), module, b"store")
    memory, back = cuda.malloc(32), (c_uint * 8)()
    cuda.cuMemsetD8_v2(memory, 0xFF, ctypes.c_size_t(32))
    assert cuda.code("cuLaunch", function) == INVALID_VALUE  # a block has no shape yet
    cuda.cuFuncSetBlockShape(function, 4, 1, 1)
    cuda.cuFuncSetSharedSize(function, 16)
    cuda.cuParamSetv(function, 0, byref(memory), 8)
    cuda.cuParamSeti(function, 8, 70)
    cuda.cuParamSetSize(function, 12)
    rest = {"cuLaunch": (), "cuLaunchGrid": (2, 1), "cuLaunchGridAsync": (2, 1, cuda.stream())}[end]
    getattr(cuda, end)(function, *rest)
    cuda.cuCtxSynchronize()
    cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(32))
    assert list(back) == [70, 71, 72, 73] + [0xFFFFFFFF] * 4
    cuda.cuParamSetf(function, 8, c_float(1.0))
    getattr(cuda, end)(function, *rest)
    cuda.cuCtxSynchronize()
    cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(4))
    assert back[0] == 0x3F800000


def test_bad_steps(cuda: Any) -> None:
    """Invalid block shapes and parameter offsets would be accepted."""
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), PTX)
    cuda.cuModuleGetFunction(byref(function), module, b"store")
    value = c_uint64()
    for name, *rest in (
        ("cuFuncSetBlockShape", 0, 1, 1),
        ("cuFuncSetBlockShape", 1, -1, 1),
        ("cuParamSeti", -4, 1),
        ("cuParamSeti", 4096, 1),
        ("cuParamSetv", 0, None, 4),
        ("cuParamSetv", 0, byref(value), 5000),
        ("cuParamSetSize", 5000),
        ("cuLaunchGrid", 0, 1),
    ):
        assert cuda.code(name, function, *rest) == INVALID_VALUE, name


def test_counted_contexts(cuda: Any) -> None:
    """A context with two users would be destroyed by the first cuCtxDetach, or never."""
    context, again = c_void_p(), c_void_p()
    cuda.cuCtxCreate_v2(byref(context), 0, 0)
    assert cuda.code("cuCtxAttach", byref(again), 1) == INVALID_VALUE
    cuda.cuCtxAttach(byref(again), 0)
    assert again.value == context.value
    version = c_uint()
    cuda.cuCtxDetach(context)
    cuda.cuCtxGetApiVersion(context, byref(version))
    cuda.cuCtxDetach(context)
    assert cuda.code("cuCtxGetApiVersion", context, byref(version)) == INVALID_CONTEXT


def test_the_profiler_has_nothing_to_do(cuda: Any) -> None:
    """A program that calls cuProfilerInitialize would fail to load."""
    cuda.cuProfilerInitialize(b"config", b"output", 1)
    assert cuda.code("cuProfilerInitialize", None, b"output", 1) == INVALID_VALUE
    assert cuda.code("cuProfilerInitialize", b"config", b"output", 7) == INVALID_VALUE
    found = c_void_p()
    cuda.cuGetProcAddress_v2(b"cuProfilerInitialize", byref(found), 13000, c_uint64(0), None)
    assert found.value
