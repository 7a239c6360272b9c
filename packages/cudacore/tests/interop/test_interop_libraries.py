# SPDX-License-Identifier: Apache-2.0
"""Memory resources for CuPy, PyTorch, Numba and RMM, with these libraries themselves.

Each test runs a program in a separate process, because most of these libraries choose an allocator only once. The tests
need a GPU, except for the parts of RMM that do not use the CUDA runtime.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from guide_programs import blocks_of, why_numba_cannot_compile


def run_alone(code: str, **env: str) -> None:
    """Run a program in a separate process, because a library chooses its allocator only once."""
    code = "from pytest import raises\nimport cudacore as core\nfrom cudacore import interop\n" + textwrap.dedent(code)
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=os.environ | env)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "cudacore:" not in ran.stderr  # all failures were raised, and not only reported to stderr


DEVICE = """
import gc
device = core.Device()
device.set_current()
statistics = core.StatisticsResourceAdaptor(device.memory_resource)
limited = core.LimitingResourceAdaptor(statistics, 1 << 20)
"""


@pytest.mark.cuda_gpu
def test_with_cupy() -> None:
    """CuPy would compute wrong results, leak memory, or ignore a limit."""
    pytest.importorskip("cupy", reason="needs CuPy")
    run_alone(
        DEVICE
        + """
from concurrent.futures import ThreadPoolExecutor
import cupy
cupy.cuda.set_allocator(interop.cupy_allocator(limited))
x = cupy.arange(1000, dtype="f4")
assert statistics.allocation_counts.current_bytes >= 4000
assert float((x * 2).sum()) == 999000
stream = cupy.cuda.Stream(non_blocking=True)
x.data.mem  # a view of the memory keeps it
view = x[10:20]
cupy.cuda.get_current_stream().synchronize()
with stream:
    y = view + 1
    stream.synchronize()
assert y.tolist() == [float(i) for i in range(11, 21)]
with raises(core.OutOfMemoryError, match="limit of 1048576 bytes"):
    cupy.zeros(1 << 20, dtype="f4")
with stream:
    a = cupy.ones(100, dtype="f4")
    a * 2 + 1  # compiled at first use
    stream.begin_capture()
    b = a * 2 + 1
    a[:] = b
    del b
    graph = stream.end_capture()
    graph.launch(stream)
    graph.launch(stream)
    stream.synchronize()
assert float(a[0]) == 7
def work(n):
    for _ in range(200):
        assert float(cupy.ones(100).sum()) == 100
with ThreadPoolExecutor(4) as threads:
    list(threads.map(work, range(4)))
graph = a = x = y = view = None
gc.collect()
assert statistics.allocation_counts.current_count == 0, statistics.allocation_counts
"""
    )


@pytest.mark.cuda_gpu
def test_with_pool_of_cupy() -> None:
    """A pool of CuPy would not take blocks from the resource, not return them, or not retry when memory runs out."""
    pytest.importorskip("cupy", reason="needs CuPy")
    run_alone(
        DEVICE
        + """
import cupy
pool = interop.cupy_pool(limited)
cupy.cuda.set_allocator(pool.malloc)
for _ in range(10):
    x = cupy.arange(1000, dtype="f4")
    assert float((x * 2).sum()) == 999000
assert 0 < statistics.allocation_counts.total_count < 10
x = cupy.zeros(500_000, dtype="u1")
del x
y = cupy.zeros(900_000, dtype="u1")  # the block of x is released for it
assert float(y.sum()) == 0
with raises(cupy.cuda.memory.OutOfMemoryError, match="Out of memory allocating 4,194,304 bytes"):
    cupy.zeros(1 << 20, dtype="f4")
del y
pool.free_all_blocks()
cupy.cuda.Device().synchronize()
assert statistics.allocation_counts.current_count == 0, statistics.allocation_counts
"""
    )


TORCH = """
import torch
def compute():
    x = torch.ones(1000, device="cuda", requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    assert float(y) == 2000 and float(x.grad.sum()) == 2000
"""


@pytest.mark.cuda_gpu
def test_with_torch_itself() -> None:
    """PyTorch would compute wrong results, leak, crash without memory, or let a second stream use freed memory."""
    pytest.importorskip("torch", reason="needs PyTorch")
    run_alone(
        DEVICE
        + TORCH
        + """
torch.cuda.memory.change_current_allocator(interop.torch_allocator(limited))
compute()
gc.collect()
assert statistics.allocation_counts.total_count > 3
assert statistics.allocation_counts.current_count == 0, statistics.allocation_counts
with raises(RuntimeError, match="CUDA out of memory: cudacore could not allocate 2097152 bytes on device 0"):
    torch.empty(1 << 21, dtype=torch.uint8, device="cuda")
compute()
side = torch.cuda.Stream()
for _ in range(20):
    x = torch.ones(50000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(2000000)
        total = x.sum()
    x.record_stream(side)
    del x
    z = torch.zeros(50000, device="cuda")  # it must not get the memory of x yet
    side.synchronize()
    assert float(total) == 50000, float(total)
    del z
del total
assert statistics.allocation_counts.current_count == 0, statistics.allocation_counts
"""
    )


@pytest.mark.cuda_gpu
def test_with_pool_of_torch() -> None:
    """A MemPool of PyTorch would not take its blocks from the resource, or not return them."""
    pytest.importorskip("torch", reason="needs PyTorch")
    run_alone(
        DEVICE
        + TORCH
        + """
pool = interop.torch_pool(statistics)
with torch.cuda.use_mem_pool(pool):
    compute()
    kept = torch.ones(1000, device="cuda")
assert 1 <= statistics.allocation_counts.total_count < 5
outside = torch.ones(1000, device="cuda")
second = interop.torch_pool(limited)
with raises(torch.OutOfMemoryError, match="Tried to allocate 64.00 MiB"):
    with torch.cuda.use_mem_pool(second):
        torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
assert float(kept.sum()) == 1000
torch.cuda.synchronize()
del kept, pool, second
gc.collect()
torch.cuda.empty_cache()
assert statistics.allocation_counts.current_count == 0, statistics.allocation_counts
"""
    )


@pytest.mark.cuda_gpu
def test_with_numba() -> None:
    """Numba would compute wrong results, or leak memory."""
    pytest.importorskip("numba.cuda", reason="needs Numba")
    if reason := why_numba_cannot_compile():
        pytest.skip(f"Numba cannot compile kernels here: {reason}")
    run_alone(
        DEVICE
        + """
import numpy as np
from numba import cuda
cuda.set_memory_manager(interop.numba_memory_manager(statistics))
@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1
x = cuda.to_device(np.arange(1000.0))
assert statistics.allocation_counts[:2] == (8000, 1)
add_one[4, 256](x)
stream = cuda.stream()
add_one[4, 256, stream](x)
stream.synchronize()
assert x.copy_to_host()[10] == 12
y = x[5:10]
del x
assert statistics.allocation_counts.current_count == 1
assert y.copy_to_host()[0] == 7
del y
gc.collect()
assert statistics.allocation_counts.current_count == 0
free, total = cuda.current_context().get_memory_info()
assert 0 < free < total
"""
    )


def test_with_rmm(on_sim: bool) -> None:
    """RMM would allocate elsewhere, free too early, wait for its own lock, or leak.

    On the simulator, only the parts of RMM that do not use the CUDA runtime are tested.
    """
    pytest.importorskip("rmm", reason="needs RMM")
    run_alone(
        DEVICE
        + f"on_sim = {on_sim}"
        + """
import sys
from concurrent.futures import ThreadPoolExecutor
import rmm, rmm.mr
from rmm.pylibrmm.stream import Stream
stream = device.create_stream()
on = Stream(stream)
ignored = []
sys.unraisablehook = ignored.append

def count(expected):
    gc.collect()
    assert statistics.allocation_counts.current_count == expected, statistics.allocation_counts

for mr in (statistics, core.TrackingResourceAdaptor(statistics)):
    resource = interop.rmm_resource(mr)
    buffer = rmm.DeviceBuffer(size=1000, stream=on, mr=resource)
    count(1)
    core.Buffer.from_handle(buffer.ptr, 1000).fill(7, stream=stream)
    buffer = None
    count(0)
    empty = [resource.allocate(0, on) for _ in range(2)]
    for ptr in empty:
        resource.deallocate(ptr, 0, on)
    assert not ignored
    resource.deallocate(4096, 100, on)
    assert "is not an address" in str(ignored.pop().exc_value)

# A pool of RMM holds its lock while it allocates, so no finalizer may free memory of the pool then.
pool = rmm.mr.PoolMemoryResource(interop.rmm_resource(limited), 1 << 18, 1 << 24)
cycle = [rmm.DeviceBuffer(size=1000, stream=on, mr=pool)]
cycle.append(cycle)
del cycle
with raises(MemoryError, match="limit of 1048576 bytes"):
    rmm.DeviceBuffer(size=1 << 21, stream=on, mr=pool)

theirs = interop.RMMMemoryResource(pool)
nested = core.StatisticsResourceAdaptor(interop.RMMMemoryResource(interop.rmm_resource(theirs)))
def work(n):
    mine = device.create_stream()
    for i in range(50):
        a = theirs.allocate(100 + i, stream=mine)
        b = nested.allocate(1000 + i, stream=mine)
        b.fill(3, stream=mine)
        part = b[:100]
        b.close()
with ThreadPoolExecutor(4) as threads:
    list(threads.map(work, range(4)))
count(1)  # the block of the pool
assert nested.allocation_counts[:2] == (0, 0)
with theirs.allocate(100, stream=stream) as buffer:
    assert buffer.memory_resource is theirs and buffer.is_device_accessible
del theirs, nested, pool, buffer
count(0)
if not on_sim:
    import numpy as np
    mine = core.DeviceMemoryResource(device, {"max_size": 1 << 26})
    view = interop.rmm_resource(mine)
    assert isinstance(view, rmm.mr.CudaAsyncViewMemoryResource)
    mine.close()
    rmm.mr.set_current_device_resource(view)
    assert bytes(rmm.DeviceBuffer.to_device(b"hello").copy_to_host()) == b"hello"
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    del view
    for upstream in (rmm.mr.CudaMemoryResource(), rmm.mr.CudaAsyncMemoryResource()):
        counted = rmm.mr.StatisticsResourceAdaptor(upstream)
        mr = interop.RMMMemoryResource(counted)
        with mr.allocate(1000, stream=stream) as buffer:
            host = np.empty(1000, np.uint8)
            buffer.fill(7, stream=stream)
            buffer.copy_to(host, stream=stream)
            stream.sync()
            assert host.sum() == 7000
        gc.collect()
        assert counted.allocation_counts.current_count == 0
        assert not mr.is_managed and not mr.is_host_accessible
        with raises(MemoryError):
            mr.allocate(1 << 45, stream=stream)
    managed = interop.RMMMemoryResource(rmm.mr.StatisticsResourceAdaptor(rmm.mr.ManagedMemoryResource()))
    pinned = interop.RMMMemoryResource(rmm.mr.PinnedHostMemoryResource())
    assert (managed.is_managed, managed.is_host_accessible, pinned.is_managed, pinned.is_host_accessible) == (
        True, True, False, True)
"""
    )


@pytest.mark.cuda_sim
def test_libraries_find_their_device() -> None:
    """A library would use another device than the given one, or the program's current device would be changed."""
    run_alone(
        """
from cudacore.interop._resources import on_device
from cudacore_handles._sdk.memory import current_device
first, second = core.Device(0), core.Device(1)
assert on_device(1, current_device) == 1  # nothing is current yet
first.set_current()
assert (on_device(1, current_device), current_device()) == (1, 0)
green = second.create_context(core.ContextOptions(resources=[second.resources.sm]))
second.set_current(green)
assert on_device(1, lambda: second.context) == green
assert (on_device(0, current_device), second.context) == (0, green)
""",
        CUDACORE_SIM_DEVICES="2",
    )


@pytest.mark.cuda_gpu
def test_program_of_the_guide() -> None:
    """The guide's program that replaces PyTorch's allocator would not run when it is pasted."""
    pytest.importorskip("torch", reason="needs PyTorch")
    blocks = [block for block in blocks_of("which-memory", "python") if block.options.get("class") == "pytorch-alone"]
    assert len(blocks) == 1
    run_alone(blocks_of("which-memory", "python")[0].code + blocks[0].code)
