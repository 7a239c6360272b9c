# SPDX-License-Identifier: Apache-2.0
"""Waiting for events and streams in asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest
from foreign_objects import Gate

import cudacore_handles as ch
from threads_at_once import in_threads

TRAP = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry fault() { trap; }\n"


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    if kind == "asyncio":
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop", reason="uvloop is not installed").new_event_loop()
    return loop


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: Any) -> Iterator[Run]:
    """Give a function that runs a coroutine in an event loop."""
    loop = new_loop(request.param)
    yield loop.run_until_complete
    loop.close()


def waits(stream: ch.Stream) -> list[Callable[[], Any]]:
    """Return two functions that wait for the work that the stream has now: by an event, and by async_done()."""
    event = stream.record()

    async def wait() -> Any:
        return await event

    return [wait, stream.async_done]


def test_what_is_done(run: Run, stream: ch.Stream) -> None:
    """Waiting for work that is already done would suspend the task."""

    async def main() -> None:
        stream.sync()
        event = stream.record()
        stream.sync()
        assert await event is event
        assert await stream.async_done() is stream

    run(main())


def test_other_tasks_run(run: Run, stream: ch.Stream, gate: Gate) -> None:
    """The event loop would be blocked during a wait, or the wait would end too early."""

    async def main() -> None:
        ticks = 0
        tasks = [asyncio.ensure_future(wait()) for wait in waits(stream)]
        while ticks < 20:
            ticks += 1
            await asyncio.sleep(0.001)
        assert not any(task.done() for task in tasks)
        gate.open()
        await asyncio.gather(*tasks)
        assert gate.is_passed

    run(main())


def test_the_work_of_the_call(run: Run, stream: ch.Stream, gate: Gate) -> None:
    """async_done() would wait for work that was submitted later."""

    async def main() -> None:
        done = stream.async_done()
        later = Gate(stream)
        gate.open()
        await asyncio.wait_for(done, 10)
        later.open()

    run(main())


def test_a_thousand_tasks(run: Run, stream: ch.Stream, gate: Gate) -> None:
    """Each waiting task would use a thread, or queries would keep the event loop busy."""

    async def main() -> None:
        others = threading.active_count()
        tasks = [asyncio.ensure_future(wait()) for _ in range(500) for wait in waits(stream)]
        await asyncio.sleep(0.01)
        before = threading.active_count()
        began, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < 0.2:
            await asyncio.sleep(0.01)
        assert threading.active_count() == before <= others + 2
        assert time.process_time() - busy < 0.7 * (time.perf_counter() - began)
        gate.open()
        assert len(await asyncio.gather(*tasks)) == 1000

    run(main())


def test_cancel(run: Run, stream: ch.Stream, gate: Gate) -> None:
    """After a wait is cancelled, the end of the work would cause an error in the event loop."""
    problems: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        tasks = [asyncio.ensure_future(wait()) for wait in waits(stream)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert all(isinstance(r, asyncio.CancelledError) for r in await asyncio.gather(*tasks, return_exceptions=True))
        for wait in waits(stream):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait(), 0.01)
        gate.open()
        await stream.async_done()
        await asyncio.sleep(0.01)

    run(main())
    assert not problems


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_the_loop_is_closed_meanwhile(kind: str, stream: ch.Stream, gate: Gate) -> None:
    """When the work ends, the host function would use an event loop that is closed, or would keep the loop alive."""
    loop = new_loop(kind)
    ways = waits(stream)

    async def main() -> list[Any]:
        return [asyncio.ensure_future(wait()) for wait in ways] and [stream.async_done()]

    left = loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gate.open()
    stream.sync()
    assert not left[0].done()
    gone = weakref.ref(loop)
    del left, loop, task
    stream.sync()  # releases the host function
    gc.collect()
    assert gone() is None


def test_interrupt_of_a_question(run: Run, stream: ch.Stream, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop that is run again after Ctrl+C would never query an event again."""
    from cudacore_handles._stream import waiting

    async def wait(event: ch.Event) -> ch.Event:
        return await event

    async def both() -> None:
        await asyncio.gather(*tasks)

    class Library:
        def cch_event_poll(self, event: object) -> int:
            raise KeyboardInterrupt

    async def begin() -> None:
        tasks.extend(asyncio.ensure_future(wait(stream.record())) for _ in range(2))
        await asyncio.sleep(0)

    tasks: list[Any] = []
    run(begin())
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "lib", Library())
        with pytest.raises(KeyboardInterrupt):
            run(both())
    gate.open()
    run(asyncio.wait_for(both(), 5))


def test_what_cannot_be_waited_for(run: Run, device: ch.Device, stream: ch.Stream) -> None:
    """Without an event loop, the error would not say so. A closed object would reach the driver, and a wait for a
    captured stream would never end, or invalidate the capture."""
    pytest.importorskip("cudacore_graph")
    with pytest.raises(RuntimeError, match="no running event loop"):
        stream.async_done()
    event, closed, captured = stream.record(), device.create_stream(), device.create_stream()
    event.close()
    closed.close()

    async def main() -> None:
        builder = captured.create_graph_builder().begin_building()
        for wait, error, match in (
            (event.__await__, ch.ClosedError, "Event has been closed"),
            (closed.async_done, ch.ClosedError, "Stream has been closed"),
            (captured.async_done, ch.CUDAError, "Captured work does not run before its graph is launched"),
        ):
            with pytest.raises(error, match=match):
                wait()
        builder.end_building().complete()
        builder.close()

    run(main())


def test_closed_while_waited_for(run: Run, device: ch.Device) -> None:
    """An event or a stream that is closed during a wait would be destroyed before the wait ends."""
    stream = device.create_stream()
    gate = Gate(stream)

    async def main() -> None:
        event = stream.record()
        tasks = [asyncio.ensure_future(wait()) for wait in waits(stream)]
        tasks.append(asyncio.ensure_future(_wait(event)))
        await asyncio.sleep(0)
        event.close()
        stream.close()
        gate.open()
        await asyncio.gather(*tasks)

    run(main())


async def _wait(awaitable: Any) -> Any:
    return await awaitable


def test_two_loops(device: ch.Device) -> None:
    """Loops of several threads would wake each other's tasks."""

    def work(_: int) -> None:
        async def main() -> None:
            device.set_current()
            stream = device.create_stream()
            done: list[int] = []
            for number in range(20):
                stream.callback(lambda: time.sleep(0.0005))
                stream.callback(partial(done.append, number))
                await asyncio.gather(*(wait() for wait in waits(stream)))
                assert done[-1] == number

        asyncio.run(main())

    in_threads(work, range(3))


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_capture_meanwhile(run: Run, device: ch.Device, stream: ch.Stream, gate: Gate, mode: str) -> None:
    """A waiting task would invalidate the capture of another task on the same thread."""
    pytest.importorskip("cudacore_graph")

    async def main() -> None:
        tasks = [asyncio.ensure_future(wait()) for wait in waits(stream)]
        await asyncio.sleep(0)
        builder = device.create_graph_builder()
        builder.begin_building(mode)
        await asyncio.sleep(0.005)
        tasks += [asyncio.ensure_future(wait()) for wait in waits(stream)]
        await asyncio.sleep(0.005)
        gate.open()
        await asyncio.gather(*tasks)
        builder.end_building().complete()
        builder.close()

    run(main())


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_fault_of_the_device(kind: str) -> None:
    """If the awaited work fails, CUDA does not call the host function, and the task would wait forever."""
    new_loop(kind).close()
    code = f"""
    import asyncio, threading, {kind}
    import cudacore_handles as ch
    device = ch.Device(); device.set_current()
    kernel = ch.ObjectCode.from_ptx({TRAP!r}).get_kernel("fault")
    go = threading.Event()
    async def wait(event): await event
    async def main():
        stream = device.create_stream()
        stream.callback(lambda: go.wait(30) and None)
        ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel)
        tasks = [asyncio.ensure_future(wait(stream.record())), stream.async_done()]
        await asyncio.sleep(0.01)
        go.set()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            print(type(error).__name__, error.code_name)
    loop = {kind}.new_event_loop()
    loop.run_until_complete(main())
    """
    # With lazy loading, loading the kernel would wait for the running host function.
    environment = os.environ | {"CUDA_MODULE_LOADING": "EAGER"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout == 2 * "CUDAError CUDA_ERROR_LAUNCH_FAILED\n", done.stderr


QUERY = "cuEventQuery"
CALLS = [("cuEventCreate", 1), ("cuEventRecord", 1), ("cuLaunchHostFunc", 1), ("cuStreamIsCapturing", 1)]


@pytest.mark.cuda_sim
@pytest.mark.parametrize(("call", "nth"), [*CALLS, (QUERY, 1), (QUERY, 2)])
def test_failures(run: Run, stream: ch.Stream, gate: Gate, cuda_sim: Any, call: str, nth: int) -> None:
    """A failure of the driver would leave a task that waits forever."""

    async def main() -> None:
        event = stream.record()
        with cuda_sim.failing(call, nth=nth, error=999), pytest.raises(ch.CUDAError, match="CUDA_ERROR_UNKNOWN"):
            await (event if call == QUERY else stream.async_done())

    run(main())
