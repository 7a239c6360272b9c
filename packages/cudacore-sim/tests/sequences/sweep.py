# SPDX-License-Identifier: Apache-2.0
"""Run the recorded sequences again and print the differences from the recordings: ``python sweep.py [LIBRARY]``.

The exit status is 1 if anything differs.
"""

from __future__ import annotations

import concurrent.futures
import difflib
import json
import subprocess
import sys
from pathlib import Path

import recordings

HERE = Path(__file__).parent
WORKERS = 8


def run(library: str, names: list[str]) -> dict[str, list[str]]:
    """Run sequences one after another, and return their listings by name."""
    command = [sys.executable, str(HERE / "run.py"), library]
    result = subprocess.run(command, input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    return {name: json.loads(line)["listing"] for name, line in zip(names, result.stdout.splitlines(), strict=True)}


def run_at_once(library: str, names: list[str]) -> dict[str, list[str]]:
    """Run sequences in parallel processes, because creating a context takes long. Return the listings by name."""
    listings: dict[str, list[str]] = {}
    parts = [names[start::WORKERS] for start in range(WORKERS)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for results in pool.map(run, [library] * WORKERS, parts):
            listings.update(results)
    return listings


def compare(library: str, expected: dict[str, list[str]]) -> dict[str, list[str]]:
    """Run sequences. Return the differences from the expected listings, by sequence."""
    listings = run_at_once(library, list(expected))
    lines = {
        name: [line for line in difflib.ndiff(expected[name], listings[name]) if line[0] in "+-"] for name in expected
    }
    return {name: changed for name, changed in lines.items() if changed}


def main() -> None:
    """Compare all recorded sequences, and print the differences."""
    expected = recordings.read_sequences()
    different = compare(sys.argv[1] if len(sys.argv) > 1 else "libcuda.so.1", expected)
    for name, lines in different.items():
        print(f"differs: {name}", *lines, sep="\n    ")
    print(f"{len(different)} of {len(expected)} sequences differ")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
