# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.metadata
import re
from dataclasses import replace
from pathlib import Path

import pytest
from compile_sources import Python

from cudacore_compile import Linker, NVRTCError, Program, ProgramOptions, _fatbin, cuda_include_path
from cudacore_compile._compilers import libraries as _libraries
from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_compile._compilers import nvvm as _nvvm
from cudacore_compile._compilers.cuda_headers import _COUNTERPARTS
from cudacore_compile._compilers.hints import explain
from cudacore_handles import CUDAError, ObjectCode


def hint(code_name: str, log: str, *names: str) -> str:
    return explain(code_name, log, names, "12.9", lambda: [75, 90])


def test_error_without_command() -> None:
    """An error of a call without options would mention a command line."""
    error = NVRTCError("nvrtcVersion", 3, "NVRTC_ERROR_INVALID_INPUT", "an argument is not valid")
    assert str(error) == "nvrtcVersion: NVRTC_ERROR_INVALID_INPUT (3): an argument is not valid"
    assert isinstance(error, CUDAError)


@pytest.mark.parametrize(
    ("code", "log", "expected"),
    [
        ("INVALID_OPTION", "invalid value for --gpu-architecture (-arch)", "compiles for: sm_ or compute_ of 75, 90"),
        ("INVALID_OPTION", "unrecognized option --use-bundled-headers=/x found",
         "NVRTC 12.9 does not have ProgramOptions.use_bundled_headers, which came with 13.3: leave it out, or"),
        ("INVALID_OPTION", "unrecognized option --numba-debug found", "does not have ProgramOptions.numba_debug"),
        ("INVALID_OPTION", "--ftz (-ftz) expects true or false", "See ProgramOptions.ftz"),
        ("INVALID_OPTION", "invalid value for --std(-std)", "Set ProgramOptions.std to"),
        ("INVALID_OPTION", "unrecognized option --from-elsewhere found", ""),
        ("INVALID_OPTION", "", ""),
        ("BUILTIN_OPERATION_FAILURE", "failed to open libnvrtc-builtins.so.13.5.", "must be of the same version"),
        ("BUILTIN_OPERATION_FAILURE", "failed to create directory '/x'", ""),
    ],
)  # fmt: skip
def test_hints(code: str, log: str, expected: str) -> None:
    """An error about an option, or an incomplete installation, would look like an error in the program."""
    text = hint(f"NVRTC_ERROR_{code}", f"nvrtc: error: {log}")
    assert expected in text
    assert bool(text) == bool(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector", "no <vector>: device code has no containers that grow.*<cuda/std/inplace_vector>"),
        ("tuple", "no <tuple>: CUDA's own headers have <cuda/std/tuple>$"),
        ("stdint.h", r"no <stdint\.h>: CUDA's own headers have <cuda/std/cstdint>"),
        ("iostream", "no <iostream>: printf works without it"),
        ("thread", "no <thread>: device code has no equivalent"),
        (
            "mine.h",
            r"^To find \"mine\.h\", set ProgramOptions\.include_path.*headers=.*\[cu1\d,headers\]\"; .*NVRTC 13\.3",
        ),
        ("cuda/std/none", r"^To find \"cuda/std/none\".*=cuda_include_path\(\)"),
    ],
)
def test_missing_headers(name: str, expected: str) -> None:
    """An error for a missing header would not name its replacement, or where to get it."""
    with pytest.raises(NVRTCError) as caught:
        Program(f"#include <{name}>", "c++", ProgramOptions(arch="sm_90")).compile("ptx")
    assert re.search(expected, caught.value.hint)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("__device__ int64_t a;", "NVRTC has no int64_t: write a type .* or include <cuda/std/cstdint>"),
        (
            "__global__ void k(half *x) {}",
            "NVRTC has no half: include <cuda_fp16.h>; CUDA's headers are found if",
        ),
        ("__device__ __half2 a;", "NVRTC has no __half2: include <cuda_fp16.h>"),
        ("__global__ void k(float x, int *y) { *y = __float2half(x); }", "no __float2half: include <cuda_fp16.h>"),
        ("__device__ __nv_bfloat16 a;", "NVRTC has no __nv_bfloat16: include <cuda_bf16.h>"),
        ("__device__ __nv_fp8_e4m3 a;", "NVRTC has no __nv_fp8_e4m3: include <cuda_fp8.h>"),
        ("__device__ curandState a;", "NVRTC has no curandState: include <curand_kernel.h>"),
        ("__device__ double a = M_PI;", "NVRTC has no M_PI: write the number, or include <cuda/std/numbers>"),
        ("__device__ float a = INFINITY;", "NVRTC has no INFINITY: include <cuda/std/cmath>"),
        ("__device__ float a = FLT_MAX;", "NVRTC has no FLT_MAX: include <cuda/std/cfloat>"),
        ("__device__ int a = INT_MAX;", "NVRTC has no INT_MAX: include <cuda/std/climits>"),
        ("__device__ float a = CUDART_INF_F;", "NVRTC has no CUDART_INF_F: include <math_constants.h>"),
        ("__device__ uint a;", "NVRTC has no uint: write unsigned int, or another type of C\\+\\+$"),
        ("namespace cg = cooperative_groups;", "Include <cooperative_groups.h>"),
        ("__global__ void a() {} __global__ void b() { a<<<1, 1>>>(); }", "A kernel that launches kernels .*cudadevrt"),
        ("__device__ halfway a;", "^$"),
    ],
)
def test_names_that_nvrtc_lacks(code: str, expected: str) -> None:
    """An error for a name that nvcc defines would not say where NVRTC finds it."""
    with pytest.raises(NVRTCError) as caught:
        Program(code, "c++", ProgramOptions(arch="sm_90")).compile("ptx")
    assert re.search(expected, caught.value.hint), caught.value.hint


@pytest.mark.usefixtures("_nvjitlink")
def test_kernels_that_launch_kernels() -> None:
    """The advice for a kernel that launches kernels would not work."""
    try:
        headers = cuda_include_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    runtime = next(Path(headers[0]).parent.glob("lib*/libcudadevrt.a"), None)
    if runtime is None:
        pytest.skip("needs libcudadevrt.a")
    code = "__global__ void a() {} __global__ void b() { a<<<1, 1>>>(); }"
    options = ProgramOptions(arch="sm_90", include_path=headers)
    with pytest.raises(NVRTCError) as caught:  # the second of the two options is missing
        Program(code, "c++", options).compile("cubin")
    assert caught.value.hint.startswith("A kernel that launches kernels is compiled with include_path=")
    part = Program(code, "c++", replace(options, relocatable_device_code=True)).compile("cubin")
    linked = Linker(part, ObjectCode.from_library(str(runtime)), options={"arch": "sm_90"}).link("cubin")
    assert {"_Z1av", "_Z1bv"} <= {kernel.symbol for kernel in linked.kernels}


def test_standard_headers_of_cuda() -> None:
    """An existing header of CUDA would be reported as missing, or a missing one would be recommended."""
    try:
        folder = next(path for top in cuda_include_path() if (path := Path(top, "cuda", "std")).is_dir())
    except FileNotFoundError as error:
        pytest.skip(str(error))
    there = {file.name for file in folder.iterdir() if file.is_file() and re.fullmatch(r"[a-z]\w*", file.name)}
    assert there <= _COUNTERPARTS
    if "string_view" in there:  # the newest CUDA headers, which have a counterpart of each standard header
        assert there == _COUNTERPARTS


def test_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error for a missing library would recommend a package for another CUDA, or an extra that does not exist."""
    extras = importlib.metadata.metadata("cudacore-compile").get_all("Provides-Extra") or []
    for major in (12, 13):
        monkeypatch.setattr(_libraries, "cuda_major", lambda major=major: major)
        for library in (_nvrtc.LIBRARY, _nvvm.LIBRARY, _nvjitlink.LIBRARY, _fatbin.LIBRARY):
            command = _libraries.pip_command(library.extra)
            named = re.fullmatch(r'python -m pip install "cudacore-compile\[(.+)\]"', command)
            assert named is not None
            assert named[1].split(",")[0] == f"cu{major}"
            assert set(named[1].split(",")) <= set(extras)
    assert _libraries.pip_command("nvvm") != _libraries.pip_command("nvvm-cu12")
    monkeypatch.undo()
    major = int(_nvrtc.load().version_text.partition(".")[0])
    assert _libraries.cuda_major() == major
    _nvrtc.load.cache_clear()
    assert _libraries.cuda_major() == int(importlib.metadata.version("cuda-bindings").partition(".")[0])


@pytest.mark.parametrize(("driver", "extra"), [("12.9", "cu12"), ("13.0", "cu13"), ("", "cu13")])
def test_missing_compiler_for_the_driver(python: Python, driver: str, extra: str) -> None:
    """With a driver for CUDA 12, the error for a missing NVRTC would recommend that of CUDA 13."""
    result = python(f"""
        import importlib.metadata, os
        import cuda.pathfinder

        if {driver!r}:
            os.environ |= {{"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_DRIVER_VERSION": {driver!r}}}
        else:
            os.environ["CUDACORE_DRIVER"] = "/nowhere/libcuda.so.1"
        from cudacore_compile import Linker, NVRTCError, Program

        def missing(name):
            raise cuda.pathfinder.DynamicLibNotFoundError(f"no {{name}}")

        cuda.pathfinder.load_nvidia_dynamic_lib = missing
        importlib.metadata.version = lambda name: "13.0.0"
        try:
            Program("", "c++", {{"arch": "sm_90"}}).compile("cubin")
        except NVRTCError as error:
            print(error.hint)
    """)
    assert result.stdout == f'Install it with: python -m pip install "cudacore-compile[{extra}]"\n', result.stderr


def test_hint_names_what_was_asked_for() -> None:
    """Errors that are not about name expressions would be blamed on them."""
    log = 'x: error: Error in parsing name expression. Input name expression was: " g < int >"\n'
    assert "'g<int>'" in hint("NVRTC_ERROR_COMPILATION", log, "f<int>", "g<int>")
    assert "f<int>'," not in hint("NVRTC_ERROR_COMPILATION", log, "f<int>", "g<int>")
    assert hint("NVRTC_ERROR_COMPILATION", "x(1): error: syntax", "f<int>") == ""
    assert hint("NVRTC_ERROR_INTERNAL_ERROR", log, "g<int>") == ""
