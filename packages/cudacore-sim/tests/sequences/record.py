# SPDX-License-Identifier: Apache-2.0
"""Record the results of the sequences on a GPU.

    python record.py [--missing] [LIBRARY]

Run this program on a machine with a GPU. It writes the files in ``recordings``, and prints the sequences that crashed
or did not complete, with their last calls. Such sequences are not recorded, and must be changed. With --missing, only
sequences without a recording are recorded and added. Record twice and compare the recordings before you commit: the
listing of a sequence must not depend on timing.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import recordings
from sweep import run_at_once

HERE = Path(__file__).parent
# The beginnings of the last line of a listing whose sequence did not complete.
UNFINISHED = ("crashed: ", "broken: ", "cannot be prepared: ")


def identity(library: str) -> dict[str, Any]:
    """Return the name of the device, and the version of the driver."""
    driver = ctypes.CDLL(library)
    name, version = ctypes.create_string_buffer(100), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetName(name, 100, 0) or driver.cuDriverGetVersion(ctypes.byref(version)):
        raise SystemExit("there is no GPU")
    return {"device": name.value.decode(), "driver_version": version.value}


def main() -> None:
    """Record all sequences, or only the sequences without a recording."""
    arguments = sys.argv[1:]
    missing = "--missing" in arguments
    library = next((argument for argument in arguments if not argument.startswith("--")), "libcuda.so.1")
    listed = subprocess.run([sys.executable, str(HERE / "run.py")], stdout=subprocess.PIPE, text=True, check=True)
    names = listed.stdout.split()
    about = identity(library)
    if missing and about != recordings.read_gpu():
        raise SystemExit(f"the recordings are of another GPU or driver than {about}")
    listings = recordings.read_sequences() if missing else {}
    wanted = [name for name in names if name not in listings]
    listings.update(run_at_once(library, wanted))
    for name in wanted:
        if listings[name] and listings[name][-1].startswith(UNFINISHED):
            print(name, *listings.pop(name)[-3:], sep="\n    ", file=sys.stderr)
    recordings.write(about, {name: listings[name] for name in names if name in listings})
    print(f"recorded {sum(name in listings for name in wanted)} of {len(wanted)} sequences", file=sys.stderr)


if __name__ == "__main__":
    main()
