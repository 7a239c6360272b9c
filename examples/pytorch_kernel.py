# SPDX-License-Identifier: Apache-2.0
"""Run your own kernel on PyTorch's tensors and stream."""

import sys

import cudacore as core

try:
    import torch
except ImportError:
    sys.exit("skipped: this needs PyTorch")
if not torch.cuda.is_available():
    sys.exit("skipped: this needs PyTorch with a GPU that it can use")

SOURCE = r"""
template <typename T>
__global__ void softsign(const T *x, T *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] / (T(1) + (x[i] < T(0) ? -x[i] : x[i]));
}
"""
NAMES = {torch.float32: "softsign<float>", torch.float64: "softsign<double>"}

device = core.Device(torch.cuda.current_device())
device.set_current()  # PyTorch's context is the device's primary one, too
program = core.Program(SOURCE, "c++")
module = program.compile("cubin", name_expressions=tuple(NAMES.values()))


class PyTorchStream:
    """PyTorch's current stream, as an object with ``__cuda_stream__``."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, torch.cuda.current_stream().cuda_stream


def softsign(x: torch.Tensor) -> torch.Tensor:
    """Compute x / (1 + |x|), in the order of PyTorch's current stream."""
    x = x.contiguous()
    y = torch.empty_like(x)
    config = core.LaunchConfig(grid=(x.numel() + 255) // 256, block=256)
    core.launch(
        PyTorchStream(), config, module.get_kernel(NAMES[x.dtype]), x, y, x.numel()
    )
    return y


x = torch.linspace(-3, 3, 10_001, device="cuda")
for dtype in NAMES:
    values = x.to(dtype)
    right = torch.allclose(softsign(values), torch.nn.functional.softsign(values))
    print(f"{dtype}: all values are right: {right}")
