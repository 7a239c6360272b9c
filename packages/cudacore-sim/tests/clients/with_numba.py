# SPDX-License-Identifier: Apache-2.0
"""Programs of numba-cuda-mlir, whose wheels have no tests."""

from __future__ import annotations

import math
import warnings

import cases
import numpy as np
from numba_cuda_mlir import cuda

warnings.simplefilter("ignore")  # warnings about the performance of small kernels
numbers = np.arange(256, dtype=np.float32)


@cuda.jit
def reverse(x):  # type: ignore[no-untyped-def]
    part = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = part[63 - i]


@cuda.jit
def count(x, total):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < x.size and x[i] % 2 == 0:
        cuda.atomic.add(total, 0, 1)


@cuda.jit(device=True)
def smooth(x):  # type: ignore[no-untyped-def]
    return math.sqrt(x) + 1


@cuda.jit
def apply(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    out[i] = smooth(x[i])


@cuda.jit
def transpose(x, out):  # type: ignore[no-untyped-def]
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[j, i] = x[i, j]


def a_host_array() -> None:
    values = numbers.copy()
    reverse[4, 64](values)
    np.testing.assert_array_equal(values, numbers.reshape(4, 64)[:, ::-1].ravel())


def atomics() -> None:
    total = cuda.to_device(np.zeros(1, np.int32))
    count[4, 64](cuda.to_device(np.arange(256, dtype=np.int32)), total)
    assert total.copy_to_host()[0] == 128


def device_functions() -> None:
    out = cuda.device_array(256, np.float32)
    apply[4, 64](cuda.to_device(numbers), out)
    np.testing.assert_allclose(out.copy_to_host(), np.sqrt(numbers) + 1, rtol=1e-6)


def two_dimensions() -> None:
    matrix = np.arange(12, dtype=np.int64).reshape(3, 4)
    out = cuda.device_array((4, 3), np.int64)
    transpose[(1, 1), (8, 8)](cuda.to_device(matrix), out)
    np.testing.assert_array_equal(out.copy_to_host(), matrix.T)


def streams_and_events() -> None:
    stream = cuda.stream()
    begin, end = cuda.event(), cuda.event()
    memory = cuda.to_device(numbers, stream=stream)
    begin.record(stream)
    reverse[4, 64, stream](memory)
    end.record(stream)
    end.synchronize()
    assert begin.elapsed_time(end) >= 0
    np.testing.assert_array_equal(memory.copy_to_host(stream=stream), numbers.reshape(4, 64)[:, ::-1].ravel())
    stream.synchronize()


def pinned_memory() -> None:
    pinned = cuda.pinned_array(256, np.float32)
    pinned[:] = numbers
    np.testing.assert_array_equal(cuda.to_device(pinned).copy_to_host(), numbers)


def facts() -> None:
    assert cuda.get_current_device().compute_capability == (9, 0)
    assert len(cuda.gpus) == 1


ALL = (a_host_array, atomics, device_functions, two_dimensions, streams_and_events, pinned_memory, facts)
cases.run({case.__name__: case for case in ALL}, {})
