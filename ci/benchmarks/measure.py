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
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import floor
from rows import BASELINE, FIRST_VALUE, MAX_THREADS, OURS, ROWS, Row

HERE = Path(__file__).resolve().parent
WORKER_HANGS = 600.0  # seconds
MIN_ROUNDS, MAX_ROUNDS = 5, 15
STABLE = 1.03  # limit for the ratio of a candidate's second-best round to its best one
IMPORT = "import sys, time; t = time.perf_counter_ns(); __import__(sys.argv[1]); print(time.perf_counter_ns() - t)"

# The measurements of each row in nanoseconds, or the reason why there are none.
Measurements = dict[str, "list[float] | str"]


def cores() -> tuple[set[int], set[int]]:
    """Return the core that all processes run on, and the cores for rows with several threads."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[-1]}, set(usable[:MAX_THREADS])


@dataclass
class Candidate:
    """One of the things to measure and compare: a module, another version of cudacore, or the floor."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()  # the folder with the files of floor.compile_kernels()
    version: str | None = None

    def start(self, command: list[str], where: set[int]) -> subprocess.CompletedProcess[str]:
        """Run a command on the given cores only."""
        settings: dict[str, Any] = {"capture_output": True, "text": True, "timeout": WORKER_HANGS}
        pin = functools.partial(os.sched_setaffinity, 0, where)
        try:
            return subprocess.run(command, env=os.environ | self.env, preexec_fn=pin, check=False, **settings)
        except subprocess.TimeoutExpired:
            error = f"deadlock: the process has not ended after {WORKER_HANGS:.0f} s"
            return subprocess.CompletedProcess(command, 1, "", error)

    def run(self, rows: list[Row], where: set[int]) -> Measurements:
        """Measure rows in one process, and rows that time a whole process in a process each."""
        processes = [row for row in rows if row.uses == "process"]
        found = {row.name: self.time_process(row, where) for row in processes} | self.run_worker(
            [row for row in rows if row not in processes], where
        )
        return {name: value for name, value in found.items() if value != []}

    def run_worker(self, rows: list[Row], where: set[int]) -> Measurements:
        if not rows:
            return {}
        process = self.start([*self.command, *(row.name for row in rows)], where)
        if process.returncode:
            return dict.fromkeys((row.name for row in rows), reason(process))
        return self.read(process.stdout)

    def read(self, output: str) -> Measurements:
        report: dict[str, Any] = json.loads(output)
        self.version = report["version"]
        return report["rows"]

    def time_process(self, row: Row, where: set[int]) -> list[float] | str:
        """Time an import in a new process, or a process from its start to the first result of its kernel."""
        python, *_, module = self.command
        if not row.gpu:
            process = self.start([python, "-c", IMPORT, BASELINE if module == BASELINE else row.statement], where)
            return [float(process.stdout)] if process.returncode == 0 else reason(process)
        with tempfile.TemporaryDirectory() as cold:
            caches = {"none": [floor.FIRST_FILE], "warm": [floor.SOURCE_FILE, f"cache of {self.name}"]}
            files = caches.get(row.statement, [floor.SOURCE_FILE, cold])
            script = [python, str(HERE / "first_result.py"), module, *(str(self.folder / name) for name in files)]
            return self.time_first_result(script, where)

    def time_first_result(self, command: list[str], where: set[int]) -> list[float] | str:
        start = time.perf_counter_ns()
        process = self.start(command, where)
        elapsed = float(time.perf_counter_ns() - start)
        return [elapsed] if process.stdout.strip() == str(FIRST_VALUE) else reason(process)


class Floor(Candidate):
    """The floor: the rows' driver calls in plain C."""

    def read(self, output: str) -> Measurements:
        lines = (line.split("\t") for line in output.splitlines())
        return {name: [float(value) for value in values] for name, *values in lines}

    def time_process(self, row: Row, where: set[int]) -> list[float] | str:
        command = [self.command[0], "--first", str(self.folder / floor.FIRST_FILE)]
        return self.time_first_result(command, where) if row.gpu else []


def reason(process: subprocess.CompletedProcess[str]) -> str:
    """Return why a process has measured nothing: the last line of its messages."""
    return (process.stderr.strip() or process.stdout.strip() or "no message").splitlines()[-1]


@dataclass
class Result:
    """All measurements of one row, by candidate and round; its target, and whether it was met."""

    name: str
    rounds: dict[str, list[list[float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    target: str = ""
    of_target: float | None = None  # the ratio that is compared with the target
    passed: bool | None = None

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

    @property
    def minima(self) -> dict[str, float]:
        return {candidate: min(map(min, rounds)) for candidate, rounds in self.rounds.items()}

    def quartiles(self, candidate: str) -> list[float]:
        values = [value for times in self.rounds.get(candidate, ()) for value in times]
        return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else []

    def ratio(self, to: str) -> float | None:
        minima = self.minima
        return minima[OURS] / minima[to] if OURS in minima and minima.get(to) else None

    def judge(self, reference: float, to: str, factor: float, extra: float = 0.0) -> None:
        """Compare the result with a target: at most `reference`, the time of `to`, times `factor` plus `extra`.

        A row that could not be measured misses its target.
        """
        ours = self.minima.get(OURS)
        self.target = f"{to} x {factor:.2f}" + (f" + {extra:.0f} ns" if extra else "")
        self.passed = ours is not None and ours <= reference * factor + extra
        self.of_target = ours / reference if ours is not None else None


def measure(candidates: list[Candidate], rows: list[Row], max_rounds: int, seconds: float) -> dict[str, Result]:
    """Measure rows in rounds, until all are done or the limits are reached; return the results by row.

    A round begins only if one of average length would end in time.
    """
    one, several = cores()
    results = {row.name: Result(row.name) for row in rows}
    start = time.monotonic()
    for number in range(max_rounds):
        pending = [row for row in rows if not number or not results[row.name].is_done()]
        if not pending or (number and (time.monotonic() - start) * (number + 1) / number > seconds):
            break
        print(f"round {number + 1}: {len(pending)} rows", file=sys.stderr)
        # Each round begins with a different candidate.
        for candidate in candidates[number % len(candidates) :] + candidates[: number % len(candidates)]:
            for where, threads in ((one, False), (several, True)):
                group = [row for row in pending if (row.uses == "threads") is threads]
                for name, values in candidate.run(group, where).items():
                    results[name].add(candidate.name, values)
    return results


def select(texts: list[str]) -> list[Row]:
    """Return the rows whose names contain one of the texts, and the rows that these are compared with.

    Without texts, return all rows.
    """
    chosen = [row for row in ROWS if not texts or any(text in row.name for text in texts)]
    names = {name for row in chosen for name in (row.name, row.to)}
    return [row for row in ROWS if row.name in names]
