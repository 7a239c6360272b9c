# SPDX-License-Identifier: Apache-2.0
"""Device addresses: free memory can be allocated after any sequence of allocations and frees."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peer
from sanitizers import not_under_asan

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

CHURN = """
import random
from peer import Location, PoolProperties

def churn(allocate, free, capacity, largest, operations):
    numbers, alive, used = random.Random(7), [], 0
    for operation in range(operations):
        size = min(int(2 ** numbers.uniform(9, largest.bit_length())), largest)
        while alive and used + size > capacity * 6 // 10:
            address, freed = alive.pop(numbers.randrange(len(alive)))
            assert free(address) == 0
            used -= freed
        address = c_uint64()
        code = allocate(byref(address), c_size_t(size))
        assert code == 0, (operation, size, used, code)
        alive.append((address, size))
        used += size
    for address, _ in alive:
        assert free(address) == 0

cu.cuInit(0)
context = c_void_p()
cu.cuDevicePrimaryCtxRetain(byref(context), 0)
cu.cuCtxSetCurrent(context)
"""


def run(run_python: RunPython, code: str, memory: str) -> None:
    """Run code that allocates and frees."""
    child = run_python(
        f"import sys\nsys.path.append({str(Path(peer.__file__).parent)!r})\n{CHURN}\n{code}", MEMORY=memory
    )
    assert (child.returncode, child.stderr) == (0, "")


def test_memory_does_not_wear_out(run_python: RunPython) -> None:
    """Addresses of freed allocations would not be reused for other sizes, so that later allocations would fail."""
    run(run_python, "churn(cu.cuMemAlloc_v2, cu.cuMemFree_v2, 4 << 30, 3 << 29, 4000)", "4G")


def test_large_allocations_one_at_a_time(run_python: RunPython) -> None:
    """A long run that allocates many different sizes would use up all addresses."""
    code = """
        for i in range(400):
            address = c_uint64()
            assert cu.cuMemAlloc_v2(byref(address), c_size_t((1 + i % 48) << 30)) == 0, i
            assert cu.cuMemFree_v2(address) == 0
        """
    run(run_python, "if True:" + code, "64G")


def test_pools_with_files_do_not_wear_out(run_python: RunPython) -> None:
    """After many allocations and frees, an exportable pool with enough free memory would refuse an allocation."""
    code = """
pool, properties = c_void_p(), PoolProperties(allocType=1, handleTypes=1, location=Location(1, 0))
assert cu.cuMemPoolCreate(byref(pool), byref(properties)) == 0
def allocate(address, size):
    return cu.cuMemAllocFromPoolAsync(address, size, pool, None)
def free(address):
    return cu.cuMemFreeAsync(address, None) or cu.cuStreamSynchronize(None)
churn(allocate, free, 1 << 30, 300 << 20, 2000)
"""
    run(run_python, code, "1G")


def test_freed_addresses_rest(cuda: Any) -> None:
    """A use after free would not be noticed, because the next allocation would get the same address."""
    seen = set()
    for _ in range(1000):
        memory = cuda.malloc(5000)
        cuda.cuMemFree_v2(memory)
        seen.add(memory.value)
    assert len(seen) == 1000


@not_under_asan("keeps freed memory for a while")
def test_freed_pages_are_given_back(cuda: Any) -> None:
    """A page that small allocations share would stay committed after all of these allocations are freed."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    alive = [cuda.malloc(700) for _ in range(30000)]
    for memory in alive:
        cuda.cuMemsetD8_v2(memory, 0xA5, ctypes.c_size_t(700))
    cuda.cuCtxSynchronize()
    before = resident()
    for memory in alive:
        cuda.cuMemFree_v2(memory)
    assert before - resident() > 15 << 20  # 20 MiB were freed


def test_zeros_need_no_memory(run_python: RunPython) -> None:
    """Clearing memory that was hardly used would commit all of it, which takes seconds, or leave bytes uncleared."""
    code = """
import resource
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
memory, size, word = c_uint64(), 4 << 30, c_uint32()
assert cu.cuMemAlloc_v2(byref(memory), c_size_t(size)) == 0
ends = [0, 1, 4095, 4096, 12345678, size - 4097, size - 2, size - 1]
for end in ends:
    cu.cuMemsetD8_v2(c_uint64(memory.value + end), 1, c_size_t(1))
before = resident()
assert cu.cuMemsetD8_v2(c_uint64(memory.value + 1), 0, c_size_t(size - 2)) == 0
assert cu.cuCtxSynchronize() == 0
assert resident() - before < 64 << 20
byte, values = c_uint8(), []
for end in ends:
    cu.cuMemcpyDtoH_v2(byref(byte), c_uint64(memory.value + end), c_size_t(1))
    values.append(byte.value)
assert values == [1, 0, 0, 0, 0, 0, 0, 1], values
"""
    run(run_python, code, "8G")
