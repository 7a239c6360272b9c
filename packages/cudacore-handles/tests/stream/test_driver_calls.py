# SPDX-License-Identifier: Apache-2.0
"""The number of driver calls of frequent operations. Each call costs 10 to 300 ns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cudacore_handles as ch

PTX = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"
ONE = ch.LaunchConfig(grid=1, block=1)
# The queries of most operations: whether the context was reset, and whether the stream is captured.
RESET, CAPTURED = {"cuCtxGetId": 1}, {"cuStreamIsCapturing": 1}


@pytest.fixture
def operations(device: ch.Device, stream: ch.Stream) -> dict[str, Callable[[], object]]:
    """Give a dict from the names in OPERATIONS to functions that run frequent operations."""
    kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("k")
    buffer, other = (device.allocate(64, stream=stream) for _ in range(2))
    long = device.allocate(1 << 20, stream=stream)
    pinned = ch.LegacyPinnedMemoryResource().allocate(64)
    prepared = kernel.prepare(stream, ONE, buffer)
    event, other_stream = stream.record(), device.create_stream()
    foreign = ch.Buffer.from_handle(buffer.handle, 64)
    assert not foreign.is_managed  # the driver is asked once
    return {
        "launch": lambda: ch.launch(stream, ONE, kernel, buffer),
        "prepared launch": prepared,
        "fill": lambda: buffer.fill(0, stream=stream),
        "long fill": lambda: long.fill(b"12345678", stream=stream),
        "copy": lambda: buffer.copy_to(other, stream=stream),
        "copy from pinned memory": lambda: buffer.copy_from(pinned, stream=stream),
        "record": lambda: stream.record(event),
        "wait": lambda: stream.wait(event),
        "wait for a stream": lambda: stream.wait(other_stream),
        "wait for itself": lambda: stream.wait(stream),
        "is_done": lambda: event.is_done,
        "record and is_done": lambda: stream.record(event).is_done,
        "stream": lambda: device.create_stream().close(),
        "event": lambda: device.create_event().close(),
        "allocation": lambda: device.allocate(64, stream=stream).close(),
        "part": lambda: buffer[8:16].close(),
        "foreign memory": lambda: ch.Buffer.from_handle(buffer.handle, 64).close(),
        "properties of memory": lambda: (buffer.is_managed, foreign.is_managed),
        "set_current": device.set_current,
    }


OPERATIONS: dict[str, dict[str, int]] = {
    "launch": {**RESET, **CAPTURED, "cuLaunchKernelEx": 1},
    "prepared launch": {**RESET, **CAPTURED, "cuLaunchKernelEx": 1},
    "fill": {**RESET, **CAPTURED, "cuMemsetD8Async": 1},
    # All but the first 16 KiB is copied, because the fills of each half take long.
    "long fill": {**RESET, **CAPTURED, "cuPointerGetAttributes": 1, "cuMemsetD2D32Async": 2, "cuMemcpyAsync": 6},
    "copy": {**RESET, **CAPTURED, "cuMemcpyAsync": 1},
    "copy from pinned memory": {**RESET, **CAPTURED, "cuMemcpyAsync": 1},
    "record": {**RESET, "cuEventRecord": 1},
    "wait": {**RESET, "cuStreamWaitEvent": 1},
    "wait for a stream": {**RESET, "cuEventCreate": 1, "cuEventRecord": 1, "cuStreamWaitEvent": 1, "cuEventDestroy": 1},
    "wait for itself": {},
    "is_done": {**RESET, "cuEventQuery": 1},
    "record and is_done": {"cuCtxGetId": 2, **CAPTURED, "cuEventRecord": 1, "cuEventQuery": 1},
    "stream": {"cuCtxGetId": 2, "cuStreamCreateWithPriority": 1, "cuStreamDestroy": 1},
    "event": {"cuCtxGetId": 2, "cuEventCreate": 1, "cuEventDestroy": 1},
    "allocation": {
        "cuCtxGetId": 2,
        **CAPTURED,
        "cuMemAllocFromPoolAsync": 1,
        "cuThreadExchangeStreamCaptureMode": 2,
        "cuMemFreeAsync": 1,
    },
    "part": {},
    "foreign memory": {},
    "properties of memory": {},
    "set_current": RESET,
}


@pytest.mark.cuda_sim
@pytest.mark.parametrize("name", OPERATIONS)
def test_calls_of_an_operation(operations: dict[str, Callable[[], object]], cuda_sim: Any, name: str) -> None:
    """A frequent operation would make more driver calls than it needs."""
    operation, expected = operations[name], OPERATIONS[name]
    operation()  # queries that are made only once
    before = {entry: cuda_sim.calls(entry) for entry in expected}
    total = cuda_sim.calls()
    operation()
    total = cuda_sim.calls() - total
    assert {entry: cuda_sim.calls(entry) - before[entry] for entry in expected} == expected
    assert total == sum(expected.values())
