#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure cudacore against ``cuda.core`` and against plain C; print a table, judge it by its targets.

Each round runs the baseline, cudacore and the C floor one after another, each in a fresh process, so that a machine
that gets slower or faster meanwhile does so for all; of a row's rounds the median counts. Without a GPU only what needs
none is measured: compiling, importing, wheel sizes. The exit status is 1 where a target was missed.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import floor
from rows import BASELINE, GEOMETRIC_MEAN, IMPORTS, OURS, ROWS, SHORT_NS, SHORT_RATIO, USUAL_RATIO, WHEELS, Row

HERE = Path(__file__).resolve().parent
FLOOR = "C"
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
    passed: bool | None = None

    def ratio(self, to: str) -> float | None:
        if OURS in self.medians and self.medians.get(to):
            return self.medians[OURS] / self.medians[to]
        return None

    def judge(self, limit: float, target: str) -> None:
        """Set the target; `limit` is in the unit of the medians. What could not be measured misses it."""
        self.target = target
        self.passed = OURS in self.medians and self.medians[OURS] <= limit


def run_worker(module: str, text: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "worker.py"), module, text]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        error = process.stderr.strip().splitlines()[-1]
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
    with tempfile.TemporaryDirectory() as folder:
        program: Path | None = None
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for module in (BASELINE, OURS):
                run = run_worker(module, text)
                about[module], device = run["version"], run["device"]
                runs[module].append(run["rows"])
            about["device"] = device
            if number == 0 and device:
                program = floor.build(Path(folder))
            if program:
                runs[FLOOR].append(dict(floor.run(program)))
    return [summarize(row, runs) for row in ROWS if text in row.name], about


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
            result.judge(result.medians[FLOOR] * factor + extra, f"{FLOOR} x {factor:.2f} + {extra:.0f} ns")
    elif BASELINE in result.medians:
        base = result.medians[BASELINE]
        ratio = row.ratio or (SHORT_RATIO if base < SHORT_NS else USUAL_RATIO)
        result.judge(base * ratio, f"x {ratio:.2f}")
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
            result.judge(result.medians[BASELINE] * ratio, f"x {ratio:.2f}")
        results.append(result)
    return results


def measure_wheels(folder: Path) -> list[Result]:
    sizes = {path.name.partition("-")[0].replace("_", "-"): path.stat().st_size / 1000 for path in folder.glob("*.whl")}
    ours = {name: size for name, size in sizes.items() if name.startswith("cudacore")}
    ours["all"] = sum(ours.values())
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
    heads = ["ns a call", *columns, f"to {BASELINE}", f"to {FLOOR}", "target", ""]
    lines = [heads]
    for result in results:
        if not result.medians:
            continue
        numbers = [format_number(result.medians.get(column), result.unit) for column in columns]
        ratios = [f"x {ratio:.2f}" if (ratio := result.ratio(to)) else "-" for to in (BASELINE, FLOOR)]
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
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="judge the sizes of the wheels in it too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to it")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")

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
