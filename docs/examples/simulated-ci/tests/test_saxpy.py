# SPDX-License-Identifier: Apache-2.0
"""The project's own code. Unmarked tests run on the simulator and on a GPU alike."""

import time

import numpy as np
import pytest

from saxpy import saxpy


def numbers(n):
    return np.random.default_rng(n).random((2, n), np.float32)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 100_000])
def test_saxpy(n):
    x, y = numbers(n)
    np.testing.assert_allclose(saxpy(2.0, x, y), 2 * x + y, rtol=1e-6)


@pytest.mark.parametrize("nth", [1, 2])
def test_full_memory(cuda_sim, nth):
    """One of the two allocations fails. The check after every test finds a leak of the other allocation."""
    x, y = numbers(100)
    for attempt in (nth, nth + 1):  # a failing allocation is tried once more
        cuda_sim.fail("cuMemAllocFromPoolAsync", attempt, error=2)  # CUDA_ERROR_OUT_OF_MEMORY
    np.testing.assert_allclose(saxpy(2.0, x, y), 2 * x + y, rtol=1e-6)
    assert cuda_sim.calls("cuLaunchKernelEx") == 0


@pytest.mark.cuda_gpu
def test_speed():
    x, y = numbers(1 << 24)
    start = time.perf_counter()
    saxpy(2.0, x, y)
    assert time.perf_counter() - start < 1
