# SPDX-License-Identifier: Apache-2.0
"""``a * x + y`` on a GPU."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
from cudacore import Device, Kernel, LaunchConfig, OutOfMemoryError, Program, ProgramOptions, launch

BLOCK = 256
SOURCE = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""


@functools.cache
def kernel() -> Kernel:
    """Return the kernel, compiled at the first call and kept."""
    # PTX, not a cubin: it also runs on GPUs that are newer than this program. The simulator runs both.
    # With a name and lineinfo, reports of the simulator have the line of the source.
    options = ProgramOptions(name="saxpy.cu", lineinfo=True)
    program = Program(SOURCE, "c++", options)
    return program.compile("ptx").get_kernel("saxpy")


def saxpy(a: float, x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return ``a * x + y``, computed on the GPU, or on the host if the GPU has no memory left."""
    x, y = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32)
    device = Device()
    device.set_current()
    try:
        return _on_gpu(device, a, x, y)
    except OutOfMemoryError:
        return np.float32(a) * x + y


def _on_gpu(
    device: Device, a: float, x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    result = np.empty_like(y)
    stream = device.create_stream()
    with device.allocate(x.nbytes, stream=stream) as gpu_x, device.allocate(y.nbytes, stream=stream) as gpu_y:
        gpu_x.copy_from(x, stream=stream)
        gpu_y.copy_from(y, stream=stream)
        config = LaunchConfig(grid=(x.size + BLOCK - 1) // BLOCK, block=BLOCK)
        launch(stream, config, kernel(), a, gpu_x, gpu_y, x.size)
        gpu_y.copy_to(result, stream=stream)  # waits for the stream
    return result
