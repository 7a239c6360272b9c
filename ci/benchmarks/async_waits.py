# SPDX-License-Identifier: Apache-2.0
"""Measure three ways to wait for a device: blocking, in asyncio, and with a thread. docs/asyncio.rst has the figures.

The script needs a GPU, because its kernel waits with the device's clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import cudacore_handles as ch

PTX = b"""
.version 7.8
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 ns) {
 .reg .u64 %a, %b, %c;
 .reg .pred %p;
 ld.param.u64 %c, [ns];
 mov.u64 %a, %globaltimer;
L: mov.u64 %b, %globaltimer;
 sub.u64 %b, %b, %a;
 setp.lt.u64 %p, %b, %c;
 @%p bra L;
 ret;
}
"""
LENGTHS = {
    10_000: 300,
    100_000: 300,
    1_000_000: 300,
    10_000_000: 40,
}  # maps the duration of the kernel in ns to the number of rounds

device = ch.Device()
device.set_current()
stream = device.create_stream()
blocking = device.create_event(ch.EventOptions(blocking_sync=True))
spin = ch.ObjectCode.from_ptx(PTX).get_kernel("spin")
ONE = ch.LaunchConfig(grid=1, block=1)


async def sync_event() -> None:
    stream.record().sync()


async def sync_blocking_event() -> None:
    stream.record(blocking).sync()


async def await_event() -> None:
    await stream.record()


async def await_stream() -> None:
    await stream.async_done()


async def wait_in_thread() -> None:
    await asyncio.to_thread(stream.sync)


WAYS = (sync_event, sync_blocking_event, await_event, await_stream, wait_in_thread)


async def measure(way: Callable[[], Awaitable[None]], length: int, rounds: int) -> tuple[float, float]:
    """Return by how much the best round exceeds the kernel's duration, and the mean processor time per round, in µs."""
    best, processor = float("inf"), 0.0
    for _ in range(rounds):
        stream.sync()
        busy, began = time.process_time(), time.perf_counter()
        ch.launch(stream, ONE, spin, length)
        await way()
        best = min(best, time.perf_counter() - began)
        processor += time.process_time() - busy
    return best * 1e6 - length / 1e3, processor / rounds * 1e6


async def wait_for_many(way: Callable[[], Awaitable[None]], count: int) -> float:
    """Return the total processor time, in seconds, of `count` tasks that wait for half a second."""
    ch.launch(stream, ONE, spin, 500_000_000)
    busy = time.process_time()
    await asyncio.gather(*(way() for _ in range(count)))
    return time.process_time() - busy


async def main() -> None:
    for way in WAYS:
        for length, rounds in LENGTHS.items():
            best, processor = await measure(way, length, rounds)
            print(f"{way.__name__:20} {length / 1e3:8.0f} us: {best:8.1f} us more, processor {processor:8.1f} us")
    for way in (await_event, await_stream):
        print(f"{way.__name__:20} 1000 tasks, 0.5 s: processor {await wait_for_many(way, 1000):.3f} s")


if __name__ == "__main__":
    asyncio.run(main())
