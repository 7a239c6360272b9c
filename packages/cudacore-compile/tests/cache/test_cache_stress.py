# SPDX-License-Identifier: Apache-2.0
"""Processes that share a file cache, and are killed at any moment; random programs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cudacore_compile import FileStreamProgramCache

WORKER = Path(__file__).with_name("cache_worker.py")
LIMIT = 400_000  # LIMIT of cache_worker.py
PROCESSES = 8
# For a long test, set CUDACORE_CACHE_OPERATIONS=10000.
OPERATIONS = int(os.environ.get("CUDACORE_CACHE_OPERATIONS", "1200"))
SECONDS = 60 + OPERATIONS / 20


class Count:
    done = wrong = 0


def read(worker: subprocess.Popen[str], count: Count, lock: threading.Lock) -> None:
    assert worker.stdout is not None
    with worker.stdout as lines:
        for line in lines:
            with lock:
                count.done += line == "done\n"
                count.wrong += line == "wrong\n"


def start(folder: Path, seed: int, count: Count, lock: threading.Lock) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), str(folder), str(seed)]
    with open(folder.with_name("errors"), "ab") as errors:
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    threading.Thread(target=read, args=(worker, count, lock)).start()
    return worker


def size_of(folder: Path) -> int:
    """Return the size of all files, including those being written."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(directory, name)).st_size
            except FileNotFoundError:
                pass
    return total


def test_processes_that_are_killed(tmp_path: Path) -> None:
    """A process that shares a cache would read a half-written entry, be stopped by another one, or fill the disk."""
    choose = random.Random(9)
    count, lock = Count(), threading.Lock()
    folder = tmp_path / "cache"
    workers = [start(folder, seed, count, lock) for seed in range(PROCESSES)]
    kills = 0
    deadline = time.monotonic() + SECONDS
    try:
        while count.done < OPERATIONS or kills < PROCESSES:
            assert time.monotonic() < deadline, f"stuck after {count.done} operations"
            time.sleep(choose.uniform(0.02, 0.2))
            if count.done > OPERATIONS // 20:
                kills += 1
                victim = choose.randrange(PROCESSES)
                workers[victim].kill()
                workers[victim].wait()
                workers[victim] = start(folder, PROCESSES + kills, count, lock)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert (count.wrong, (tmp_path / "errors").read_text()) == (0, "")
    abandoned = list(folder.rglob("*.tmp"))
    assert len(abandoned) <= 8 * (PROCESSES + kills)  # at most one for each thread that was killed
    for path in abandoned:
        os.utime(path, (0, 0))
    cache = FileStreamProgramCache(folder, max_size_bytes=LIMIT)
    cache["alive"] = b"yes"
    assert cache["alive"] == b"yes"
    assert cache.statistics.failures == 0
    assert size_of(folder) <= LIMIT
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.parametrize("seed", [11, 20])
def test_random_programs(seed: int) -> None:
    """A cache would return old code for programs that hide what they include, or a file would not be in the key.

    ``nox -s fuzz_cache`` tries more.
    """
    script = Path(__file__).with_name("fuzz_cache.py")
    result = subprocess.run([sys.executable, str(script), "1", str(seed)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert " hits" in result.stdout
