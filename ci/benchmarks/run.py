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
import collections
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import floor
from measure import HERE, MAX_ROUNDS, Candidate, Floor, Result, measure, select
from rows import BASELINE, FLOOR, GEOMETRIC_MEAN, OURS, SHORT_NS, SHORT_RATIO, USUAL_RATIO, Row


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


def judge_row(row: Row, results: dict[str, Result]) -> None:
    """Judge the result of a row by its target. A row is not judged if the library that it needs is missing."""
    result, other = results[row.name], results.get(row.to)
    reference = other.minima.get(OURS) if other else result.minima.get(row.to)
    if reference is None or result.notes.get(OURS, "").startswith("needs "):
        return
    if row.ratio is not None:
        result.judge(reference, row.to, row.ratio, row.extra)
    elif row.to == BASELINE:
        result.judge(reference, row.to, SHORT_RATIO if reference < SHORT_NS else USUAL_RATIO)


def geometric_mean(results: list[Result]) -> Result | None:
    """Return the geometric mean of the operations' ratios, as another result."""
    ratios = [ratio for result in results if (ratio := result.ratio(BASELINE))]
    if not ratios:
        return None
    result = Result(f"geometric mean of {len(ratios)} ratios", {OURS: [[statistics.geometric_mean(ratios)]]})
    result.judge(1.0, "", GEOMETRIC_MEAN)
    return result


def format_number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:,.2f} ms"


def print_table(results: list[Result], columns: list[str]) -> None:
    """Print minima, the quartiles of cudacore, and ratios."""
    others = [column for column in columns if column != OURS]
    ratios_to = [f"to {each}" for each in others]
    lines = [["ns a call, minima", *columns, f"quartiles of {OURS}", *ratios_to, "ratio", "target", ""]]
    for result in results:
        if result.minima or result.target:
            ratios = [f"x {ratio:.2f}" if ratio else "-" for ratio in (*map(result.ratio, others), result.of_target)]
            cells = [format_number(result.minima.get(column)) for column in columns]
            quartiles = " ".join(map(format_number, result.quartiles(OURS))) or "-"
            passed = {True: "ok", False: "MISSED", None: ""}[result.passed]
            lines.append([result.name, *cells, quartiles, *ratios, result.target, passed])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    for name, *cells in lines:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        print("  ".join([name.ljust(widths[0]), *aligned]).rstrip())
    notes = collections.Counter((column, note) for result in results for column, note in result.notes.items())
    for (column, note), count in notes.items():
        print(f"{column}: {count} not measured: {note}")


def measure_all(options: argparse.Namespace, folder: Path) -> tuple[list[Result], dict[str, Any], list[str]]:
    """Measure rows; return the results, a text about the machine, and the names of the candidates."""
    device = floor.find_device()
    rows = [row for row in select(options.only) if device or row.uses != "process" or not row.gpu]
    modules = modules_of(options)
    worker = str(HERE / "worker.py")
    others = [Candidate(name, [python, worker, OURS], {"PYTHONPATH": ""}) for name, python in options.python]
    candidates = [*modules, *others]
    if device:
        floor.compile_kernels(folder)
        if program := options.floor or floor.build(folder):
            candidates.append(Floor(FLOOR, [str(program), str(folder / floor.KERNELS_FILE)]))
    for each in candidates:
        each.folder = folder
    results = measure(candidates, rows, options.rounds, options.seconds)
    for row in rows:
        judge_row(row, results)
    about = {each.name: each.version for each in modules} | {"device": device}
    about |= {name: built(python) for name, python in (("python", sys.executable), *options.python)}
    about |= {"machine": platform.machine(), "cores": str(os.cpu_count())}
    return list(results.values()), about, [each.name for each in candidates]


# Pythons can only be compared if their compiler optimised them in the same way.
BUILT = "import platform, sysconfig as s; print(platform.python_version(), s.get_config_var('PY_CFLAGS'))"


def built(python: str) -> str:
    """Return the version of a Python, and the last option for optimisation that it was compiled with."""
    version, *flags = subprocess.check_output([python, "-c", BUILT], text=True).split()
    return " ".join([version, *[flag for flag in flags if flag.startswith("-O")][-1:]])


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
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="install its wheels if cudacore is missing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to it")
    parser.add_argument("--build-floor", type=Path, metavar="FOLDER", help="only build the floor, into that folder")
    options = parser.parse_args()
    # Imports are measured with cached bytecode, as in normal use.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")
    if options.build_floor:
        return 0 if floor.build(options.build_floor) else 1
    with tempfile.TemporaryDirectory() as site, tempfile.TemporaryDirectory() as folder:
        if options.wheels and not is_installed(OURS):
            install(options.wheels, site)
        return report(options, *measure_all(options, Path(folder)))


def report(options: argparse.Namespace, results: list[Result], about: dict[str, Any], columns: list[str]) -> int:
    """Print and write the results; return the exit status."""
    print("  ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
    print_table(results, columns)
    if about["device"] and not options.only and (mean := geometric_mean(results)):
        results.append(mean)
        print(f"\n{mean.name}: {mean.minima[OURS]:.3f}, target{mean.target}: {'ok' if mean.passed else 'MISSED'}")
    missed = [result.name for result in results if result.passed is False]
    print(f"{len(missed)} of {sum(bool(result.target) for result in results)} targets missed")
    if options.json:
        rows = [asdict(result) | {"minima": result.minima} for result in results]
        written = {"about": about, "results": rows, "missed": missed}
        options.json.write_text(json.dumps(written, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
