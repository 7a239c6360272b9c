# SPDX-License-Identifier: Apache-2.0
"""Complete programs like the examples of ``cuda.core``. Only the import differs."""

from __future__ import annotations

import numpy as np
import pytest

import cudacore as core

VECTOR_ADD = """
template <typename T>
__global__ void vector_add(const T *a, const T *b, T *sum, size_t n) {
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        sum[i] = a[i] + b[i];
}
"""

SAXPY = """
template <typename T>
__global__ void saxpy(T alpha, const T *x, const T *y, T *out, size_t n) {
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = alpha * x[i] + y[i];
}
"""

REDUCE = """
template <typename T, int BLOCK>
__global__ void block_sum(const T *in, T *out, int n) {
    __shared__ T partial[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    partial[threadIdx.x] = i < n ? in[i] : T(0);
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = partial[0];
}
"""


def options(device: core.Device) -> core.ProgramOptions:
    return core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}")


def pinned_array(count: int, dtype: type) -> tuple[core.Buffer, np.ndarray]:
    """Allocate pinned host memory; return it as a buffer, and as an array of the same bytes."""
    buffer = core.LegacyPinnedMemoryResource().allocate(count * np.dtype(dtype).itemsize)
    return buffer, np.asarray(buffer).view(dtype)


def to_device(values: np.ndarray, device: core.Device, stream: core.Stream) -> core.Buffer:
    """Copy an array to the device by way of pinned memory."""
    staging, array = pinned_array(values.size, values.dtype.type)
    array[:] = values
    buffer = device.allocate(values.nbytes, stream=stream)
    buffer.copy_from(staging, stream=stream)
    stream.sync()
    return buffer


def to_host(buffer: core.Buffer, dtype: type, stream: core.Stream) -> np.ndarray:
    """Copy a buffer to an array by way of pinned memory, after all work of the stream."""
    staging, array = pinned_array(buffer.size // np.dtype(dtype).itemsize, dtype)
    buffer.copy_to(staging, stream=stream)
    stream.sync()
    return array.copy()


def test_vector_add(device: core.Device, target: str) -> None:
    """The first program of a user of ``cuda.core`` would not run."""
    stream = device.create_stream()
    program = core.Program(VECTOR_ADD, code_type="c++", options=options(device))
    module = program.compile(target, name_expressions=("vector_add<float>",))
    kernel = module.get_kernel("vector_add<float>")

    n = 50_000
    rng = np.random.default_rng(7)
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)
    a_d, b_d = to_device(a, device, stream), to_device(b, device, stream)
    sum_d = device.allocate(a.nbytes, stream=stream)

    block = 256
    config = core.LaunchConfig(grid=(n + block - 1) // block, block=block)
    core.launch(stream, config, kernel, a_d, b_d, sum_d, np.uint64(n))

    np.testing.assert_array_equal(to_host(sum_d, np.float32, stream), a + b)


@pytest.mark.parametrize(("ctype", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_saxpy(device: core.Device, target: str, ctype: str, dtype: type) -> None:
    """A Python float would not be converted to the type of a template's parameter."""
    stream = device.create_stream()
    program = core.Program(SAXPY, code_type="c++", options=options(device))
    module = program.compile(target, name_expressions=("saxpy<float>", "saxpy<double>"))
    kernel = module.get_kernel(f"saxpy<{ctype}>")

    n, alpha = 4096, 2.5
    x, y = np.arange(n, dtype=dtype), np.arange(n, dtype=dtype) / 4
    x_d, y_d = to_device(x, device, stream), to_device(y, device, stream)
    out_d = device.allocate(x.nbytes, stream=stream)

    core.launch(stream, core.LaunchConfig(grid=n // 32, block=32), kernel, alpha, x_d, y_d, out_d, n)

    np.testing.assert_array_equal(to_host(out_d, dtype, stream), alpha * x + y)


def test_templated_kernels(device: core.Device, target: str) -> None:
    """Several instances of one template would be mixed up, or found only under their mangled names."""
    stream = device.create_stream()
    instances = {
        "block_sum<int, 64>": (np.int32, 64),
        "block_sum<long long, 128>": (np.int64, 128),
        "block_sum<float, 256>": (np.float32, 256),
    }
    program = core.Program(REDUCE, code_type="c++", options=options(device))
    module = program.compile(target, name_expressions=tuple(instances))
    assert set(module.symbol_mapping) == set(instances)

    n = 1000
    for name, (dtype, block) in instances.items():
        values = np.arange(n, dtype=dtype)
        grid = (n + block - 1) // block
        in_d = to_device(values, device, stream)
        out_d = device.allocate(grid * values.itemsize, stream=stream)
        core.launch(stream, core.LaunchConfig(grid=grid, block=block), module.get_kernel(name), in_d, out_d, n)
        expected = np.add.reduceat(values, np.arange(0, n, block))
        np.testing.assert_array_equal(to_host(out_d, dtype, stream), expected, err_msg=name)


def test_timed_by_events(device: core.Device, target: str) -> None:
    """The usual way to time a kernel would not work."""
    stream = device.create_stream()
    module = core.Program(SAXPY, code_type="c++", options=options(device)).compile(
        target, name_expressions=("saxpy<float>",)
    )
    n = 1 << 16
    x_d = to_device(np.arange(n, dtype=np.float32), device, stream)
    timing = core.EventOptions(timing_enabled=True)
    config = core.LaunchConfig(grid=n // 256, block=256)
    start = stream.record(options=timing)
    core.launch(stream, config, module.get_kernel("saxpy<float>"), 1.0, x_d, x_d, x_d, n)
    end = stream.record(options=timing)
    end.sync()
    assert 0.0 < end - start < 10_000.0
