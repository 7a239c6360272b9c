# SPDX-License-Identifier: Apache-2.0
"""Rounds of measurements: each candidate in fresh processes on one core, until the minima are stable.

A whole process can be fast or slow, by up to a factor of 2, depending on the addresses of its memory and of the
driver's. So neither one process nor the median of a few processes is a reliable measurement. Here each round runs every
candidate in a new process, on the same core. A row is done when the two best rounds of each candidate agree. The
minimum is used.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rows import FIRST_VALUE, MAX_THREADS, ROWS, Row

HERE = Path(__file__).resolve().parent
WORKER_HANGS = 600.0  # seconds
MIN_ROUNDS, MAX_ROUNDS = 5, 15
STABLE = 1.03  # limit for the ratio of a candidate's second-best round to its best one

# The measurements of each row in nanoseconds, or the reason why there are none.
Measurements = dict[str, "list[float] | str"]


def cores() -> tuple[set[int], set[int]]:
    """Return the core that all processes run on, and the cores for rows with several threads."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[-1]}, set(usable[:MAX_THREADS])


def run_on(where: set[int], command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command on the given cores only."""
    pin = functools.partial(os.sched_setaffinity, 0, where)
    return subprocess.run(command, preexec_fn=pin, capture_output=True, text=True, check=False, **options)


@dataclass
class Candidate:
    """Base class of things to measure and compare: a module, another version of cudacore, or the floor."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    version: str | None = None
    device: str | None = None
    calls: dict[str, dict[str, float]] = field(default_factory=dict)  # of the driver, by row: see instructions.py

    def run(self, rows: list[Row], where: set[int]) -> Measurements:
        """Measure rows in one process."""
        if not rows:
            return {}
        command = [*self.command, *(self.row_name(row) for row in rows)]
        try:
            process = run_on(where, command, env=os.environ | self.env, timeout=WORKER_HANGS)
            error = "" if process.returncode == 0 else (process.stderr.strip() or "no message").splitlines()[-1]
        except subprocess.TimeoutExpired:
            error = f"deadlock: the process has not ended after {WORKER_HANGS:.0f} s"
        return dict.fromkeys((row.name for row in rows), error) if error else self.read(process.stdout, rows)

    def row_name(self, row: Row) -> str:
        return row.name

    def read(self, output: str, rows: list[Row]) -> Measurements:
        report = json.loads(output)
        self.version, self.device, self.calls = report["version"], report["device"], report["calls"]
        return report["rows"]


class Floor(Candidate):
    """The floor: the rows' driver calls in plain C. Several rows can be compared with the same row of the floor."""

    def row_name(self, row: Row) -> str:
        return row.floor_name

    def read(self, output: str, rows: list[Row]) -> Measurements:
        lines = (line.split("\t") for line in output.splitlines())
        found = {name: [float(value) for value in values] for name, *values in lines}
        return {row.name: found[row.floor_name] for row in rows if row.floor_name in found}


@dataclass
class Series:
    """All measurements of one row, by candidate and round."""

    name: str
    rounds: dict[str, list[list[float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, candidate: str, values: list[float] | str) -> None:
        if isinstance(values, str):
            self.notes[candidate] = values
            self.rounds.pop(candidate, None)
        elif candidate not in self.notes:
            self.rounds.setdefault(candidate, []).append(values)

    def is_done(self) -> bool:
        """Return whether there were enough rounds, and the two best rounds of each candidate agree."""
        for rounds in self.rounds.values():
            if len(rounds) < MIN_ROUNDS:
                return False
            best, second = sorted(map(min, rounds))[:2]
            if second > best * STABLE:
                return False
        return True


@dataclass
class Clock:
    """The limits of a run: the number of rounds, and the time in seconds."""

    max_rounds: int
    seconds: float
    start: float = field(default_factory=time.monotonic)

    def allows(self, number: int) -> bool:
        """Return whether to begin another round after `number` rounds: a round of average length must end in time."""
        elapsed = time.monotonic() - self.start
        return number < self.max_rounds and (number == 0 or elapsed * (number + 1) / number <= self.seconds)


# Measures a row in a new process; returns nanoseconds, or the reason why there are none.
Process = Callable[[], "float | str"]


def measure(
    candidates: list[Candidate], rows: list[Row], processes: dict[str, dict[str, Process]], clock: Clock
) -> dict[str, Series]:
    """Measure rows, and whole processes, in rounds; return a series for each.

    `processes` maps each name to the functions that measure a whole process, by candidate.
    """
    one, several = cores()
    series = {row.name: Series(row.name) for row in rows} | {name: Series(name) for name in processes}
    number = 0
    while clock.allows(number):
        pending = [row for row in rows if not number or not series[row.name].is_done()]
        waiting = [name for name in processes if not number or not series[name].is_done()]
        if not pending and not waiting:
            break
        print(f"round {number + 1}: {len(pending) + len(waiting)} rows", file=sys.stderr)
        # Each round begins with a different candidate.
        for candidate in candidates[number % len(candidates) :] + candidates[: number % len(candidates)]:
            for where, group in (
                (one, [r for r in pending if not r.threads]),
                (several, [r for r in pending if r.threads]),
            ):
                for name, values in candidate.run(group, where).items():
                    series[name].add(candidate.name, values)
            for name in waiting:
                if candidate.name in processes[name]:
                    value = processes[name][candidate.name]()
                    series[name].add(candidate.name, value if isinstance(value, str) else [value])
        number += 1
    return series


# ---- whole processes ----


def time_import(module: str, env: dict[str, str]) -> float | str:
    """Return how long importing a module takes in a fresh process, in nanoseconds."""
    code = "import sys, time; t = time.perf_counter_ns(); __import__(sys.argv[1]); print(time.perf_counter_ns() - t)"
    process = run_on(cores()[0], [sys.executable, "-c", code, module], env=os.environ | env)
    return float(process.stdout) if process.returncode == 0 else process.stderr.strip().splitlines()[-1]


def time_first_result(command: list[str], env: dict[str, str], cold: bool = False) -> float | str:
    """Return the time from the start of a process to the first result of a kernel, in nanoseconds.

    If `cold` is true, the command's last argument is a new, empty folder for the program cache.
    """
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter_ns()
        process = run_on(cores()[0], [*command, folder] if cold else command, env=os.environ | env)
        elapsed = float(time.perf_counter_ns() - start)
    if process.returncode or process.stdout.strip() != str(FIRST_VALUE):
        return (process.stderr.strip() or f"wrong result {process.stdout!r}").splitlines()[-1]
    return elapsed


def select(texts: list[str]) -> list[Row]:
    """Return the rows whose names contain one of the texts, and the rows that these are compared with.

    Without texts, return all rows.
    """
    chosen = {row.name for row in ROWS if not texts or any(text in row.name for text in texts)}
    chosen |= {row.over_row[0] for row in ROWS if row.name in chosen and row.over_row}
    return [row for row in ROWS if row.name in chosen]
