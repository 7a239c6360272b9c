# SPDX-License-Identifier: Apache-2.0
"""Measures the simulated driver on one core: its speed, what its checks cost, and numba's simulator beside it.

usage: simulator.py > docs/measured/simulator.csv

Needs the cudacore-sim that is to be measured, NVRTC of cuda-bindings, and numba with NumPy. Each figure is the least
processor time of several runs, so other work on the machine matters little.
"""

from __future__ import annotations

import csv
import ctypes
import json
import os
import subprocess
import sys
import time
from typing import Any

SOURCE = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}

// Each thread executes a known number of instructions: see STEPS.
extern "C" __global__ void arithmetic(float *out, int rounds) {
  float one = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i)
#pragma unroll
    for (int j = 0; j < 61; ++j)
      one = one * 1.5f + 0.25f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = one;
}

// A scan with decoupled look-back: each block waits for the sum of the previous one.
extern "C" __global__ void scan(const int *in, int *out, unsigned long long *state, int *next) {
  __shared__ int sums[8], block, before;
  if (threadIdx.x == 0)
    block = atomicAdd(next, 1);
  __syncthreads();
  const int base = block * 1024 + threadIdx.x * 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int item[4], sum = 0;
  for (int i = 0; i < 4; ++i)
    item[i] = sum += in[base + i];
  int all = sum;
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(~0u, all, d);
    if (lane >= d)
      all += other;
  }
  if (lane == 31)
    sums[warp] = all;
  __syncthreads();
  int offset = all - sum;
  for (int i = 0; i < warp; ++i)
    offset += sums[i];
  if (threadIdx.x == 255) {
    unsigned long long seen = 1ull << 32;
    while (block > 0 && (seen = ((volatile unsigned long long *)state)[block - 1]) == 0)
      ;
    before = (int)seen;
    ((volatile unsigned long long *)state)[block] = (1ull << 32) | (unsigned)(before + offset + sum);
  }
  __syncthreads();
  for (int i = 0; i < 4; ++i)
    out[base + i] = before + offset + item[i];
}
"""
STEPS = 64  # instructions of a round of `arithmetic`: 61 fma, and the increment, comparison and branch of the loop
NUMBERS = 1 << 17
CHECKS = ("sync", "init", "race", "order")
RUNS = 9


def compile_to_ptx() -> bytes:
    from cuda.bindings import nvrtc

    def call(function: str, *arguments: Any) -> Any:
        status, *values = getattr(nvrtc, f"nvrtc{function}")(*arguments)
        assert int(status) == 0, f"nvrtc{function}: {status}"
        return values[0] if values else None

    program = call("CreateProgram", SOURCE.encode(), b"simulator.cu", 0, [], [])
    call("CompileProgram", program, 1, [b"-arch=compute_90"])
    text = b" " * call("GetPTXSize", program)
    call("GetPTX", program, text)
    return text


class Simulator:
    """The driver's functions for a launch, by ctypes."""

    def __init__(self) -> None:
        import cudacore_sim

        self.library = cudacore_sim.load()
        self.library.cuInit(0)
        context, self.module = ctypes.c_void_p(), ctypes.c_void_p()
        self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.library.cuCtxSetCurrent(context)
        self.check(self.library.cuModuleLoadData(ctypes.byref(self.module), compile_to_ptx()))

    @staticmethod
    def check(code: int) -> None:
        assert code == 0, code

    def memory(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.check(self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        self.check(self.library.cuMemsetD8_v2(address, 0, ctypes.c_size_t(size)))
        return address

    def seconds(self, name: str, grid: int, block: int, *arguments: Any, before: Any = None) -> float:
        """Return the least processor time of a launch with its wait, of all threads."""
        function = ctypes.c_void_p()
        self.check(self.library.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()))
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        best = float("inf")
        for _ in range(RUNS):
            if before:
                before()
            self.check(self.library.cuCtxSynchronize())
            used = time.process_time()
            self.check(self.library.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, None, pointers, None))
            self.check(self.library.cuCtxSynchronize())
            best = min(best, time.process_time() - used)
        return best


def measure() -> dict[str, float]:
    """Return the times of the kernels in this process, with the checks of the environment."""
    sim = Simulator()
    x, y, state, next_ = (sim.memory(size) for size in (4 * NUMBERS, 4 * NUMBERS, 8 * 128, 4))

    def clear() -> None:
        sim.library.cuMemsetD8_v2(state, 0, ctypes.c_size_t(8 * 128))
        sim.library.cuMemsetD8_v2(next_, 0, ctypes.c_size_t(4))

    a, n, small, rounds = ctypes.c_float(2), ctypes.c_int(NUMBERS), ctypes.c_int(1 << 14), ctypes.c_int(100)
    return {
        "arithmetic": sim.seconds("arithmetic", 512, 256, x, rounds),
        "saxpy": sim.seconds("saxpy", NUMBERS // 256, 256, a, x, y, n),
        "small saxpy": sim.seconds("saxpy", (1 << 14) // 256, 256, a, x, y, small),
        "scan": sim.seconds("scan", NUMBERS // 1024, 256, x, y, state, next_, before=clear),
    }


cuda: Any = None  # numba.cuda: its simulator puts the variables of each thread in this global name


def measure_numba() -> float:
    """Return the seconds of a saxpy of 16,384 numbers in numba's simulator."""
    global cuda
    import numpy as np
    from numba import cuda

    @cuda.jit
    def saxpy(a, x, y):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            y[i] = a * x[i] + y[i]

    x, y = np.ones(1 << 14, np.float32), np.ones(1 << 14, np.float32)
    best = float("inf")
    for _ in range(3):
        used = time.process_time()
        saxpy[64, 256](np.float32(2), x, y)
        best = min(best, time.process_time() - used)
    return best


def in_a_process(what: str, **settings: str) -> Any:
    result = subprocess.run(
        [sys.executable, __file__, what], env=os.environ | settings, stdout=subprocess.PIPE, check=True
    )
    return json.loads(result.stdout)


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    plain = in_a_process("measure")
    rows = [
        ["arithmetic", 512 * 256 * 100 * STEPS / plain["arithmetic"] / 1e6, "million instructions/s"],
        ["saxpy of 16384", plain["small saxpy"] * 1e3, "ms"],
        ["saxpy of 16384 in numba's simulator", in_a_process("numba", NUMBA_ENABLE_CUDASIM="1") * 1e3, "ms"],
    ]
    for check in CHECKS:
        checked = in_a_process("measure", CUDACORE_SIM_CHECK=check)
        rows += [[f"{check} of {kernel}", checked[kernel] / plain[kernel], "times"] for kernel in ("scan", "saxpy")]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["what", "value", "unit"])
    out.writerows([what, f"{float(f'{value:.2g}'):g}", unit] for what, value, unit in rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measure()))
    elif sys.argv[1:] == ["numba"]:
        print(json.dumps(measure_numba()))
    else:
        main()
