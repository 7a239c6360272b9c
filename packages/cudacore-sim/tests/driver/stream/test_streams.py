# SPDX-License-Identifier: Apache-2.0
"""The order of work: streams and events determine it, and nothing else does."""

from __future__ import annotations

import ctypes
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kernels import PTX

import cudacore_sim

NOT_READY = 600
Run = Callable[[Callable[[], None], ctypes.c_void_p], None]
LEGACY, PER_THREAD = ctypes.c_void_p(1), ctypes.c_void_p(2)


class Gate:
    """Work in a stream that lasts until `open` is set."""

    def __init__(self, run: Run, stream: ctypes.c_void_p) -> None:
        self.open = threading.Event()
        run(lambda: self.open.wait(20) and None, stream)


def test_a_stream_is_busy_until_its_work_is_done(cuda: Any, run_in_stream: Run) -> None:
    """A query would report unfinished work as done."""
    stream, event = cuda.stream(), cuda.event()
    gate = Gate(run_in_stream, stream)
    cuda.cuEventRecord(event, stream)
    assert cuda.code("cuStreamQuery", stream) == cuda.code("cuEventQuery", event) == NOT_READY
    assert cuda.code("cuEventElapsedTime_v2", ctypes.byref(ctypes.c_float()), event, event) == NOT_READY
    gate.open.set()
    cuda.cuEventSynchronize(event)
    cuda.cuStreamQuery(stream)


def test_order_within_a_stream(cuda: Any, run_in_stream: Run) -> None:
    """Work of a stream would overtake earlier work of the same stream."""
    stream, seen = cuda.stream(1), []
    for number in range(200):
        run_in_stream(lambda number=number: seen.append(number), stream)
    cuda.cuStreamSynchronize(stream)
    assert seen == list(range(200))


def test_streams_do_not_wait_for_each_other(cuda: Any, run_in_stream: Run) -> None:
    """Independent work would be serialised, and a program whose streams must run at the same time would hang."""
    first, second, seen = cuda.stream(1), cuda.stream(1), []
    gate = Gate(run_in_stream, first)
    run_in_stream(lambda: seen.append("second"), second)
    cuda.cuStreamSynchronize(second)
    assert seen == ["second"]
    gate.open.set()


def test_waiting_for_an_event(cuda: Any, run_in_stream: Run) -> None:
    """A stream would not wait for an event, or would wait for work that the event recorded later."""
    first, second, event, seen = cuda.stream(1), cuda.stream(1), cuda.event(), []
    gate = Gate(run_in_stream, first)
    run_in_stream(lambda: seen.append("first"), first)
    cuda.cuEventRecord(event, first)
    cuda.cuStreamWaitEvent(second, event, 0)
    other = Gate(run_in_stream, first)
    cuda.cuEventRecord(event, first)
    run_in_stream(lambda: seen.append("second"), second)
    assert cuda.code("cuStreamQuery", second) == NOT_READY
    gate.open.set()
    cuda.cuStreamSynchronize(second)
    assert seen == ["first", "second"]
    other.open.set()


@pytest.mark.parametrize("default", [ctypes.c_void_p(), LEGACY])
def test_the_legacy_stream(cuda: Any, run_in_stream: Run, default: ctypes.c_void_p) -> None:
    """The legacy default stream would not synchronise with blocking streams, or would do so with non-blocking ones."""
    blocking, free, seen = cuda.stream(0), cuda.stream(1), []
    gate = Gate(run_in_stream, blocking)
    run_in_stream(lambda: seen.append("default"), default)
    run_in_stream(lambda: seen.append("free"), free)
    cuda.cuStreamSynchronize(free)
    assert cuda.code("cuStreamQuery", default) == NOT_READY
    run_in_stream(lambda: seen.append("blocking"), blocking)
    gate.open.set()
    cuda.cuStreamSynchronize(blocking)
    assert seen == ["free", "default", "blocking"]


def test_per_thread_streams(cuda: Any, run_in_stream: Run) -> None:
    """Two threads would have the same per-thread default stream."""
    context, seen = ctypes.c_void_p(cuda.out("cuCtxGetCurrent")), []
    gate = Gate(run_in_stream, PER_THREAD)

    def other() -> None:
        cuda.cuCtxSetCurrent(context)
        run_in_stream(lambda: seen.append("other"), PER_THREAD)
        cuda.cuStreamSynchronize_ptsz(None)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == ["other"]
    assert cuda.code("cuStreamQuery_ptsz", None) == NOT_READY
    gate.open.set()


def test_a_destroyed_streams_work_goes_on(cuda: Any, run_in_stream: Run) -> None:
    """Destroying a stream would drop its work, or synchronising the context would not wait for that work."""
    stream, seen = cuda.stream(), []
    gate = Gate(run_in_stream, stream)
    run_in_stream(lambda: seen.append(1), stream)
    cuda.cuStreamDestroy_v2(stream)
    gate.open.set()
    cuda.cuCtxSynchronize()
    assert seen == [1]


def test_the_legacy_stream_waits_for_a_destroyed_one(cuda: Any, run_in_stream: Run) -> None:
    """The legacy default stream would not wait for a destroyed blocking stream, or wait for a non-blocking one."""
    blocking, free, seen = cuda.stream(0), cuda.stream(1), []
    gate, other = Gate(run_in_stream, blocking), Gate(run_in_stream, free)
    cuda.cuStreamDestroy_v2(blocking)
    cuda.cuStreamDestroy_v2(free)
    assert cuda.code("cuStreamQuery", None) == NOT_READY
    run_in_stream(lambda: seen.append(gate.open.is_set()), LEGACY)
    gate.open.set()
    cuda.cuStreamSynchronize(None)
    assert seen == [True]
    other.open.set()


def test_callbacks_after_an_error(cuda: Any, run_in_stream: Run) -> None:
    """Callbacks would not receive the error of earlier work, or host functions would run after an error."""
    stream, library, kernel = cuda.stream(1), ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0)
    cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"fail")
    told, ran = [], []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
        lambda stream, status, data: told.append(status)
    )
    gate = Gate(run_in_stream, stream)
    cuda.cuStreamAddCallback(stream, callback, None, 0)
    cuda.cuLaunchKernel(kernel, *[1] * 6, 0, stream, None, None)
    cuda.cuStreamAddCallback(stream, callback, None, 0)
    run_in_stream(lambda: ran.append(1), stream)
    gate.open.set()
    error = cuda.code("cuStreamSynchronize", stream)
    assert error != 0
    deadline = time.monotonic() + 20  # calls that synchronise return at once in a context that has failed
    while len(told) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert (told, ran) == ([0, error], [])
    cudacore_sim.clear_errors()


SPINNING = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry wait(.param .u64 where)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [where];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
"""


def test_many_kernels_at_once(cuda: Any) -> None:
    """40 kernels that wait for a flag would prevent later work, which sets the flag, from running, unlike on a GPU."""
    library, kernel, flag = ctypes.c_void_p(), ctypes.c_void_p(), cuda.malloc(4)
    cuda.cuLibraryLoadData(ctypes.byref(library), SPINNING, None, None, 0, None, None, 0)
    cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"wait")
    cuda.cuMemsetD32_v2(flag, 0, ctypes.c_size_t(1))
    cuda.cuCtxSynchronize()
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(flag))
    for _ in range(40):
        cuda.cuLaunchKernel(kernel, *[1] * 6, 0, cuda.stream(1), arguments, None)
    setter = cuda.stream(1)
    cuda.cuMemsetD32Async(flag, 1, ctypes.c_size_t(1), setter)
    cuda.cuCtxSynchronize()


def test_many_host_functions_at_once(cuda: Any, run_in_stream: Run) -> None:
    """Host functions that wait would prevent all other work from running."""
    gates = [Gate(run_in_stream, cuda.stream(1)) for _ in range(150)]
    last, seen = cuda.stream(1), []
    run_in_stream(lambda: seen.append(1), last)
    cuda.cuStreamSynchronize(last)
    assert seen == [1]
    for gate in gates:
        gate.open.set()


def test_cuda_calls_in_host_functions(cuda: Any, run_in_stream: Run) -> None:
    """A host function could call CUDA, which deadlocks on a GPU."""
    codes: list[int] = []
    run_in_stream(lambda: codes.append(cuda.code("cuMemGetInfo_v2", None, None)), ctypes.c_void_p())
    cuda.cuCtxSynchronize()
    assert codes == [800]
    assert "cuMemGetInfo_v2 was called from a host function" in cudacore_sim.reports()[-1]


def test_question_in_a_host_function(cuda: Any, run_in_stream: Run) -> None:
    """Testing in a host function whether CUDA calls are permitted there would be reported as misuse."""
    codes: list[int] = []
    run_in_stream(lambda: codes.append(cuda.code("cuCtxGetCurrent", None)), ctypes.c_void_p())
    cuda.cuCtxSynchronize()
    assert codes == [800]
    assert cudacore_sim.reports() == []


def test_time_goes_on(cuda: Any) -> None:
    """The elapsed time between two events would be negative or zero."""
    stream, start, end = cuda.stream(), cuda.event(), cuda.event()
    memory = cuda.malloc(64 << 20)
    cuda.cuEventRecord(start, stream)
    cuda.cuMemsetD8Async(memory, 1, ctypes.c_size_t(64 << 20), stream)
    cuda.cuEventRecord(end, stream)
    cuda.cuStreamSynchronize(stream)
    assert 0 < cuda.out("cuEventElapsedTime_v2", start, end, kind=ctypes.c_float) < 10_000


SHUFFLED = """
import threading
cu.cuInit(0)
context = c_void_p()
cu.cuDevicePrimaryCtxRetain(byref(context), 0)
cu.cuCtxSetCurrent(context)
seen, kept = [], []
# Nothing can start before all is there, however slowly this thread goes on.
gate, opened = c_void_p(), c_void_p()
cu.cuStreamCreate(byref(gate), 1)
cu.cuEventCreate(byref(opened), 2)
ready = threading.Event()
kept.append(CFUNCTYPE(None, c_void_p)(lambda _: ready.wait()))
cu.cuLaunchHostFunc(gate, kept[-1], None)
cu.cuEventRecord(opened, gate)
for number in range(8):
    stream = c_void_p()
    cu.cuStreamCreate(byref(stream), 1)
    cu.cuStreamWaitEvent(stream, opened, 0)
    for step in range(3):
        kept.append(CFUNCTYPE(None, c_void_p)(lambda _, number=number, step=step: seen.append((number, step))))
        cu.cuLaunchHostFunc(stream, kept[-1], None)
ready.set()
cu.cuCtxSynchronize()
assert all([step for n, step in seen if n == number] == [0, 1, 2] for number in range(8))
print([number for number, _ in seen])
"""


def test_shuffling(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Work would not be shuffled, be reordered within a stream, or have another order with the same seed."""
    orders = [run_python(SHUFFLED, SHUFFLE=seed).stdout for seed in (1, 1, 2, 3)]
    assert orders[0]
    assert orders[0] == orders[1]
    assert len(set(orders)) == 3


WAITING = """
import threading
cu.cuInit(0)
context = c_void_p()
cu.cuDevicePrimaryCtxRetain(byref(context), 0)
cu.cuCtxSetCurrent(context)
first, second = c_void_p(), c_void_p()
cu.cuStreamCreate(byref(first), 1)
cu.cuStreamCreate(byref(second), 1)
one, other, met = threading.Event(), threading.Event(), []
def meet(mine, its):
    mine.set()
    met.append(its.wait(20))
meetings = [CFUNCTYPE(None, c_void_p)(lambda _, e=e: meet(*e)) for e in ((one, other), (other, one))]
cu.cuLaunchHostFunc(first, meetings[0], None)
cu.cuLaunchHostFunc(second, meetings[1], None)
cu.cuCtxSynchronize()
print(met)
"""


def test_shuffled_work_that_waits(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """With a shuffled order, work that waits for other running work would hang."""
    assert run_python(WAITING, SHUFFLE=1).stdout == "[True, True]\n"
