# SPDX-License-Identifier: Apache-2.0
"""Programs of Halide, compiled for CUDA when they run."""

from __future__ import annotations

from typing import Any

import cases
import halide as hl
import numpy as np

x, y, xi, yi, c = (hl.Var(name) for name in ("x", "y", "xi", "yi", "c"))
random = np.random.default_rng(7)
target = hl.get_host_target().with_feature(hl.TargetFeature.CUDA).with_feature(hl.TargetFeature.CUDACapability80)


def result(function: Any, kind: Any, *shape: int) -> Any:
    """Run a function on the device, and return its values as an array of NumPy."""
    function.compile_jit(target)
    out = hl.Buffer(kind, list(shape))
    function.realize(out, target)
    out.copy_to_host()
    return np.array(out, copy=True)


def brighten() -> None:
    image = random.integers(0, 256, (60, 70)).astype(np.uint8)
    brighter = hl.Func("brighter")
    brighter[x, y] = hl.u8(hl.min(hl.u16(hl.Buffer(image)[x, y]) + 50, 255))
    brighter.gpu_tile(x, y, xi, yi, 16, 8)
    np.testing.assert_array_equal(result(brighter, hl.UInt(8), 70, 60), np.minimum(image + 50.0, 255))


def blur_in_shared_memory() -> None:
    image = random.random((64, 64)).astype(np.float32)
    padded = hl.BoundaryConditions.repeat_edge(hl.Buffer(image))
    across, down = hl.Func("across"), hl.Func("down")
    across[x, y] = padded[x - 1, y] + padded[x, y] + padded[x + 1, y]
    down[x, y] = across[x, y - 1] + across[x, y] + across[x, y + 1]
    down.gpu_tile(x, y, xi, yi, 16, 16)
    across.compute_at(down, x).gpu_threads(x, y)
    edge = np.pad(image, 1, mode="edge")
    sums = edge[:, :-2] + edge[:, 1:-1] + edge[:, 2:]
    np.testing.assert_allclose(result(down, hl.Float(32), 64, 64), sums[:-2] + sums[1:-1] + sums[2:], rtol=1e-5)


def matmul() -> None:
    a, b = random.random((64, 48)).astype(np.float32), random.random((48, 32)).astype(np.float32)
    left, right, k = hl.Buffer(a), hl.Buffer(b), hl.RDom([(0, 48)])
    product = hl.Func("product")
    product[x, y] = hl.f32(0)
    product[x, y] += left[k, y] * right[x, k]
    product.gpu_tile(x, y, xi, yi, 8, 8).update().gpu_tile(x, y, xi, yi, 8, 8)
    np.testing.assert_allclose(result(product, hl.Float(32), 32, 64), a @ b, rtol=1e-5)


def histogram_by_atomics() -> None:
    values = random.integers(0, 16, 1000).astype(np.int32)
    r = hl.RDom([(0, 1000)])
    histogram = hl.Func("histogram")
    histogram[x] = 0
    histogram[hl.clamp(hl.Buffer(values)[r], 0, 15)] += 1
    block, thread = hl.RVar("block"), hl.RVar("thread")
    histogram.compute_root().gpu_tile(x, xi, 16)
    histogram.update().atomic().split(r, block, thread, 100).gpu_blocks(block).gpu_threads(thread)
    np.testing.assert_array_equal(result(histogram, hl.Int(32), 16), np.bincount(values, minlength=16))


def functions_of_libdevice() -> None:
    values = random.random(256).astype(np.float32)
    image = hl.Buffer(values)
    function = hl.Func("function")
    function[x] = hl.sin(image[x]) + hl.exp(image[x]) * hl.pow(image[x], 1.5) + hl.atan2(image[x], 2.0)
    function.gpu_tile(x, xi, 64)
    expected = np.sin(values) + np.exp(values) * values**1.5 + np.arctan2(values, 2)
    np.testing.assert_allclose(result(function, hl.Float(32), 256), expected, rtol=1e-5)


def half_precision() -> None:
    values = random.random(256).astype(np.float16)
    doubled = hl.Func("doubled")
    doubled[x] = hl.Buffer(values)[x] * hl.cast(hl.Float(16), 2)
    doubled.gpu_tile(x, xi, 64)
    np.testing.assert_array_equal(result(doubled, hl.Float(16), 256), 2 * values)


def several_kernels() -> None:
    values = random.random(256).astype(np.float32)
    first, second = hl.Func("first"), hl.Func("second")
    first[x] = hl.Buffer(values)[x] * 2
    second[x] = first[255 - x] + 1
    first.compute_root().gpu_tile(x, xi, 32)
    second.gpu_tile(x, xi, 32)
    np.testing.assert_allclose(result(second, hl.Float(32), 256), 2 * values[::-1] + 1, rtol=1e-6)


ALL = (
    brighten, blur_in_shared_memory, matmul, histogram_by_atomics, functions_of_libdevice, half_precision,
    several_kernels,
)  # fmt: skip
cases.run({case.__name__: case for case in ALL}, {})
