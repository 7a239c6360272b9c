# SPDX-License-Identifier: Apache-2.0
"""Build and run the floor: the operations of rows.py in plain C."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cuda.pathfinder import find_nvidia_header_directory

from rows import FIRST_VALUE, KERNELS, OURS, TARGET, TINY

SOURCE = Path(__file__).resolve().with_name("floor.c")
NULL_DRIVER = SOURCE.with_name("null_driver.c")
DRIVER = "libcuda.so.1"
SHARED = ("-fPIC", "-shared", f"-Wl,-soname,{DRIVER}")
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


def build(folder: Path) -> Path | None:
    """Compile the floor into a folder; return the path of the program.

    Without a C compiler or cuda.h, print a message to stderr and return None. The program is linked to a libcuda.so.1
    whose functions are empty, so that no driver is needed.
    """
    objects = compile_c(folder / "floor.o", "-O2", str(SOURCE), "-c")
    if objects is None:
        return None
    undefined = subprocess.check_output(["nm", "--undefined-only", str(objects)], text=True).split()
    (folder / "empty.c").write_text("\n".join(f"void {name}(void) {{}}" for name in undefined if name[:2] == "cu"))
    empty = compile_c(folder / "empty" / DRIVER, str(folder / "empty.c"), *SHARED)
    # The driver can be older than cuda.h, and lack functions that are not called.
    return compile_c(folder / "floor", str(objects), str(empty), "-Wl,-z,lazy", "-pthread")


def build_null_driver(folder: Path) -> Path | None:
    """Compile the driver that does nothing into a folder; return the path of the library, or None like build()."""
    return compile_c(folder / DRIVER, "-O2", str(NULL_DRIVER), "-fvisibility=hidden", *SHARED)


def compile_c(output: Path, *arguments: str) -> Path | None:
    output.parent.mkdir(parents=True, exist_ok=True)
    include = find_nvidia_header_directory("cudart")
    if not compiler() or not include:
        missing = "cuda.h: python -m pip install nvidia-cuda-runtime" if compiler() else "a C compiler"
        print(f"no {output.name}: there is no {missing}", file=sys.stderr)
        return None
    subprocess.run([str(compiler()), "-std=gnu11", f"-I{include}", *arguments, "-o", str(output)], check=True)
    return output
