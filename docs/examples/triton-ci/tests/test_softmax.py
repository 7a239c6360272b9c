# SPDX-License-Identifier: Apache-2.0
"""A kernel of Triton, and its test."""

import numpy as np
import pytest
import triton
import triton.language as tl

from cudacore_sim import DeviceArray


@triton.jit
def softmax(x, out, columns, block: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, block)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + column, powers / tl.sum(powers, axis=0), mask=column < columns)


@pytest.mark.parametrize("columns", [1, 100, 128])
def test_softmax(columns):
    x = np.random.default_rng(0).standard_normal((7, columns)).astype(np.float32)
    out = DeviceArray(x.shape, x.dtype)
    softmax[(7,)](DeviceArray.from_numpy(x), out, columns, block=triton.next_power_of_2(columns))
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
