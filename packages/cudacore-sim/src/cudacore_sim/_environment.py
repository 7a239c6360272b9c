# SPDX-License-Identifier: Apache-2.0
"""The environment of a process that has the simulator in place of the CUDA driver."""

from __future__ import annotations

import os
from pathlib import Path

from cudacore_sim._library import SimulatorError, get_library


def simulated_environment() -> dict[str, str]:
    """Return the variables that start a program, and its children, on the simulator.

    Raises
    ------
    SimulatorError
        If there is no library, or it has another name than the driver.
    """
    library = Path(get_library())
    if not library.is_file():
        raise SimulatorError(f"there is no {library}")
    if library.name != "libcuda.so.1":
        raise SimulatorError(f"{library} must be called libcuda.so.1, which is what programs look for")
    folder = str(library.parent)
    paths = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path and path != folder]
    changed = {"LD_LIBRARY_PATH": os.pathsep.join([folder, *paths]), "CUDACORE_DRIVER": str(library)}
    preloaded = library.with_name("libcudacore_sim_preload.so")
    if preloaded.is_file():  # the build that $CUDACORE_SIM_LIBRARY names may not have this library
        before = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
        name = str(preloaded)
        if " " in name or ":" in name:  # separators in $LD_PRELOAD: give no folder; $LD_LIBRARY_PATH has it
            name = preloaded.name
        changed["LD_PRELOAD"] = " ".join([*before, *([] if name in before else [name])])
    return changed
