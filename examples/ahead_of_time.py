# SPDX-License-Identifier: Apache-2.0
"""Compile for many GPUs on a machine without a GPU or a driver.

``python ahead_of_time.py build`` makes a file, ``python ahead_of_time.py run`` uses it,
without a compiler.
"""

import sys
from pathlib import Path

import numpy as np

FILE = Path("scale.fatbin")
SOURCE = r"""
extern "C" __global__ void scale(float *values, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] *= factor;
}
"""


def build() -> None:
    """Compile for three generations of GPUs, and to PTX for future ones."""
    from cudacore_compile import CompileJob, ProgramOptions, compile_many, make_fatbin

    architectures = ("sm_80", "sm_90", "sm_120")
    jobs = [CompileJob(SOURCE, ProgramOptions(arch=arch)) for arch in architectures]
    jobs.append(CompileJob(SOURCE, ProgramOptions(arch="compute_80"), "ptx"))
    FILE.write_bytes(make_fatbin(compile_many(jobs)).code)
    print(f"built {FILE}")


def run() -> None:
    """Load the code for the device."""
    import cudacore_handles as ch

    device = ch.Device()
    device.set_current()
    stream = device.create_stream()
    kernel = ch.ObjectCode.from_fatbin(str(FILE)).get_kernel("scale")
    values = np.arange(5, dtype=np.float32)
    there = device.allocate(values.nbytes, stream=stream)
    there.copy_from(values, stream=stream)
    # Machine code does not record which parameters are floating-point numbers, so their
    # types are stated here.
    factor = np.float32(10)
    config = ch.LaunchConfig(grid=1, block=32)
    ch.launch(stream, config, kernel, there, factor, values.size)
    there.copy_to(values, stream=stream)
    print("scaled:", values)


for step in sys.argv[1:] or ["build", "run"]:
    {"build": build, "run": run}[step]()
