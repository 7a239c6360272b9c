# SPDX-License-Identifier: Apache-2.0
"""`cudacore_sim.DeviceArray`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudacore_sim
from cudacore_sim import DeviceArray


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["f4", "i1", "c16"])
def test_there_and_back(cuda: Any, shape: tuple[int, ...], dtype: str) -> None:
    """The values, the shape or the type of an array would change on the device."""
    values = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    array = DeviceArray.from_numpy(values)
    assert (array.shape, array.dtype, array.nbytes) == (values.shape, values.dtype, values.nbytes)
    np.testing.assert_array_equal(array.numpy(), values, strict=True)


def test_what_libraries_ask_for(cuda: Any) -> None:
    """Triton, or a library that uses ``__cuda_array_interface__``, would get wrong strides or another address."""
    array = DeviceArray((2, 3, 4), np.float32)
    assert (array.stride(), array.stride(0), array.stride(-1)) == ((12, 4, 1), 12, 1)
    interface = array.__cuda_array_interface__
    assert interface["data"] == (array.data_ptr(), False)
    assert (interface["shape"], interface["typestr"], interface["strides"]) == ((2, 3, 4), "<f4", None)
    assert DeviceArray(7, "i8").shape == (7,)
    np.testing.assert_array_equal(DeviceArray.from_numpy(np.ones((4, 4))[:, ::2]).numpy(), np.ones((4, 2)))


def test_its_memory(cuda: Any) -> None:
    """The memory would not be freed with the array, or the error would not have the reason."""
    before = cudacore_sim.live()["device_memory"]
    array = DeviceArray(10, np.int32)
    assert cudacore_sim.live()["device_memory"] == before + 1
    del array
    assert cudacore_sim.live()["device_memory"] == before
    with pytest.raises(cudacore_sim.SimulatorError, match="cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"):
        DeviceArray(1 << 50, np.uint8)
    assert cudacore_sim.live()["device_memory"] == before


def test_without_a_context(run_python: Any) -> None:
    """The first array of a program that has no context would fail."""
    ran = run_python("print(cudacore_sim.DeviceArray.from_numpy([1, 2]).numpy().sum(), cudacore_sim.live()['context'])")
    assert ran.stdout == "3 1\n", ran.stderr
