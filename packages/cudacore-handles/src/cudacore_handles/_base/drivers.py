# SPDX-License-Identifier: Apache-2.0
"""Drivers that packages contain, and what a driver can offer beyond CUDA."""

from __future__ import annotations

import os

from cudacore_handles._cffi import ffi, lib

#: The end of the hints of errors where there is no driver.
WITHOUT_GPU = (
    "Without a GPU, a driver that simulates one can be installed: cudacore-sim, which CUDACORE_DRIVER=sim in the "
    "environment selects"
)


def selected_driver() -> str:
    """Return the path of the driver that ``CUDACORE_DRIVER`` selects; empty: the machine's own, or it is not found.

    A name without a dot or slash, such as ``sim``, in upper or lower case, is that of a package ``cudacore_sim`` with a
    function ``get_library()``. Its result is stored in ``$CUDACORE_SIM_LIBRARY``, which the library and child processes
    use, unless that variable is set.

    The import calls this, and so does the library before it loads the driver, because notebooks set ``CUDACORE_DRIVER``
    after the import. If the package is not installed, the first call that needs a driver raises an error.
    """
    given = os.environ.get("CUDACORE_DRIVER", "")
    if "/" in given or "." in given:
        return given
    name = given.lower()
    if name in ("", "gpu"):
        return ""
    variable = f"CUDACORE_{name.upper()}_LIBRARY"
    if not os.environ.get(variable):
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec(f"cudacore_{name}"):
            os.environ[variable] = import_module(f"cudacore_{name}").get_library()
    return os.environ.get(variable, "")


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
    """Return whether the driver replaces functions of compilers, so that cubins contain the PTX that it runs."""
    return bool(lib.cch_driver_replaces_compilers())


def why_refused() -> str:
    """Return the driver's explanation of this thread's last failed call; most drivers have none."""
    text = ffi.new("char[]", 4096)
    lib.cch_driver_explain(text, len(text))
    return ffi.string(text).decode("utf-8", "replace")
