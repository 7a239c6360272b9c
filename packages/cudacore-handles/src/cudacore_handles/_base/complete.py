# SPDX-License-Identifier: Apache-2.0
"""cffi's types, completed when this package is imported.

cffi completes a C type at its first use. A garbage collection in that moment, whose finalizers use the same type, ends
the process: cffi asserts that nobody else has completed it meanwhile.
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
                continue  # an opaque one, whose fields cffi must not be asked for
            made.fields  # noqa: B018
    for name in dir(lib):  # functions, with the types of their arguments
        getattr(lib, name)


_complete_types()
