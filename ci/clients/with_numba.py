# SPDX-License-Identifier: Apache-2.0
"""A program of numba-cuda: a kernel with shared memory, a reduction, and a grid that waits for all of its blocks."""

from __future__ import annotations

import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")  # warnings about the performance of small kernels


@cuda.jit
def reverse(x):  # type: ignore[no-untyped-def]
    part = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = part[63 - i]


@cuda.jit
def neighbours(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    x[i] = i
    cuda.cg.this_grid().sync()
    out[i] = x[(i + 64) % x.size]


@cuda.reduce
def total(a, b):  # type: ignore[no-untyped-def]
    return a + b


numbers = np.arange(256, dtype=np.float32)
memory = cuda.to_device(numbers)
reverse[4, 64](memory)
np.testing.assert_array_equal(memory.copy_to_host(), numbers.reshape(4, 64)[:, ::-1].ravel())
assert total(numbers) == numbers.sum()
out = cuda.device_array(256, np.int32)
neighbours[4, 64](cuda.device_array(256, np.int32), out)
np.testing.assert_array_equal(out.copy_to_host(), (np.arange(256) + 64) % 256)
print("right")
