# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the module ``cudacore_handles._cffi``: ``generate.py CDEF... OUTPUT``."""

import sys

from cffi import FFI


def main() -> None:
    """Join the cdef files in the order given and let cffi generate the module."""
    *cdefs, output = sys.argv[1:]
    ffi = FFI()
    for path in cdefs:
        with open(path, encoding="utf-8") as file:
            ffi.cdef(file.read())
    ffi.set_source("cudacore_handles._cffi", '#include <cudacore/cudacore.h>\n#include "shims.h"', py_limited_api=True)
    ffi.emit_c_code(output)


main()
