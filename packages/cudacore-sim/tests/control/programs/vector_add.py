# SPDX-License-Identifier: Apache-2.0
"""A program that uses cuda.core: adds two vectors, by an instance of a kernel template."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = """
template <typename T>
__global__ void vector_add(const T *a, const T *b, T *sum, size_t n) {
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        sum[i] = a[i] + b[i];
}
"""
N = 50_000

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
module = Program(SOURCE, code_type="c++", options=options).compile("ptx", name_expressions=("vector_add<float>",))
kernel = module.get_kernel("vector_add<float>")

pinned = LegacyPinnedMemoryResource()
hosts = [pinned.allocate(4 * N, stream=stream) for _ in range(3)]
a, b, total = (np.from_dlpack(host).view(np.float32) for host in hosts)
rng = np.random.default_rng(1)
a[:], b[:] = rng.random(N, np.float32), rng.random(N, np.float32)

buffers = [device.allocate(4 * N, stream=stream) for _ in range(3)]
for buffer, host in zip(buffers[:2], hosts[:2], strict=True):
    buffer.copy_from(host, stream=stream)
launch(stream, LaunchConfig(grid=(N + 255) // 256, block=256), kernel, *buffers, np.uint64(N))
buffers[2].copy_to(hosts[2], stream=stream)
stream.sync()

np.testing.assert_array_equal(total, a + b)
for thing in (*buffers, *hosts, stream):
    thing.close()
print("right")
