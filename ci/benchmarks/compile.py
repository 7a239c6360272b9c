# SPDX-License-Identifier: Apache-2.0
"""Measure how much longer a compilation takes than the calls of NVRTC alone.

Compilations by cudacore alternate with the same calls of NVRTC by ctypes, in one process. Each time is the best of
several. Run it with ``python compile.py``. On a busy machine, ``--cpu-time`` measures processor time instead of elapsed
time.

NVRTC allocates and frees much memory. Whether malloc returns that memory to the system affects the times more than
anything else here. By default, in a small process, malloc returns the main thread's memory after each compilation. The
next compilation then gets new pages one by one, which takes up to a fifth of the time of a small compilation. malloc
keeps the memory of other threads, and cudacore runs NVRTC on another thread. Once a program has freed a large array,
malloc keeps the memory of all threads. So this script makes malloc keep it, unless ``--malloc-defaults`` is given.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cudacore_compile import Program, ProgramOptions
from cudacore_compile._compilers import nvrtc
from cudacore_compile.typing import CompileTargetName

SMALL = 'extern "C" __global__ void k(float *x) {{ *x = sqrtf(*x) / {}; }}'
LARGER = "\n".join(f"template <int N> __device__ float f{i}(float x) {{ return x * {i} + N; }}" for i in range(20))
LARGER += "\n".join(f'\nextern "C" __global__ void k{i}(float *x) {{{{ *x = f{i}<{i}>(*x); }}}}' for i in range(20))
LARGER = LARGER.replace("{ return", "{{ return").replace("N; }", "N; }}") + "\n// {}"
TARGETS: tuple[CompileTargetName, ...] = ("ptx", "cubin")
GOAL = 1.02
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_TOP_PAD = -1, -3, -2
# Bytes of freed memory that malloc keeps, and the size from which it uses mmap instead of the heap (32 MiB at most).
KEEP_MEMORY = {M_TRIM_THRESHOLD: 1 << 28, M_TOP_PAD: 1 << 26, M_MMAP_THRESHOLD: 1 << 25}


def check(result: int) -> None:
    if result:
        raise RuntimeError(f"NVRTC: {result}")


def compile_bare(library: ctypes.CDLL, source: bytes, options: list[bytes], target: str) -> bytes:
    """Compile with the fewest possible calls of NVRTC."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(library.nvrtcCreateProgram(ctypes.byref(program), source, b"default_program", 0, None, None))
    check(library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    check(getattr(library, f"nvrtcGet{target.upper()}Size")(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    check(getattr(library, f"nvrtcGet{target.upper()}")(program, code))
    check(library.nvrtcDestroyProgram(ctypes.byref(program)))
    return code.raw


def best(functions: dict[str, Callable[[], object]], repeat: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the shortest time of each function, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    gc.disable()
    for _ in range(repeat):
        for name, function in functions.items():
            start = clock()
            function()
            times[name].append(clock() - start)
    gc.enable()
    return {name: min(took) * 1e3 for name, took in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--malloc-defaults", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--repeat", type=int, default=100)
    arguments = parser.parse_args()
    if not arguments.malloc_defaults:
        libc = ctypes.CDLL(None)
        for parameter, value in KEEP_MEMORY.items():
            if not libc.mallopt(parameter, value):
                raise RuntimeError(f"mallopt({parameter}, {value})")
    options = ProgramOptions(arch="sm_90", no_cache=True)
    library = ctypes.CDLL(nvrtc.load().path)
    with ThreadPoolExecutor(1) as pool:
        for (title, text), target in itertools.product((("small", SMALL), ("larger", LARGER)), TARGETS):
            flags = options.as_bytes("NVRTC", target)
            serial = itertools.count()

            def source(text: str = text, serial: itertools.count[int] = serial) -> str:
                return text.format(next(serial))

            def bare(
                flags: list[bytes] = flags, target: CompileTargetName = target, source: Callable[[], str] = source
            ) -> bytes:
                return compile_bare(library, source().encode(), flags, target)

            def ours(target: CompileTargetName = target, source: Callable[[], str] = source) -> object:
                return Program(source(), "c++", options).compile(target)

            def on_thread(bare: Callable[[], bytes] = bare) -> bytes:
                return pool.submit(bare).result()

            functions: dict[str, Callable[[], object]] = {
                "NVRTC": bare,
                "NVRTC on another thread": on_thread,
                "cudacore": ours,
            }
            took = best(functions, arguments.repeat, time.process_time if arguments.cpu_time else time.perf_counter)
            ratio = took["cudacore"] / took["NVRTC"]
            print(f"{title} program to {target}: {', '.join(f'{name} {ms:.2f} ms' for name, ms in took.items())}")
            print(f"    cudacore / NVRTC: {ratio:.3f} (goal {GOAL}){'' if ratio <= GOAL else ' MISSED'}", flush=True)


if __name__ == "__main__":
    main()
