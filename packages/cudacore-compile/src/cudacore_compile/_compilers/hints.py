# SPDX-License-Identifier: Apache-2.0
"""Hints for failures of the compiler, derived from its log."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from cudacore_compile._compilers.cuda_headers import instead_of, package_of
from cudacore_compile._compilers.errors import too_new
from cudacore_compile._compilers.libraries import pip_command
from cudacore_compile._compilers.options import field_of, since

_FLAG = re.compile(r"--[\w-]+")
_MISSING_FILE = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')
_UNRESOLVED = re.compile(r"Unresolved extern \w+ '([^']+)'")
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_KERNEL_FROM_KERNEL = "device-side kernel launch"
_DEVICE_RUNTIME = "__cudaCDP2"  # the beginning of the names of functions that kernels launch kernels with
_LAUNCHES = (
    "A kernel that launches kernels is compiled with include_path=cuda_include_path() and "
    "relocatable_device_code=True, and linked with libcudadevrt.a of the CUDA toolkit: "
    'Linker(code, ObjectCode.from_library("libcudadevrt.a")).link("cubin")'
)
# What to include or to write for names that nvcc defines, and NVRTC does not.
_NAMES: tuple[tuple[str, str], ...] = (
    (
        r"u?int(_\w+|max|ptr)?\d*_t",
        "write a type of C++, such as unsigned int or long long, or include <cuda/std/cstdint>",
    ),
    (r"(__)?half2?(_raw)?|__\w*half\w*", "include <cuda_fp16.h>"),
    (r"(__)?(nv_)?bfloat16\d*(_raw)?|__\w*bfloat16\w*", "include <cuda_bf16.h>, which has __nv_bfloat16"),
    (r"__nv_fp8\w*", "include <cuda_fp8.h>"),
    (r"__nv_fp6\w*", "include <cuda_fp6.h>"),
    (r"__nv_fp4\w*", "include <cuda_fp4.h>"),
    (r"curand\w*", "include <curand_kernel.h>"),
    (r"CUDART_\w+", "include <math_constants.h>"),
    (r"M_[A-Z0-9_]+", "write the number, or include <cuda/std/numbers>, which has cuda::std::numbers::pi and others"),
    (r"INFINITY|NAN|HUGE_VALF?", "include <cuda/std/cmath>"),
    (r"(FLT|DBL)_[A-Z0-9_]+", "include <cuda/std/cfloat>"),
    (r"(U?(CHAR|SHRT|INT|LONG|LLONG)|SCHAR)_(MAX|MIN)", "include <cuda/std/climits>"),
    (r"u(char|short|int|long)", "write unsigned int, or another type of C++"),
)
_HOST_FUNCTION = "A function without execution space annotations"
_HEADERS = "; CUDA's headers are found if their wheels are installed"
_PTX_LINE = re.compile(r"^\s*\.version \d", re.MULTILINE)
_NAME_EXPRESSION = re.compile(r'Input name expression was: "(.*)"')


def explain(
    code_name: str,
    log: str,
    names: Sequence[str],
    version: str,
    architectures: Callable[[], Sequence[int]],
    *,
    bundled: str = "",
) -> str:
    """Return a hint for a failure, or an empty string.

    Parameters
    ----------
    code_name : str
        The name of the result code.
    log : str
        The compiler's log.
    names : sequence of str
        The requested name expressions.
    version : str
        The compiler's version, such as ``"13.0"``.
    architectures : callable
        Returns the architectures that the compiler supports.
    bundled : str, optional
        The directory of the headers that are bundled with NVRTC, if the program could include them. Default none.
    """
    if code_name == "NVRTC_ERROR_INVALID_OPTION":
        return _invalid_option(log, version, architectures)
    if code_name == "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE" and bundled and bundled in log:
        return _damaged(bundled)
    if code_name == "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE" and "builtins" in log:
        return "libnvrtc-builtins must be of the same version as NVRTC, and beside it: install NVRTC anew"
    if code_name == "NVRTC_ERROR_COMPILATION":
        return _compilation(log, names, version, bundled)
    return ""


def _invalid_option(log: str, version: str, architectures: Callable[[], Sequence[int]]) -> str:
    flag = _FLAG.search(log)
    field = field_of(flag[0]) if flag else None
    if field is None:
        return ""
    if field == "arch":
        known = ", ".join(map(str, architectures()))
        return f"Set ProgramOptions.arch to what NVRTC {version} compiles for: sm_ or compute_ of {known}"
    if "unrecognized" in log:
        return too_new(f"ProgramOptions.{field}", f"NVRTC {version}", since(field))
    if field == "std":
        return 'Set ProgramOptions.std to "c++11", "c++14", "c++17" or "c++20"'
    return f"See ProgramOptions.{field}"


def _compilation(log: str, names: Sequence[str], version: str, bundled: str) -> str:
    # NVRTC writes an expression as a list of tokens, separated by spaces.
    rejected = {_squeeze(text) for text in _NAME_EXPRESSION.findall(log)}
    wrong = [name for name in names if _squeeze(name) in rejected]
    if wrong:
        return (
            f"These name expressions name nothing in the program: {', '.join(map(repr, wrong))}. "
            'Write a kernel with its template arguments, as in "f<int>", and a variable with its address, as in "&v"'
        )
    missing = _MISSING_FILE.search(log)
    if missing:
        return _missing_file(missing[1], bundled)
    if bundled and re.search(rf"^{re.escape(bundled)}/.*\(\d+\): (catastrophic )?error", log, re.MULTILINE):
        return _damaged(bundled)
    unresolved = dict.fromkeys(_UNRESOLVED.findall(log))
    if any(name.startswith(_DEVICE_RUNTIME) for name in unresolved):
        return _LAUNCHES
    if unresolved:
        return (
            f"The program declares {', '.join(map(repr, unresolved))} and does not define it. Compile this program and "
            'the one that defines it with ProgramOptions(relocatable_device_code=True), or to "ltoir", and link both: '
            'Linker(code, other_code).link("cubin")'
        )
    if "cooperative_groups" in log and "namespace name" in log:
        return f"Include <cooperative_groups.h>{_HEADERS}"
    if _KERNEL_FROM_KERNEL in log:
        return _LAUNCHES
    for name in dict.fromkeys(_UNDEFINED.findall(log)):
        for pattern, advice in _NAMES:
            if re.fullmatch(pattern, name):
                return f"NVRTC has no {name}: {advice}{_HEADERS * ('<' in advice)}"
    if _HOST_FUNCTION in log:
        return "NVRTC compiles no host code: mark functions __global__ or __device__, and launch kernels from Python"
    if _PTX_LINE.search(log):
        return 'The program is PTX: write Program(code, "ptx")'
    if "Parsed trace file" in log:
        return f"NVRTC {version} cannot add to the file that ProgramOptions.fdevice_time_trace names: remove it"
    return ""


def _damaged(bundled: str) -> str:
    """Name the directory of bundled headers. NVRTC checks only that it was complete once."""
    return f"If the headers in {bundled} are damaged, remove this directory: NVRTC unpacks them again"


def _missing_file(name: str, bundled: str) -> str:
    instead = instead_of(name)
    if instead:
        return f"NVRTC has no C++ standard library, and so no <{name}>: {instead}"
    package = package_of(name)
    if package:
        return f'To find "{name}", install "{package}"'
    advice = f'To find "{name}", set ProgramOptions.include_path, or give it to the Program in headers='
    if bundled:
        return f"{advice}. The headers that NVRTC carries (use_bundled_headers) do not contain it. {_damaged(bundled)}"
    return (
        f"{advice}. CUDA's own headers are found after: {pip_command('headers')}; those of a toolkit with "
        "include_path=cuda_include_path(). NVRTC 13.3 and later carry them: use_bundled_headers=True"
    )


def _squeeze(text: str) -> str:
    return "".join(text.split())
