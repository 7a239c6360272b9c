# SPDX-License-Identifier: Apache-2.0
"""Split a sum between two devices: each adds up one half."""

import sys

import numpy as np

import cudacore as core

SOURCE = r"""
extern "C" __global__ void add_up(const int *values, int n, int *total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(total, values[i]);
}
"""

devices = core.Device.get_all_devices()[:2]
if len(devices) < 2:
    sys.exit("skipped: this needs two devices")

values = np.arange(20_000, dtype=np.int32)
totals = []
for device, half in zip(devices, np.split(values, 2), strict=True):
    device.set_current()
    stream = device.create_stream()
    kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("add_up")
    there = device.allocate(half.nbytes, stream=stream)
    total = device.allocate(4, stream=stream)
    there.copy_from(half, stream=stream)
    total.fill(0, stream=stream)
    config = core.LaunchConfig(grid=(half.size + 255) // 256, block=256)
    core.launch(stream, config, kernel, there, half.size, total)
    totals.append((stream, total))  # both devices are at work from here on

first, second = devices
first.set_current()
(stream, total), (other_stream, other_total) = totals
if first.can_access_peer(second):
    # With this access, the copy does not go through the host.
    second.memory_resource.peer_accessible_by = {first}
copy = first.allocate(4, stream=stream)
stream.wait(other_stream)
copy.copy_from(other_total, stream=stream)

both = np.empty(2, np.int32)
total.copy_to(both[:1], stream=stream)
copy.copy_to(both[1:], stream=stream)
print(f"{both[0]} + {both[1]} = {both.sum()}: {both.sum() == values.sum()}")
