# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the module ``cudacore_handles._cffi``: ``generate_cffi.py CDEFS OUTPUT``."""

import sys

from cffi import FFI

# Functions that cffi generates convert their results with this macro, after they have acquired the GIL again. If a call
# that returns a cch_status failed, its error record is copied with the result.
_PREAMBLE = """
#include <cudacore_internal/all.h>

#include "base/failure.h"

static void unref_in(void *out) { cch_unref(*(void **)out); }
static void unref_in_kernel_node(void *node) { cch_unref(((cch_kernel_node *)node)->kernel); }
static void unref_in_event_node(void *node) { cch_unref(((cch_event_node *)node)->event); }

#undef _cffi_from_c_int
#define _cffi_from_c_int(x, type)                                                                                     \\
  (strcmp(#type, "cch_status") == 0 ? failure_status((int)(x))                                                        \\
   : (type)-1 < (type)1             ? PyLong_FromLongLong((long long)(x))                                             \\
                                    : PyLong_FromUnsignedLongLong((unsigned long long)(x)))
"""

# Destructors of memory into which the library writes references (_base/handle.py).
_DESTRUCTORS = """
void unref_in(void *out);
void unref_in_kernel_node(void *node);
void unref_in_event_node(void *node);
"""


def main() -> None:
    """Let cffi generate the module from the declarations."""
    cdefs, output = sys.argv[1:]
    ffi = FFI()
    with open(cdefs, encoding="utf-8") as file:
        ffi.cdef(file.read() + _DESTRUCTORS)
    ffi.set_source("cudacore_handles._cffi", _PREAMBLE, py_limited_api=True)
    ffi.emit_c_code(output)


main()
