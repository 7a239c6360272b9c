# SPDX-License-Identifier: Apache-2.0
"""Four parts of some data are copied to the device, processed, and copied back, with a stream for each step."""

import cudacore as core

SOURCE = """
extern "C" __global__ void relax(float *x, int turns) {
    float *mine = x + blockIdx.x * blockDim.x + threadIdx.x;
    for (int turn = 0; turn < turns; turn++) *mine = 0.5f * *mine + 1.0f;
}"""
BYTES = 16 << 20

device = core.Device()
device.set_current()
up, work, down = (device.create_stream() for _ in range(3))
kernel = core.Program(SOURCE, "c++").compile("ptx").get_kernel("relax")
config = core.LaunchConfig(grid=64, block=128)
pinned = core.LegacyPinnedMemoryResource()
parts = [(pinned.allocate(BYTES), device.allocate(BYTES, stream=up)) for _ in range(4)]
for host, memory in parts:
    memory.copy_from(host, stream=up)
    work.wait(up)
    core.launch(work, config, kernel, memory, 400)
    down.wait(work)
    memory.copy_to(host, stream=down)
down.sync()
for host, memory in parts:
    memory.close(down)
    host.close()
