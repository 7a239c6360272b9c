# SPDX-License-Identifier: Apache-2.0
"""The simulated driver of cudacore-sim: its path, and its explanations of failed calls."""

from __future__ import annotations

import os

from cudacore_handles._cffi import ffi, lib


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
    """Return whether the driver replaces functions of compilers: the simulated one has cubins contain their PTX."""
    return bool(lib.cch_driver_replaces_compilers())


def why_refused() -> str:
    """Return the driver's explanation of this thread's last failed call; empty on a real driver."""
    text = ffi.new("char[]", 4096)
    lib.cch_driver_explain(text, len(text))
    return ffi.string(text).decode("utf-8", "replace")
