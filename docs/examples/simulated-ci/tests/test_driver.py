# SPDX-License-Identifier: Apache-2.0
"""The simulator is the driver of the whole process, also for other packages that use CUDA."""

import numpy as np
import pytest
from cuda.bindings import driver


def check(result):
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, code.name
    return values[0] if len(values) == 1 else tuple(values)


@pytest.fixture
def context():
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxPushCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    yield
    check(driver.cuCtxPopCurrent())
    check(driver.cuDevicePrimaryCtxRelease(device))


@pytest.mark.usefixtures("context")
def test_round_trip():
    sent = np.arange(1000, dtype=np.int32)
    received = np.zeros_like(sent)
    memory = check(driver.cuMemAlloc(sent.nbytes))
    check(driver.cuMemcpyHtoD(memory, sent.ctypes.data, sent.nbytes))
    check(driver.cuMemcpyDtoH(received.ctypes.data, memory, sent.nbytes))
    check(driver.cuMemFree(memory))
    assert np.array_equal(sent, received)
