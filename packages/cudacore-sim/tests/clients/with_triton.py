# SPDX-License-Identifier: Apache-2.0
"""Programs of Triton, without PyTorch: ``with_triton.py 9.0``, the compute capability of the simulated device."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

TARGET = sys.argv[1]
os.environ["CUDACORE_SIM_COMPUTE_CAPABILITY"] = TARGET  # before the driver is loaded
CACHE = tempfile.TemporaryDirectory()  # cubins that were compiled for a GPU have no PTX
os.environ["TRITON_CACHE_DIR"] = CACHE.name

import cases  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import triton  # noqa: E402
import triton_kernels as kernels  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from cudacore_sim import DeviceArray  # noqa: E402

to_device = DeviceArray.from_numpy
random = np.random.default_rng(7)
TILE = {"M": 64, "N": 64, "K": 32}


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return random.standard_normal(shape).astype(dtype)


def close(out: DeviceArray, expected: Any, *, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(out.numpy().astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def vector_add() -> None:
    x, y = numbers(1000), numbers(1000)
    out = DeviceArray(1000, np.float32)
    kernels.add[(4,)](to_device(x), to_device(y), out, 1000, BLOCK=256)
    np.testing.assert_array_equal(out.numpy(), x + y)


def fused_softmax() -> None:
    x = numbers(37, 200)
    out = DeviceArray(x.shape, np.float32)
    kernels.softmax[(8,)](to_device(x), out, 37, 200, 200, BLOCK=256)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    close(out, powers / powers.sum(axis=1, keepdims=True))


def dropout() -> None:
    x = numbers(1000)
    first, second, other = (DeviceArray(1000, np.float32) for _ in range(3))
    for out, seed in ((first, 1), (second, 1), (other, 2)):
        kernels.dropout[(4,)](to_device(x), out, 1000, 0.5, seed, BLOCK=256)
    kept = first.numpy() != 0
    assert 400 < kept.sum() < 600
    np.testing.assert_array_equal(first.numpy()[kept], 2 * x[kept])
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert (first.numpy() != other.numpy()).any()


def libdevice() -> None:
    x = random.uniform(-1, 1, 1000).astype(np.float32)
    out = DeviceArray(1000, np.float32)
    kernels.arc_sine[(4,)](to_device(x), out, 1000, BLOCK=256)
    close(out, np.arcsin(x))


def layer_norm() -> None:
    rows, columns, epsilon = 12, 200, 1e-5
    x, weight, bias, above = numbers(rows, columns), numbers(columns), numbers(columns), numbers(rows, columns)
    out, gradient = DeviceArray(x.shape, np.float32), DeviceArray(x.shape, np.float32)
    means, deviations = DeviceArray(rows, np.float32), DeviceArray(rows, np.float32)
    arrays = to_device(x), to_device(weight)
    kernels.layer_norm[(rows,)](*arrays, to_device(bias), out, means, deviations, columns, epsilon, BLOCK=256)
    inverse = 1 / np.sqrt(x.var(axis=1, keepdims=True) + epsilon)
    normal = (x - x.mean(axis=1, keepdims=True)) * inverse
    close(out, normal * weight + bias, tolerance=1e-4)
    total, lock = to_device(np.zeros(columns, np.float32)), to_device(np.zeros(1, np.int32))
    kernels.layer_norm_gradient[(rows,)](
        *arrays, to_device(above), means, deviations, gradient, total, lock, columns, BLOCK=256
    )
    weighted = above * weight
    along = (normal * weighted).mean(axis=1, keepdims=True)
    close(gradient, (weighted - normal * along - weighted.mean(axis=1, keepdims=True)) * inverse, tolerance=1e-4)
    close(total, (above * normal).sum(axis=0), tolerance=1e-4)


def product(kernel: Any, m: int, n: int, k: int, dtype: Any, grid: int | None = None, **options: Any) -> None:
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    c = DeviceArray((m, n), np.float16)
    tiles = triton.cdiv(m, TILE["M"]) * triton.cdiv(n, TILE["N"])
    kernel[(grid or tiles,)](to_device(a), to_device(b), c, m, n, k, **TILE, GROUP=4, **options)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if kernel is kernels.matmul:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    close(c, expected, tolerance=1e-2)


def matmul_tma(*, specialize: bool) -> None:
    a, b = numbers(128, 96, dtype=np.float16), numbers(192, 96, dtype=np.float16)
    c = DeviceArray((128, 192), np.float16)
    tiles = ((to_device(a), [64, 32]), (to_device(b), [64, 32]), (c, [64, 64]))
    descriptors = [TensorDescriptor.from_tensor(array, block) for array, block in tiles]
    kernels.matmul_tma[(4,)](*descriptors, 128, 192, 96, **TILE, SPECIALIZE=specialize)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T, tolerance=1e-2)


def grouped(*, tma: bool) -> None:
    def allocate(size: int, alignment: int, stream: int | None) -> DeviceArray:
        return DeviceArray(size, np.int8)

    triton.set_allocator(allocate)
    shapes = ((128, 64, 32), (64, 192, 96), (32, 64, 64))
    pairs = [(numbers(m, k, dtype=np.float16), numbers(k, n, dtype=np.float16)) for m, n, k in shapes]
    arrays = [(to_device(a), to_device(b), DeviceArray((len(a), b.shape[1]), np.float16)) for a, b in pairs]
    pointers = to_device(np.array([[each.data_ptr() for each in three] for three in arrays]))
    kernels.grouped[(3,)](pointers, to_device(np.array(shapes, np.int32)), len(shapes), **TILE, TMA=tma)
    for (a, b), (_, _, c) in zip(pairs, arrays, strict=True):
        close(c, a.astype(np.float64) @ b.astype(np.float64), tolerance=1e-2)


def attention() -> None:
    heads, length, width = 2, 128, 64
    q, k, v = (numbers(heads, length, width, dtype=np.float16) for _ in range(3))
    out = DeviceArray(q.shape, np.float16)
    kernels.attention[(length // 64, heads)](*map(to_device, (q, k, v)), out, 0.125, length, WIDTH=width, M=64, N=32)
    weights = np.where(np.tri(length), (q.astype(np.float64) @ k.transpose(0, 2, 1)) * 0.125, -np.inf)
    powers = np.exp(weights - weights.max(axis=2, keepdims=True))
    close(out, powers / powers.sum(axis=2, keepdims=True) @ v, tolerance=1e-2)


def block_scaled(form: str) -> None:
    m = n = k = 128
    kind = ml_dtypes.float8_e4m3fn if form == "e4m3" else ml_dtypes.float4_e2m1fn
    a, b = numbers(m, k).astype(kind), numbers(n, k).astype(kind)
    scales = [random.integers(124, 130, (size, k // 32)).astype(np.uint8) for size in (m, n)]
    codes = [array.view(np.uint8) for array in (a, b)]
    if form == "e2m1":  # two to a byte, the first one in the lower half
        codes = [(array[:, ::2] & 15) | (array[:, 1::2] << 4) for array in codes]
    out = DeviceArray((m, n), np.float32)
    left, right = to_device(codes[0]), to_device(codes[1])
    if form == "e4m3":
        left.dtype = right.dtype = np.dtype(kind)
    kernels.block_scaled[(1,)](left, to_device(scales[0]), right, to_device(scales[1]), out, M=m, N=n, K=k, FORMAT=form)
    factors = [np.repeat(2.0 ** (scale.astype(np.float64) - 127), 32, axis=1) for scale in scales]
    close(out, (a.astype(np.float64) * factors[0]) @ (b.astype(np.float64) * factors[1]).T, tolerance=1e-3)


def dependent_launch() -> None:
    x = numbers(1000)
    once, twice = DeviceArray(1000, np.float32), DeviceArray(1000, np.float32)
    kernels.add[(4,)](to_device(x), to_device(x), once, 1000, BLOCK=256)
    kernels.add_after[(4,)](once, once, twice, 1000, BLOCK=256, launch_pdl=True)
    np.testing.assert_array_equal(twice.numpy(), 4 * x)


def autotune() -> None:
    x = numbers(1000)
    out = DeviceArray(1000, np.float32)
    configs = [triton.Config({"BLOCK": size}) for size in (128, 256)]
    # Triton's own benchmark needs PyTorch, and times of the simulator say nothing.
    tuned = triton.autotune(configs, key=["count"], do_bench=lambda call, quantiles: [0.0] * 3)(kernels.add)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](to_device(x), to_device(x), out, 1000)
    np.testing.assert_array_equal(out.numpy(), 2 * x)


def language() -> None:
    x = random.integers(0, 1000, 256).astype(np.int32)
    in_order, scanned, swapped = (DeviceArray(256, np.int32) for _ in range(3))
    counts, largest = to_device(np.zeros(16, np.int32)), to_device(np.zeros(1, np.int32))
    kernels.language[(1,)](to_device(x), in_order, scanned, counts, largest, swapped, BLOCK=256, debug=True)
    np.testing.assert_array_equal(in_order.numpy(), np.sort(x))
    np.testing.assert_array_equal(scanned.numpy(), np.cumsum(x))
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x % 16, minlength=16))
    assert largest.numpy()[0] == x.max()
    np.testing.assert_array_equal(swapped.numpy(), x.reshape(-1, 2)[:, ::-1].ravel())


def prints() -> None:
    out = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            kernels.prints[(1,)](to_device(np.arange(32, dtype=np.int32)), BLOCK=32, num_warps=1)
            to_device(0).numpy()  # waits, so that the driver prints
        finally:
            os.dup2(out, 1)
            os.close(out)
        file.seek(0)
        assert b"value: 31" in file.read()


def example_of_the_documentation() -> None:
    example = Path(__file__).resolve().parents[4] / "docs" / "examples" / "triton-ci"
    plain = {name: value for name, value in os.environ.items() if name not in {"LD_PRELOAD", "CUDACORE_DRIVER"}}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(command, cwd=example, env=plain, check=False).returncode == 0


CASES = {
    "vector add": vector_add,
    "fused softmax": fused_softmax,
    "matmul": lambda: product(kernels.matmul, 130, 150, 70, np.float16),
    "matmul, bfloat16": lambda: product(kernels.matmul, 64, 64, 64, ml_dtypes.bfloat16),
    "matmul, float32": lambda: product(kernels.matmul, 64, 64, 64, np.float32),
    "matmul, 8-bit floats": lambda: product(kernels.matmul, 128, 64, 64, ml_dtypes.float8_e5m2),
    "matmul, clusters of blocks": lambda: product(kernels.matmul, 128, 128, 64, np.float16, num_ctas=2),
    "dropout": dropout,
    "layer norm": layer_norm,
    "attention": attention,
    "libdevice": libdevice,
    "grouped GEMM": lambda: grouped(tma=False),
    "grouped GEMM, TMA": lambda: grouped(tma=True),
    "persistent matmul": lambda: product(kernels.matmul_persistent, 130, 150, 70, np.float16, grid=3),
    "persistent matmul, TMA": lambda: matmul_tma(specialize=False),
    "persistent matmul, TMA and specialized warps": lambda: matmul_tma(specialize=True),
    "block-scaled matmul, 8-bit floats": lambda: block_scaled("e4m3"),
    "block-scaled matmul, 4-bit floats": lambda: block_scaled("e2m1"),
    "programmatic dependent launch": dependent_launch,
    "autotune": autotune,
    "sort, scan, atomics, gather, assert": language,
    "device_print": prints,
    "example of the documentation": example_of_the_documentation,
}
# What Triton itself refuses for compute capability 8.0.
NEEDS_9_0 = {"matmul, clusters of blocks", "block-scaled matmul, 8-bit floats", "programmatic dependent launch"}
warnings.simplefilter("ignore")
cases.run({name: case for name, case in CASES.items() if TARGET != "8.0" or name not in NEEDS_9_0}, {})
