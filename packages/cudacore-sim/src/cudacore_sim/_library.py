# SPDX-License-Identifier: Apache-2.0
"""The location of the simulated driver, and loading it into this process."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_loaded: ctypes.CDLL | None = None


class SimulatorError(RuntimeError):
    """An error: the simulator cannot be loaded, or is not the driver of this process."""

    __module__ = "cudacore_sim"  # the module name that tracebacks show


def get_library() -> str:
    """Return the path of the simulated ``libcuda.so.1``, without loading it.

    It is the library of this package, or a development build that ``$CUDACORE_SIM_LIBRARY`` names.

    Returns
    -------
    str
        An absolute path.
    """
    given = os.environ.get("CUDACORE_SIM_LIBRARY")
    installed = _HERE / "lib" / "libcuda.so.1"
    if not given and not installed.exists():
        # In an editable install, the library is in the build folder, and `importlib.resources` finds it.
        import importlib.resources

        return str(importlib.resources.files("cudacore_sim") / "lib" / "libcuda.so.1")
    return os.path.abspath(given or installed)


def get_include() -> str:
    """Return the folder of ``cudacore_sim.h``, the controls for C.

    Returns
    -------
    str
        An absolute path.
    """
    # An editable install runs from the source tree, where the header is in the folder of the whole package.
    return str(next(folder for folder in (_HERE / "include", _HERE.parents[1] / "include") if folder.is_dir()))


def load() -> ctypes.CDLL:
    """Make the simulator the CUDA driver of this process.

    The simulator has the soname of the driver, so any code that opens ``libcuda.so.1`` from now on finds the simulator.
    The same holds for NVML, ``libnvidia-ml.so.1``, in the same folder. If the simulator is loaded already, nothing
    happens. If ``$CUDACORE_DRIVER`` is not set, it is set to the path of the simulator, for `cudacore` and for child
    processes.

    Returns
    -------
    ctypes.CDLL
        The library.

    Raises
    ------
    SimulatorError
        If another driver is loaded already, or the library cannot be loaded.
    """
    global _loaded
    if _loaded is None:
        other = _find_loaded()
        if other is not None and not _is_simulator(other):
            raise SimulatorError(
                f"this process has loaded a CUDA driver already, {_path_of(other)}: "
                "call cudacore_sim.load() before anything that uses CUDA, or run python -m cudacore_sim COMMAND..."
            )
        path = get_library()
        try:
            _loaded = other or ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise SimulatorError(f"the simulated driver cannot be loaded: {error}") from error
        if not _is_simulator(_loaded):
            _loaded = None
            raise SimulatorError(f"{path} is not the simulated driver")
        _load_nvml(path)
    os.environ.setdefault("CUDACORE_DRIVER", get_library())
    return _loaded


def _load_nvml(driver: str) -> None:
    """Load the NVML library in the folder of the driver, unless the process has loaded an NVML library already."""
    library = Path(driver).with_name("libnvidia-ml.so.1")
    try:
        ctypes.CDLL(library.name, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        if library.is_file():  # a build that $CUDACORE_SIM_LIBRARY names may lack NVML
            ctypes.CDLL(str(library))


def is_loaded() -> bool:
    """Return whether the CUDA driver that this process has loaded is the simulator.

    Returns
    -------
    bool
        False if another driver is loaded, or no driver is loaded yet.
    """
    library = _loaded or _find_loaded()
    return library is not None and _is_simulator(library)


def _find_loaded() -> ctypes.CDLL | None:
    """Return the driver that this process has loaded already, if any."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None


def _is_simulator(library: ctypes.CDLL) -> bool:
    return hasattr(library, "cudasim_version")


def _path_of(library: ctypes.CDLL) -> str:
    """Return the file of a library, according to /proc."""
    try:
        mappings = Path("/proc/self/maps").read_text()
    except OSError:
        return "libcuda.so.1"
    return next((line.split(maxsplit=5)[5] for line in mappings.splitlines() if "libcuda.so" in line), "libcuda.so.1")
