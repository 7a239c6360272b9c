# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="untyped-decorator"
"""Programs of Taichi. Its kernels cannot be in a module with ``from __future__ import annotations``."""

from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import taichi as ti

COUNT = 1000
random = np.random.default_rng(7)


def begin(**options: Any) -> None:
    ti.init(arch=ti.cuda, log_level=ti.ERROR, offline_cache=False, device_memory_GB=0.25, **options)
    assert ti.cfg.arch == ti.cuda  # Taichi falls back to the processor if the driver does not start


def fields() -> None:
    x = ti.field(ti.f32, shape=COUNT)

    @ti.kernel
    def fill():  # type: ignore[no-untyped-def]
        for i in x:
            x[i] = i * 0.5

    fill()
    np.testing.assert_array_equal(x.to_numpy(), np.arange(COUNT, dtype=np.float32) / 2)


def sums() -> None:
    x = ti.field(ti.i32, shape=COUNT)
    x.from_numpy(np.arange(COUNT, dtype=np.int32))

    @ti.kernel
    def total() -> ti.i32:
        result = 0
        for i in x:
            result += x[i]
        return result

    assert total() == COUNT * (COUNT - 1) // 2


def atomics() -> None:
    counts = ti.field(ti.i32, shape=16)
    largest = ti.field(ti.f32, shape=())

    @ti.kernel
    def count(x: ti.types.ndarray()):  # type: ignore[no-untyped-def, valid-type]
        for i in range(x.shape[0]):
            ti.atomic_add(counts[x[i] % 16], 1)
            ti.atomic_max(largest[None], float(x[i]))

    values = random.integers(1, 999, COUNT).astype(np.int32)
    count(values)
    np.testing.assert_array_equal(counts.to_numpy(), np.bincount(values % 16, minlength=16))
    assert largest[None] == values.max()


def arrays() -> None:
    x, y = ti.ndarray(ti.f64, shape=(30, 20)), ti.ndarray(ti.f64, shape=(20, 30))

    @ti.kernel
    def transpose(x: ti.types.ndarray(), y: ti.types.ndarray()):  # type: ignore[no-untyped-def, valid-type]
        for i, j in x:
            y[j, i] = x[i, j]

    values = random.random((30, 20))
    x.from_numpy(values)
    transpose(x, y)
    np.testing.assert_array_equal(y.to_numpy(), values.T)


def matrices() -> None:
    x = ti.Matrix.field(3, 3, ti.f32, shape=50)
    inverse = ti.Matrix.field(3, 3, ti.f32, shape=50)

    @ti.kernel
    def invert():  # type: ignore[no-untyped-def]
        for i in x:
            inverse[i] = x[i].inverse()

    values = random.random((50, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
    x.from_numpy(values)
    invert()
    np.testing.assert_allclose(inverse.to_numpy(), np.linalg.inv(values), rtol=1e-3, atol=1e-4)


def sparse() -> None:
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.i, 16)
    block.bitmasked(ti.i, 16).place(x)

    @ti.kernel
    def activate():  # type: ignore[no-untyped-def]
        for i in range(16):
            x[i * i % 256] = i + 1

    @ti.kernel
    def count() -> ti.i32:
        result = 0
        for _ in x:
            result += 1
        return result

    activate()
    assert count() == len({i * i % 256 for i in range(16)})


def lists() -> None:
    x = ti.field(ti.i32)
    row = ti.root.dense(ti.i, 8)
    row.dynamic(ti.j, 64, chunk_size=8).place(x)

    @ti.kernel
    def append():  # type: ignore[no-untyped-def]
        for i in range(8):
            for j in range(i * 3):
                x[i].append(j)

    @ti.kernel
    def length(i: ti.i32) -> ti.i32:
        return x[i].length()

    append()
    assert [length(i) for i in range(8)] == [3 * i for i in range(8)]


def shared_memory() -> None:
    @ti.kernel
    def reverse(x: ti.types.ndarray(), y: ti.types.ndarray()):  # type: ignore[no-untyped-def, valid-type]
        ti.loop_config(block_dim=64)
        for i in range(256):
            part = ti.simt.block.SharedArray((64,), ti.f32)
            part[i % 64] = x[i]
            ti.simt.block.sync()
            y[i] = part[63 - i % 64]

    x, y = random.random(256).astype(np.float32), np.zeros(256, np.float32)
    reverse(x, y)
    np.testing.assert_array_equal(y, x.reshape(4, 64)[:, ::-1].ravel())


def warps() -> None:
    @ti.kernel
    def shift(x: ti.types.ndarray(), y: ti.types.ndarray()):  # type: ignore[no-untyped-def, valid-type]
        ti.loop_config(block_dim=32)
        for i in range(32):
            y[i] = ti.simt.warp.shfl_down_i32(ti.u32(0xFFFFFFFF), x[i], 1)

    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    shift(x, y)
    np.testing.assert_array_equal(y[:31], x[1:])


def gradients() -> None:
    x, loss = ti.field(ti.f32, shape=COUNT, needs_grad=True), ti.field(ti.f32, shape=(), needs_grad=True)

    @ti.kernel
    def squares():  # type: ignore[no-untyped-def]
        for i in x:
            loss[None] += x[i] ** 2

    values = random.random(COUNT).astype(np.float32)
    x.from_numpy(values)
    with ti.ad.Tape(loss):
        squares()
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * values, rtol=1e-5)


def sorting() -> None:
    keys = ti.field(ti.i32, shape=COUNT)
    values = random.integers(0, 9999, COUNT).astype(np.int32)
    keys.from_numpy(values)
    ti.algorithms.parallel_sort(keys)
    np.testing.assert_array_equal(keys.to_numpy(), np.sort(values))


def scans() -> None:
    x = ti.field(ti.i32, shape=COUNT)
    values = random.integers(0, 99, COUNT).astype(np.int32)
    x.from_numpy(values)
    ti.algorithms.PrefixSumExecutor(COUNT).run(x)
    np.testing.assert_array_equal(x.to_numpy(), np.cumsum(values))


def random_numbers() -> None:
    x = ti.field(ti.f32, shape=COUNT)

    @ti.kernel
    def fill():  # type: ignore[no-untyped-def]
        for i in x:
            x[i] = ti.random()

    fill()
    assert 0.4 < x.to_numpy().mean() < 0.6


def structures() -> None:
    particle = ti.types.struct(position=ti.math.vec3, mass=ti.f32)
    particles = particle.field(shape=100)

    @ti.kernel
    def move():  # type: ignore[no-untyped-def]
        for i in particles:
            particles[i].position = ti.math.vec3(i, 2 * i, 3 * i)
            particles[i].mass = particles[i].position.norm()

    move()
    np.testing.assert_allclose(particles.mass.to_numpy(), np.arange(100) * np.sqrt(14), rtol=1e-5)


def printing() -> None:
    @ti.kernel
    def say():  # type: ignore[no-untyped-def]
        for i in range(3):
            print("value", i, i * 0.5)

    say()
    ti.sync()


def assertions() -> None:
    begin(debug=True)
    x = ti.field(ti.f32, shape=10)

    @ti.kernel
    def outside(i: ti.i32):  # type: ignore[no-untyped-def]
        x[i] = 1

    outside(3)
    message = ""
    try:
        outside(11)
    except AssertionError as error:
        message = str(error)
    assert "Accessing field" in message


def profiler() -> None:
    begin(kernel_profiler=True)
    fields()
    assert ti.profiler.query_kernel_profiler_info("fill").counter == 1


ALL: list[Callable[[], None]] = [
    fields, sums, atomics, arrays, matrices, sparse, lists, shared_memory, warps, gradients,
    sorting, scans, random_numbers, structures, printing, assertions, profiler,
]  # fmt: skip


def after_begin(case: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        begin()
        case()

    return run


cases.run({case.__name__: after_begin(case) for case in ALL}, {})
