#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of each row, of cudacore and ``cuda.core``, on a driver that does nothing.

Unlike times, instructions do not depend on what else a machine does. valgrind counts them, and null_driver.c, a
libcuda.so.1, answers all calls. The table also has the number of the driver's calls; ``--calls`` prints their names.
Rows that need other libraries, compilers or several threads are left out.

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
from pathlib import Path
from typing import Any

import floor
from measure import cores, select
from rows import BASELINE, LARGE, OURS, TARGET, Row
from run import compared, modules_of

HERE = Path(__file__).resolve().parent
RECORD = HERE / "instructions.json"
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


def count(rows: list[Row], options: argparse.Namespace, folder: Path) -> tuple[dict[str, dict[str, Any]], Any]:
    """Return the counts of each candidate by row, or texts why there are none, and the driver's calls."""
    floor.compile_kernels(folder)
    if options.profiles:
        options.profiles.mkdir(parents=True, exist_ok=True)
    library = floor.build_null_driver(folder)
    if library is None:
        sys.exit(2)
    code = str(folder / floor.KERNELS_FILE)
    results: dict[str, dict[str, Any]] = {}
    calls: dict[str, dict[str, dict[str, float]]] = {}
    for each in modules_of(options):
        profile = (options.profiles or folder) / each.name
        path = os.pathsep.join(filter(None, (str(library.parent), os.environ.get("LD_LIBRARY_PATH"))))
        each.env |= {"CUDACORE_DRIVER": str(library), "LD_LIBRARY_PATH": path, "PYTHONHASHSEED": "0"}
        each.env |= {"NULL_DRIVER_CODE": code, "NULL_DRIVER_PROFILE": str(profile)}
        log = f"--log-file={profile}.log"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}", log]
        each.command = [*valgrind, *each.command]
        results[each.name] = each.run([row for row in rows if not row.ours or each.name != BASELINE], cores()[0])
        calls[each.name] = each.calls
    return results, calls


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
        results, calls = count(rows, options, Path(folder))
    records = json.loads(RECORD.read_text(encoding="utf-8"))
    where = environment()
    if options.compare:
        before = results[options.compare[0][0]]
        reference = {name: value[0] for name, value in before.items() if isinstance(value, list)}
    else:
        reference = records.get(where, {})
    grown = print_table(rows, results, calls, reference, names=options.calls)
    if options.record:
        counts = {name: round(value[0], 1) for name, value in results[OURS].items() if isinstance(value, list)}
        records[where] = records.get(where, {}) | counts
        RECORD.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    elif not reference:
        print(f"instructions.json has no counts for {where}: compare with another version, --compare before=FOLDER")
    print(f"{len(grown)} of {len(rows)} rows have become longer by more than {GROWTH - 1:.0%}: {', '.join(grown)}")
    return 1 if grown and not options.record else 0


def print_table(rows: list[Row], results: Any, calls: Any, reference: dict[str, float], *, names: bool) -> list[str]:
    """Print a line for each row; return the names of the rows that have become longer."""
    columns = list(results)
    width = max(len(row.name) for row in rows)
    print(" " * width, *(f"{name:>10}" for name in [*columns, "x peer", "x before", "calls", "of peer"]))
    grown = []
    for row in rows:
        counts = {name: each[row.name][0] for name, each in results.items() if isinstance(each.get(row.name), list)}
        ours, peer, before = counts.get(OURS), counts.get(BASELINE), reference.get(row.name)
        ratios = [f"{ours / each:.2f}" if ours and each else "-" for each in (peer, before)]
        number = [f"{sum(calls[name].get(row.name, {}).values()):.3g}" for name in (OURS, BASELINE) if name in calls]
        cells = [f"{counts[name]:,.0f}" if name in counts else "-" for name in columns]
        print(row.name.ljust(width), *(f"{cell:>10}" for cell in [*cells, *ratios, *number]))
        for name in (OURS, BASELINE) if names else ():
            print(f"    {name}:", ", ".join(f"{f} {n:.3g}" for f, n in calls[name].get(row.name, {}).items()))
        for name, each in results.items():
            if isinstance(each.get(row.name), str):
                print(f"    {name}: {each[row.name]}")
        if ours is None or (before and ours > before * GROWTH):
            grown.append(row.name)
    return grown


if __name__ == "__main__":
    sys.exit(main())
