# SPDX-License-Identifier: Apache-2.0
"""Memory resources that wrap another one."""

from __future__ import annotations

import csv
import gc
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch

MIB = 1 << 20
OUT_OF_MEMORY, UNKNOWN = 2, 999
Adapt = Callable[[ch.MemoryResource], ch.ResourceAdaptor]


@pytest.fixture
def pool(device: ch.Device) -> Iterator[ch.DeviceMemoryResource]:
    """A pool of 64 MiB."""
    mr = ch.DeviceMemoryResource(device, {"max_size": 64 * MIB})
    yield mr
    mr.close()


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
    """Give each adaptor."""
    made: Adapt = request.param
    return made


def used(statistics: ch.StatisticsResourceAdaptor) -> tuple[int, int]:
    return statistics.allocation_counts[:2]


# ---- all adaptors


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


def test_device(adapt: Adapt, device: ch.Device, stream: ch.Stream) -> None:
    """Device.allocate would not use the adaptor."""
    before = device.memory_resource
    adaptor = device.memory_resource = adapt(before)  # type: ignore[assignment]
    try:
        with device.allocate(100, stream=stream) as buffer:
            assert buffer.memory_resource is adaptor
    finally:
        device.memory_resource = before


def test_wrong_arguments(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Invalid resources or sizes would cause an error elsewhere."""
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
    """Only pools could be wrapped."""
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
    """Memory that an adaptor counts would grow without being counted, or could not be exported."""
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
    """The error would not name the resource that is wrong."""

    class Wrong(ch.MemoryResource):
        def allocate(self, size: int, *, stream: Any) -> Any:
            return 1

    statistics = ch.StatisticsResourceAdaptor(adapt(Wrong()))
    with pytest.raises(TypeError, match=r"Wrong.allocate\(\) returned int, and must return a Buffer"):
        statistics.allocate(1, stream=stream)
    assert used(statistics) == (0, 0)


def test_deallocate(adapt: Adapt, host_memory: Any, stream: ch.Stream) -> None:
    """Memory that was not allocated as a buffer could not be freed."""
    buffer = host_memory.allocate(100, stream=stream)
    taken = ch.Buffer.from_handle(buffer.handle, 100, mr=adapt(host_memory))
    taken.close()
    assert [size for _, size, _ in host_memory.freed] == [100]
    host_memory.blocks[buffer.handle] = None
    buffer.close()


def test_no_cycle(adapt: Adapt, pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Only a garbage collection would destroy adaptors."""
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
    """Memory of a pool that processes share could not be sent."""
    shared = ch.DeviceMemoryResource(device, {"ipc_enabled": True})
    with adapt(shared).allocate(256, stream=stream) as buffer:
        assert buffer.ipc_descriptor.size == 256
        assert len(pickle.dumps(buffer)) > 0


@pytest.mark.cuda_sim
@pytest.mark.parametrize("upstream", ["pool", "virtual"])
def test_failures(
    adapt: Adapt, upstream: str, cuda_sim: Any, device: ch.Device, pool: ch.DeviceMemoryResource, stream: ch.Stream
) -> None:
    """A failed allocation would be hidden, or be counted."""
    call, mr = ("cuMemAllocFromPoolAsync", pool) if upstream == "pool" else ("cuMemCreate", ch.VirtualMemoryResource(0))
    outer = ch.LimitingResourceAdaptor(ch.StatisticsResourceAdaptor(adapt(mr)), 2 * MIB)
    statistics: Any = outer.upstream_mr
    outer.allocate(100, stream=stream).close()
    with cuda_sim.failing(call, error=UNKNOWN), pytest.raises(ch.CUDAError, match="CUDA_ERROR_UNKNOWN"):
        outer.allocate(100, stream=stream)
    with cuda_sim.failing(call, nth=0, error=OUT_OF_MEMORY), pytest.raises(ch.OutOfMemoryError):
        outer.allocate(100, stream=stream)
    with cuda_sim.failing(call, error=OUT_OF_MEMORY):
        outer.allocate(100, stream=stream).close()
    assert statistics.allocation_counts[::2][:1] == (0,)
    assert statistics.allocation_counts.total_count == 2
    outer.allocate(2 * MIB, stream=stream).close()  # the limit is as it was


def test_chain(pool: ch.DeviceMemoryResource, stream: ch.Stream, tmp_path: Path) -> None:
    """An adaptor would not record the allocations of the adaptors around it."""
    chain: list[Any] = [pool]
    for adapt in ADAPTORS.values():
        chain += [ch.StatisticsResourceAdaptor(adapt(chain[-1]))]
    with chain[-1].allocate(100, stream=stream) as buffer:
        assert buffer.memory_resource is chain[-1]
        assert [used(each) for each in chain[1:]] == [(100, 1)] * (len(chain) - 1)
    assert [used(each) for each in chain[1:]] == [(0, 0)] * (len(chain) - 1)


def test_long_chain(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The number of adaptors around each other would have a limit."""
    chain: list[Any] = [ch.StatisticsResourceAdaptor(pool)]
    for _ in range(40):
        chain.append(ch.StatisticsResourceAdaptor(chain[-1]))
    with chain[-1].allocate(100, stream=stream):
        assert {used(each) for each in chain} == {(100, 1)}
    assert {used(each) for each in chain} == {(0, 0)}


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
    """A buffer that the resource cut from a larger one would count as freed while parts of the buffer are in use."""

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


# ---- each of them


def test_statistics(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Allocations would be counted wrong, or frees forgotten: by close, by collection, or of parts."""
    statistics = ch.StatisticsResourceAdaptor(pool)
    first, second = (statistics.allocate(size, stream=stream) for size in (100, 50))
    assert statistics.allocation_counts == ch.AllocationCounts(150, 2, 150, 2, 150, 2)
    first.close()
    first.close()
    part = second[10:20]
    second.close()
    assert used(statistics) == (50, 1)
    del part
    assert used(statistics) == (0, 0)
    with statistics.allocate(7, stream=stream) as buffer:
        capsule = buffer.__dlpack__(stream=-1)
    assert used(statistics) == (7, 1)
    del capsule
    assert statistics.allocation_counts == ch.AllocationCounts(0, 0, 150, 2, 157, 3)


def test_measurement(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The allocations of a block would not be distinguished from others."""
    statistics = ch.StatisticsResourceAdaptor(pool)
    before = statistics.allocate(100, stream=stream)
    with statistics.measure() as outer:
        kept = statistics.allocate(10, stream=stream)
        with statistics.measure() as inner:
            statistics.allocate(30, stream=stream).close()
            assert inner.counts.peak_bytes == 30
        before.close()
    statistics.allocate(5, stream=stream).close()
    kept.close()
    assert inner.counts == ch.AllocationCounts(0, 0, 30, 1, 30, 1)
    assert outer.counts == ch.AllocationCounts(-90, 0, 40, 2, 40, 2)
    with pytest.raises(RuntimeError, match="one block"), outer:
        pass
    with pytest.raises(RuntimeError, match="has not begun"):
        _ = statistics.measure().counts


def test_threads(pool: ch.DeviceMemoryResource, device: ch.Device) -> None:
    """Threads would lose each other's counts."""
    tracking = ch.TrackingResourceAdaptor(pool, capture_stacks=False)
    statistics = ch.StatisticsResourceAdaptor(ch.LimitingResourceAdaptor(tracking, 64 * MIB))

    def churn(number: int) -> None:
        device.set_current()
        stream = device.create_stream()
        for _ in range(100):
            buffers = [statistics.allocate(256, stream=stream) for _ in range(3)]
            assert len(tracking.outstanding_allocations) >= 3
            for buffer in buffers:
                buffer.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(churn, range(4)))
    assert used(statistics) == (0, 0)
    assert statistics.allocation_counts.total_count == 1200
    assert tracking.outstanding_allocations == []


def test_tracking(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """A leak could not be found."""
    tracking = ch.TrackingResourceAdaptor(pool)
    statistics = ch.StatisticsResourceAdaptor(tracking)

    def leaky(size: int) -> ch.Buffer:
        return statistics.allocate(size, stream=stream)

    kept, gone, also = leaky(100), leaky(200), leaky(300)
    gone.close()
    found = tracking.outstanding_allocations
    assert [(one.ptr, one.size) for one in found] == [(kept.handle, 100), (also.handle, 300)]
    assert tracking.allocated_bytes == 400
    assert found[0].thread == threading.current_thread().name
    filename, line, function = found[0].stack[-1]
    assert (filename, function) == (__file__, "leaky")
    assert found[0].stack[-2][2] == "test_tracking"
    report = tracking.report()
    assert report.startswith("2 live allocations of <TrackingResourceAdaptor of ")
    assert f'File "{__file__}", line {line}, in leaky\n    return statistics.allocate(size, stream=stream)' in report
    kept.close()
    also.close()
    assert tracking.outstanding_allocations == []
    assert ch.TrackingResourceAdaptor(pool, capture_stacks=False).report().startswith("0 live allocations")


def test_tracking_of_what_is_freed_meanwhile(
    pool: ch.DeviceMemoryResource, stream: ch.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that another thread frees during the report would be listed as allocated by nobody."""
    tracking = ch.TrackingResourceAdaptor(pool)
    buffer = tracking.allocate(100, stream=stream)
    forget = tracking._forget
    monkeypatch.setattr(tracking, "_forget", lambda: (buffer.close(), forget()))
    assert [each.thread for each in tracking.outstanding_allocations] == ["MainThread"]
    assert not tracking._sites


def test_tracking_forgets(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Memory that was freed long ago would be kept forever."""
    tracking = ch.TrackingResourceAdaptor(pool)
    kept = tracking.allocate(100, stream=stream)
    for _ in range(2000):
        tracking.allocate(10, stream=stream).close()
    assert len(tracking._sites) < 600
    assert [one.size for one in tracking.outstanding_allocations] == [100]
    kept.close()


def test_tracking_keeps_no_frames(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The stack of an allocation would keep its frames' variables alive."""
    tracking = ch.TrackingResourceAdaptor(pool)

    class Big:
        pass

    def allocate() -> tuple[ch.Buffer, Any]:
        import weakref

        big = Big()
        return tracking.allocate(10, stream=stream), weakref.ref(big)

    buffer, alive = allocate()
    assert alive() is None
    buffer.close()


def test_log(pool: ch.DeviceMemoryResource, stream: ch.Stream, tmp_path: Path) -> None:
    """The log would not have RMM's format, or be incomplete."""
    path = tmp_path / "log.csv"
    log = ch.LoggingResourceAdaptor(pool, path)
    assert log.file_name == str(path)
    with log.allocate(100, stream=stream) as buffer:
        address = buffer.handle
    with pytest.raises(ch.OutOfMemoryError):
        log.allocate(1 << 50, stream=stream)
    log.flush()
    with path.open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["Thread", "Time", "Action", "Pointer", "Size", "Stream"]
    assert [line["Action"] for line in lines] == ["allocate", "free", "allocate failure", "allocate failure"]
    assert {int(line["Pointer"], 16) for line in lines[:2]} == {address}
    assert {line["Size"] for line in lines[:2]} == {"100"}
    assert {int(line["Stream"], 16) for line in lines} == {int(stream.handle)}
    assert {int(line["Thread"]) for line in lines} == {threading.get_native_id()}
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", line["Time"]) for line in lines)
    log.allocate(5, stream=stream).close()
    del log
    assert len(path.read_text().splitlines()) == 7
    ch.LoggingResourceAdaptor(pool, str(path)).allocate(5, stream=stream).close()
    assert path.read_text().count("Thread,") == 1
    assert len(path.read_text().splitlines()) == 9


def test_log_of_several_adaptors(pool: ch.DeviceMemoryResource, stream: ch.Stream, tmp_path: Path) -> None:
    """Each adaptor would write a header to the file that they share."""
    logs = [ch.LoggingResourceAdaptor(pool, tmp_path / "log.csv") for _ in range(3)]
    for log in logs:
        log.allocate(100, stream=stream).close()
        log.flush()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.count("Thread,") for line in lines] == [1] + 6 * [0]


def test_log_that_cannot_be_written(pool: ch.DeviceMemoryResource, stream: ch.Stream, tmp_path: Path) -> None:
    """Lines would be lost silently."""
    with pytest.raises(FileNotFoundError, match=r"log\.csv"):
        ch.LoggingResourceAdaptor(pool, tmp_path / "no" / "log.csv")
    with pytest.raises(ValueError, match="null"):
        ch.LoggingResourceAdaptor(pool, f"{tmp_path}/log\0.csv")
    with pytest.raises(TypeError, match="log_file_name"):
        ch.LoggingResourceAdaptor(pool, 1)  # type: ignore[arg-type]
    with pytest.raises(IsADirectoryError):
        ch.LoggingResourceAdaptor(pool, tmp_path)
    if sys.platform == "linux":
        log = ch.LoggingResourceAdaptor(pool, "/dev/full")
        log.allocate(5, stream=stream).close()
        with pytest.raises(ch.CUDAError, match="cannot be written"):
            log.flush()


def test_log_at_exit(run_on_driver: Callable[..., str], tmp_path: Path) -> None:
    """The last lines would be lost when the program ends."""
    path = tmp_path / "log.csv"
    run_on_driver(
        f"""
        import cudacore_handles as ch
        device = ch.Device()
        device.set_current()
        log = ch.LoggingResourceAdaptor(device.memory_resource, {str(path)!r})
        kept = log.allocate(100, stream=device.create_stream())
        """
    )
    assert ",allocate,0x" in path.read_text()


def test_limit(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """More memory than the limit could be allocated, or the limit would count memory that was freed."""
    limiting = ch.LimitingResourceAdaptor(pool, MIB)
    assert limiting.allocation_limit == MIB
    first = limiting.allocate(MIB - 100, stream=stream)
    with pytest.raises(ch.OutOfMemoryError, match="would exceed the limit of 1048576 bytes") as caught:
        limiting.allocate(101, stream=stream)
    assert caught.value.code_name == "CCH_ELIMIT"
    assert limiting.allocated_bytes == MIB - 100
    limiting.allocate(100, stream=stream).close()
    first.close()
    assert limiting.allocated_bytes == 0
    for limit, error in ((0, ValueError), (-1, ValueError), ("1", TypeError)):
        with pytest.raises(error, match="allocation_limit"):
            ch.LimitingResourceAdaptor(pool, limit)  # type: ignore[arg-type]


def test_limit_of_sizes_that_are_rounded_up(device: ch.Device, cuda_sim: Any) -> None:
    """Memory whose size is rounded up would exceed the limit."""
    limiting = ch.LimitingResourceAdaptor(ch.VirtualMemoryResource(device), 3 * MIB)
    statistics = ch.StatisticsResourceAdaptor(limiting)
    first = statistics.allocate(1)
    with pytest.raises(ch.OutOfMemoryError, match=f"{2 * MIB} bytes would exceed the limit of {3 * MIB}") as caught:
        statistics.allocate(1)
    assert caught.value.code_name == "CCH_ELIMIT"
    assert used(statistics) == (2 * MIB, 1)
    assert cuda_sim.live()["address_range"] == 1
    first.close()
    statistics.allocate(1).close()


@pytest.mark.parametrize("direct", [True, False])
def test_limit_collects_garbage(
    direct: bool, pool: ch.DeviceMemoryResource, host_memory: Any, stream: ch.Stream
) -> None:
    """Buffers in garbage would count against the limit, although a collection can free them."""
    limiting = ch.LimitingResourceAdaptor(pool if direct else host_memory, MIB)
    for _ in range(3):
        cycle: dict[str, Any] = {"buffer": limiting.allocate(MIB, stream=stream)}
        cycle["myself"] = cycle
        del cycle
    limiting.collects_garbage = False
    assert not limiting.upstream_mr.collects_garbage
    with pytest.raises(ch.OutOfMemoryError):
        limiting.allocate(1, stream=stream)
    gc.collect()


def test_failure_callback(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """A program could not make room and try again."""
    kept = [pool.allocate(32 * MIB, stream=stream) for _ in range(2)]
    asked = []

    def make_room(size: int) -> bool:
        asked.append(size)
        if kept:
            kept.pop().close(stream)
        return bool(kept) or len(asked) < 3

    adaptor = ch.FailureCallbackResourceAdaptor(pool, make_room)
    adaptor.allocate(32 * MIB, stream=stream).close()
    assert asked == [32 * MIB]
    adaptor.allocate(64 * MIB, stream=stream).close()
    assert len(asked) == 2
    with pytest.raises(ch.OutOfMemoryError) as caught:
        adaptor.allocate(65 * MIB, stream=stream)
    assert caught.value.__context__ is None
    assert len(asked) == 3
    with pytest.raises(TypeError, match="callback must be callable"):
        ch.FailureCallbackResourceAdaptor(pool, 1)  # type: ignore[arg-type]


def test_failure_callback_gets_an_int(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The function would be called with a size of another type than int."""
    seen: list[Any] = []
    adaptor = ch.FailureCallbackResourceAdaptor(pool, seen.append)  # type: ignore[arg-type]
    with pytest.raises(ch.OutOfMemoryError):
        adaptor.allocate(np.int64(65 * MIB), stream=stream)  # type: ignore[arg-type]
    assert [type(size) for size in seen] == [int]


def test_failure_callback_is_not_for_outer_limits(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """A callback inside of a limit would be called for that limit, or one around a limit would not be called."""
    asked = []
    inner = ch.FailureCallbackResourceAdaptor(pool, lambda size: asked.append(size) is not None)
    with pytest.raises(ch.OutOfMemoryError):
        ch.LimitingResourceAdaptor(inner, 10).allocate(11, stream=stream)
    assert asked == []
    outer = ch.FailureCallbackResourceAdaptor(
        ch.LimitingResourceAdaptor(pool, 10), lambda size: asked.append(size) is not None
    )
    with pytest.raises(MemoryError):
        outer.allocate(11, stream=stream)
    assert asked == [11]


def test_failure_callback_of_a_resource_of_a_user(stream: ch.Stream, host_memory: Any) -> None:
    """The callback would not be called for a MemoryError of a user's resource, or be called for another error."""
    errors: list[BaseException] = [MemoryError("none left")]

    class Failing(type(host_memory)):  # type: ignore[misc]
        def allocate(self, size: int, *, stream: Any = None) -> ch.Buffer:
            if errors:
                raise errors.pop()
            made: ch.Buffer = super().allocate(size, stream=stream)
            return made

    failing = Failing()
    adaptor = ch.FailureCallbackResourceAdaptor(failing, lambda size: True)
    adaptor.allocate(10, stream=stream).close()
    errors.append(KeyError("other"))
    with pytest.raises(KeyError):
        adaptor.allocate(10, stream=stream)
