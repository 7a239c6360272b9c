#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure each kind of memory on one GPU. The table of docs/which-memory.rst is from one run of this program.

usage: memory_kinds.py [MIB]        MIB: the size of copies; default 256

Copies go between the memory and a buffer of the device's pool. Times are the best of several rounds. The columns:

- the time to allocate and free 1 MiB; for registered memory, the time to register and unregister an array of `MIB` MiB
- the bandwidths of copies to and from the device, and the time until the call that starts a copy returns
- the bandwidth of a kernel that reads the memory in place

Allocations and kernels are tried once before they are measured.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cudacore as core

MIB = 1 << 20
SOURCE = """
extern "C" __global__ void read_all(const uint4 *from, size_t count, unsigned *sum) {
    unsigned total = 0;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * size_t(blockDim.x)) {
        uint4 value = from[i];
        total += value.x ^ value.y ^ value.z ^ value.w;
    }
    if (total == 123456789) atomicAdd(sum, total);
}
"""
ROUNDS, HEADER = 7, ("kind", "allocate, free", "to device", "from device", "call returns", "kernel")

device = core.Device()
device.set_current()
stream = device.create_stream()
timing = core.EventOptions(timing_enabled=True)


def gigabytes(size: int, work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the bandwidth of work on the stream, in GB/s."""
    best = float("inf")
    for _ in range(rounds):
        stream.sync()
        began = stream.record(options=timing)
        work()
        ended = stream.record(options=timing)
        stream.sync()
        best = min(best, ended - began)
    return size / best / 1e6


def host_gigabytes(size: int, work: Callable[[], Any]) -> float:
    """Return the bandwidth of work that the host waits for."""

    def work_and_wait() -> None:
        work()
        stream.sync()

    return size / microseconds(work_and_wait) / 1e3


def microseconds(work: Callable[[], Any], number: int = 1, rounds: int = ROUNDS) -> float:
    """Return how long the host is busy with a call of `work`, in microseconds."""
    best = float("inf")
    for _ in range(rounds):
        stream.sync()
        began = time.perf_counter()
        for _ in range(number):
            work()
        best = min(best, time.perf_counter() - began)
        stream.sync()
    return best / number * 1e6


class Kind:
    """A kind of memory: how to make it, and which operations it supports."""

    def __init__(self, name: str, resource: core.MemoryResource | None = None, number: int = 200) -> None:
        self.name, self.resource, self.number = name, resource, number

    def make(self, size: int) -> Any:
        """Return memory of `size` bytes."""
        if self.resource is not None:
            return self.resource.allocate(size, stream=stream)[:size]  # sizes of virtual memory are rounded up
        array = np.zeros(size, np.uint8)
        return core.register_host_memory(array) if self.name == "registered array" else array

    def measure(self, size: int, kernel: core.Kernel, total: core.Buffer) -> tuple[str, ...]:
        """Return the cells of this kind's row in the table."""
        there = device.allocate(size, stream=stream)
        if self.resource is not None:
            resource = self.resource
            alone = microseconds(lambda: resource.allocate(MIB, stream=stream).close(), self.number)
        elif self.name == "registered array":
            array = np.zeros(size, np.uint8)
            alone = microseconds(lambda: core.register_host_memory(array).close())
        else:
            alone = 0.0
        memory = self.make(size)
        if isinstance(memory, np.ndarray):
            to = host_gigabytes(size, lambda: there.copy_from(memory, stream=stream))
            back = host_gigabytes(size, lambda: there.copy_to(memory, stream=stream))
            returns = microseconds(lambda: there.copy_from(memory, stream=stream))
            return self.name, "-", f"{to:.0f}", f"{back:.0f}", f"{returns:,.0f}", "-"
        if memory.is_host_accessible:
            view = np.frombuffer(memory.__buffer__(), np.uint8)
            view[:] = 1  # written by the host, so that pages of managed memory are on the host
        else:
            memory.fill(1, stream=stream)
        config = core.LaunchConfig(grid=2 * device.properties.multiprocessor_count, block=1024)

        def read() -> None:
            core.launch(stream, config, kernel, memory, np.uint64(size // 16), total)

        read_bandwidth = gigabytes(size, read)
        to = gigabytes(size, lambda: memory.copy_to(there, stream=stream))
        back = gigabytes(size, lambda: memory.copy_from(there, stream=stream))
        returns = microseconds(lambda: memory.copy_to(there, stream=stream))
        memory.close()
        cells = f"{alone:.1f}", f"{to:.0f}", f"{back:.0f}", f"{returns:.1f}", f"{read_bandwidth:.0f}"
        return self.name, *cells


def moving(size: int, kernel: core.Kernel, total: core.Buffer) -> None:
    """Print how fast pages of managed memory move: when a kernel reads them, and when they are prefetched."""
    managed = core.ManagedMemoryResource().allocate(size, stream=stream)
    stream.sync()
    view = np.frombuffer(managed.__buffer__(), np.uint8)
    view[:] = 1
    config = core.LaunchConfig(grid=2 * device.properties.multiprocessor_count, block=1024)
    fault = gigabytes(size, lambda: core.launch(stream, config, kernel, managed, np.uint64(size // 16), total), 1)
    view[:] = 2
    to = gigabytes(size, lambda: managed.prefetch(device, stream=stream), 1)
    back = gigabytes(size, lambda: managed.prefetch(core.Host(), stream=stream), 1)
    print(f"pages of managed memory that a kernel reads first: {fault:.0f} GB/s")
    print(f"prefetch to the device: {to:.0f} GB/s; to the host: {back:.0f} GB/s")


def main(size: int) -> None:
    """Print a line for each kind of memory."""
    options = core.ProgramOptions(arch=f"sm_{device.arch}", std="c++17")
    program = core.Program(SOURCE, "c++", options)
    code = program.compile("ptx") if os.environ.get("CUDACORE_DRIVER") else program.compile("cubin")
    kernel = code.get_kernel("read_all")
    total = device.allocate(4, stream=stream)
    kinds = (
        Kind("device pool", device.memory_resource),
        Kind("pinned pool", core.PinnedMemoryResource()),
        Kind("pinned, without a pool", core.LegacyPinnedMemoryResource(), 20),
        Kind("registered array"),
        Kind("managed pool", core.ManagedMemoryResource()),
        Kind("managed, without a pool", core.LegacyManagedMemoryResource(), 20),
        Kind("virtual", core.VirtualMemoryResource(device), 20),
        Kind("NumPy array"),
    )
    print(f"{device.name}, copies of {size // MIB} MiB; us and GB/s")
    print("".join(f"{cell:>16}" if i else f"{cell:26}" for i, cell in enumerate(HEADER)))
    for kind in kinds:
        try:
            cells = kind.measure(size, kernel, total)
        except Exception as error:  # the other rows are still measured
            cells = (kind.name, f"{type(error).__name__}: {error}".splitlines()[0])
        print("".join(f"{cell:>16}" if i else f"{cell:26}" for i, cell in enumerate(cells)), flush=True)
    moving(size, kernel, total)


if __name__ == "__main__":
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    main(int(sys.argv[1]) * MIB if len(sys.argv) > 1 else 256 * MIB)
