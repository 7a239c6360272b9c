# SPDX-License-Identifier: Apache-2.0
"""How nvmath-python uses ``cuda.core``, for operands and streams. The libraries of nvmath need the CUDA runtime."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import nvmath
from cuda.core import Device
from nvmath.internal import tensor_wrapper, utils

device = Device()
device.set_current()
stream = device.create_stream()
numbers = np.arange(6, dtype=np.float32).reshape(2, 3)


def holder() -> Any:
    return utils.get_or_create_stream(0, stream, "cuda")


def streams() -> None:
    held = holder()
    assert (held.package, held.ptr) == ("cuda", int(stream.handle))
    assert utils.get_or_create_stream(0, None, "cuda").ptr is not None


def there_and_back() -> None:
    operand = tensor_wrapper.wrap_operand(numbers)
    there = operand.to(0, holder())
    assert (tuple(there.shape), there.device_id) == ((2, 3), 0)
    np.testing.assert_array_equal(np.asarray(there.to("cpu", holder()).tensor), numbers)


def matmul() -> None:
    product = nvmath.linalg.advanced.matmul(numbers, numbers.T)
    np.testing.assert_allclose(product, numbers @ numbers.T)


CASES = {"streams": streams, "operands": there_and_back, "matmul": matmul}

cases.run(CASES, {"matmul": "needs cuBLAS and the CUDA runtime, which the simulated driver refuses"})
