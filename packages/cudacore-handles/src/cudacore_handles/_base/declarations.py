# SPDX-License-Identifier: Apache-2.0
"""The declarations of the C library, as cffi has them: types, which are completed here, structures and kinds.

cffi completes a C type at its first use. If a garbage collection at that moment runs a finalizer that uses the same
type, an assertion in cffi fails and ends the process. So the types are completed when this package is imported.
"""

from __future__ import annotations

import struct

from cudacore_handles._cffi import ffi, lib

_LETTERS = {"size_t": "N", "int": "i", "unsigned int": "I", "int32_t": "i", "uint32_t": "I"}
_KINDS = {
    name.removeprefix("CCH_KIND_").lower(): number
    for name, number in ffi.typeof("cch_kind").relements.items()
    if name != "CCH_KIND_COUNT"
}


def _complete_types() -> None:
    typedefs, structures, _ = ffi.list_types()
    for name in (*typedefs, *(f"struct {name}" for name in structures if name not in typedefs)):
        made = ffi.typeof(name)
        if made.kind == "struct":
            try:
                ffi.sizeof(made)
            except ffi.error:
                continue  # an opaque type, which has no fields
            made.fields  # noqa: B018
    for name in dir(lib):  # completes functions and the types of their arguments
        getattr(lib, name)


def struct_of(name: str) -> struct.Struct:
    """Return a ``struct.Struct`` that packs a structure of the library from its fields, in their order."""
    fields = ffi.typeof(name).fields
    made = struct.Struct("".join(_LETTERS[field.type.cname] for _, field in fields))
    assert made.size == ffi.sizeof(name), f"{name} has a field that is not where struct puts it"
    return made


def live_counts() -> dict[str, int]:
    """Return the number of live handles of this process by kind, for leak checks.

    Examples
    --------
    >>> import cudacore_handles
    >>> cudacore_handles.live_counts()["stream"] > 0
    True
    """
    return {kind: int(lib.cch_live_count(number)) for kind, number in _KINDS.items()}


_complete_types()
