# SPDX-License-Identifier: Apache-2.0
"""A program that uses cuda.bindings: it compiles a cubin with NVRTC, and launches it with the driver's functions."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver, nvrtc

SOURCE = b'extern "C" __global__ void twice(int *x) { x[threadIdx.x] *= 2; }'


def check(result: tuple[Any, ...]) -> Any:
    """Return the values in a function's result, or raise an error if the code in it is a failure."""
    if int(result[0]):
        raise RuntimeError(repr(result[0]))
    return result[1] if len(result) == 2 else result[1:]


check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"twice.cu", 0, [], []))
check(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"]))
code = bytes(check(nvrtc.nvrtcGetCUBINSize(program)))
check(nvrtc.nvrtcGetCUBIN(program, code))
library = check(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
kernel = check(driver.cuLibraryGetKernel(library, b"twice"))
numbers = (ctypes.c_int * 32)(*range(32))
memory = check(driver.cuMemAlloc(ctypes.sizeof(numbers)))
check(driver.cuMemcpyHtoD(memory, ctypes.addressof(numbers), ctypes.sizeof(numbers)))
arguments = ((int(memory),), (ctypes.c_void_p,))
check(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0))
check(driver.cuMemcpyDtoH(ctypes.addressof(numbers), memory, ctypes.sizeof(numbers)))
assert list(numbers) == [2 * i for i in range(32)]
print("right")
