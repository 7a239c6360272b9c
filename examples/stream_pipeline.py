# SPDX-License-Identifier: Apache-2.0
"""Copy, compute and copy back in parts, on three streams, so that the steps overlap."""

import numpy as np

import cudacore as core

SOURCE = r"""
extern "C" __global__ void relax(float *x, int turns) {
    float *mine = x + blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    for (int turn = 0; turn < turns; turn++)
        *mine = 0.5f * *mine + 1.0f;
}
"""
PARTS, BLOCKS, TURNS = 4, 64, 50
TIMING = core.EventOptions(timing_enabled=True)

device = core.Device()
device.set_current()
kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("relax")
config = core.LaunchConfig(grid=BLOCKS, block=256)

# Asynchronous copies need pinned memory.
size = 4 * 256 * BLOCKS
pinned = core.LegacyPinnedMemoryResource()
parts = [pinned.allocate(size) for _ in range(PARTS)]
arrays = [np.asarray(part).view(np.float32) for part in parts]


def run(up: core.Stream, work: core.Stream, down: core.Stream) -> float:
    """Do the steps of all parts on streams; return the time in milliseconds."""
    for array in arrays:
        array[:] = 100
    memory = [device.allocate(size, stream=up) for _ in parts]
    begin = up.record(options=TIMING)
    for host, there in zip(parts, memory, strict=True):
        there.copy_from(host, stream=up)
        work.wait(up)
        core.launch(work, config, kernel, there, TURNS)
        down.wait(work)
        there.copy_to(host, stream=down)
    end = down.record(options=TIMING)
    end.sync()
    return end - begin


one = device.create_stream()
three = [device.create_stream() for _ in range(3)]
run(one, one, one)  # the first run loads the code
print(f"one stream: {run(one, one, one):.3f} ms")
print(f"three streams: {run(*three):.3f} ms")
print("all values are right:", all(np.allclose(array, 2) for array in arrays))
