# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the module ``cudacore_handles._cffi``: ``generate_cffi.py CDEFS PYTHON OUTPUT DEPFILE``.

The module has the functions that the Python files in the folder PYTHON name. The extension module calls the others. A
function of cffi takes space in the wheel, and time at each import (``_base/complete.py``).
"""

import re
import sys
from pathlib import Path

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
    cdefs, python, output, depfile = sys.argv[1:]
    files = sorted(Path(python).rglob("*.py"))
    named = {name for file in files for name in re.findall(r"\bcch_\w+", file.read_text(encoding="utf-8"))}
    functions = re.compile(r"^(?!typedef)[^;{}\n#][^;{}]*?\b(cch_\w+)\([^;]*\);\n", re.MULTILINE)
    text = Path(cdefs).read_text(encoding="utf-8")
    ffi = FFI()
    ffi.cdef(functions.sub(lambda found: found[0] if found[1] in named else "", text) + _DESTRUCTORS)
    ffi.set_source("cudacore_handles._cffi", _PREAMBLE, py_limited_api=True)
    ffi.emit_c_code(output)
    Path(depfile).write_text(f"{output}: {' '.join(map(str, files))}\n", encoding="utf-8")


main()
