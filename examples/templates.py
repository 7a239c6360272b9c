# SPDX-License-Identifier: Apache-2.0
"""Compile a template for several types, and call each instance by its C++ name."""

import numpy as np

import cudacore as core

SOURCE = r"""
template <typename T, int BLOCK>
__global__ void sum(const T *values, T *total, int n) {
    __shared__ T partial[BLOCK];
    T mine = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK)
        mine += values[i];
    partial[threadIdx.x] = mine;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        *total = partial[0];
}
"""
INSTANCES = {
    "sum<float, 128>": np.float32,
    "sum<double, 128>": np.float64,
    "sum<long long, 128>": np.int64,
}

device = core.Device()
device.set_current()
stream = device.create_stream()
program = core.Program(SOURCE, "c++", core.ProgramOptions(std="c++17"))
module = program.compile("cubin", name_expressions=tuple(INSTANCES))
config = core.LaunchConfig(grid=1, block=128)

for name, dtype in INSTANCES.items():
    values = np.arange(1000, dtype=dtype)
    there = device.allocate(values.nbytes, stream=stream)
    there.copy_from(values, stream=stream)
    total = np.zeros(1, dtype)
    total_there = device.allocate(total.nbytes, stream=stream)
    core.launch(
        stream, config, module.get_kernel(name), there, total_there, values.size
    )
    total_there.copy_to(total, stream=stream)
    print(f"{name}: {total[0]:.0f}   ({module.symbol_mapping[name]})")
