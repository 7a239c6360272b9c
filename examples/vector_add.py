# SPDX-License-Identifier: Apache-2.0
"""Add two vectors: compile, copy, launch, copy back."""

import numpy as np

import cudacore as core

SOURCE = r"""
extern "C" __global__ void add(const float *a, const float *b, float *sum, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}
"""

device = core.Device()
device.set_current()
stream = device.create_stream()
kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("add")

n = 100_000
rng = np.random.default_rng(1)
a, b = rng.random((2, n), dtype=np.float32)

a_there, b_there, sum_there = (
    device.allocate(a.nbytes, stream=stream) for _ in range(3)
)
a_there.copy_from(a, stream=stream)
b_there.copy_from(b, stream=stream)
config = core.LaunchConfig(grid=(n + 255) // 256, block=256)
core.launch(stream, config, kernel, a_there, b_there, sum_there, n)

result = np.empty_like(a)
sum_there.copy_to(result, stream=stream)  # waits for the stream
print("all sums are right:", np.array_equal(result, a + b))
