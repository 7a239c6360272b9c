#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Create and drop objects of each kind a million times from eight threads, and check that nothing leaks.

The script needs a GPU. On the simulated driver, a small ``--count`` is enough. The exit status is 1 if a box
remains alive, or if memory grew by more than 16 MB.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
from collections.abc import Callable

import cudacore as core
import cudacore_handles
from rows import KERNELS, TARGET, TINY

MEGABYTE = 1_000_000
# The number of bytes by which memory may grow after the warm-up: the allocator's arenas and caches of eight threads.
ALLOWED_GROWTH = 16 * MEGABYTE


def resident() -> int:
    """Return the process's resident memory in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_on_device() -> int:
    """Return the free memory of the current device in bytes."""
    from cuda.bindings import driver

    error, free, _ = driver.cuMemGetInfo()
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuMemGetInfo: {error.name}")
    return int(free)


def live() -> dict[str, int]:
    gc.collect()
    return {kind: count for kind, count in cudacore_handles.live_counts().items() if count}


class Allocator(core.MemoryResource):
    """An allocator in Python that has nothing to free."""

    is_device_accessible = True
    is_host_accessible = False
    device_id = 0

    def deallocate(self, ptr: int, size: int, *, stream: object) -> None:
        del ptr, size, stream


def cycles(device: core.Device) -> dict[str, Callable[[], object]]:
    """Return, for each kind, a function that makes an object. The caller drops the object."""
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    load = core.ObjectCode.from_ptx if TARGET == "ptx" else core.ObjectCode.from_cubin
    code = core.Program(KERNELS, "c++", options).compile(TARGET).code
    loaded = load(code)
    stream = device.create_stream()
    pinned = core.LegacyPinnedMemoryResource()
    memory = device.allocate(256, stream=stream)
    pointer = int(memory.handle)
    host = pinned.allocate(256)
    kernel, one_block = loaded.get_kernel("k1"), core.LaunchConfig(grid=1, block=1)

    def launched() -> object:
        buffer = device.allocate(256, stream=stream)
        prepared = kernel.prepare(stream, one_block, buffer)
        prepared()
        prepared[0] = memory
        return prepared

    pool_options = core.DeviceMemoryResourceOptions(max_size=1 << 20)
    return {
        "stream": device.create_stream,
        "foreign stream": lambda: core.Stream.from_handle(int(stream.handle)),
        "event": device.create_event,
        "recorded event": stream.record,
        "buffer": lambda: device.allocate(256, stream=stream),
        "pinned buffer": lambda: pinned.allocate(256),
        "foreign buffer": lambda: core.Buffer.from_handle(pointer, 256, owner=memory),
        "buffer with an owner": lambda: core.Buffer.from_handle(pointer, 256, owner=[memory]),
        "buffer of an allocator": lambda: core.Buffer.from_handle(pointer, 256, mr=Allocator()),
        "prepared launch": launched,
        "export": lambda: (device.allocate(256, stream=stream).__dlpack__(), host.__dlpack__(max_version=(1, 0))),
        "view": lambda: pinned.allocate(256).__buffer__(),
        "memory resource": lambda: core.DeviceMemoryResource(device, pool_options),
        "kernel": lambda: loaded.get_kernel("k1"),
        "object code and kernel": lambda: load(code).get_kernel("k0"),
        "program": lambda: core.Program(TINY % 0, "c++", options).handle,
    }


def run(cycle: Callable[[], object], count: int, threads: int, device: core.Device) -> float:
    """Make and drop `count` objects in total, spread over threads; return how many seconds that took."""
    start = threading.Barrier(threads + 1)
    failures: list[BaseException] = []

    def work() -> None:
        device.set_current()
        start.wait()
        try:
            for _ in range(count // threads):
                cycle()
        except BaseException as error:  # the main thread reports the exception
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    elapsed = time.perf_counter() - begin
    if failures:
        raise failures[0]
    device.sync()
    return elapsed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="cycles of each kind; default: %(default)s")
    parser.add_argument("--threads", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the kinds whose names contain it")
    arguments = parser.parse_args()
    if arguments.threads < 1 or arguments.count < arguments.threads:
        parser.error("--threads must be at least 1, and --count at least as many")

    device = core.Device(0)
    device.set_current()
    chosen = {kind: cycle for kind, cycle in cycles(device).items() if arguments.only in kind}
    bad = []
    print(f"{'kind':24} {'cycles':>10} {'s':>7} {'us each':>8} {'left':>5} {'host MB':>8} {'device MB':>9}")
    for kind, cycle in chosen.items():
        run(cycle, max(arguments.count // 20, arguments.threads), arguments.threads, device)
        before, memory, on_device = live(), resident(), free_on_device()
        elapsed = run(cycle, arguments.count, arguments.threads, device)
        after = live()
        growth, taken = resident() - memory, on_device - free_on_device()
        left = sum(after.values()) - sum(before.values())
        good = after == before and growth <= ALLOWED_GROWTH and taken <= ALLOWED_GROWTH
        print(
            f"{kind:24} {arguments.count:10,} {elapsed:7.1f} {elapsed / arguments.count * 1e6:8.2f} {left:5}"
            f" {growth / MEGABYTE:8.1f} {taken / MEGABYTE:9.1f}  {'ok' if good else f'FAILED: {before} -> {after}'}",
            flush=True,
        )
        if not good:
            bad.append(kind)
    if bad:
        print(f"failed: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
