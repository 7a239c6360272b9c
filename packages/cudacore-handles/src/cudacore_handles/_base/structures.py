# SPDX-License-Identifier: Apache-2.0
"""Packing of C structures, with the fields declared by the headers."""

from __future__ import annotations

import struct

from cudacore_handles._cffi import ffi

_LETTERS = {"size_t": "N", "int": "i", "unsigned int": "I", "int32_t": "i", "uint32_t": "I"}


def struct_of(name: str) -> struct.Struct:
    """Return a ``struct.Struct`` that packs a structure of the library from its fields, in their order."""
    fields = ffi.typeof(name).fields
    made = struct.Struct("".join(_LETTERS[field.type.cname] for _, field in fields))
    assert made.size == ffi.sizeof(name), f"{name} has a field that is not where struct puts it"
    return made
