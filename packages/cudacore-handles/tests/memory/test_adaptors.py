# SPDX-License-Identifier: Apache-2.0
"""The common behaviour of all adaptors, which are memory resources that wrap another memory resource."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cudacore_handles as ch

MIB = 1 << 20
OUT_OF_MEMORY, UNKNOWN = 2, 999
Adapt = Callable[[ch.MemoryResource], ch.ResourceAdaptor]


ADAPTORS: dict[str, Adapt] = {
    "statistics": ch.StatisticsResourceAdaptor,
    "tracking": ch.TrackingResourceAdaptor,
    "tracking without stacks": lambda mr: ch.TrackingResourceAdaptor(mr, capture_stacks=False),
    "logging": lambda mr: ch.LoggingResourceAdaptor(mr, os.devnull),
    "limiting": lambda mr: ch.LimitingResourceAdaptor(mr, 1 << 40),
    "failure callback": lambda mr: ch.FailureCallbackResourceAdaptor(mr, lambda size: False),
}


@pytest.fixture(params=ADAPTORS.values(), ids=ADAPTORS)
def adapt(request: pytest.FixtureRequest) -> Adapt:
    """Give a function that wraps a memory resource. A test runs once for each adaptor."""
    made: Adapt = request.param
    return made


def used(statistics: ch.StatisticsResourceAdaptor) -> tuple[int, int]:
    return statistics.allocation_counts[:2]


def test_is_a_memory_resource(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """An adaptor could not take the place of the resource that it wraps."""
    adaptor = adapt(pool)
    assert isinstance(adaptor, ch.MemoryResource)
    assert adaptor.upstream_mr is pool
    assert (adaptor.device_id, adaptor.is_device_accessible, adaptor.is_host_accessible, adaptor.is_managed) == (
        *(pool.device_id, True, False, False),
    )
    assert repr(adaptor) == f"<{type(adaptor).__name__} of {pool!r}>"
    with adaptor.allocate(100, stream=stream) as buffer:
        assert (buffer.size, buffer.memory_resource, buffer.device_id) == (100, adaptor, pool.device_id)
        assert buffer[10:].memory_resource is adaptor
        other = buffer.copy_to(stream=stream)
        assert other.memory_resource is adaptor
        other.close()
    with adaptor.allocate(0, stream=stream) as empty:
        assert (empty.size, empty.memory_resource) == (0, adaptor)


def test_wrong_arguments(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Invalid resources or sizes would not be refused at once, but cause an error later."""
    with pytest.raises(TypeError, match="upstream_mr must be a MemoryResource, not int"):
        adapt(1)  # type: ignore[arg-type]
    adaptor = adapt(pool)
    for size, error in ((-1, ValueError), ("1", TypeError), (2**63, ValueError)):
        with pytest.raises(error):
            adaptor.allocate(size, stream=stream)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        adaptor.allocate(1, stream=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        adaptor.allocate(1)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(adaptor)
    pool.close()
    with pytest.raises(ch.ClosedError):
        adaptor.allocate(1, stream=stream)


@pytest.mark.parametrize("kind", ["user", "pinned", "virtual", "empty virtual"])
def test_other_resources(adapt: Adapt, kind: str, host_memory: Any, device: ch.Device, stream: ch.Stream) -> None:
    """Memory resources other than pools could not be wrapped."""
    upstream, size = {
        "user": (host_memory, 100),
        "pinned": (ch.LegacyPinnedMemoryResource(), 100),
        "virtual": (ch.VirtualMemoryResource(device), 100),
        "empty virtual": (ch.VirtualMemoryResource(device), 0),
    }[kind]
    statistics = ch.StatisticsResourceAdaptor(adapt(upstream))
    buffer = statistics.allocate(size) if kind != "user" else statistics.allocate(size, stream=stream)
    assert buffer.memory_resource is statistics
    assert buffer.size >= size
    assert used(statistics) == (buffer.size, 1 if size else 0)
    buffer.close()
    assert used(statistics) == (0, 0)
    if kind == "user":
        assert len(host_memory.freed) == 1


def test_virtual_memory(adapt: Adapt, device: ch.Device, stream: ch.Stream) -> None:
    """Virtual memory of an adaptor could grow without being counted by the adaptor, or could not be exported."""
    virtual = ch.VirtualMemoryResource(device)
    adaptor = adapt(virtual)
    with adaptor.allocate(100, stream=stream) as buffer:
        with pytest.raises(ValueError, match="counts it with its present size") as refused:
            virtual.modify_allocation(buffer, 2 * buffer.size)
        assert repr(adaptor) in str(refused.value)
        with virtual.export_allocation(buffer) as descriptor:
            assert descriptor.size == buffer.size
    with adaptor.allocate(0, stream=stream) as empty, pytest.raises(ValueError, match="allocated through"):
        virtual.modify_allocation(empty, 100)


def test_subclass_of_a_pool(adapt: Adapt, device: ch.Device, stream: ch.Stream) -> None:
    """A subclass's own allocate() would be bypassed."""
    calls = []

    class Special(ch.DeviceMemoryResource):
        def allocate(self, size: int, *, stream: Any) -> ch.Buffer:
            calls.append(size)
            return super().allocate(size, stream=stream)

    adapt(Special(device)).allocate(10, stream=stream).close()
    assert calls == [10]


def test_resource_that_returns_no_buffer(adapt: Adapt, stream: ch.Stream) -> None:
    """If a resource does not return a buffer, the error would not name the resource."""

    class Wrong(ch.MemoryResource):
        def allocate(self, size: int, *, stream: Any) -> Any:
            return 1

    statistics = ch.StatisticsResourceAdaptor(adapt(Wrong()))
    with pytest.raises(TypeError, match=r"Wrong.allocate\(\) returned int, and must return a Buffer"):
        statistics.allocate(1, stream=stream)
    assert used(statistics) == (0, 0)


def test_deallocate(adapt: Adapt, host_memory: Any, stream: ch.Stream) -> None:
    """An adaptor could not free memory that is given by its address, instead of as a buffer."""
    buffer = host_memory.allocate(100, stream=stream)
    taken = ch.Buffer.from_handle(buffer.handle, 100, mr=adapt(host_memory))
    taken.close()
    assert [size for _, size, _ in host_memory.freed] == [100]
    host_memory.blocks[buffer.handle] = None
    buffer.close()


def test_no_cycle(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """An adaptor would be in a reference cycle, so that only a garbage collection destroys it."""
    import weakref

    adaptor: Any = adapt(pool)
    buffer = adaptor.allocate(10, stream=stream)
    alive = weakref.ref(adaptor)
    gc.disable()
    try:
        del adaptor
        assert alive() is not None
        buffer.close()
        assert alive() is None
    finally:
        gc.enable()


def test_memory_between_processes(adapt: Adapt, device: ch.Device, stream: ch.Stream) -> None:
    """A buffer of a shared pool could not be sent to another process if it was allocated through an adaptor."""
    shared = ch.DeviceMemoryResource(device, {"ipc_enabled": True})
    with adapt(shared).allocate(256, stream=stream) as buffer:
        assert buffer.ipc_descriptor.size == 256
        assert len(pickle.dumps(buffer)) > 0


def test_chain(pool: ch.DeviceMemoryResource, stream: ch.Stream, tmp_path: Path) -> None:
    """An adaptor would not record the allocations of the adaptors around it."""
    chain: list[Any] = [pool]
    for adapt in 7 * list(ADAPTORS.values()):  # more than one call of the library takes
        chain += [ch.StatisticsResourceAdaptor(adapt(chain[-1]))]
    with chain[-1].allocate(100, stream=stream) as buffer:
        assert buffer.memory_resource is chain[-1]
        assert [used(each) for each in chain[1:]] == [(100, 1)] * (len(chain) - 1)
    assert [used(each) for each in chain[1:]] == [(0, 0)] * (len(chain) - 1)


def test_subclass_of_an_adaptor(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """An adaptor would bypass the allocate() of the adaptor that it wraps."""

    class Doubling(ch.StatisticsResourceAdaptor):
        def allocate(self, size: int, *, stream: Any = None) -> ch.Buffer:
            return super().allocate(2 * size, stream=stream)

    doubling = Doubling(pool)
    for outer in (adapt(doubling), adapt(adapt(doubling))):
        with outer.allocate(100, stream=stream) as buffer:
            assert buffer.size == 200
            assert used(doubling) == (200, 1)


def test_resource_that_gives_parts(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """If a resource returns parts of a larger buffer, such a part would count as freed while parts of it are in use."""

    class Arena(ch.MemoryResource):
        block, begin = pool.allocate(1000, stream=stream), 0

        def allocate(self, size: int, *, stream: Any = None) -> ch.Buffer:
            self.begin += size
            return self.block[self.begin - size : self.begin]

    statistics = ch.StatisticsResourceAdaptor(Arena())
    outer = ch.StatisticsResourceAdaptor(adapt(statistics))
    first, second = (outer.allocate(100, stream=stream) for _ in range(2))
    part = first[10:90][10:20]
    first.close()
    assert used(outer) == used(statistics) == (200, 2)
    part.close()
    assert used(outer) == used(statistics) == (100, 1)
    second.close()
    assert used(outer) == used(statistics) == (0, 0)
    Arena.block.close()


@pytest.mark.parametrize("size", [64, 0])
def test_resource_that_looks_at_its_buffers(adapt: Adapt, size: int, device: ch.Device, stream: ch.Stream) -> None:
    """The buffer would keep what the driver reported about its memory, and not ask the memory resource."""

    class Coherent(ch.MemoryResource):
        is_device_accessible, is_host_accessible, device_id = True, True, -1

        def allocate(self, size: int, *, stream: Any = None) -> ch.Buffer:
            block = bytearray(max(size, 1))
            buffer = ch.Buffer.from_handle(ctypes.addressof(ctypes.c_char.from_buffer(block)), size, owner=block)
            assert buffer.device_id == -1  # from the driver
            return buffer

        def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
            raise AssertionError("the owner frees the memory")

    with adapt(Coherent()).allocate(size, stream=stream) as buffer:
        assert buffer.is_device_accessible


def test_resource_that_gives_no_memory(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Memory that the wrapped resource could not allocate would count forever."""

    class Broken(ch.MemoryResource):
        def allocate(self, size: int, *, stream: Any = None) -> ch.Buffer:
            buffer = pool.allocate(size, stream=stream)
            buffer.close()
            return buffer

    limiting = ch.LimitingResourceAdaptor(ch.StatisticsResourceAdaptor(Broken()), 100)
    for _ in range(3):
        with pytest.raises(ch.ClosedError):
            limiting.allocate(60, stream=stream)
    Broken.allocate = lambda self, size, *, stream=None: ch.Buffer.from_handle(0, 0)  # type: ignore[method-assign]
    for _ in range(3):
        limiting.allocate(60, stream=stream)
    assert limiting.allocated_bytes == 0
