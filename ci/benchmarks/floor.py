# SPDX-License-Identifier: Apache-2.0
"""Build and run the floor: floor.c and floor_graphs.c."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cuda.pathfinder import find_nvidia_header_directory

from rows import FIRST_VALUE, KERNELS, OURS, TARGET, TINY

SOURCES = [Path(__file__).resolve().parent / name for name in ("floor.c", "floor_graphs.c")]
KERNELS_FILE = f"kernels.{TARGET}"
FIRST_FILE = f"first.{TARGET}"

# Runs in a process of its own, lest the one that reports holds a context on the device.
COMPILE = f"""
import sys
import {OURS} as core
options = core.ProgramOptions(arch=f"sm_{{core.Device(0).arch}}", std="c++17")
with open(sys.argv[1], "wb") as file:
    file.write(core.Program(sys.stdin.read(), "c++", options).compile("{TARGET}").code)
"""


def compile_kernels(folder: Path) -> None:
    """Compile the kernels for device 0 into a folder."""
    for name, source in ((KERNELS_FILE, KERNELS), (FIRST_FILE, TINY % FIRST_VALUE)):
        subprocess.run([sys.executable, "-c", COMPILE, str(folder / name)], input=source, text=True, check=True)


def build(folder: Path) -> Path | None:
    """Compile the floor into a folder, which has the kernels, too; return the program.

    Without a C compiler or cuda.h there is no floor: says so on stderr and returns None.
    """
    compiler, include = shutil.which(os.environ.get("CC", "cc")), find_nvidia_header_directory("cudart")
    if not compiler or not include:
        missing = "cuda.h: python -m pip install nvidia-cuda-runtime" if compiler else "a C compiler"
        print(f"no floor: there is no {missing}", file=sys.stderr)
        return None
    program = folder / "floor"
    command = [
        str(compiler),
        "-std=gnu11",
        "-O2",
        f"-I{include}",
        *map(str, SOURCES),
        "-ldl",
        "-pthread",
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    return program


def run(program: Path) -> dict[str, float]:
    """Run the program that build() made; return nanoseconds a row."""
    command = [str(program), str(program.parent / KERNELS_FILE)]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {name: float(value) for name, value in (line.split("\t") for line in process.stdout.splitlines())}
