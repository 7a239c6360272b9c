# SPDX-License-Identifier: Apache-2.0
"""Run a command with the simulated driver in place of the CUDA driver: ``python -m cudacore_sim COMMAND...``.

The library's folder is put at the front of ``$LD_LIBRARY_PATH``, so that ``dlopen("libcuda.so.1")`` finds it, in the
command and in its children. NVML, ``libnvidia-ml.so.1``, is in the same folder. The library is not in ``$LD_PRELOAD``,
which would load it into every program that the command starts, including shells and compilers. ``$CUDACORE_DRIVER`` has
its path, for `cudacore`. Only a small library without dependencies is preloaded. It adds PTX to the cubins that NVRTC,
nvJitLink and ptxas make (nvcc starts ptxas). The simulator runs this PTX.
"""

from __future__ import annotations

import os
import shlex
import sys

from cudacore_sim._environment import simulated_environment
from cudacore_sim._library import SimulatorError

USAGE = """usage: python -m cudacore_sim COMMAND [ARGUMENT...]

Run a command with the simulated CUDA driver in place of the real one. To run Python code:
    python -m cudacore_sim python program.py
    python -m cudacore_sim python -m pytest
Environment variables configure the simulated machine: CUDACORE_SIM_DEVICES, CUDACORE_SIM_MEMORY, ...
"""


def main(arguments: list[str]) -> int:
    """Replace this process by the command, or exit with an error message."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    try:
        environment = os.environ | simulated_environment()
    except SimulatorError as error:
        sys.stderr.write(f"cudacore_sim: {error}\n")
        return 1
    try:
        os.execvpe(arguments[0], arguments, environment)
    except OSError as error:
        sys.stderr.write(f"cudacore_sim: {arguments[0]}: {error.strerror}{_advice(arguments)}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def _advice(arguments: list[str]) -> str:
    """Suggest the right command if the command consists of arguments of the interpreter."""
    command = arguments[0]
    if not command.startswith("-") and not command.endswith(".py"):
        return ""
    return f"; to run Python code: python -m cudacore_sim python {shlex.join(arguments)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
