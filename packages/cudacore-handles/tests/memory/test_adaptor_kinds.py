# SPDX-License-Identifier: Apache-2.0
"""Each adaptor of memory resources: statistics, tracking, logging, limits and failure callbacks."""

from __future__ import annotations

import csv
import gc
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch

MIB = 1 << 20


def test_statistics(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Allocations would be counted wrongly, or frees by close(), garbage collection or the last part be missed."""
    statistics = ch.StatisticsResourceAdaptor(pool)
    first, second = (statistics.allocate(size, stream=stream) for size in (100, 50))
    assert statistics.allocation_counts == ch.AllocationCounts(150, 2, 150, 2, 150, 2)
    first.close()
    first.close()
    part = second[10:20]
    second.close()
    assert statistics.allocation_counts[:2] == (50, 1)
    del part
    assert statistics.allocation_counts[:2] == (0, 0)
    with statistics.allocate(7, stream=stream) as buffer:
        capsule = buffer.__dlpack__(stream=-1)
    assert statistics.allocation_counts[:2] == (7, 1)
    del capsule
    assert statistics.allocation_counts == ch.AllocationCounts(0, 0, 150, 2, 157, 3)


def test_measurement(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The allocations in a ``with`` block could not be measured separately from all others."""
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
    """Allocations of several threads at the same time would not all be counted."""
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
    assert statistics.allocation_counts[:2] == (0, 0)
    assert statistics.allocation_counts.total_count == 1200
    assert tracking.outstanding_allocations == []


def test_tracking(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The report of live allocations would not show the code that leaks memory."""
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
    """Memory that another thread frees during the report would be listed without the code that allocated it."""
    tracking = ch.TrackingResourceAdaptor(pool)
    buffer = tracking.allocate(100, stream=stream)
    forget = tracking._forget
    monkeypatch.setattr(tracking, "_forget", lambda: (buffer.close(), forget()))
    assert [each.thread for each in tracking.outstanding_allocations] == ["MainThread"]
    assert not tracking._sites


def test_tracking_forgets(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The adaptor would keep its records of freed memory forever."""
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
    """If several adaptors write to one file, each of them would write a header."""
    logs = [ch.LoggingResourceAdaptor(pool, tmp_path / "log.csv") for _ in range(3)]
    for log in logs:
        log.allocate(100, stream=stream).close()
        log.flush()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.count("Thread,") for line in lines] == [1] + 6 * [0]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has a full device")
def test_log_that_cannot_be_written(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """If the log cannot be written, its lines would be lost silently."""
    log = ch.LoggingResourceAdaptor(pool, "/dev/full")
    log.allocate(5, stream=stream).close()
    with pytest.raises(ch.CUDAError, match="cannot be written"):
        log.flush()


def test_log_at_exit(run_on_driver: Callable[..., str], tmp_path: Path) -> None:
    """The last lines of a log would be lost when the program ends."""
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
    """More memory than the limit could be allocated, or memory that was freed would count against the limit."""
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


def test_limit_of_sizes_that_are_rounded_up(device: ch.Device, cuda_sim: Any) -> None:
    """Memory whose size is rounded up would exceed the limit."""
    limiting = ch.LimitingResourceAdaptor(ch.VirtualMemoryResource(device), 3 * MIB)
    statistics = ch.StatisticsResourceAdaptor(limiting)
    first = statistics.allocate(1)
    with pytest.raises(ch.OutOfMemoryError, match=f"{2 * MIB} bytes would exceed the limit of {3 * MIB}") as caught:
        statistics.allocate(1)
    assert caught.value.code_name == "CCH_ELIMIT"
    assert statistics.allocation_counts[:2] == (2 * MIB, 1)
    assert cuda_sim.live()["address_range"] == 1
    first.close()
    statistics.allocate(1).close()


@pytest.mark.parametrize("direct", [True, False])
def test_limit_collects_garbage(
    direct: bool, pool: ch.DeviceMemoryResource, host_memory: Any, stream: ch.Stream
) -> None:
    """Buffers in garbage would count against the limit, although a collection can free them."""
    limiting = ch.LimitingResourceAdaptor(pool if direct else host_memory, MIB)
    gc.disable()  # a collection that begins by itself would free the buffer that must be missed
    try:
        for _ in range(3):
            cycle: dict[str, Any] = {"buffer": limiting.allocate(MIB, stream=stream)}
            cycle["myself"] = cycle
            del cycle
        limiting.collects_garbage = False
        assert not limiting.upstream_mr.collects_garbage
        with pytest.raises(ch.OutOfMemoryError):
            limiting.allocate(1, stream=stream)
    finally:
        gc.enable()
    gc.collect()


@pytest.mark.parametrize("direct", [True, False])
def test_limit_within_a_limit(direct: bool, pool: ch.DeviceMemoryResource, host_memory: Any, stream: ch.Stream) -> None:
    """An allocation that an inner limit refuses would count against the outer limit forever."""
    outer = ch.LimitingResourceAdaptor(ch.LimitingResourceAdaptor(pool if direct else host_memory, 20), 30)
    for _ in range(2):
        with pytest.raises(ch.OutOfMemoryError, match="the limit of 20 bytes"):
            outer.allocate(25, stream=stream)
    outer.allocate(20, stream=stream).close()


def test_failure_callback(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """When an allocation fails, a callback could not free memory and have the allocation tried again."""
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


def test_failure_callback_gets_an_int(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """The callback would be called with a size of another type than int."""
    seen: list[Any] = []
    adaptor = ch.FailureCallbackResourceAdaptor(pool, seen.append)  # type: ignore[arg-type]
    with pytest.raises(ch.OutOfMemoryError):
        adaptor.allocate(np.int64(65 * MIB), stream=stream)  # type: ignore[arg-type]
    assert [type(size) for size in seen] == [int]


def test_failure_callback_is_not_for_outer_limits(pool: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """A callback would be called for the limit of an outer adaptor, or not be called for the limit of an inner one."""
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
