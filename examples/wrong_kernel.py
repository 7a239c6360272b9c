# SPDX-License-Identifier: Apache-2.0
"""Find the defect of a kernel that a GPU might run without an error."""

import cudacore_sim

# Call this before any code loads a driver, or set CUDACORE_DRIVER=sim.
cudacore_sim.load()

import cudacore as core  # noqa: E402

# Some threads of the last block write beyond the end, because `if (i < n)` is missing.
SOURCE = r"""
extern "C" __global__ void fill(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    values[i] = n;
}
"""

device = core.Device()
device.set_current()
stream = device.create_stream()
options = core.ProgramOptions(lineinfo=True, name="fill.cu")
kernel = core.Program(SOURCE, "c++", options).compile("ptx").get_kernel("fill")

n = 1000
values = device.allocate(4 * n, stream=stream)
config = core.LaunchConfig(grid=(n + 255) // 256, block=256)
core.launch(stream, config, kernel, values, n)
try:
    stream.sync()
except core.CUDAError as error:
    print(f"{error.code_name}:")
    print(*cudacore_sim.reports(), sep="\n")
cudacore_sim.clear_errors()  # not possible on a GPU: the context would be lost
