# SPDX-License-Identifier: Apache-2.0
"""Measure how much faster concurrent compilations are, in threads and in processes, and what a cache hit costs.

The script also measures how much longer a compilation takes than NVRTC itself. On a busy machine, elapsed times mean
little, but the times for which threads compute or wait for locks remain meaningful.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import multiprocessing
import statistics
import threading
import time
from concurrent.futures import ProcessPoolExecutor

from cudacore_compile import CompileJob, InMemoryProgramCache, Program, ProgramOptions, compile_many, versions
from cudacore_compile.typing import CompilerBackendType, CompileTargetName

SOURCE = """
template <class T, int N> __global__ void mix(T *out, T value) {
  __shared__ T shared[256];
  T sum = value;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sum = sum * out[i] + sqrtf(value) + i;
    shared[(threadIdx.x + i) % 256] = sum;
    __syncthreads();
    sum += shared[(threadIdx.x * 7 + i) % 256];
  }
  out[threadIdx.x] = sum;
}
"""
COUNT = 16
TARGETS: tuple[CompileTargetName, ...] = ("ptx", "cubin")


def jobs(target: CompileTargetName, salt: int) -> list[CompileJob]:
    """Return COUNT different jobs. A new `salt` gives new sources, which are not yet in the driver's cache."""
    options = ProgramOptions(arch="sm_90", no_cache=True)
    return [CompileJob(f"{SOURCE}// {salt}", options, target, [f"mix<float, {60 + i}>"]) for i in range(COUNT)]


def seconds(target: CompileTargetName, salt: int, **options: object) -> float:
    start = time.perf_counter()
    compile_many(jobs(target, salt), progress=False, **options)  # type: ignore[arg-type]
    return time.perf_counter() - start


def waiting(target: CompileTargetName, threads: int) -> tuple[float, float, float]:
    """Return how long all threads together computed, waited for a core, and slept, according to Linux's schedstat."""
    totals: list[tuple[float, float, float]] = []

    def work(part: list[CompileJob]) -> None:
        def now() -> tuple[float, float, float]:
            with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
                running, runnable, _ = file.read().split()
            return int(running) / 1e9, int(runnable) / 1e9, time.perf_counter()

        before = now()
        for job in part:
            Program(job.code, "c++", job.options).compile(job.target_type, job.name_expressions)
        running, runnable, passed = (b - a for a, b in zip(before, now(), strict=True))
        totals.append((running, runnable, passed - running - runnable))

    todo = jobs(target, 0)
    workers = [threading.Thread(target=work, args=(todo[i::threads],)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    running, runnable, asleep = map(sum, zip(*totals, strict=True))
    return running, runnable, asleep


def bare(nvrtc: ctypes.CDLL, source: bytes, target: str) -> None:
    """Compile with NVRTC's functions only, as a C program does, and fetch the same results as Program."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"default_program", 0, None, None)
    arch = b"-arch=compute_90" if target == "ptx" else b"-arch=sm_90"
    if nvrtc.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(arch, b"--no-cache")):
        raise RuntimeError("the program does not compile")
    for output in ("ProgramLog", "PTX", "CUBIN")[: 2 if target == "ptx" else 3]:
        getattr(nvrtc, f"nvrtcGet{output}Size")(program, ctypes.byref(size))
        getattr(nvrtc, f"nvrtcGet{output}")(program, ctypes.create_string_buffer(size.value))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def overhead(target: CompileTargetName, rounds: int) -> float:
    """Return the processor time of this thread for compiling a small program, divided by that of NVRTC alone."""
    nvrtc = ctypes.CDLL(versions()[CompilerBackendType.NVRTC].path)
    options = ProgramOptions(arch="sm_90", no_cache=True)
    salt = itertools.count()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for way, seconds in enumerate(times):
            source = f'extern "C" __global__ void k(float *x) {{ *x = sqrtf(*x) / 3; }} // {next(salt)}'
            start = time.process_time()
            if way:
                bare(nvrtc, source.encode(), target)
            else:
                Program(source, "c++", options).compile(target)
            seconds.append(time.process_time() - start)
    ours, its = map(statistics.median, times)
    return ours / its


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    workers, repeat = arguments.workers, range(1, arguments.repeat + 1)
    context = multiprocessing.get_context("spawn")
    for target in TARGETS:
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            seconds(target, 0, executor=pool)  # starts the pool's processes, before the rounds begin
            rounds = [
                (
                    seconds(target, salt, max_workers=1),
                    seconds(target, salt + 1000, max_workers=workers),
                    seconds(target, salt + 2000, executor=pool),
                )
                for salt in repeat
            ]
        one, threads, processes = (min(times) for times in zip(*rounds, strict=True))
        print(f"{COUNT} x {target}: one {one:.2f} s; {workers} threads {threads:.2f} s, {one / threads:.2f}x; "
              f"{workers} processes {processes:.2f} s, {one / processes:.2f}x")  # fmt: skip
        running, runnable, asleep = waiting(target, workers)
        print(
            f"    {workers} threads compute {running:.2f} s, wait {runnable:.2f} s for cores, {asleep:.2f} s for locks"
        )
    cache = InMemoryProgramCache()
    program = Program(SOURCE, "c++", {"arch": "sm_90"})
    names = ["mix<float, 60>"]
    program.compile("cubin", names, cache=cache)

    def median(**options: object) -> float:
        times = []
        for _ in range(9):
            start = time.perf_counter()
            program.compile("cubin", names, **options)  # type: ignore[arg-type]
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    cold, warm = median(), median(cache=cache)
    print(f"one cubin: compiled {cold * 1e3:.1f} ms, cached {warm * 1e3:.3f} ms, {warm / cold:.2%}")
    for target in TARGETS:
        print(f"one {target} of a small program: {overhead(target, 30):.3f} of what NVRTC by itself computes")


if __name__ == "__main__":
    main()
