#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the test double of the CUDA driver, packages/cudacore-handles/tests/c/fakecuda*.c; print where it is.

Tests call build(). With the environment variable CUDACORE_DRIVER set to what it returns, everything runs on the double.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cuda_headers

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "packages" / "cudacore-handles" / "tests" / "c"


def build() -> Path:
    """Compile the double, once for each state of its sources, and return the path of the shared library.

    Raises
    ------
    RuntimeError
        When there is no C compiler, or no cuda.h.
    """
    files = sorted(SOURCES.glob("fakecuda*.[ch]"))
    if not files:
        raise RuntimeError(f"the fake driver cannot be built: its sources are not in {SOURCES}")
    state = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    library = ROOT / "build" / "fakecuda" / state / "libfakecuda.so"
    if library.is_file():
        return library
    compiler, include = shutil.which(os.environ.get("CC", "cc")), cuda_headers.include_folder()
    missing = cuda_headers.why_not(compiler, include)
    if missing:
        raise RuntimeError(f"the fake driver cannot be built: {missing}")
    library.parent.mkdir(parents=True, exist_ok=True)
    # Under a name of its own first: several test processes may be at it at once.
    with tempfile.NamedTemporaryFile(dir=library.parent, delete=False) as file:
        unfinished = Path(file.name)
    flags = ["-shared", "-fPIC", "-O1", "-g", "-pthread", "-Wl,-soname,libcuda.so.1", f"-isystem{include}"]
    sources = [str(file) for file in files if file.suffix == ".c"]
    subprocess.run([str(compiler), *flags, *sources, "-ldl", "-o", str(unfinished)], check=True)
    unfinished.rename(library)
    return library


if __name__ == "__main__":
    try:
        print(build())
    except RuntimeError as error:
        sys.exit(str(error))
