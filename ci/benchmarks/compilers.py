#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare nvcc, plain NVRTC, cudacore-compile and hits of its cache, in one run; print a table for the documentation.

usage: compilers.py [--rounds N] [--include DIR]

DIR is a directory of CUTLASS, for CuTe. The rounds alternate between the ways, and the least time counts. Each way
compiles to PTX for sm_90. A process of Python or of the command starts its interpreter, which is included.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cuda.bindings import nvrtc

from cudacore_compile import FileStreamProgramCache, Program, ProgramOptions, cuda_include_path
from cudacore_compile._compilers.nvrtc import load

SMALL = 'extern "C" __global__ void axpy(float a, const float *x, float *y) { y[threadIdx.x] += a * x[threadIdx.x]; }'
CUB = """
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void sum(const float *in, float *out) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage storage;
  float total = Reduce(storage).Sum(in[threadIdx.x]);
  if (threadIdx.x == 0) *out = total;
}
"""
STANDARD = """
#include <cuda/std/array>
#include <cuda/std/span>
extern "C" __global__ void first(float *out) { cuda::std::array<float, 2> a{1, 2}; *out = cuda::std::span(a)[0]; }
"""
CUTE = """
#include <cute/tensor.hpp>
extern "C" __global__ void fill(float *out) {
  auto t = cute::make_tensor(cute::make_gmem_ptr(out), cute::make_shape(cute::Int<8>{}, cute::Int<8>{}));
  t(threadIdx.x, threadIdx.y) = 1;
}
"""


def plain(source: str, folders: list[str], is_relaxed: bool) -> None:
    """Compile as a program does that uses NVRTC itself. Its cache in the driver is not used."""
    flags = [b"-arch=compute_90", b"-std=c++17", *(f"-I{folder}".encode() for folder in folders)]
    flags += [b"-default-device"] * is_relaxed
    flags += load().no_cache_flags(flags)
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    nvrtc.nvrtcGetPTX(program, b" " * size)
    nvrtc.nvrtcDestroyProgram(program)


def ways(source: str, folders: list[str], is_relaxed: bool, work: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return the ways to compile a program: their titles, and functions that compile it once."""
    file = work / "k.cu"
    file.write_text(source)
    cache = FileStreamProgramCache(work / "cache")
    options = ProgramOptions(
        arch="sm_90",
        std="c++17",
        include_path=folders or None,
        no_cache=bool(load().no_cache_flags([])) or None,
        name=str(file),
        device_as_default_execution_space=is_relaxed,
    )
    command = [sys.executable, "-m", "cudacore_compile", str(file), "-arch=sm_90", "-std=c++17", "-ptx"]
    command += [f"-I{folder}" for folder in folders] + ["-o", str(work / "k.ptx"), "--cache-dir", str(work / "cache")]
    command += ["-expt-relaxed-constexpr"] * is_relaxed
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        words = [nvcc, str(file), "-arch=sm_90", "-std=c++17", "-ptx", "-o", str(work / "n.ptx")]
        # nvcc has its own headers, which are first
        words += [f"-I{folder}" for folder in folders if "cutlass" in folder]
        words += ["-expt-relaxed-constexpr"] * is_relaxed
        yield "nvcc", lambda: subprocess.run(words, check=True, capture_output=True)
    yield "NVRTC", lambda: plain(source, folders, is_relaxed)
    yield "ours", lambda: Program(source, "c++", options).compile("ptx")
    yield "hit", lambda: Program(source, "c++", options).compile("ptx", cache=cache)
    yield "command", lambda: subprocess.run([*command, "--no-cache"], check=True)
    yield "its hit", lambda: subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--include", default="")
    arguments = parser.parse_args()
    headers = cuda_include_path()
    programs = {
        "no header": (SMALL, [], False),
        "``<cuda/std/span>``": (STANDARD, headers, False),
        "``<cub/block/block_reduce.cuh>``": (CUB, headers, False),
    }
    if arguments.include:
        programs["``<cute/tensor.hpp>``"] = (CUTE, [arguments.include, *headers], True)
    print(f"NVRTC {load().version_text}, milliseconds")
    for title, (source, folders, is_relaxed) in programs.items():
        with tempfile.TemporaryDirectory() as folder:
            functions = dict(ways(source, folders, is_relaxed, Path(folder)))
            least = dict.fromkeys(functions, float("inf"))
            for function in functions.values():  # loads libraries and fills the cache
                function()
            for _ in range(arguments.rounds):
                for name, function in functions.items():
                    start = time.perf_counter()
                    function()
                    least[name] = min(least[name], time.perf_counter() - start)
        print(f"   * - {title}", *(f"     - {least[name] * 1e3:,.1f}" for name in least), sep="\n", flush=True)


if __name__ == "__main__":
    main()
