# SPDX-License-Identifier: Apache-2.0
"""Build and run floor.c."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rows import KERNELS, OURS

sys.path.append(str(Path(__file__).resolve().parent.parent))
import cuda_headers

SOURCE = Path(__file__).resolve().parent / "floor.c"
KERNELS_FILE = "kernels.cubin"

# Runs in a process of its own, lest the one that reports holds a context on the device.
COMPILE = f"""
import sys
import {OURS} as core
options = core.ProgramOptions(arch=f"sm_{{core.Device(0).arch}}", std="c++17")
with open(sys.argv[1], "wb") as file:
    file.write(core.Program(sys.stdin.read(), "c++", options).compile("cubin").code)
"""


def build(folder: Path) -> Path | None:
    """Compile floor.c, and its kernels for device 0, into a folder; return the program.

    Without a C compiler or cuda.h there is no floor: says so on stderr and returns None.
    """
    compiler, include = shutil.which(os.environ.get("CC", "cc")), cuda_headers.include_folder()
    missing = cuda_headers.why_not(compiler, include)
    if missing:
        print(f"no floor: {missing}", file=sys.stderr)
        return None
    subprocess.run([sys.executable, "-c", COMPILE, str(folder / KERNELS_FILE)], input=KERNELS, text=True, check=True)
    program = folder / "floor"
    command = [str(compiler), "-std=gnu11", "-O2", f"-I{include}", str(SOURCE), "-ldl", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def run(program: Path) -> dict[str, float]:
    """Run the program that build() made; return nanoseconds a row."""
    command = [str(program), str(program.parent / KERNELS_FILE)]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {name: float(value) for name, value in (line.split("\t") for line in process.stdout.splitlines())}
