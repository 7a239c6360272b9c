# SPDX-License-Identifier: Apache-2.0
"""Memory resources for CuPy, PyTorch and Numba, with stand-ins for these libraries.

``test_interop_libraries.py`` tries the libraries themselves.
"""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from stand_ins import (
    OUT_OF_MEMORY,
    CUDARuntimeError,
    FakeCuPy,
    MemoryPointer,
    PythonResource,
    RMMStream,
    lines_of,
)

import cudacore as core
import cudacore_sim as sim
from cudacore import interop

pytestmark = pytest.mark.cuda_sim


def test_cupy_orders_by_its_stream(cupy: FakeCuPy, device: core.Device, tmp_path: Path) -> None:
    """Memory of CuPy's arrays would be allocated again before the work on the arrays' stream is done."""
    log = core.LoggingResourceAdaptor(device.memory_resource, tmp_path / "log.csv")
    allocate = interop.cupy_allocator(log)
    streams = [device.create_stream() for _ in range(2)]
    for cupy.stream in (streams[0], streams[1], streams[0]):
        memory = allocate(100)
        assert (memory.mem.size, memory.mem.device_id) == (100, 0)
        assert memory.ptr != 0
        cupy.stream = core.LEGACY_DEFAULT_STREAM
        del memory
    log.flush()
    handles = [hex(stream.__cuda_stream__()[1]) for stream in (streams[0], streams[1], streams[0])]
    assert lines_of(tmp_path / "log.csv") == [(what, at) for at in handles for what in ("allocate", "free")]


def test_cupy_streams_without_protocol(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """The allocator would not work with CuPy 13, whose streams lack the protocol ``__cuda_stream__``."""
    allocate = interop.cupy_allocator(statistics)
    cupy.stream = SimpleNamespace(ptr=2)
    assert allocate(100).ptr != 0


def test_cupy_memory_lives_as_long_as_its_arrays(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """Memory of CuPy's arrays would leak, or be freed while it is in use."""
    allocate = interop.cupy_allocator(statistics)
    memory, empty = allocate(100), allocate(0)
    assert empty.ptr == 0
    view = MemoryPointer(memory.mem, 16)
    del memory
    assert statistics.allocation_counts[:2] == (100, 1)
    del view
    assert statistics.allocation_counts[:2] == (0, 0)


def test_cupy_allocations_that_fail(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """A limit would be lost in CuPy, a failing driver call would leak, or the allocator would not work afterwards."""
    allocate = interop.cupy_allocator(core.LimitingResourceAdaptor(statistics, 1000))
    kept = allocate(600)
    with pytest.raises(core.OutOfMemoryError, match="limit of 1000 bytes"):
        allocate(600)
    with pytest.raises(MemoryError), sim.failing("cuMemAllocFromPoolAsync", 0, OUT_OF_MEMORY):
        allocate(100)
    with sim.failing("cuMemAllocFromPoolAsync", 1, OUT_OF_MEMORY):  # the second attempt succeeds
        again = allocate(100)
    del kept, again
    assert allocate(1000).ptr != 0


def test_cupy_in_a_thread_without_context(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """The first array of CuPy on a thread without a current context could not be allocated."""
    allocate = interop.cupy_allocator(statistics)
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(lambda: allocate(100).ptr).result() != 0


def test_cupy_on_another_device(cupy: FakeCuPy, device: core.Device) -> None:
    """Arrays of a second device would use memory of the first."""
    allocate = interop.cupy_allocator(device.memory_resource)
    assert allocate(100).mem.device_id == 0
    cupy.device_id = 1
    with pytest.raises(ValueError, match="memory of device 0, and the current device is 1"):
        allocate(100)


def test_cupy_in_a_capture(cupy: FakeCuPy, device: core.Device) -> None:
    """An allocation in a capture would invalidate it, or would not belong to the graph."""
    allocate = interop.cupy_allocator()
    cupy.stream = stream = device.create_stream()
    with stream.create_graph_builder() as builder:
        memory = allocate(100)
        core.Buffer.from_handle(memory.ptr, 100).fill(1, stream=stream)
        del memory
    graph = builder.complete()
    types = sorted(type(node).__name__ for node in builder.graph_definition.nodes())
    assert types == ["AllocNode", "FreeNode", "MemsetNode"]
    graph.launch(stream)
    stream.sync()


def test_pool_of_cupy(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """When no memory is left, CuPy's pool would not release unused blocks and try again."""
    pool = interop.cupy_pool(core.LimitingResourceAdaptor(statistics, 600))
    block = pool.malloc(1)
    assert statistics.allocation_counts[:2] == (512, 1)
    with pytest.raises(CUDARuntimeError) as failed:
        pool.malloc(1)
    assert isinstance(failed.value.__cause__, core.OutOfMemoryError)
    del failed, block
    gc.collect()
    mr = PythonResource()
    mr.result = MemoryError("of another library, such as RMM")
    with pytest.raises(CUDARuntimeError):
        interop.cupy_pool(mr).malloc(1)
    with sim.failing("cuMemAllocFromPoolAsync", 0, 999), pytest.raises(core.CUDAError, match="CUDA_ERROR_UNKNOWN"):
        pool.malloc(1)


def test_torch_allocates_from_the_resource(
    torch: None, device: core.Device, statistics: core.StatisticsResourceAdaptor, stream: core.Stream
) -> None:
    """PyTorch's allocations would bypass the resource or its adaptors, or a second stream would use freed memory."""
    limited = core.LimitingResourceAdaptor(statistics, 1 << 20)
    allocator = interop.torch_allocator(limited)
    handle, second = stream.__cuda_stream__()[1], device.create_stream()
    memory, on_default = allocator.alloc(1000, 0, handle), allocator.alloc(24, 0, None)
    assert statistics.allocation_counts[:2] == (1024, 2)
    assert core.Buffer.from_handle(memory, 1000).device_id == 0
    allocator.free(on_default, 24, 0, None)
    with sim.logging() as calls:
        allocator.record(memory, second.__cuda_stream__()[1])
        allocator.free(memory, 1000, 0, handle)
    assert [call.name for call in calls].count("cuStreamWaitEvent") == 2
    assert statistics.allocation_counts[:2] == (0, 0)


def test_pool_of_torch(torch: None, statistics: core.StatisticsResourceAdaptor, stream: core.Stream) -> None:
    """If memory runs out, a C++ exception would keep PyTorch from releasing unused blocks, or memory would leak."""
    pool = interop.torch_pool(core.LimitingResourceAdaptor(statistics, 1000))
    handle = stream.__cuda_stream__()[1]
    assert pool.alloc(0, 0, handle) is None
    assert pool.alloc(2000, 0, handle) is None
    assert pool.alloc(100, 1, handle) is None
    with sim.logging() as calls:
        memory = pool.alloc(1000, 0, handle)
    pool.free(memory, 1000, 0, handle)
    for nth in range(1, len(calls) + 1):
        with sim.failing(None, nth):
            memory = pool.alloc(1000, 0, handle)
        if memory is not None:  # the allocation has succeeded although a call failed
            pool.free(memory, 1000, 0, handle)
        assert statistics.allocation_counts.current_count == 0
    assert len(calls) > 1


def test_torch_pools_keep_their_allocator(torch: None, device: core.Device) -> None:
    """PyTorch would call an allocator that was deleted, because its pools and their blocks keep only the address."""
    pool = interop.torch_pool()
    allocator = pool._allocator
    memory = pool.alloc(100, 0, None)
    del pool
    gc.collect()
    interop.torch_pool(device.memory_resource)
    assert allocator() is not None
    allocator().free(memory, 100, 0, None)
    assert interop.torch_allocator() is interop.torch_allocator()


def test_torch_memory_outlives_its_resource(torch: None, device: core.Device, stream: core.Stream) -> None:
    """PyTorch's memory would be freed when the program drops its pool, or the pool would never be destroyed."""
    pool = core.DeviceMemoryResource(device, {"max_size": 1 << 24})
    first = interop.torch_allocator(pool)
    memory = first.alloc(1000, 0, None)
    second = interop.torch_allocator(device.memory_resource)
    pool.close()
    del pool, first
    assert core.Buffer.from_handle(memory, 1000).device_id == 0  # the memory still exists
    with sim.logging() as calls:
        second.free(memory, 1000, 0, None)
    assert [call.name for call in calls if "Destroy" in call.name] == ["cuMemPoolDestroy"]


def test_torch_resources_that_need_python(torch: None, device: core.Device) -> None:
    """A resource that needs Python code would be accepted: PyTorch would call Python from C, or bypass an adaptor."""
    tracking = core.TrackingResourceAdaptor(device.memory_resource)
    virtual = core.VirtualMemoryResource(device)
    failure = core.FailureCallbackResourceAdaptor(device.memory_resource, lambda size: False)
    for mr in (
        failure,
        tracking,
        core.StatisticsResourceAdaptor(tracking),
        virtual,
        core.StatisticsResourceAdaptor(virtual),
    ):
        with pytest.raises(TypeError, match="runs Python code for each allocation"):
            interop.torch_allocator(mr)
    closed = core.DeviceMemoryResource(device, {"max_size": 1 << 24})
    closed.close()
    with pytest.raises(core.ClosedError):
        interop.torch_allocator(closed)


def test_numba_memory_manager(numba: None, device: core.Device, statistics: core.StatisticsResourceAdaptor) -> None:
    """Numba's arrays would not be allocated from the resource, or their memory would leak."""
    plugin = interop.numba_memory_manager(statistics)
    assert plugin(context=None).interface_version == 1  # Numba's set_memory_manager() checks this version
    manager = plugin(SimpleNamespace(device=SimpleNamespace(id=0)))
    manager.initialize()
    assert manager.is_initialized
    pointer = manager.memalloc(100)
    assert (pointer.size, statistics.allocation_counts[:2]) == (100, (100, 1))
    assert core.Buffer.from_handle(pointer.device_pointer, 100).is_device_accessible
    assert pointer.device_pointer.value == pointer.device_pointer
    assert manager.get_memory_info() == device.memory_info
    assert manager.interface_version == 1
    with pytest.raises(NotImplementedError, match="no IPC handle"):
        manager.get_ipc_handle(pointer)
    del pointer
    assert statistics.allocation_counts[:2] == (0, 0)


# ---- all libraries


@pytest.mark.usefixtures("cupy", "torch", "numba", "rmm")
def test_resources_are_checked(device: core.Device) -> None:
    """A library would get memory that its kernels cannot use, and fail only when they run."""

    class HostMemory(core.MemoryResource):
        is_device_accessible, is_host_accessible = False, True

    for make in (interop.cupy_allocator, interop.torch_allocator, interop.numba_memory_manager, interop.rmm_resource):
        with pytest.raises(TypeError, match="memory_resource must be a MemoryResource, not int"):
            make(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="whose memory kernels cannot use"):
            make(HostMemory())


@pytest.mark.usefixtures("cupy", "numba", "rmm")
def test_resources_return_buffers(stream: core.Stream) -> None:
    """If a memory resource does not return a buffer, the error would be an AttributeError that does not say so."""
    mr = PythonResource()
    mr.result = 3
    manager = interop.numba_memory_manager(mr)(SimpleNamespace(device=SimpleNamespace(id=0)))
    for allocate in (
        lambda: interop.cupy_allocator(mr)(100),
        lambda: manager.memalloc(100),
        lambda: interop.rmm_resource(mr).allocate(100, RMMStream(stream)),
    ):
        with pytest.raises(TypeError, match=r"PythonResource.allocate\(\) returned int, and must return a Buffer"):
            allocate()
