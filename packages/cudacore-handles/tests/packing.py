# SPDX-License-Identifier: Apache-2.0
"""Pack one value as a kernel argument, for parameters of each kind."""

from __future__ import annotations

import struct
from typing import Any

from cudacore_handles import _native

# The kinds by their numbers, as in PARAM_KINDS of launch.h.
UNKNOWN, INT, UINT, BITS, BOOL, FLOAT, BFLOAT, POINTER, ADDRESS_OR_INT, BYTES = range(10)
ADDRESS = 0x7F12_3456_7800


def one(value: Any, size: int, kind: int = 0, *, device: int = -1) -> bytes:
    """Return the bytes that a parameter of a size and a kind gets for a value."""
    return _native.pack(struct.pack("=3I", 0, size, kind), (value,), device)
