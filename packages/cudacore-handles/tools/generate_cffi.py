# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the module ``cudacore_handles._cffi``: ``generate_cffi.py CDEFS PYTHON OUTPUT DEPFILE``.

The module has the functions that the Python files in the folder PYTHON name. The extension module calls the others. A
function of cffi takes space in the wheel, and time at each import (``_base/declarations.py``).
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

/* What cffi generates for each pointer that is an argument (_POINTER), in one function. */
static int pointer_argument(struct _cffi_ctypedescr *type, PyObject *given, char **out,
                            struct _cffi_freeme_s **memory) {
  Py_ssize_t size = _cffi_prepare_pointer_call_argument(type, given, out);
  if (size == 0) return 0;
  *out = NULL; /* then the next function allocates */
  return _cffi_convert_array_argument(type, given, out, size, memory);
}

static void unref_in(void *out) { cch_unref(*(void **)out); }
static void unref_in_kernel_node(void *node) { cch_unref(((cch_kernel_node *)node)->kernel); }

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
"""

# The lines with which a generated function converts a pointer. If given a list or bytes, they use the stack for small
# ones, and so need space in each function.
_POINTER = re.compile(
    r"""  datasize = _cffi_prepare_pointer_call_argument\(
      (?P<type>_cffi_type\(\d+\)), (?P<given>arg\d+), (?P<out>\(char \*\*\)&x\d+)\);
  if \(datasize != 0\) \{
(?:    .*\n)+?  \}
"""
)
_CONVERSION = r"  if (pointer_argument(\g<type>, \g<given>, \g<out>, &large_args_free) < 0) return NULL;\n"
# The table has a second, plain function for each function, which only ffi.addressof() reads.
_PLAIN = re.compile(r"\(void \*\)_cffi_d_(\w+)")


def main() -> None:
    """Let cffi generate the module from the declarations."""
    cdefs, python, output, depfile = sys.argv[1:]
    files = sorted(Path(python).rglob("*.py"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    named = set(re.findall(r"\bcch_\w+", text))
    functions = re.compile(r"^(?!typedef)[^;{}\n#][^;{}]*?\b(cch_\w+)\([^;]*\);\n", re.MULTILINE)
    declarations = Path(cdefs).read_text(encoding="utf-8")
    ffi = FFI()
    ffi.cdef(functions.sub(lambda found: found[0] if found[1] in named else "", declarations) + _DESTRUCTORS)
    ffi.set_source("cudacore_handles._cffi", _PREAMBLE, py_limited_api=True)
    ffi.emit_c_code(output)
    code = _POINTER.sub(_CONVERSION, Path(output).read_text(encoding="utf-8"))
    addressed = set(re.findall(r'addressof\(lib, "(\w+)"', text))
    code = _PLAIN.sub(lambda plain: plain[0] if plain[1] in addressed else "NULL", code)
    Path(output).write_text(code, encoding="utf-8")
    Path(depfile).write_text(f"{output}: {' '.join(map(str, files))}\n", encoding="utf-8")


main()
