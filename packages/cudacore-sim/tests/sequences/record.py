# SPDX-License-Identifier: Apache-2.0
"""Record the results of the sequences on a GPU.

    python record.py [--missing] [LIBRARY]

Run it on a machine with a GPU. It writes the files of ``recordings``, and prints the sequences that crashed or did not
complete, with their last calls. Such sequences are not recorded, and must be changed. With --missing, only sequences
without a recording are recorded and added. Record twice and compare before you commit: a listing that depends on timing
is useless.
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
# The beginning of a listing's last line if the sequence did not end well.
UNFINISHED = ("crashed: ", "broken: ", "cannot be prepared: ")


def identity(library: str) -> dict[str, Any]:
    """Return the names of the device and of the driver's version."""
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
