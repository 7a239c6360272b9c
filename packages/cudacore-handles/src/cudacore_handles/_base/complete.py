# SPDX-License-Identifier: Apache-2.0
"""Completes cffi's types when this package is imported.

cffi completes a C type at its first use. If a garbage collection at that moment runs a finalizer that uses the same
type, an assertion in cffi fails and ends the process.
"""

from __future__ import annotations

from cudacore_handles._cffi import ffi, lib


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


_complete_types()
