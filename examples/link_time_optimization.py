# SPDX-License-Identifier: Apache-2.0
"""Link a kernel with a function that is chosen later, and optimize them together."""

import numpy as np

import cudacore as core

KERNEL = r"""
extern __device__ float f(float x);

extern "C" __global__ void map(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = f(values[i]);
}
"""
FUNCTIONS = {
    "square": "__device__ float f(float x) { return x * x; }",
    "negate": "__device__ float f(float x) { return -x; }",
}

device = core.Device()
device.set_current()
stream = device.create_stream()
arch = f"sm_{device.arch}"


def to_ltoir(source: str) -> core.ObjectCode:
    """Compile to LTO-IR, from which the linker generates code."""
    options = core.ProgramOptions(arch=arch, link_time_optimization=True)
    return core.Program(source, "c++", options).compile("ltoir")


kernel_code = to_ltoir(KERNEL)  # once
values = np.arange(5, dtype=np.float32)
config = core.LaunchConfig(grid=1, block=32)
there = device.allocate(values.nbytes, stream=stream)
for name, source in FUNCTIONS.items():
    options = core.LinkerOptions(arch=arch, link_time_optimization=True)
    code = core.Linker(kernel_code, to_ltoir(source), options=options).link("cubin")
    there.copy_from(values, stream=stream)
    core.launch(stream, config, code.get_kernel("map"), there, values.size)
    result = np.empty_like(values)
    there.copy_to(result, stream=stream)
    print(f"{name}: {result}")
