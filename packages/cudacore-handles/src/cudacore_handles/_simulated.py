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
    name = os.environ.get("CUDACORE_DRIVER") or "libcuda.so.1"
    if name.lower() == "sim":
        return True
    import ctypes

    try:  # as the C library does: no driver is loaded for the sake of compiling
        library = ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return False
    return hasattr(library, "cudasim_symbol")


def why_refused() -> str:
    """Return what the simulated driver says of the last call of this thread that failed; empty on a GPU's driver."""
    global _loaded
    try:
        import ctypes
    except ImportError:
        return ""  # the interpreter is ending
    if _loaded is None:
        try:
            _loaded = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            return ""  # no driver is loaded yet
    why = getattr(_loaded, "cudasim_why", None)
    if why is None:
        return ""
    why.restype, why.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(why(None, 0) + 1)
    why(text, len(text))
    return text.value.decode("utf-8", "replace")
