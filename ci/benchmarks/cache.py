# SPDX-License-Identifier: Apache-2.0
"""Measure a program cache: hits for a program with the headers of CUB and for one without, batches, and stores.

Run it with ``python cache.py``. Each time is the best of several. ``--include`` names the folder with CUDA's headers
and ``cccl``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cudacore_compile import (
    CompileJob,
    FileStreamProgramCache,
    Program,
    ProgramOptions,
    compile_many,
    cuda_include_path,
)
from cudacore_compile._cache import find_includes, inputs

KERNEL = '\nextern "C" __global__ void k(int *out) {{ *out = {}; }}'
# NVRTC cannot compile <cub/cub.cuh>, so it is in a branch that is not compiled. The cache still reads its headers.
CUB = "#include <cub/block/block_reduce.cuh>\n#if 0\n#include <cub/cub.cuh>\n#endif\n"
GOALS = {"first hit": 20.0, "hit": 5.0}


def best(function: Callable[[], object], prepare: Callable[[], object] = lambda: None, repeat: int = 15) -> float:
    """Return the shortest time of a call, in milliseconds."""
    times = []
    for _ in range(repeat):
        prepare()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def forget() -> None:
    """Clear what this process remembers about files, so that the next lookup begins as in a new process."""
    inputs._closures.clear()
    inputs._include_keys.clear()
    find_includes.FILES = find_includes.Files()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", default=None, nargs="*")
    include_path: list[str] = parser.parse_args().include or cuda_include_path()
    options = ProgramOptions(arch="sm_90", include_path=include_path)
    with tempfile.TemporaryDirectory() as folder:
        cache = FileStreamProgramCache(Path(folder) / "cache")
        for title, includes in (("no header", ""), ("CUB", CUB)):
            program = Program(includes + KERNEL.format(0), "c++", options)
            start = time.perf_counter()
            program.compile("ptx", cache=cache)
            print(f"{title}: miss with a search of all files {(time.perf_counter() - start) * 1e3:.0f} ms")
            for what, prepare in (("first hit", forget), ("hit", lambda: None)):
                took = best(lambda: program.compile("ptx", cache=cache), prepare)  # noqa: B023
                print(f"{title}: {what} {took:.2f} ms (goal {GOALS[what]:.0f})")
        jobs = [CompileJob(CUB + KERNEL.format(n), options, "ptx") for n in range(20)]
        compile_many(jobs, cache=cache, progress=False)
        for what, prepare in (("first batch", forget), ("batch", lambda: None)):
            took = best(lambda: compile_many(jobs, cache=cache, progress=False), prepare)
            print(f"CUB: {what} of 20 hits {took:.1f} ms")
        salt = iter(range(10**6))
        text = 'extern "C" __global__ void k(float *x) {{ *x = sqrtf(*x) / 3; }} // {}'
        bare = best(lambda: Program(text.format(next(salt)), "c++", options).compile("ptx"))
        kept = best(lambda: Program(text.format(next(salt)), "c++", options).compile("ptx", cache=cache))
        print(f"a small program: compiled {bare:.1f} ms, compiled and stored {kept:.1f} ms")


if __name__ == "__main__":
    main()
