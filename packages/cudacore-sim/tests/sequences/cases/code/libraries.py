# SPDX-License-Identifier: Apache-2.0
"""Modules and libraries: code that can be loaded or not, and the functions and variables in it."""

from __future__ import annotations

import ctypes
import tempfile
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

import ptx
from recorder import Recorder, sequence

INFO_LOG, INFO_SIZE, ERROR_LOG, ERROR_SIZE, OPTIMISATION = 3, 4, 5, 6, 7

CODES = {
    "kernels": ptx.KERNELS, "empty module": ptx.EMPTY_MODULE, "syntax error": ptx.SYNTAX_ERROR,
    "unknown register": ptx.UNKNOWN_REGISTER, "unresolved": ptx.UNRESOLVED, "twice": ptx.TWICE,
    "no version": ptx.NO_VERSION, "no target": ptx.NO_TARGET, "too new": ptx.TOO_NEW, "other device": ptx.OTHER_DEVICE,
    "old device": ptx.OLD_DEVICE, "just this device": ptx.JUST_THIS_DEVICE, "other features": ptx.OTHER_FEATURES,
    "too much shared": ptx.TOO_MUCH_SHARED, "no text": b"", "some text": b"this is no code at all", "a space": b" ",
    "half an ELF file": b"\x7fELF\x02\x01\x01\x33\x07" + bytes(55), "a comment": b"// nothing else",
}  # fmt: skip


@sequence
def modules_of_all_codes(cu: Recorder) -> None:
    """The images from which a module can be loaded, and the errors for other images."""
    for name, code in CODES.items():
        cu.see("code", name)
        cu.call("cuModuleLoadData", c_void_p, code)
    cu.call("cuModuleLoadData", c_void_p, None)
    cu.call("cuModuleLoadData", None, ptx.KERNELS)
    cu.call("cuCtxSynchronize")


@sequence
def libraries_of_all_codes(cu: Recorder) -> None:
    """The images from which a library can be loaded. Errors of the compiler may be returned only at the first use."""
    for name, code in CODES.items():
        cu.see("code", name)
        library = cu.new("cuLibraryLoadData", c_void_p, code, None, None, 0, None, None, 0)
        if library:
            cu.call("cuLibraryGetModule", c_void_p, library)
    cu.call("cuLibraryLoadData", c_void_p, None, None, None, 0, None, None, 0)
    cu.call("cuLibraryLoadData", None, ptx.KERNELS, None, None, 0, None, None, 0)


@sequence
def functions_of_a_module(cu: Recorder) -> None:
    """The functions of a module are found by their names, and listed. Each has one handle."""
    module = cu.new("cuModuleLoadData", c_void_p, ptx.KERNELS)
    first = cu.new("cuModuleGetFunction", c_void_p, module, b"nothing")
    again = cu.new("cuModuleGetFunction", c_void_p, module, b"nothing")
    cu.see("the same", first == again)
    cu.call("cuModuleGetFunction", c_void_p, module, b"not there")
    cu.call("cuModuleGetFunction", c_void_p, module, b"")
    cu.call("cuModuleGetFunction", c_void_p, module, b"counter")
    cu.call("cuModuleGetFunction", c_void_p, module, None)
    cu.call("cuModuleGetFunction", None, module, b"nothing")
    cu.call("cuModuleGetFunction", c_void_p, None, b"nothing")
    owner = cu.new("cuFuncGetModule", c_void_p, first)
    cu.see("its module", owner == module)
    count = cu.read("cuModuleGetFunctionCount", c_uint, module)
    functions = (c_void_p * count)()
    cu.call("cuModuleEnumerateFunctions", functions, count, module)
    names = [cu.prepare("cuFuncGetName", c_char_p, function) for function in functions]
    cu.see("names", sorted(name.decode() for name in names))
    cu.call("cuModuleEnumerateFunctions", functions, 2, module)
    cu.call("cuModuleEnumerateFunctions", functions, count + 5, module)
    cu.call("cuModuleEnumerateFunctions", functions, 0, module)
    cu.call("cuModuleEnumerateFunctions", None, count, module)
    cu.call("cuModuleGetFunctionCount", None, module)
    cu.call("cuModuleUnload", module)
    cu.call("cuModuleUnload", None)


@sequence
def globals_of_a_module(cu: Recorder) -> None:
    """Variables have an address, a size, and the value that the code gives them."""
    module = cu.new("cuModuleLoadData", c_void_p, ptx.KERNELS)
    address, size = cu.new("cuModuleGetGlobal_v2", c_uint64, c_size_t, module, b"counter")
    cu.see("size", size)
    cu.see_words("counter", address, 1)
    table, size = cu.new("cuModuleGetGlobal_v2", c_uint64, c_size_t, module, b"table")
    cu.see("size", size)
    cu.see_bytes("table", table, size)
    constant, size = cu.new("cuModuleGetGlobal_v2", c_uint64, c_size_t, module, b"factor")
    cu.see("size", size)
    cu.see_words("factor", constant, 1)
    cu.call("cuModuleGetGlobal_v2", None, c_size_t, module, b"counter")
    cu.call("cuModuleGetGlobal_v2", c_uint64, None, module, b"counter")
    cu.call("cuModuleGetGlobal_v2", None, None, module, b"counter")
    for name in (b"not there", b"nothing", b"", None, b"format"):
        cu.call("cuModuleGetGlobal_v2", c_uint64, c_size_t, module, name)
    cu.call("cuModuleGetGlobal_v2", c_uint64, c_size_t, None, b"counter")
    cu.call("cuMemFree_v2", address)
    cu.read("cuPointerGetAttribute", c_int, 2, address)


@sequence
def globals_are_used(cu: Recorder) -> None:
    """Kernels read values that the host has written to variables. Each module has its own variables."""
    first = cu.prepare("cuModuleLoadData", c_void_p, ptx.KERNELS)
    second = cu.prepare("cuModuleLoadData", c_void_p, ptx.KERNELS)
    out = cu.memory(4)
    factor = cu.prepare("cuModuleGetGlobal_v2", c_uint64, c_size_t, first, b"factor")[0]
    cu.call("cuMemsetD32_v2", factor, 10, 1)
    cu.launch(cu.prepare("cuModuleGetFunction", c_void_p, first, b"count"), grid=(5, 1, 1))
    for module in (first, second):
        cu.launch(cu.prepare("cuModuleGetFunction", c_void_p, module, b"scale"), c_uint64(out))
        cu.see_words("out", out, 1)


@sequence
def files(cu: Recorder) -> None:
    """Code is loaded from files, including files that do not exist."""
    with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        file.write(ptx.KERNELS)
        file.flush()
        name = file.name.encode()
        module = cu.new("cuModuleLoad", c_void_p, name)
        cu.call("cuModuleGetFunction", c_void_p, module, b"nothing")
        library = cu.new("cuLibraryLoadFromFile", c_void_p, name, None, None, 0, None, None, 0)
        cu.call("cuLibraryGetKernel", c_void_p, library, b"nothing")
    cu.call("cuModuleLoad", c_void_p, name)
    cu.call("cuLibraryLoadFromFile", c_void_p, name, None, None, 0, None, None, 0)
    cu.call("cuModuleLoad", c_void_p, b"")
    cu.call("cuModuleLoad", c_void_p, None)
    cu.attempt("cuModuleLoad", c_void_p, b"/")
    cu.call("cuLibraryLoadFromFile", c_void_p, None, None, None, 0, None, None, 0)
    with tempfile.NamedTemporaryFile() as empty:
        cu.call("cuModuleLoad", c_void_p, empty.name.encode())


@sequence
def compiler_options(cu: Recorder) -> None:
    """The compiler's options and the log that it writes."""
    log = ctypes.create_string_buffer(1024)
    options = (c_int * 2)(ERROR_LOG, ERROR_SIZE)
    values = (c_void_p * 2)(ctypes.addressof(log), 1024)
    cu.call("cuModuleLoadDataEx", c_void_p, ptx.SYNTAX_ERROR, 2, options, values)
    cu.see("something was written", bool(log.value))
    cu.see("how much", (values[1] or 0) > 0)
    log.value = b""
    values[1] = 1024
    cu.call("cuModuleLoadDataEx", c_void_p, ptx.KERNELS, 2, options, values)
    cu.see("something was written", bool(log.value))
    cu.see("how much", values[1] or 0)
    cu.call("cuModuleLoadDataEx", c_void_p, ptx.KERNELS, 2, None, None)
    cu.call("cuModuleLoadDataEx", c_void_p, ptx.KERNELS, 0, None, None)
    options = (c_int * 1)(OPTIMISATION)
    for level in (0, 4, 5):
        cu.call("cuModuleLoadDataEx", c_void_p, ptx.KERNELS, 1, options, (c_void_p * 1)(level))
    cu.call("cuModuleLoadDataEx", c_void_p, ptx.KERNELS, 1, (c_int * 1)(999), (c_void_p * 1)(0))


@sequence
def library_options(cu: Recorder) -> None:
    """The options for loading a library."""
    options, values = (c_int * 1)(1), (c_void_p * 1)(1)
    cu.call("cuLibraryLoadData", c_void_p, ptx.KERNELS, None, None, 0, options, values, 1)
    cu.call("cuLibraryLoadData", c_void_p, ptx.KERNELS, None, None, 0, (c_int * 1)(99), values, 1)
    cu.call("cuLibraryLoadData", c_void_p, ptx.KERNELS, (c_int * 1)(999), values, 1, None, None, 0)


@sequence
def kernels_of_a_library(cu: Recorder) -> None:
    """Kernels are found by their names. Each has one handle."""
    library = cu.new("cuLibraryLoadData", c_void_p, ptx.KERNELS, None, None, 0, None, None, 0)
    first = cu.new("cuLibraryGetKernel", c_void_p, library, b"nothing")
    again = cu.new("cuLibraryGetKernel", c_void_p, library, b"nothing")
    cu.see("the same", first == again)
    for name in (b"not there", b"", None, b"counter"):
        cu.call("cuLibraryGetKernel", c_void_p, library, name)
    cu.call("cuLibraryGetKernel", None, library, b"nothing")
    cu.call("cuLibraryGetKernel", c_void_p, None, b"nothing")
    count = cu.read("cuLibraryGetKernelCount", c_uint, library)
    kernels = (c_void_p * count)()
    cu.call("cuLibraryEnumerateKernels", kernels, count, library)
    cu.see("names", sorted(cu.prepare("cuKernelGetName", c_char_p, kernel).decode() for kernel in kernels))
    cu.see("the same", first in list(kernels))
    cu.call("cuLibraryEnumerateKernels", kernels, 1, library)
    cu.call("cuLibraryEnumerateKernels", kernels, count + 1, library)
    cu.call("cuLibraryEnumerateKernels", None, count, library)
    cu.call("cuLibraryGetKernelCount", None, library)
    cu.call("cuLibraryGetKernelCount", c_uint, None)
    owner = cu.new("cuKernelGetLibrary", c_void_p, first)
    cu.see("its library", owner == library)
    cu.call("cuKernelGetLibrary", None, first)
    cu.call("cuKernelGetName", None, first)
    cu.call("cuLibraryUnload", library)
    cu.call("cuLibraryUnload", None)


@sequence
def module_of_a_library(cu: Recorder) -> None:
    """A library has one module in each context."""
    library = cu.library(ptx.KERNELS)
    first = cu.new("cuLibraryGetModule", c_void_p, library)
    again = cu.new("cuLibraryGetModule", c_void_p, library)
    cu.see("the same", first == again)
    kernel = cu.prepare("cuLibraryGetKernel", c_void_p, library, b"nothing")
    function = cu.new("cuKernelGetFunction", c_void_p, kernel)
    found = cu.new("cuModuleGetFunction", c_void_p, first, b"nothing")
    cu.see("the same function", function == found)
    owner = cu.new("cuFuncGetModule", c_void_p, function)
    cu.see("its module", owner == first)
    cu.call("cuModuleUnload", first)
    cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    other = cu.new("cuLibraryGetModule", c_void_p, library)
    cu.see("another", other != first)
    elsewhere = cu.new("cuKernelGetFunction", c_void_p, kernel)
    cu.see("another function", elsewhere != function)
    cu.call("cuLibraryGetModule", None, library)
    cu.call("cuLibraryGetModule", c_void_p, None)
    cu.call("cuKernelGetFunction", None, kernel)
    cu.call("cuKernelGetFunction", c_void_p, None)


@sequence
def globals_of_a_library(cu: Recorder) -> None:
    """Variables of a library; each context has its own."""
    library = cu.library(ptx.KERNELS)
    address, size = cu.new("cuLibraryGetGlobal", c_uint64, c_size_t, library, b"counter")
    cu.see("size", size)
    cu.prepare("cuMemsetD32_v2", address, 55, 1)
    cu.see_words("counter", address, 1)
    module = cu.prepare("cuLibraryGetModule", c_void_p, library)
    cu.see("the same", cu.prepare("cuModuleGetGlobal_v2", c_uint64, c_size_t, module, b"counter")[0] == address)
    for name in (b"not there", b"nothing", None):
        cu.call("cuLibraryGetGlobal", c_uint64, c_size_t, library, name)
    cu.call("cuLibraryGetGlobal", None, c_size_t, library, b"counter")
    cu.call("cuLibraryGetGlobal", c_uint64, None, library, b"counter")
    cu.call("cuLibraryGetManaged", c_uint64, c_size_t, library, b"counter")
    cu.call("cuLibraryGetManaged", c_uint64, c_size_t, library, b"not there")
    cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    other, _ = cu.new("cuLibraryGetGlobal", c_uint64, c_size_t, library, b"counter")
    cu.see("another", other != address)
    cu.see_words("counter", other, 1)


@sequence
def loading_mode(cu: Recorder) -> None:
    """The driver's setting that functions are loaded with their module or at their first use."""
    mode = cu.new("cuModuleGetLoadingMode", c_int)
    cu.see("one of two", mode in (1, 2))
    function = cu.function(ptx.KERNELS, "nothing")
    cu.call("cuFuncLoad", function)
    cu.read("cuFuncIsLoaded", c_int, function)
