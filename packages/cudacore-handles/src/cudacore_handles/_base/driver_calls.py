# SPDX-License-Identifier: Apache-2.0
"""Calls of driver functions for which the C library has no function of its own, and the version of the driver.

The functions are those in ``src/lib/driver/driver_table.h``.
"""

from __future__ import annotations

import functools
from typing import Any

from cudacore_handles._base.errors import CUDAError, check, result_of
from cudacore_handles._cffi import lib
from cudacore_handles._native import driver_status, query_driver, query_driver_size

__all__ = [
    "call_driver",
    "driver_status",
    "driver_version",
    "need_driver",
    "query_driver",
    "query_driver_size",
    "version_text",
]


def call_driver(function: str, *arguments: Any) -> None:
    """Call a function of the driver as :func:`driver_status` does; raise an error if it fails."""
    check(driver_status(function, *arguments))


@functools.cache
def driver_version() -> int:
    """Return the version of CUDA that the driver supports, such as 12040 (cuDriverGetVersion)."""
    return result_of(lib.cch_driver_version)


def version_text(version: int) -> str:
    """Return a version as text: ``"12.4"`` for 12040."""
    return f"{version // 1000}.{version % 1000 // 10}"


def need_driver(version: int, operation: str, what: str) -> None:
    """Raise an error if the driver is older than a version, because the driver's error would only be "invalid value".

    Parameters
    ----------
    version : int
        The oldest version that works, such as 12040.
    operation : str
        The function of the driver that would fail.
    what : str
        A sentence for the hint: what that version added, and an alternative if there is one.
    """
    have = driver_version()
    if have < version:
        raise CUDAError(
            operation,
            lib.CCH_ENOSYMBOL,
            "CCH_ENOSYMBOL",
            f"needs a driver for CUDA {version_text(version)} or newer; the loaded driver is for CUDA "
            f"{version_text(have)}",
            hint=what,
        )
