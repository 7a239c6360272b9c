#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure cudacore against ``cuda.core`` and against plain C; print a table, judge it by its targets.

Where cudacore is not installed, ``--wheels`` installs it, and what else is in the folder, for this run. Each round
runs the baseline, cudacore and the C floor one after another, each in a fresh process, so that a machine that gets
slower or faster meanwhile does so for all; of a row's rounds the median counts. Without a GPU only what needs none is
measured: compiling, importing, wheel sizes. On the simulated driver (``python -m cudacore_sim python run.py``) all is
measured, to see that it can be; the numbers mean nothing. The exit status is 1 where a target was missed.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import floor
from rows import (
    BASELINE,
    FIRST_RESULT,
    FIRST_VALUE,
    GEOMETRIC_MEAN,
    IMPORTS,
    OURS,
    ROWS,
    SHORT_NS,
    SHORT_RATIO,
    USUAL_RATIO,
    WHEELS,
    Row,
)

HERE = Path(__file__).resolve().parent
FLOOR = "C"
FIRST = "start to first result"
WORKER_HANGS = 600.0  # seconds
# Nanoseconds by row, or why there are none.
Measurements = dict[str, float | str]


@dataclass
class Result:
    """One line of the table: medians, the target, and whether it was met."""

    name: str
    unit: str
    medians: dict[str, float]
    rounds: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    target: str = ""
    of_target: float | None = None  # the ratio that was judged
    passed: bool | None = None

    def ratio(self, to: str) -> float | None:
        if OURS in self.medians and self.medians.get(to):
            return self.medians[OURS] / self.medians[to]
        return None

    def judge(self, reference: float, target: str, factor: float = 1.0, extra: float = 0.0) -> None:
        """Set the target: at most `reference` times a factor, plus `extra`, in the unit of the medians.

        What could not be measured misses it.
        """
        self.target = target
        self.passed = OURS in self.medians and self.medians[OURS] <= reference * factor + extra
        self.of_target = self.medians[OURS] / reference if OURS in self.medians else None


def run_worker(module: str, text: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "worker.py"), module, text]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WORKER_HANGS)
        error = "" if process.returncode == 0 else (process.stderr.strip() or "no message").splitlines()[-1]
    except subprocess.TimeoutExpired:
        error = f"deadlock: the process has not ended after {WORKER_HANGS:.0f} s"
    if error:
        return {"version": None, "device": None, "rows": dict.fromkeys((row.name for row in ROWS), error)}
    return json.loads(process.stdout)


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that it is in
        return False


def time_import(module: str) -> float:
    """Return how long importing a module takes in a fresh process, in nanoseconds."""
    code = "import sys, time; t = time.perf_counter_ns(); __import__(sys.argv[1]); print(time.perf_counter_ns() - t)"
    process = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True, check=True)
    return float(process.stdout)


def measure_rows(rounds: int, text: str) -> tuple[list[Result], dict[str, Any]]:
    """Measure the operations; return a result a row, and what they were measured on."""
    runs: dict[str, list[Measurements]] = {BASELINE: [], OURS: [], FLOOR: []}
    about: dict[str, Any] = {}
    first: Result | None = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program: Path | None = None
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for module in (BASELINE, OURS):
                run = run_worker(module, text)
                about[module], device = run["version"], run["device"]
                runs[module].append(run["rows"])
            about["device"] = device
            if number == 0 and device:
                floor.compile_kernels(folder)
                program = floor.build(folder)
            if program:
                runs[FLOOR].append(dict(floor.run(program)))
        if about["device"] and text in FIRST:
            first = measure_first_result(2 * rounds, folder / floor.FIRST_FILE, program)
    by_name = {row.name: summarize(row, runs) for row in ROWS}
    for row in ROWS:
        if row.over_row:
            judge_by_row(by_name[row.name], by_name[row.over_row[0]], row.over_row[1])
    results = [result for name, result in by_name.items() if text in name]
    return results + ([first] if first else []), about


def judge_by_row(result: Result, other: Result, factor: float) -> None:
    """Judge a result by another one of ours; not where the library that it needs is missing."""
    if OURS in other.medians and not result.notes.get(OURS, "").startswith("needs "):
        result.judge(other.medians[OURS], f"{other.name} x {factor:.2f}", factor)


def measure_first_result(rounds: int, code: Path, program: Path | None) -> Result:
    """Measure whole processes, from their start to what a kernel has computed."""
    script = [sys.executable, str(HERE / "first_result.py")]
    commands = {BASELINE: [*script, BASELINE, str(code)], OURS: [*script, OURS, str(code)]}
    if program:
        commands[FLOOR] = [str(program), "--first", str(code)]
    times: dict[str, list[float]] = {column: [] for column in commands}
    notes: dict[str, str] = {}
    for number in range(rounds + 1):
        for column, command in commands.items():
            start = time.perf_counter_ns()
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            elapsed = float(time.perf_counter_ns() - start)
            if process.returncode or process.stdout.strip() != str(FIRST_VALUE):
                notes[column] = (process.stderr.strip() or f"wrong result {process.stdout!r}").splitlines()[-1]
            elif number > 0:  # the first one writes what is cached on disk
                times[column].append(elapsed)
    medians = {column: statistics.median(values) for column, values in times.items() if column not in notes}
    result = Result(FIRST, "ns", medians, times, notes)
    if FLOOR in medians:
        result.judge(medians[FLOOR], f"{FLOOR} x {FIRST_RESULT:.2f}", FIRST_RESULT)
    return result


def summarize(row: Row, runs: dict[str, list[Measurements]]) -> Result:
    result = Result(row.name, "ns", {})
    for column, rounds in runs.items():
        name = row.floor_name if column == FLOOR else row.name
        values = [run[name] for run in rounds if name in run]
        numbers = [value for value in values if isinstance(value, float)]
        if numbers and len(numbers) == len(values):
            result.rounds[column] = numbers
            result.medians[column] = statistics.median(numbers)
        elif values:
            result.notes[column] = next(str(value) for value in values if not isinstance(value, float))
    if row.over_floor:
        factor, extra = row.over_floor
        if FLOOR in result.medians:
            result.judge(result.medians[FLOOR], f"{FLOOR} x {factor:.2f} + {extra:.0f} ns", factor, extra)
    elif BASELINE in result.medians:
        base = result.medians[BASELINE]
        ratio = row.ratio or (SHORT_RATIO if base < SHORT_NS else USUAL_RATIO)
        result.judge(base, f"{BASELINE} x {ratio:.2f}", ratio)
    return result


def measure_imports(rounds: int) -> list[Result]:
    modules = [module for module in (BASELINE, *IMPORTS) if is_installed(module)]
    times: dict[str, list[float]] = {module: [] for module in modules}
    for module in modules:
        time_import(module)  # writes what is cached on disk
    for _ in range(rounds):
        for module in modules:
            times[module].append(time_import(module))
    results = []
    for module, ratio in IMPORTS.items():
        columns = {column: times[name] for column, name in ((BASELINE, BASELINE), (OURS, module)) if name in times}
        result = Result(f"import {module}", "ns", {k: statistics.median(v) for k, v in columns.items()}, columns)
        if ratio and BASELINE in columns:
            result.judge(result.medians[BASELINE], f"{BASELINE} x {ratio:.2f}", ratio)
        results.append(result)
    return results


def install(wheels: Path, site: str) -> None:
    """Install the wheels of a folder into another, for this process and its children."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site]
    subprocess.run([*command, *map(str, sorted(wheels.glob("*.whl")))], check=True)
    sys.path.insert(0, site)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))


def measure_wheels(folder: Path) -> list[Result]:
    sizes = {path.name.partition("-")[0].replace("_", "-"): path.stat().st_size / 1000 for path in folder.glob("*.whl")}
    ours = {name: size for name, size in sizes.items() if name.startswith("cudacore")}
    # What a program that runs on a GPU needs: the simulator is another's.
    ours["all"] = sum(size for name, size in ours.items() if name != "cudacore-sim")
    results = []
    for name, limit in WHEELS.items():
        result = Result(f"wheel: {name}", "kB", {OURS: ours[name]} if name in ours else {})
        result.judge(limit, f"{limit:.0f} kB")
        results.append(result)
    return results


def format_number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "kB":
        return f"{value:.1f} kB"
    return f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:,.2f} ms"


def print_table(results: list[Result]) -> None:
    columns = (BASELINE, OURS, FLOOR)
    heads = ["ns a call", *columns, f"to {BASELINE}", f"to {FLOOR}", "ratio", "target", ""]
    lines = [heads]
    for result in results:
        if not result.medians and not result.target:
            continue
        numbers = [format_number(result.medians.get(column), result.unit) for column in columns]
        ratios = [
            f"x {ratio:.2f}" if ratio else "-"
            for ratio in (result.ratio(BASELINE), result.ratio(FLOOR), result.of_target)
        ]
        verdict = {True: "ok", False: "MISSED", None: ""}[result.passed]
        lines.append([result.name, *numbers, *ratios, result.target, verdict])
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for number, line in enumerate(lines):
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    for column in columns:
        notes = collections.Counter(result.notes[column] for result in results if column in result.notes)
        for note, count in notes.items():
            print(f"{column}: {count} not measured: {note}")


def geometric_mean(results: list[Result]) -> Result | None:
    """Return the geometric mean of the operations' ratios as a result of its own."""
    ratios = [ratio for result in results if (ratio := result.ratio(BASELINE))]
    if not ratios:
        return None
    result = Result(f"geometric mean of {len(ratios)} ratios", "x", {OURS: statistics.geometric_mean(ratios)})
    result.judge(GEOMETRIC_MEAN, f"x {GEOMETRIC_MEAN:.2f}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the operations whose names contain it")
    parser.add_argument(
        "--wheels",
        type=Path,
        metavar="FOLDER",
        help="judge the sizes of the wheels in it too, and install them where cudacore is not",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to it")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")

    with tempfile.TemporaryDirectory() as site:
        if options.wheels and not is_installed(OURS):
            install(options.wheels, site)
        return measure(options)


def measure(options: argparse.Namespace) -> int:
    """Measure, print and write all; return the exit status."""
    operations, about = measure_rows(options.rounds, options.only)
    about |= {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    others = [] if options.only else measure_imports(4 * options.rounds)
    if options.wheels and not options.only:
        others += measure_wheels(options.wheels)

    print("  ".join(f"{name} {value}" for name, value in about.items()))
    print()
    print_table(operations + others)
    mean = geometric_mean(operations)
    if mean and about["device"] and not options.only:
        others.append(mean)
        print(f"\n{mean.name}: {mean.medians[OURS]:.3f}, target {mean.target}: {'ok' if mean.passed else 'MISSED'}")
    missed = [result.name for result in operations + others if result.passed is False]
    print(f"{len(missed)} of {sum(bool(result.target) for result in operations + others)} targets missed")

    if options.json:
        report = {"about": about, "results": [asdict(result) for result in operations + others], "missed": missed}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
