#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure cudacore, ``cuda.core`` and plain C; print a table, and compare the results with their targets.

If cudacore is not installed, ``--wheels FOLDER`` installs all wheels of a folder for this run. Each round runs the
candidates one after another, each in a new process on the same core. Rows with several threads get more cores. A row is
measured in at least five rounds, until the two best rounds of each candidate agree to 3 %. ``--rounds`` and
``--seconds`` limit the number of rounds and the total time. The minimum is compared with the target; the quartiles show
how much the other measurements differ from it. ``--compare before=FOLDER`` adds another version of cudacore, which is
installed in the folder, and ``--python 3.14t=PROGRAM`` adds cudacore in another Python, such as one without a GIL.

Without a GPU, only compiling and importing are measured. On the simulated driver
(``python -m cudacore_sim python run.py``), all rows are tried out, but the figures mean nothing. The exit status is 1
if a target was missed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import floor
from measure import MAX_ROUNDS, Candidate, Clock, Floor, Process, measure, select, time_first_result, time_import
from report import FLOOR, Result, geometric_mean, judge_row, print_table
from rows import BASELINE, FIRST_RESULTS, IMPORTS, OURS

HERE = Path(__file__).resolve().parent


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # `module` is a submodule, and its package is not installed
        return False


def install(wheels: Path, site: str) -> None:
    """Install the wheels of a folder into the folder `site`, for this process and its children."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site]
    subprocess.run([*command, *map(str, sorted(wheels.glob("*.whl")))], check=True)
    sys.path.insert(0, site)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))


def modules_of(options: argparse.Namespace) -> list[Candidate]:
    """Return the candidates: the baseline, our module, and the other versions to compare with."""
    worker = [sys.executable, str(HERE / "worker.py")]
    candidates = [Candidate(module, [*worker, module]) for module in (BASELINE, OURS) if is_installed(module)]
    for name, folder in options.compare:
        path = os.pathsep.join(filter(None, (str(Path(folder).resolve()), os.environ.get("PYTHONPATH"))))
        candidates.append(Candidate(name, [*worker, OURS], {"PYTHONPATH": path}))
    return candidates


def module_of(candidate: Candidate) -> str:
    return candidate.command[-1]


def first_results(modules: list[Candidate], program: Path | None, folder: Path) -> dict[str, dict[str, Process]]:
    """Return the functions that measure whole processes, from their start to the first result of a kernel."""
    processes: dict[str, dict[str, Process]] = {}
    for name, (cache, _, _) in FIRST_RESULTS.items():
        rows = processes[name] = {}
        for candidate in modules:
            script = [sys.executable, str(HERE / "first_result.py"), module_of(candidate)]
            command = [*script, str(folder / (floor.SOURCE_FILE if cache else floor.FIRST_FILE))]
            if cache == "warm":
                command.append(str(folder / f"cache of {candidate.name}"))
            rows[candidate.name] = functools.partial(time_first_result, command, candidate.env, cache == "cold")
            if cache != "cold":
                rows[candidate.name]()  # the first call fills the caches on disk
        if program:
            rows[FLOOR] = functools.partial(
                time_first_result, [str(program), "--first", str(folder / floor.FIRST_FILE)], {}
            )
    return processes


def imports(modules: list[Candidate]) -> dict[str, dict[str, Process]]:
    """Return the functions that measure imports."""
    processes: dict[str, dict[str, Process]] = {}
    for module in IMPORTS:
        rows = processes[f"import {module}"] = {}
        for candidate in modules:
            imported = BASELINE if module_of(candidate) == BASELINE else module
            rows[candidate.name] = functools.partial(time_import, imported, candidate.env)
            rows[candidate.name]()  # the first import writes the bytecode
    return processes


def measure_all(options: argparse.Namespace) -> tuple[list[Result], dict[str, Any], list[str]]:
    """Measure rows and processes; return the results, a text about the machine, and the names of the candidates."""
    modules = modules_of(options)
    rows = select(options.only)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clock = Clock(options.rounds, options.seconds)
        device = floor.find_device()
        program = None
        if device:
            floor.compile_kernels(folder)
            program = options.floor or floor.build(folder)
        worker = str(HERE / "worker.py")
        others = [Candidate(name, [python, worker, OURS], {"PYTHONPATH": ""}) for name, python in options.python]
        floors = [Floor(FLOOR, [str(program), str(folder / floor.KERNELS_FILE)])] if program else []
        candidates = [*modules, *others, *floors]
        processes: dict[str, dict[str, Process]] = {}
        if device:
            processes |= first_results(modules, program, folder)
        processes |= imports(modules)
        if options.only:
            processes = {key: value for key, value in processes.items() if any(text in key for text in options.only)}
        series = measure(candidates, rows, processes, clock)
    results = {name: Result.of(each) for name, each in series.items()}
    for row in rows:
        judge_row(row, results)
    for name, (_, to, factor) in FIRST_RESULTS.items():
        if name in results:
            results[name].judge_by(to, factor)
    for module, ratio in IMPORTS.items():
        if ratio and f"import {module}" in results:
            results[f"import {module}"].judge_by(BASELINE, ratio)
    about = {each.name: each.version for each in modules} | {"device": device}
    return list(results.values()), about, [each.name for each in candidates]


def compared(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not Path(path).exists():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH with an existing folder or program")
    return name, path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=MAX_ROUNDS, help="maximum number of rounds; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after about so many seconds")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only rows whose names contain it")
    parser.add_argument("--compare", action="append", default=[], type=compared, metavar="NAME=FOLDER")
    parser.add_argument("--python", action="append", default=[], type=compared, metavar="NAME=PROGRAM")
    parser.add_argument("--floor", type=Path, metavar="PROGRAM", help="the floor, where it was built elsewhere")
    parser.add_argument(
        "--wheels",
        type=Path,
        metavar="FOLDER",
        help="install the wheels in it where cudacore is not installed",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to it")
    parser.add_argument("--build-floor", type=Path, metavar="FOLDER", help="only build the floor, into that folder")
    options = parser.parse_args()
    # Imports are measured with cached bytecode, as in normal use.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")
    if options.build_floor:
        return 0 if floor.build(options.build_floor) else 1

    with tempfile.TemporaryDirectory() as site:
        if options.wheels and not is_installed(OURS):
            install(options.wheels, site)
        return report(options)


def report(options: argparse.Namespace) -> int:
    """Measure all rows, print and write the results; return the exit status."""
    results, about, columns = measure_all(options)
    about |= {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    mean = geometric_mean(results) if about["device"] and not options.only else None

    print("  ".join(f"{name} {value}" for name, value in about.items()))
    print()
    print_table(results, columns)
    if mean:
        results.append(mean)
        print(f"\n{mean.name}: {mean.minima[OURS]:.3f}, target {mean.target}: {'ok' if mean.passed else 'MISSED'}")
    missed = [result.name for result in results if result.passed is False]
    print(f"{len(missed)} of {sum(bool(result.target) for result in results)} targets missed")

    if options.json:
        written = {"about": about, "results": [asdict(result) for result in results], "missed": missed}
        options.json.write_text(json.dumps(written, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
