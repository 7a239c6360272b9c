# SPDX-License-Identifier: Apache-2.0
"""Memory resources for RMM, in both directions, with a stand-in for RMM."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from stand_ins import OUT_OF_MEMORY, CudaAsyncViewMemoryResource, PythonResource, RMMResource, RMMStream, lines_of

import cudacore as core
import cudacore_sim as sim
from cudacore import interop

pytestmark = pytest.mark.cuda_sim


def test_rmm_allocates_from_the_resource(
    rmm: RMMResource, device: core.Device, statistics: core.StatisticsResourceAdaptor, stream: core.Stream
) -> None:
    """RMM would not allocate from the resource, or would not order allocations on the given streams."""
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


def test_resource_of_rmm(rmm: RMMResource, device: core.Device, stream: core.Stream) -> None:
    """RMM's resource could not allocate buffers, or their memory would be freed on another stream than the buffer's."""
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


@pytest.fixture
def ignored(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Give a list of the exceptions that are passed to ``sys.unraisablehook``."""
    found: list[BaseException] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: found.append(args.exc_value))
    return found


@pytest.mark.parametrize("needs_python", [False, True])
def test_frees_of_rmm_never_raise(
    rmm: RMMResource,
    statistics: core.StatisticsResourceAdaptor,
    stream: core.Stream,
    ignored: list[BaseException],
    needs_python: bool,
) -> None:
    """An error in a free, which RMM's C++ code cannot pass on, would appear as a SystemError in another call."""
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(statistics) if needs_python else statistics)
    on = RMMStream(stream)
    empty = [resource.allocate(0, on) for _ in range(2)]
    assert empty == [0, 0]
    for ptr in empty:
        resource.deallocate(ptr, 0, on)
    memory = resource.allocate(100, on)
    resource.deallocate(memory, 50, on)  # a wrong size is ignored
    assert not ignored
    resource.deallocate(memory, 100, on)
    resource.deallocate(12345, 100, on)
    assert ["is not an address" in str(error) for error in ignored] == [True, True]
    assert statistics.allocation_counts[:2] == (0, 0)


@pytest.mark.parametrize("needs_python", [False, True])
def test_rmm_orders_by_its_streams(rmm: RMMResource, device: core.Device, tmp_path: Path, needs_python: bool) -> None:
    """Memory that RMM frees on another stream would be allocated again before the work of that stream is done."""
    log = core.LoggingResourceAdaptor(device.memory_resource, tmp_path / "log.csv")
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(log) if needs_python else log)
    streams = [device.create_stream() for _ in range(2)]
    memory = resource.allocate(100, RMMStream(streams[0]))
    resource.deallocate(memory, 100, RMMStream(streams[1]))
    log.flush()
    handles = [hex(each.__cuda_stream__()[1]) for each in streams]
    assert lines_of(tmp_path / "log.csv") == list(zip(("allocate", "free"), handles, strict=True))


@pytest.mark.parametrize("needs_python", [False, True])
def test_rmm_in_a_thread_without_context(
    rmm: RMMResource, statistics: core.StatisticsResourceAdaptor, needs_python: bool
) -> None:
    """RMM's first allocation on a thread without a current context would fail."""
    resource = interop.rmm_resource(core.TrackingResourceAdaptor(statistics) if needs_python else statistics)
    on = RMMStream(core.LEGACY_DEFAULT_STREAM)
    with ThreadPoolExecutor(1) as executor:
        memory = executor.submit(resource.allocate, 100, on).result()
    resource.deallocate(memory, 100, on)


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


def test_bad_allocations_from_rmm(
    rmm: RMMResource, device: core.Device, stream: core.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid requests would reach RMM, or memory of RMM would leak when a buffer cannot be made."""
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


def test_kinds_of_memory_of_rmm(rmm: RMMResource) -> None:
    """Managed memory of RMM would not be accessible on the host, or would be exported as another kind of memory."""

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


def test_garbage_is_collected_for_memory_of_rmm(rmm: RMMResource, stream: core.Stream) -> None:
    """When memory of RMM runs out, memory of objects in garbage cycles would not be freed and used."""
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
