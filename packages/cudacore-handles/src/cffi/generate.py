# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the module ``cudacore_handles._cffi``: ``generate.py CDEFS OUTPUT``."""

import sys

from cffi import FFI


def main() -> None:
    """Let cffi generate the module from the declarations."""
    cdefs, output = sys.argv[1:]
    ffi = FFI()
    with open(cdefs, encoding="utf-8") as file:
        ffi.cdef(file.read())
    ffi.set_source("cudacore_handles._cffi", "#include <cudacore/cudacore.h>", py_limited_api=True)
    ffi.emit_c_code(output)


main()
