# SPDX-License-Identifier: Apache-2.0
"""The simulated driver of cudacore-sim: where it is, for the C library, and what it has to say of calls that failed."""

from __future__ import annotations

import os
from typing import Any

_loaded: Any = None  # a ctypes.CDLL


def find_simulated_driver() -> None:
    """With ``CUDACORE_DRIVER=sim``, in any case, set ``$CUDACORE_SIM_LIBRARY`` where it is needed.

    That is, if it is not set, and the simulator is installed.

    Child processes inherit it. Where the simulator is not installed, the first call that needs a driver says so.
    """
    if os.environ.get("CUDACORE_DRIVER", "").lower() != "sim" or os.environ.get("CUDACORE_SIM_LIBRARY"):
        return
    from importlib.util import find_spec

    if find_spec("cudacore_sim"):
        import cudacore_sim

        os.environ["CUDACORE_SIM_LIBRARY"] = cudacore_sim.get_library()


def carries_ptx() -> bool:
    """Tell whether cubins of this process carry their PTX, as the simulated driver has it: other cubins cannot run."""
    return os.environ.get("CUDACORE_DRIVER", "").lower() == "sim" or hasattr(_driver(), "cudasim_symbol")


def _driver() -> Any:
    """Return the driver of this process as a ctypes.CDLL; None: none is loaded yet, and none is for our sake."""
    global _loaded
    try:
        import ctypes
    except ImportError:
        return None  # the interpreter is ending
    if _loaded is None:
        try:
            _loaded = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            return None
    return _loaded


def why_refused() -> str:
    """Return what the simulated driver says of the last call of this thread that failed; empty on a GPU's driver."""
    why = getattr(_driver(), "cudasim_why", None)
    if why is None:
        return ""
    import ctypes

    why.restype, why.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(why(None, 0) + 1)
    why(text, len(text))
    return text.value.decode("utf-8", "replace")
