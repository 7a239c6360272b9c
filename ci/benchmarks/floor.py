# SPDX-License-Identifier: Apache-2.0
"""Build and run the floor: the operations of rows.py in plain C."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cuda.pathfinder import find_nvidia_header_directory

import cudacore_sim
from rows import FIRST_VALUE, KERNELS, LARGE, LAUNCHES, MAX_THREADS, NODES, OURS, ROWS, TARGET, TINY, Row

SOURCE = Path(__file__).resolve().with_name("floor.c")
DRIVER = "libcuda.so.1"
KERNELS_FILE = f"kernels.{TARGET}"
FIRST_FILE, SOURCE_FILE = f"first.{TARGET}", "first.cu"

# This program compiles the kernels. It runs in a separate process, so that the reporting process has no CUDA context.
COMPILE = f"""
import sys
import {OURS} as core
options = core.ProgramOptions(arch=f"sm_{{core.Device(0).arch}}", std="c++17")
with open(sys.argv[1], "wb") as file:
    file.write(core.Program(sys.stdin.read(), "c++", options).compile("{TARGET}").code)
"""
FIND = f"import {OURS} as core; print(core.Device(0).name)"


def find_device() -> str | None:
    """Return the name of device 0, or None if there is no device."""
    process = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=False)
    return process.stdout.strip() if process.returncode == 0 else None


def compile_kernels(folder: Path) -> None:
    """Compile the kernels for device 0 into a folder."""
    (folder / SOURCE_FILE).write_text(TINY % FIRST_VALUE)
    for name, source in ((KERNELS_FILE, KERNELS), (FIRST_FILE, TINY % FIRST_VALUE)):
        subprocess.run([sys.executable, "-c", COMPILE, str(folder / name)], input=source, text=True, check=True)


def compiler() -> str | None:
    return shutil.which((os.environ.get("CC") or "cc").split()[-1])


def measured(row: Row) -> str:
    """Return the C code that measures a row."""
    calls = " ".join(f"CHECK({call});" for call in row.c.split("; "))
    return f"ROW({json.dumps(row.name)}, {row.number}, {row.repeat}, {row.per}, {calls});"


def build(folder: Path) -> Path | None:
    """Compile the floor into a folder; return the path of the program.

    Without a C compiler or cuda.h, print a message to stderr and return None. The program is linked to the simulated
    driver, so that no other one is needed. It loads the libcuda.so.1 that the machine has.
    """
    include = find_nvidia_header_directory("cudart")
    if not compiler() or not include:
        missing = "cuda.h: python -m pip install nvidia-cuda-runtime" if compiler() else "a C compiler"
        print(f"no floor: there is no {missing}", file=sys.stderr)
        return None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.inc").write_text("\n".join(map(measured, filter(lambda row: row.c, ROWS))) + "\n")
    numbers = {"NODES": NODES, "LARGE": LARGE, "MAX_THREADS": MAX_THREADS, "LAUNCHES": LAUNCHES}
    defined = [f"-D{name}={value}" for name, value in numbers.items()]
    options = ["-std=gnu11", "-O2", "-Wl,-z,lazy", "-pthread", f"-I{include}", f"-I{folder}", *defined]
    # Lazy, because the driver can be older than cuda.h, and lack functions that are not called.
    command = [str(compiler()), *options, str(SOURCE), cudacore_sim.get_library(), "-o", str(folder / "floor")]
    subprocess.run(command, check=True)
    return folder / "floor"
