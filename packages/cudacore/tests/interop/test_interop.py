# SPDX-License-Identifier: Apache-2.0
"""Memory resources for CuPy, PyTorch, Numba and RMM.

Stand-ins take the place of these libraries. ``test_interop_libraries.py`` tries the libraries themselves.
"""

from __future__ import annotations

import abc
import collections
import csv
import ctypes
import gc
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import cudacore as core
import cudacore_handles as ch
import cudacore_sim as sim
from cudacore import interop

ADDRESS = ctypes.c_void_p
OUT_OF_MEMORY = 2


def install(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Put stand-ins where imports find them; "a__b" is the module a.b."""
    for name, value in modules.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update(value)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        parent, _, child = module.__name__.rpartition(".")
        if parent:
            monkeypatch.setattr(sys.modules[parent], child, module, raising=False)


@pytest.fixture
def statistics(device: core.Device) -> Iterator[core.StatisticsResourceAdaptor]:
    """Give a resource that counts allocations, and is empty in the end."""
    statistics = core.StatisticsResourceAdaptor(device.memory_resource)
    yield statistics
    gc.collect()
    assert statistics.allocation_counts.current_count == 0


@pytest.fixture
def stream(device: core.Device) -> core.Stream:
    """Give a stream."""
    return device.create_stream()


# ---- CuPy


class UnownedMemory:
    """CuPy's class of this name."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """CuPy's class of this name."""

    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


class CUDARuntimeError(RuntimeError):
    """CuPy's class of this name."""

    def __init__(self, status: int) -> None:
        self.status = status


class MemoryPool:
    """CuPy's class of this name: when memory runs out, it tries again."""

    def __init__(self, allocator: Callable[[int], MemoryPointer]) -> None:
        self._allocator = allocator

    def malloc(self, size: int) -> MemoryPointer:
        try:
            return self._allocator(512)
        except CUDARuntimeError as error:
            if error.status != OUT_OF_MEMORY:
                raise
            return self._allocator(512)


class FakeCuPy:
    """The attributes of CuPy that its allocators use."""

    def __init__(self) -> None:
        self.stream: Any = core.LEGACY_DEFAULT_STREAM
        self.device_id = 0
        runtime = SimpleNamespace(getDevice=lambda: self.device_id, CUDARuntimeError=CUDARuntimeError)
        classes = {"MemoryPointer": MemoryPointer, "UnownedMemory": UnownedMemory, "MemoryPool": MemoryPool}
        cuda = {"runtime": runtime} | classes
        self.modules = {"cupy": {}, "cupy__cuda": cuda | {"get_current_stream": lambda: self.stream}}


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCuPy:
    """Install a stand-in for CuPy."""
    fake = FakeCuPy()
    install(monkeypatch, **fake.modules)
    return fake


def lines_of(log: Path) -> list[tuple[str, str]]:
    """Return actions and streams of a log of allocations."""
    with log.open(encoding="utf-8") as file:
        return [(line["Action"], line["Stream"]) for line in csv.DictReader(file)]


@pytest.mark.cuda_sim
def test_cupy_orders_by_its_stream(cupy: FakeCuPy, device: core.Device, tmp_path: Path) -> None:
    """CuPy's memory would be allocated again before the work of its stream is done."""
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


@pytest.mark.cuda_sim
def test_cupy_streams_without_protocol(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """The allocator would not work with CuPy 13."""
    allocate = interop.cupy_allocator(statistics)
    cupy.stream = SimpleNamespace(ptr=2)
    assert allocate(100).ptr != 0


@pytest.mark.cuda_sim
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


@pytest.mark.cuda_sim
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


@pytest.mark.cuda_sim
def test_cupy_in_a_thread_without_context(cupy: FakeCuPy, statistics: core.StatisticsResourceAdaptor) -> None:
    """CuPy's first array of a thread could not be allocated."""
    allocate = interop.cupy_allocator(statistics)
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(lambda: allocate(100).ptr).result() != 0


@pytest.mark.cuda_sim
def test_cupy_on_another_device(cupy: FakeCuPy, device: core.Device) -> None:
    """Arrays of a second device would use memory of the first."""
    allocate = interop.cupy_allocator(device.memory_resource)
    assert allocate(100).mem.device_id == 0
    cupy.device_id = 1
    with pytest.raises(ValueError, match="memory of device 0, and the current device is 1"):
        allocate(100)


@pytest.mark.cuda_sim
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


@pytest.mark.cuda_sim
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


# ---- PyTorch


class CUDAPluggableAllocator:
    """PyTorch's class of this name: it loads functions by their names."""

    def __init__(self, path: str, alloc: str, free: str) -> None:
        library = ctypes.CDLL(path)
        self.alloc: Any = ctypes.CFUNCTYPE(ADDRESS, ctypes.c_ssize_t, ctypes.c_int, ADDRESS)((alloc, library))
        self.free: Any = ctypes.CFUNCTYPE(None, ADDRESS, ctypes.c_ssize_t, ctypes.c_int, ADDRESS)((free, library))
        self._allocator = self

    def allocator(self) -> CUDAPluggableAllocator:
        return self

    def set_record_stream_fn(self, address: int) -> None:
        self.record: Any = ctypes.CFUNCTYPE(None, ADDRESS, ADDRESS)(address)


class MemPool:
    """PyTorch's class of this name, which keeps an address of the allocator and no reference."""

    def __init__(self, allocator: CUDAPluggableAllocator) -> None:
        self._allocator = weakref.ref(allocator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._allocator(), name)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a stand-in for PyTorch."""
    memory, pool = {"CUDAPluggableAllocator": CUDAPluggableAllocator}, {"MemPool": MemPool}
    install(monkeypatch, torch={}, torch__cuda=pool, torch__cuda__memory=memory)
    yield
    ctypes.CDLL(ch.get_library()).cch_torch_set_allocator(0, None)


@pytest.mark.cuda_sim
def test_torch_allocates_from_the_resource(
    torch: None, device: core.Device, statistics: core.StatisticsResourceAdaptor, stream: core.Stream
) -> None:
    """PyTorch would allocate elsewhere, adaptors would not see it, or a second stream would use freed memory."""
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


@pytest.mark.cuda_sim
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
        if memory is not None:  # an allocation does not need the failed call
            pool.free(memory, 1000, 0, handle)
        assert statistics.allocation_counts.current_count == 0
    assert len(calls) > 1


@pytest.mark.cuda_sim
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


@pytest.mark.cuda_sim
def test_torch_memory_outlives_its_resource(torch: None, device: core.Device, stream: core.Stream) -> None:
    """PyTorch's memory would be freed when the program drops its pool, or the pool would never be destroyed."""
    pool = core.DeviceMemoryResource(device, {"max_size": 1 << 24})
    first = interop.torch_allocator(pool)
    memory = first.alloc(1000, 0, None)
    second = interop.torch_allocator(device.memory_resource)
    pool.close()
    del pool, first
    assert core.Buffer.from_handle(memory, 1000).device_id == 0  # the driver still has it
    with sim.logging() as calls:
        second.free(memory, 1000, 0, None)
    assert [call.name for call in calls if "Destroy" in call.name] == ["cuMemPoolDestroy"]


@pytest.mark.cuda_sim
def test_torch_resources_that_need_python(torch: None, device: core.Device) -> None:
    """PyTorch's threads would call Python from C, or an adaptor would be bypassed."""
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


# ---- Numba


class HostOnlyCUDAMemoryManager(abc.ABC):
    """Numba's class of this name."""

    def __init__(self, context: Any) -> None:
        self.context = context

    @abc.abstractmethod
    def initialize(self) -> None:
        self.is_initialized = True

    @abc.abstractmethod
    def memalloc(self, size: int) -> Any: ...

    @abc.abstractmethod
    def get_memory_info(self) -> Any: ...

    @abc.abstractmethod
    def get_ipc_handle(self, memory: Any) -> Any: ...

    @property
    @abc.abstractmethod
    def interface_version(self) -> int: ...


class NumbaPointer:
    """Numba's class MemoryPointer."""

    def __init__(self, context: Any, pointer: Any, size: int, owner: Any = None, finalizer: Any = None) -> None:
        self.device_pointer, self.size = pointer, size
        self._finalizer = weakref.finalize(self, finalizer)


MemoryInfo = collections.namedtuple("MemoryInfo", ["free", "total"])


@pytest.fixture
def numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a stand-in for Numba."""
    names = {
        "HostOnlyCUDAMemoryManager": HostOnlyCUDAMemoryManager,
        "MemoryInfo": MemoryInfo,
        "MemoryPointer": NumbaPointer,
    }
    install(monkeypatch, numba={}, numba__cuda=names)


@pytest.mark.cuda_sim
def test_numba_memory_manager(numba: None, device: core.Device, statistics: core.StatisticsResourceAdaptor) -> None:
    """Numba's arrays would not be allocated from the resource, or their memory would leak."""
    plugin = interop.numba_memory_manager(statistics)
    assert plugin(context=None).interface_version == 1  # set_memory_manager() checks this
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


# ---- RMM


class RMMStream:
    """RMM's class rmm.pylibrmm.stream.Stream."""

    def __init__(self, obj: Any = None) -> None:
        self._handle: tuple[int, int] = obj.__cuda_stream__()

    def __cuda_stream__(self) -> tuple[int, int]:
        return self._handle


class RMMResource:
    """RMM's class rmm.mr.DeviceMemoryResource; it allocates from a pool."""

    def __init__(self) -> None:
        self.buffers: dict[int, core.Buffer] = {}
        self.freed_on: list[int] = []

    def allocate(self, nbytes: int, stream: RMMStream) -> int:
        assert isinstance(stream, RMMStream)
        buffer = core.Device().allocate(nbytes, stream=stream)
        self.buffers[buffer.handle] = buffer
        return buffer.handle

    def deallocate(self, ptr: int, nbytes: int, stream: RMMStream) -> None:
        assert isinstance(stream, RMMStream)
        self.freed_on.append(stream.__cuda_stream__()[1])
        self.buffers.pop(ptr).close(stream)


class CallbackMemoryResource(RMMResource):
    """RMM's class of this name."""

    def __init__(self, allocate_func: Callable[..., int], deallocate_func: Callable[..., None]) -> None:
        self._allocate, self._deallocate = allocate_func, deallocate_func

    def allocate(self, nbytes: int, stream: RMMStream) -> int:
        return self._allocate(nbytes, stream)

    def deallocate(self, ptr: int, nbytes: int, stream: RMMStream) -> None:
        try:
            self._deallocate(ptr, nbytes, stream)
        except BaseException as error:
            raise SystemError("returned a result with an exception set") from error


class CudaAsyncViewMemoryResource(RMMResource):
    """RMM's class of this name."""

    def __init__(self, pool_handle: Any) -> None:
        super().__init__()
        self.pool_handle = pool_handle


@pytest.fixture
def rmm(monkeypatch: pytest.MonkeyPatch) -> RMMResource:
    """Install a stand-in for RMM."""
    current = RMMResource()
    names = {
        "CallbackMemoryResource": CallbackMemoryResource,
        "CudaAsyncViewMemoryResource": CudaAsyncViewMemoryResource,
        "DeviceMemoryResource": RMMResource,
        "get_current_device_resource": lambda: current,
    }
    install(monkeypatch, rmm={}, rmm__mr=names, rmm__pylibrmm={}, rmm__pylibrmm__stream={"Stream": RMMStream})
    return current


@pytest.mark.cuda_sim
def test_rmm_allocates_from_the_resource(
    rmm: RMMResource, device: core.Device, statistics: core.StatisticsResourceAdaptor, stream: core.Stream
) -> None:
    """RMM would not allocate from the resource, or not in the order of its streams."""
    resource = interop.rmm_resource(statistics)
    on = RMMStream(stream)
    memory = resource.allocate(100, on)
    assert statistics.allocation_counts[:2] == (100, 1)
    resource.deallocate(memory, 100, on)
    assert statistics.allocation_counts[:2] == (0, 0)
    pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    pool = interop.rmm_resource()
    assert isinstance(pool, CudaAsyncViewMemoryResource)
    assert int(pool.pool_handle) == int(device.memory_resource.handle)


@pytest.mark.cuda_sim
def test_resource_of_rmm(rmm: RMMResource, device: core.Device, stream: core.Stream) -> None:
    """Memory of RMM could not be used as a resource, or would be freed on another stream than that of the buffer."""
    mr = interop.RMMMemoryResource()
    second = device.create_stream()
    with mr.allocate(100, stream=stream) as buffer:
        assert buffer.memory_resource is mr
        buffer.fill(1, stream=stream)
        buffer[:50].close()
    with core.StatisticsResourceAdaptor(mr).allocate(100, stream=stream) as buffer:
        buffer.close(second)
    gc.collect()
    assert rmm.freed_on == [each.__cuda_stream__()[1] for each in (stream, second)]
    assert not rmm.buffers
    with pytest.raises(TypeError, match="rmm_mr must be a memory resource of RMM, not int"):
        interop.RMMMemoryResource(3)


class PythonResource(core.MemoryResource):
    """A memory resource in Python. It allocates from a pool, and a test can make it fail."""

    is_device_accessible, is_host_accessible, device_id = True, False, 0

    def __init__(self) -> None:
        self.result: Any = None

    def allocate(self, size: int, *, stream: Any) -> core.Buffer:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result or core.Device().memory_resource.allocate(size, stream=stream)


@pytest.fixture
def ignored(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Collect exceptions that cannot be raised."""
    found: list[BaseException] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: found.append(args.exc_value))
    return found


@pytest.mark.cuda_sim
@pytest.mark.parametrize("needs_python", [False, True])
def test_frees_of_rmm_never_raise(
    rmm: RMMResource,
    statistics: core.StatisticsResourceAdaptor,
    stream: core.Stream,
    ignored: list[BaseException],
    needs_python: bool,
) -> None:
    """A SystemError would appear in another call, because RMM's C++ code calls the function that frees."""
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(statistics) if needs_python else statistics)
    on = RMMStream(stream)
    empty = [resource.allocate(0, on) for _ in range(2)]
    assert empty == [0, 0]
    for ptr in empty:
        resource.deallocate(ptr, 0, on)
    memory = resource.allocate(100, on)
    resource.deallocate(memory, 50, on)  # the size is that of the allocation
    assert not ignored
    resource.deallocate(memory, 100, on)
    resource.deallocate(12345, 100, on)
    assert ["is not an address" in str(error) for error in ignored] == [True, True]
    assert statistics.allocation_counts[:2] == (0, 0)


@pytest.mark.cuda_sim
@pytest.mark.parametrize("needs_python", [False, True])
def test_rmm_orders_by_its_streams(rmm: RMMResource, device: core.Device, tmp_path: Path, needs_python: bool) -> None:
    """RMM's memory would be allocated again before the work of the stream on which RMM frees it."""
    log = core.LoggingResourceAdaptor(device.memory_resource, tmp_path / "log.csv")
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(log) if needs_python else log)
    streams = [device.create_stream() for _ in range(2)]
    memory = resource.allocate(100, RMMStream(streams[0]))
    resource.deallocate(memory, 100, RMMStream(streams[1]))
    log.flush()
    handles = [hex(each.__cuda_stream__()[1]) for each in streams]
    assert lines_of(tmp_path / "log.csv") == list(zip(("allocate", "free"), handles, strict=True))


@pytest.mark.cuda_sim
@pytest.mark.parametrize("needs_python", [False, True])
def test_rmm_in_a_thread_without_context(
    rmm: RMMResource, statistics: core.StatisticsResourceAdaptor, needs_python: bool
) -> None:
    """RMM's first allocation of a thread would fail."""
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(statistics) if needs_python else statistics)
    on = RMMStream(core.LEGACY_DEFAULT_STREAM)
    with ThreadPoolExecutor(1) as executor:
        memory = executor.submit(resource.allocate, 100, on).result()
    resource.deallocate(memory, 100, on)


@pytest.mark.cuda_sim
@pytest.mark.parametrize("needs_python", [False, True])
def test_nothing_is_collected_for_rmm(
    rmm: RMMResource, statistics: core.StatisticsResourceAdaptor, stream: core.Stream, needs_python: bool
) -> None:
    """A finalizer would wait for the lock that RMM's pool holds while it allocates from the resource."""
    limited = core.LimitingResourceAdaptor(statistics, 1000)
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(limited) if needs_python else limited)
    cycle: Any = PythonResource()
    cycle.itself, alive = cycle, weakref.ref(cycle)
    gc.disable()
    try:
        del cycle
        with pytest.raises(MemoryError, match="limit of 1000 bytes"):
            resource.allocate(2000, RMMStream(stream))
        assert alive() is not None
        with pytest.raises(MemoryError, match="limit of 1000 bytes"):
            limited.allocate(2000, stream=stream)
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.cuda_sim
def test_rmm_keeps_the_pool(rmm: RMMResource, device: core.Device) -> None:
    """RMM would allocate from a pool that was destroyed."""
    pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    for how in ("close", "drop"):
        mr = core.DeviceMemoryResource(device, {"max_size": 1 << 24})
        with sim.logging() as calls:
            view = interop.rmm_resource(mr)
            if how == "close":
                mr.close()
            del mr
            gc.collect()
            assert not [call for call in calls if call.name == "cuMemPoolDestroy"]
            del view
        assert [call.name for call in calls if call.name == "cuMemPoolDestroy"] == ["cuMemPoolDestroy"]


@pytest.mark.cuda_sim
def test_bad_allocations_from_rmm(
    rmm: RMMResource, device: core.Device, stream: core.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RMM would allocate memory that no code can use, or memory would leak."""
    mr = interop.RMMMemoryResource()
    with pytest.raises(ValueError, match="size is -1"):
        mr.allocate(-1, stream=stream)
    with pytest.raises(TypeError, match="size must be an int"):
        mr.allocate(1.5, stream=stream)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="stream is required"):
        mr.allocate(100, stream=None)  # type: ignore[arg-type]
    closed = device.create_stream()
    closed.close()
    with pytest.raises(core.ClosedError):
        mr.allocate(100, stream=closed)
    with mr.allocate(0, stream=stream) as empty:
        assert (empty.size, empty.handle, empty.memory_resource) == (0, 0, mr)
    assert not rmm.buffers
    with sim.failing("cuMemAllocFromPoolAsync", 0, OUT_OF_MEMORY), pytest.raises(MemoryError):
        mr.allocate(100, stream=stream)

    def from_handle(*args: Any, **options: Any) -> core.Buffer:
        raise KeyboardInterrupt

    monkeypatch.setattr(core.Buffer, "from_handle", from_handle)
    with pytest.raises(KeyboardInterrupt):
        mr.allocate(100, stream=stream)
    assert not rmm.buffers


@pytest.mark.cuda_sim
def test_kinds_of_memory_of_rmm(rmm: RMMResource) -> None:
    """The host could not read memory that it can access, or libraries would take it for another kind of memory."""

    class ManagedMemoryResource(RMMResource):
        pass

    class PinnedHostMemoryResource(RMMResource):
        pass

    class PoolMemoryResource(RMMResource):
        def __init__(self, upstream_mr: RMMResource) -> None:
            super().__init__()
            self.upstream_mr = upstream_mr

    def kind(mr: RMMResource, **options: bool) -> tuple[bool, bool]:
        made = interop.RMMMemoryResource(mr, **options)
        return made.is_host_accessible, made.is_managed

    assert kind(rmm) == (False, False)
    assert kind(rmm, is_host_accessible=True) == (True, False)
    assert kind(PoolMemoryResource(PoolMemoryResource(ManagedMemoryResource()))) == (True, True)
    assert kind(PinnedHostMemoryResource()) == (True, False)
    assert kind(PinnedHostMemoryResource(), is_host_accessible=False) == (False, False)


@pytest.mark.cuda_sim
def test_garbage_is_collected_for_memory_of_rmm(rmm: RMMResource, stream: core.Stream) -> None:
    """Memory of garbage cycles would be missing when memory of RMM runs out."""
    mr = interop.RMMMemoryResource()
    kept: list[Any] = [mr.allocate(100, stream=stream)]
    kept.append(kept)
    allocate, failures = rmm.allocate, []

    def allocate_one(nbytes: int, on: RMMStream) -> int:
        if rmm.buffers:
            failures.append(nbytes)
            raise MemoryError("std::bad_alloc: out of memory")
        return allocate(nbytes, on)

    rmm.allocate = allocate_one  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        mr.allocate(200, stream=stream)
    del kept
    mr.allocate(300, stream=stream).close()
    assert failures == [200, 200, 300]


# ---- all


@pytest.mark.cuda_sim
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


@pytest.mark.cuda_sim
@pytest.mark.usefixtures("cupy", "numba", "rmm")
def test_resources_return_buffers(stream: core.Stream) -> None:
    """An AttributeError would not say that the memory resource is wrong."""
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


def test_nothing_is_imported(on_sim: bool) -> None:
    """Programs would import libraries that they do not use."""
    code = """
        import sys
        import cudacore.interop
        print({"cupy", "torch", "numba", "rmm", "numpy", "ctypes"} & set(sys.modules))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
