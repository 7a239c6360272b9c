# SPDX-License-Identifier: Apache-2.0
"""A program that uses cuda.core: saxpy in single and double precision, timed by events."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = """
template <typename T>
__global__ void saxpy(const T a, const T *x, const T *y, T *out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}
"""
N = 10_000

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++11", arch=f"sm_{device.arch}")
program = Program(SOURCE, code_type="c++", options=options)
module = program.compile("ptx", name_expressions=("saxpy<float>", "saxpy<double>"))
timing = EventOptions(timing_enabled=True)

for name, dtype in (("saxpy<float>", np.float32), ("saxpy<double>", np.float64)):
    size = N * np.dtype(dtype).itemsize
    buffers = [LegacyPinnedMemoryResource().allocate(size, stream=stream) for _ in range(3)]
    x, y, out = (np.from_dlpack(buffer).view(dtype) for buffer in buffers)
    x[:], y[:] = np.arange(N) % 100, 1
    start = stream.record(options=timing)
    launch(
        stream, LaunchConfig(grid=(N + 63) // 64, block=64), module.get_kernel(name), dtype(10), *buffers, np.uint64(N)
    )
    end = stream.record(options=timing)
    stream.sync()
    assert end - start > 0
    np.testing.assert_array_equal(out, 10 * x + y)
    for buffer in buffers:
        buffer.close()
print("right")
