# SPDX-License-Identifier: Apache-2.0
"""Record on a GPU what the sequences give there.

    python record.py [--missing] [LIBRARY]

Run it where there is a GPU; it writes recording.json beside itself, and names the sequences that crashed or did not run
to their end, with their last calls. These are not recorded: such a sequence has no rule to teach, and is to be changed.
With --missing only those are recorded that recording.json lacks, and are added to it. Record twice, and compare, before
committing it: what depends on timing is no rule either.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORKERS = 4

# How the last line of a listing begins where the sequence did not end well.
UNFINISHED = ("crashed: ", "broken: ", "cannot be prepared: ")


def run(library: str, names: list[str]) -> list[dict[str, Any]]:
    """Run sequences in turn."""
    command = [sys.executable, str(HERE / "run.py"), library]
    result = subprocess.run(command, input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def identity(library: str) -> dict[str, Any]:
    """Return the names of the device and of the driver's version."""
    driver = ctypes.CDLL(library)
    name, version = ctypes.create_string_buffer(100), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetName(name, 100, 0) or driver.cuDriverGetVersion(ctypes.byref(version)):
        raise SystemExit("there is no GPU")
    return {"device": name.value.decode(), "driver_version": version.value}


def main() -> None:
    """Record all sequences, or those that are missing."""
    arguments = sys.argv[1:]
    missing = "--missing" in arguments
    library = next((argument for argument in arguments if not argument.startswith("--")), "libcuda.so.1")
    listed = subprocess.run([sys.executable, str(HERE / "run.py")], stdout=subprocess.PIPE, text=True, check=True)
    names = listed.stdout.split()
    file = HERE / "recording.json"
    known = json.loads(file.read_text(encoding="utf-8")) if missing else {"sequences": {}}
    about = identity(library)
    if missing and about != {key: known[key] for key in about}:
        raise SystemExit(f"what is there was recorded on another GPU or driver than {about}")
    listings: dict[str, list[str]] = dict(known["sequences"])
    wanted = [name for name in names if name not in listings]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        parts = [wanted[start::WORKERS] for start in range(WORKERS)]
        for part, results in zip(parts, pool.map(run, [library] * WORKERS, parts), strict=True):
            listings.update((name, result["listing"]) for name, result in zip(part, results, strict=True))
    for name in wanted:
        if listings[name] and listings[name][-1].startswith(UNFINISHED):
            print(name, *listings.pop(name)[-3:], sep="\n    ", file=sys.stderr)
    recording = {**about, "sequences": {name: listings[name] for name in names if name in listings}}
    file.write_text(json.dumps(recording, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"recorded {sum(name in listings for name in wanted)} of {len(wanted)} sequences", file=sys.stderr)


if __name__ == "__main__":
    main()
