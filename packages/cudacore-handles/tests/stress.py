#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Use, export, close and drop shared objects from many threads at once, for some seconds.

Every object is in a slot that all threads share. A thread takes the object, does something with it, closes it while
others use it, or puts a new object in its place. The only permitted error is that an object is closed. There are rounds
of a few seconds, each with new threads. At the end of a round, all objects are dropped, none may be left alive, and
launches must have done all their work.

The seed decides what each thread does, not how the threads interleave. The driver is chosen by ``$CUDACORE_DRIVER``,
as for any program: ``sim`` is the simulated one. All work on a buffer is ordered on one stream, that of the buffer's
lane. So a kernel that uses freed memory is a defect of the library.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import random
import re
import sys
import threading
import time
import traceback
from typing import Any

from stress_operations import ANSWERS, OPERATIONS
from stress_world import SIMULATED, Owner, World

import cudacore_handles as ch
from cudacore_handles._sdk.testing import count_helper_streams

if SIMULATED:
    import cudacore_sim

ROUND = 2.0  # seconds
HANGS = 60.0  # seconds after the end of a round; threads that then still run count as deadlocked
FAULTS = range(700, 720)  # sticky error codes: all later calls in the context return the same code
# Driver 580 (CUDA 13.0) hangs or crashes in cuStreamSynchronize while another thread destroys a pool, even in a plain C
# program. See docs/contributing/decisions.rst.
NOT_ON_A_GPU = "^(?!pool)"


class Findings:
    """The unexpected results, and how often each occurred."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.first: dict[str, str] = {}
        self.fault = False

    def add(self, what: str, details: str = "") -> None:
        key = re.sub(r"0x[0-9a-f]+|\d+", "#", what)
        self.first.setdefault(key, details or what)
        self.counts[key] += 1

    def add_error(self, where: str, error: BaseException) -> None:
        self.fault = self.fault or (isinstance(error, ch.CUDAError) and error.code in FAULTS)
        self.add(f"{where}: {type(error).__name__}: {error}", "".join(traceback.format_exception(error)))

    def add_unraisable(self, unraisable: Any) -> None:
        """Record an exception (a replacement for ``sys.unraisablehook``)."""
        self.add_error(f"in a finalizer, {unraisable.err_msg or unraisable.object!r}", unraisable.exc_value)

    def print(self) -> None:
        for key, count in self.counts.most_common(10):
            print(f"\n{count} x {key}\n{self.first[key]}", flush=True)


def hammer(
    world: World, rng: random.Random, names: list[str], end: float, done: collections.Counter[str], found: Findings
) -> None:
    """Do one operation after another. Errors about closed objects are expected."""
    world.device.set_current()
    while time.monotonic() < end and not found.fault:
        name = rng.choice(names)
        try:
            OPERATIONS[name](world, rng, rng.choice(world.lanes))
        except ch.ClosedError:
            name = f"{name}: closed"
        except Exception as error:
            if isinstance(error, ch.CUDAError) and error.code in ANSWERS.get(name, ()):
                name = f"{name}: {error.code_name}"
            else:
                found.add_error(name, error)
        done[name] += 1


def play(
    device: ch.Device, seed: str, names: list[str], threads: int, seconds: float, found: Findings
) -> collections.Counter[str]:
    """Run one round; return how often each operation was done."""
    world = World(device)
    end = time.monotonic() + seconds
    tallies = [collections.Counter[str]() for _ in range(threads)]
    workers = [
        threading.Thread(target=hammer, args=(world, random.Random(f"{seed}/{i}"), names, end, tallies[i], found))
        for i in range(threads)
    ]
    faulthandler.dump_traceback_later(seconds + HANGS, exit=True)
    for worker in workers:
        worker.start()
    while time.monotonic() < end and not found.fault:
        gc.collect()
        time.sleep(0.01)
    for worker in workers:
        worker.join()
    if not found.fault:
        for error in world.errors():
            found.add(error)
        host_memory = world.host_memory
        del world, workers
        device.sync()
        while gc.collect():  # freeing garbage can create more garbage
            device.sync()
        if host_memory.blocks:
            found.add(f"a memory resource in Python was not asked to free {len(host_memory.blocks)} blocks")
        if Owner.alive:
            found.add(f"{len(Owner.alive)} owners were not released")
    faulthandler.cancel_dump_traceback_later()
    return sum(tallies, collections.Counter())


def live() -> dict[str, int]:
    """Count live objects: our handles and, on the simulated driver, its objects."""
    counts = collections.Counter(ch.live_counts())
    if SIMULATED:
        counts.update({f"simulated {kind}": count for kind, count in cudacore_sim.live().items()})
        counts["simulated stream"] -= count_helper_streams()  # these are kept as long as their context
    return {kind: count for kind, count in counts.items() if count}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--only", metavar="PATTERN", default="", help="only operations with names that match it")
    parser.add_argument("--list", action="store_true", help="print the operations' names")
    options = parser.parse_args(arguments)
    only = options.only or ("" if SIMULATED else NOT_ON_A_GPU)
    names = [name for name in OPERATIONS if re.search(only, name)]
    if options.threads < 1 or options.seconds <= 0 or not names:
        parser.error("--threads and --seconds must be positive, and --only must match the name of an operation")
    if options.list:
        print("\n".join(names))
        return 0

    faulthandler.enable()
    sys.setswitchinterval(1e-5)
    found, done = Findings(), collections.Counter[str]()
    sys.unraisablehook = found.add_unraisable
    device = ch.Device(0)
    device.set_current()
    # This round creates the objects that are created at first use and kept.
    play(device, "", names[:1], 1, 0.01, found)
    before = live()
    start, number = time.monotonic(), 0
    while (left := start + options.seconds - time.monotonic()) > 0 and not found.counts:
        done += play(device, f"{options.seed}/{number}", names, options.threads, min(left, ROUND), found)
        if not found.fault and (after := live()) != before:
            found.add(f"left alive after round {number}: {after}, and {before} before")
        for report in cudacore_sim.reports() if SIMULATED else ():
            found.add(report)
        number += 1

    width = max(map(len, done))
    for name, count in sorted(done.items()):
        print(f"{name:{width}} {count:9,}")
    found.print()
    seconds = time.monotonic() - start
    verdict = f"{len(found.counts)} findings" if found.counts else "nothing found"
    print(f"\nseed {options.seed}: {sum(done.values()):,} operations, {number} rounds, {seconds:.1f} s: {verdict}")
    return 1 if found.counts else 0


if __name__ == "__main__":
    sys.exit(main())
