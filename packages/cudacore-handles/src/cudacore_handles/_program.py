# SPDX-License-Identifier: Apache-2.0
"""Boxes of compiler programs: what program.h has, for the packages that load the compilers."""

from __future__ import annotations

from typing import Any

from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import check


def adopt_nvrtc_program(raw: int, library: int) -> Any:
    """Take over an NVRTC program (nvrtcDestroyProgram when the box dies).

    Parameters
    ----------
    raw : int
        The ``nvrtcProgram``. It stays the caller's when this fails.
    library : int
        The dlopen() handle of the NVRTC that made it, which must stay open.

    Returns
    -------
    box
        The program lives until nobody refers to it.

    Raises
    ------
    CUDAError
        When that library is not NVRTC, or memory runs out.
    """
    out = ffi.new("cch_nvrtc_program **")
    check(lib.cch_nvrtc_program_adopt(out, ffi.cast("nvrtcProgram", raw), ffi.cast("void *", library)))
    return ffi.gc(out[0], lib.cch_nvrtc_program_unref)


def nvrtc_program_raw(box: Any) -> int:
    """Return the ``nvrtcProgram`` of a box."""
    return int(ffi.cast("uintptr_t", lib.cch_nvrtc_program_raw(box)))
