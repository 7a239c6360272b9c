# SPDX-License-Identifier: Apache-2.0
"""Run your own kernel on CuPy's arrays and stream."""

import sys

import cudacore as core

try:
    import cupy
except ImportError:
    sys.exit("skipped: this needs CuPy")
if not cupy.cuda.is_available():
    sys.exit("skipped: this needs CuPy with a GPU that it can use")

SOURCE = r"""
extern "C" __global__ void blend(const float *a, const float *b, float *out, float part,
                                 unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = part * a[i] + (1.0f - part) * b[i];
}
"""

device = core.Device(cupy.cuda.Device().id)
device.set_current()  # CuPy's context is the device's primary one, too
kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("blend")

with cupy.cuda.Stream(non_blocking=True) as theirs:
    a, b = cupy.random.random((2, 10_000), dtype=cupy.float32)
    out = cupy.empty_like(a)
    stream = core.Stream.from_handle(theirs.ptr)  # borrowed: CuPy still owns it
    config = core.LaunchConfig(grid=(a.size + 255) // 256, block=256)
    core.launch(stream, config, kernel, a, b, out, 0.25, a.size)
    print("all values are right:", bool(cupy.allclose(out, 0.25 * a + 0.75 * b)))
