#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of each row, of cudacore and ``cuda.core``, without those of the driver.

Unlike times, instructions do not depend on what else a machine does. valgrind counts them, on the simulated driver.
What is executed between a call of the driver and its return is not counted. The table also has the number of the
driver's calls; ``--calls`` prints their names. Rows that need other libraries, compilers or several threads are left
out.

The counts depend on the version of Python, on the compiler and on the machine's instructions. So they are compared with
a record, instructions.json, only where it is of the same environment; ``--record`` adds this one, or replaces it.
``--compare before=FOLDER`` compares with another version of cudacore instead, which is installed in the folder. The
exit status is 1 if a row has become longer by more than 2 %.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import cudacore_sim
import floor
from measure import Candidate, cores, select
from rows import BASELINE, LARGE, OURS, TARGET, Row
from run import compared, modules_of

RECORD = Path(__file__).resolve().with_name("instructions.json")
GROWTH = 1.02


def environment() -> str:
    """Return what the counts depend on."""
    version = subprocess.check_output([floor.compiler() or "cc", "--version"], text=True).splitlines()[0]
    compiler = version.partition(" ")[2]  # gcc is also called cc
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {compiler}, {' '.join(platform.libc_ver())}, {platform.machine()}"


def counted(row: Row) -> bool:
    without_others = row.uses in (None, "graphs", "pools", "sharing")
    return row.gpu and without_others and row.per != LARGE and "second column" not in row.name


@dataclass
class Count:
    """The instructions of a row, and its calls of the driver by name; or a note why there are none."""

    instructions: float = 0
    calls: dict[str, float] = field(default_factory=dict)
    note: str = ""


def read_profile(path: Path) -> tuple[int, Counter[str]]:
    """Return the number of instructions outside of the driver, and the calls of the driver by name.

    In a profile, an object or a function has a number; its name follows where it is first mentioned. The line after
    ``calls=`` has the instructions of the called function and of all that it called. A thread of the driver counts as a
    call of it. pthread_once() is called by the driver itself.
    """
    names: dict[str, str] = {}
    total, source, target, caller, function = 0, "", "", "", ""
    calls: Counter[str] = Counter()
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        key, _, value = line.partition("=")
        number, _, name = value.partition(" ")
        number = key.removeprefix("c") + number
        if name:
            names[number] = name
        if key == "ob":
            source = target = names[number]
        elif key == "cob":
            target = names[number]
        elif key == "fn":
            caller = names[number]
        elif key == "cfn":
            function = names[number]
        elif key == "calls":
            inclusive = int(next(lines).split()[1])
            if floor.DRIVER in target and floor.DRIVER not in source and "pthread_once" not in caller:
                total -= inclusive
                calls[function] += int(value.split()[0])
            target = source
        elif line.startswith("totals: "):
            total += int(line.split()[1])
    return total, calls


def count(rows: list[Row], candidate: Candidate, profile: Path) -> dict[str, Count]:
    """Return the counts of a candidate by row.

    They are the difference of two loops, so that whatever happens once in a loop makes no difference.
    """
    tool = ["--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={profile}", f"--log-file={profile}.log"]
    candidate.command = ["valgrind", *tool, *candidate.command]
    counts = {}
    for name, values in candidate.run(rows, cores()[0]).items():
        if isinstance(values, str):
            counts[name] = Count(note=values)
            continue
        number, *loops = values
        (once, calls), (twice, more) = (read_profile(Path(f"{profile}.{loop:.0f}")) for loop in loops)
        counts[name] = Count((twice - once) / number, {key: value / number for key, value in (more - calls).items()})
    return counts


def count_all(rows: list[Row], options: argparse.Namespace, folder: Path) -> dict[str, dict[str, Count]]:
    """Return the counts of all candidates."""
    floor.compile_kernels(folder)
    profiles = options.profiles or folder
    profiles.mkdir(parents=True, exist_ok=True)
    library = cudacore_sim.get_library()
    path = os.pathsep.join(filter(None, (os.path.dirname(library), os.environ.get("LD_LIBRARY_PATH"))))
    # valgrind has no room for the memory of a large device.
    env = {"CUDACORE_DRIVER": library, "LD_LIBRARY_PATH": path, "PYTHONHASHSEED": "0", "CUDACORE_SIM_MEMORY": "8G"}
    results = {}
    for each in modules_of(options):
        each.env |= env | {"COMPILED_KERNELS": str(folder / floor.KERNELS_FILE)}
        own = [row for row in rows if not row.ours or each.name != BASELINE]
        results[each.name] = count(own, each, profiles / each.name)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only rows whose names contain it")
    parser.add_argument("--compare", action="append", default=[], type=compared, metavar="NAME=FOLDER")
    parser.add_argument("--record", action="store_true", help="store the counts in instructions.json")
    parser.add_argument("--calls", action="store_true", help="print the names of the driver's functions")
    parser.add_argument("--profiles", type=Path, metavar="FOLDER", help="keep the profiles, for callgrind_annotate")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed; it counts the instructions")
    if TARGET != "ptx":
        parser.error("set CUDACORE_DRIVER=sim, so that the kernels are compiled to PTX")

    rows = [row for row in select(options.only) if counted(row)]
    with tempfile.TemporaryDirectory() as folder:
        results = count_all(rows, options, Path(folder))
    records = json.loads(RECORD.read_text(encoding="utf-8"))
    where = environment()
    reference = records.get(where, {})
    if options.compare:
        reference = {name: each.instructions for name, each in results[options.compare[0][0]].items()}
    grown = print_table(rows, results, reference, names=options.calls)
    if options.record:
        counts = {name: round(each.instructions, 1) for name, each in results[OURS].items() if not each.note}
        records[where] = records.get(where, {}) | counts
        RECORD.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    elif not reference:
        print(f"instructions.json has no counts for {where}: compare with another version, --compare before=FOLDER")
    print(f"{len(grown)} of {len(rows)} rows have become longer by more than {GROWTH - 1:.0%}: {', '.join(grown)}")
    return 1 if grown and not options.record else 0


def print_table(
    rows: list[Row], results: dict[str, dict[str, Count]], reference: dict[str, float], *, names: bool
) -> list[str]:
    """Print a line for each row; return the names of the rows that have become longer."""
    width = max(len(row.name) for row in rows)
    print(" " * width, *(f"{name:>10}" for name in [*results, "x peer", "x before", "calls", "of peer"]))
    grown = []
    for row in rows:
        counts = {name: each.get(row.name, Count()) for name, each in results.items()}
        ours, peer = counts[OURS], counts.get(BASELINE, Count())
        before = reference.get(row.name, 0)
        ratios = [f"{ours.instructions / each:.2f}" if each else "-" for each in (peer.instructions, before)]
        numbers = [f"{sum(each.calls.values()):.3g}" for each in (ours, peer)]
        cells = [f"{each.instructions:,.0f}" if each.instructions else "-" for each in counts.values()]
        print(row.name.ljust(width), *(f"{cell:>10}" for cell in [*cells, *ratios, *numbers]))
        for name, each in counts.items():
            if each.note or (names and name in (OURS, BASELINE)):
                print(f"    {name}:", each.note or ", ".join(f"{key} {value:.3g}" for key, value in each.calls.items()))
        if ours.note or (before and ours.instructions > before * GROWTH):
            grown.append(row.name)
    return grown


if __name__ == "__main__":
    sys.exit(main())
