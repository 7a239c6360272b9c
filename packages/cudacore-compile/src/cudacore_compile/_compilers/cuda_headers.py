# SPDX-License-Identifier: Apache-2.0
"""CUDA's own headers: their directories, and their replacements for the C++ standard library."""

from __future__ import annotations

import os
import re

from cudacore_compile._compilers.libraries import cuda_major, pip_command
from cudacore_compile._compilers.nvrtc import load

_VERSION = re.compile(r"#define\s+CUDART_VERSION\s+(\d\d)0(\d)0\b")
# Names of packages of headers in cuda.pathfinder. The CUDA runtime and CCCL are required; cuRAND, and the headers that
# mma.h includes, are optional.
_NEEDED = ("cudart", "cccl")
_MORE = ("curand", "nvcc")

_COUNTERPARTS = frozenset(
    """
    algorithm array atomic barrier bit bitset cassert ccomplex cfloat charconv chrono climits cmath complex concepts
    cstddef cstdint cstdlib cstring ctime execution expected functional initializer_list inplace_vector iterator latch
    limits linalg mdspan memory numbers numeric optional random ranges ratio semaphore source_location span
    string_view tuple type_traits utility variant version
    """.split()
)
_CONTAINERS = frozenset(
    """
    deque flat_map flat_set forward_list list map queue set stack string unordered_map unordered_set valarray vector
    """.split()
)
_OUTPUT = frozenset("cstdio format fstream iomanip ios iostream istream ostream print sstream stdio.h".split())
_NOTHING = frozenset(
    """
    any cctype cerrno cfenv cinttypes clocale codecvt compare condition_variable coroutine csetjmp csignal cstdarg
    ctype.h cuchar cwchar cwctype errno.h exception fenv.h filesystem future generator inttypes.h iosfwd locale locale.h
    memory_resource mutex new regex scoped_allocator setjmp.h shared_mutex signal.h stdarg.h stdbool.h stdexcept
    stop_token streambuf syncstream system_error thread typeindex typeinfo wchar.h
    """.split()
)


def cuda_include_path() -> list[str]:
    """Return the directories of CUDA's own headers, of wheels or of a toolkit, for :attr:`ProgramOptions.include_path`.

    The headers of wheels are found without it. If there are wheels and a toolkit, this returns those of the wheels.
    They contain ``cuda_fp16.h``, ``cooperative_groups.h`` and the other headers of the CUDA runtime, ``cuda/std/...``
    and ``cub/...`` of CCCL, and ``curand_kernel.h`` if that is installed.

    Raises
    ------
    FileNotFoundError
        If the headers are neither among the Python packages nor in a toolkit, or their major version is not NVRTC's.
    NVRTCError
        If there is no NVRTC.

    Examples
    --------
    >>> from cudacore_compile import cuda_include_path
    >>> options = core.ProgramOptions(include_path=cuda_include_path())
    >>> module = core.Program("#include <cuda_fp16.h>", "c++", options).compile("cubin")
    """
    from cuda.pathfinder import locate_nvidia_header_directory as locate

    found = [place for name in _NEEDED if (place := locate(name)) is not None]
    if len(found) < len(_NEEDED):
        missing = [name for name in _NEEDED if locate(name) is None]
        raise FileNotFoundError(
            f"CUDA's headers ({' and '.join(missing)}) were found neither among Python's packages nor in a CUDA "
            f"toolkit. Install them with: {pip_command('headers')}"
        )
    _check_version(str(found[0].abs_path))
    # Headers of a toolkit and of wheels are not mixed, because their versions may differ.
    found += [place for name in _MORE if (place := locate(name)) is not None and place.found_via == found[0].found_via]
    return list(dict.fromkeys(os.path.abspath(str(place.abs_path)) for place in found))


def _check_version(folder: str) -> None:
    """Raise an error if the major version of the headers differs from that of the loaded NVRTC."""
    with open(os.path.join(folder, "cuda_runtime_api.h"), encoding="utf-8", errors="replace") as file:
        found = _VERSION.search(file.read())
    nvrtc = load().version_text
    if found is not None and found[1] != nvrtc.partition(".")[0]:
        raise FileNotFoundError(
            f"CUDA's headers in {folder} are those of CUDA {found[1]}.{found[2]}, and NVRTC is {nvrtc}: install those "
            f"of its major version with: {pip_command('headers')}"
        )


def package_of(header: str) -> str:
    """Return the pip requirement for a header of CUDA that is not part of the runtime; empty for other headers."""
    major = cuda_major()
    if header.startswith("curand"):
        return f"cuda-toolkit[curand]=={major}.*"
    if header.startswith("crt/"):
        return f"cuda-toolkit[{'crt' if major >= 13 else 'nvcc'}]=={major}.*"
    return ""


def instead_of(header: str) -> str:
    """Return the replacement for a header of the C++ standard library in device code; empty for other headers."""
    stem = header.removesuffix(".h")
    name = header if header == stem else f"c{stem}"
    if name in _COUNTERPARTS:
        return f"CUDA's own headers have <cuda/std/{name}>"
    if header in _CONTAINERS:
        return (
            "device code has no containers that grow. CUDA's own headers have <cuda/std/array>, <cuda/std/span> and "
            "<cuda/std/inplace_vector>"
        )
    if header in _OUTPUT:
        return "printf works without it"
    return "device code has no equivalent" if header in _NOTHING else ""
