# SPDX-License-Identifier: Apache-2.0
"""The driver's information about an address."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_handles._base.errors import check
from cudacore_handles._cffi import ffi, lib

_MEMORY_TYPE_HOST = 1  # CU_MEMORYTYPE_HOST


class Attributes(NamedTuple):
    """The location of memory, and who can access it."""

    device_id: int
    is_device_accessible: bool
    is_host_accessible: bool
    is_managed: bool


def pointer_attributes(ptr: int) -> Attributes:
    """Return the location of the memory at an address (cuPointerGetAttributes)."""
    out = ffi.new("int[3]")
    check(lib.cch_pointer_attributes(out, out + 1, out + 2, ptr))
    memory_type, ordinal, managed = out
    if memory_type == 0:  # ordinary host memory, which CUDA does not manage
        return Attributes(-1, False, True, False)
    if managed:
        return Attributes(ordinal, True, True, True)
    if memory_type == _MEMORY_TYPE_HOST:
        return Attributes(-1, True, True, False)
    return Attributes(ordinal, True, False, False)
