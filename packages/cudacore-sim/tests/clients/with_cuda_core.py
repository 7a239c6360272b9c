# SPDX-License-Identifier: Apache-2.0
"""A program of cuda.core: parts that are compiled to cubins, linked and launched."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Linker, LinkerOptions, Program, ProgramOptions
from cuda.core import launch as launch_kernel

KERNEL = """
extern "C" __device__ int twice(int);
extern "C" __global__ void f(int *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
"""
FUNCTION = 'extern "C" __device__ int twice(int x) { return 2 * x; }'

device = Device()
device.set_current()
stream = device.create_stream()
arch = f"sm_{device.arch}"
for kind, lto in (("ptx", False), ("cubin", False), ("ltoir", True)):
    options = ProgramOptions(arch=arch, relocatable_device_code=True, link_time_optimization=lto or None)
    parts = [Program(source, "c++", options).compile(kind) for source in (KERNEL, FUNCTION)]
    linked = Linker(*parts, options=LinkerOptions(arch=arch, link_time_optimization=lto or None)).link("cubin")
    buffer = LegacyPinnedMemoryResource().allocate(32 * 4, stream=stream)
    numbers = np.from_dlpack(buffer).view(np.int32)
    numbers[:] = np.arange(32)
    launch_kernel(stream, LaunchConfig(grid=1, block=32), linked.get_kernel("f"), buffer)
    stream.sync()
    np.testing.assert_array_equal(numbers, 2 * np.arange(32))
    buffer.close()
print("right")
