# SPDX-License-Identifier: Apache-2.0
"""Record what the driver does with destroyed handles: ``python record_stale.py [LIBRARY [FILE]]``.

The file, by default ``stale_outcomes.def`` in the simulator's sources, has the result of each call. Several calls are
made in one process, because creating a context takes long. Calls that did not simply return an error are repeated, each
in a process of its own. If the results of a call vary, the file lists all of these results. Differences from the
previous file are printed.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from recorder import PreparationError, Recorder
from stale import CALLS, STALE

FILE = Path(__file__).parents[2] / "src" / "sim" / "driver" / "base" / "stale_outcomes.def"
BEGIN = """/* SPDX-License-Identifier: Apache-2.0 */
/* What an H200 with driver 13.0 does with destroyed handles. Written by tests/sequences/record_stale.py. */
/* clang-format off */
"""
WORKERS = 4
TIME_LIMIT = 20  # seconds for a call, including its preparation


def work(library: str) -> None:
    """Make the calls whose names are on standard input, and write a line for each: its name and its result."""
    for line in sys.stdin:
        name = line.strip()
        print(name, end=" ", flush=True)
        signal.alarm(TIME_LIMIT)
        listing: list[str] = []
        try:
            STALE[name](Recorder(library, listing.append))
            print(listing[-1].partition(": ")[2], flush=True)
        except PreparationError as error:
            print(f"cannot be prepared: {error}", flush=True)
        except BaseException:
            print("broken: " + traceback.format_exc().strip().replace("\n", " | "), flush=True)
    os._exit(0)  # skips the driver's clean-up, which can crash after such calls


def make_calls(library: str, names: list[str]) -> dict[str, str]:
    """Make calls in another process, and return the results. After a call that does not return, use a new process."""
    results: dict[str, str] = {}
    while left := [name for name in names if name not in results]:
        done = subprocess.run(
            [sys.executable, __file__, "--work", library],
            input="\n".join(left),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            name, _, result = line.partition(" ")
            results[name] = result or ("hangs" if done.returncode == -signal.SIGALRM else "crash")
        if not done.stdout:
            raise SystemExit("the driver cannot be used")
    return results


def describe(results: set[str]) -> str:
    """Return a description of the results, as it follows "here the driver" in a report."""
    codes = sorted(result for result in results if result.startswith("CUDA_"))
    words = [word for result, word in (("crash", "crashes"), ("hangs", "hangs")) if result in results]
    if codes:
        words.append("returns " + " or ".join(codes))
    return " or ".join(words)


def read(file: Path) -> dict[tuple[str, str], str]:
    """Return the recorded descriptions of results, by function and kind of handle."""
    rows = re.findall(r'SIM_STALE\((\w+), (\w+), "(.*)"\)', file.read_text(encoding="utf-8")) if file.exists() else []
    return {(function, kind): outcome for function, kind, outcome in rows}


def write(file: Path, results: dict[str, set[str]]) -> None:
    """Write the file, and print the differences from the old one."""
    before, merged = read(file), dict[tuple[str, str], set[str]]()
    for name, seen in results.items():
        merged.setdefault((CALLS[name].function, CALLS[name].kind), set()).update(seen)
    now = {key: describe(seen) for key, seen in merged.items()}
    for key, outcome in now.items():
        if before.get(key) != outcome:
            print("differs:", *key, "was:", before.get(key), "now:", outcome)
    rows = [f'SIM_STALE({function}, {kind}, "{outcome}")\n' for (function, kind), outcome in sorted(now.items())]
    file.write_text(BEGIN + "".join(rows), encoding="utf-8")


def main() -> None:
    """Record all calls, and write the file."""
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
    library, file = (*sys.argv[1:], *("libcuda.so.1", str(FILE))[len(sys.argv) - 1 :])
    parts: dict[str, list[str]] = {}
    for name in STALE:
        parts.setdefault(name.partition(".")[0], []).append(name)
    results: dict[str, set[str]] = {name: set() for name in STALE}
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for seen in pool.map(make_calls, [library] * len(parts), parts.values()):
            for name, result in seen.items():
                print(name, result, flush=True)
                results[name].add(result)
        again = [name for name, seen in results.items() if seen & {"crash", "hangs", "CUDA_SUCCESS"}]
        for seen in pool.map(make_calls, [library] * len(again), [[name] for name in again]):
            for name, result in seen.items():
                print("again", name, result, flush=True)
                results[name].add(result)
    write(Path(file), results)


if __name__ == "__main__":
    main()
