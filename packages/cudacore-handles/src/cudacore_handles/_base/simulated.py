# SPDX-License-Identifier: Apache-2.0
"""The simulated driver of cudacore-sim: its path, and its explanations of failed calls."""

from __future__ import annotations

import os
from typing import Any

_loaded: Any = None  # a ctypes.CDLL


def find_simulated_driver() -> None:
    """Set ``$CUDACORE_SIM_LIBRARY`` if it is not set, and ``CUDACORE_DRIVER`` is ``sim``, in upper or lower case.

    Nothing is set if the simulator is not installed. The import calls this, and so does the library before it loads the
    driver, because notebooks set ``CUDACORE_DRIVER`` after the import.

    Child processes inherit the variable. If the simulator is not installed, the first call that needs a driver raises
    an error.
    """
    if os.environ.get("CUDACORE_DRIVER", "").lower() != "sim" or os.environ.get("CUDACORE_SIM_LIBRARY"):
        return
    from importlib.util import find_spec

    if find_spec("cudacore_sim"):
        import cudacore_sim

        os.environ["CUDACORE_SIM_LIBRARY"] = cudacore_sim.get_library()


def warn_other_driver(stacklevel: int) -> None:
    """Warn that ``CUDACORE_DRIVER`` was set too late: the process has loaded another driver, and keeps it."""
    import warnings

    warnings.warn(
        f"CUDACORE_DRIVER is {os.environ.get('CUDACORE_DRIVER', '')!r}, and this process has loaded another driver "
        "already: set the variable before the first call that uses CUDA. In a notebook, restart the kernel",
        RuntimeWarning,
        stacklevel=stacklevel + 1,
    )


def carries_ptx() -> bool:
    """Return whether cubins must contain their PTX, because the simulated driver runs the PTX."""
    return os.environ.get("CUDACORE_DRIVER", "").lower() == "sim" or hasattr(_driver(), "cudasim_symbol")


def _driver() -> Any:
    """Return the driver of this process as a ctypes.CDLL; None if none is loaded. This does not load one."""
    global _loaded
    try:
        import ctypes
    except ImportError:
        return None  # at the end of the interpreter, modules can no longer be imported
    if _loaded is None:
        try:
            _loaded = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            return None
    return _loaded


def why_refused() -> str:
    """Return the simulated driver's explanation of this thread's last failed call; empty on a real driver."""
    why = getattr(_driver(), "cudasim_why", None)
    if why is None:
        return ""
    import ctypes

    why.restype, why.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(why(None, 0) + 1)
    why(text, len(text))
    return text.value.decode("utf-8", "replace")
