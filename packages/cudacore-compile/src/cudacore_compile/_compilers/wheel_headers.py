# SPDX-License-Identifier: Apache-2.0
"""The headers of CUDA that programs find without an include path: those of wheels.

Cache hits need them, too, so this neither loads NVRTC nor imports ``cuda.pathfinder``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

# The directories of the runtime, of CCCL, cuRAND and nvcc in the wheels of each major version of CUDA.
_DIRECTORIES = {
    13: ("cu13/include", "cu13/include/cccl"),
    12: ("cuda_runtime/include", "cuda_cccl/include", "curand/include", "cuda_nvcc/include"),
}
_INCLUDE, _BUNDLED, _BEFORE = b"--include-path=", b"--use-bundled-headers=", b"--pre-include="


def wheel_headers(
    code: bytes, flags: Sequence[bytes], headers: Collection[bytes], major: int | None = None
) -> list[str]:
    """Return the directories that are searched for headers after those of the flags.

    There are none if the program includes nothing, or if the flags have CUDA's headers already, because those of two
    versions must not be mixed.

    Parameters
    ----------
    code : bytes
        The C++ program.
    flags : sequence of bytes
        The options in NVRTC's form.
    headers : collection of bytes
        The names of the headers in memory.
    major : int, optional
        The major version of NVRTC. Default None: all versions, for cache keys.
    """
    if not (b"include" in code or headers or any(flag.startswith(_BEFORE) for flag in flags)):
        return []
    places = [os.fsdecode(flag.removeprefix(_INCLUDE)) for flag in flags if flag.startswith(_INCLUDE)]
    has_them = any(os.path.exists(os.path.join(place, "cuda_runtime_api.h")) for place in places)
    if has_them or any(flag.startswith(_BUNDLED) for flag in flags):
        return []
    found: list[str] = []
    for version in _DIRECTORIES if major is None else (major,):
        names = _DIRECTORIES.get(version, ())
        for path in sys.path if names else ():
            if os.path.isfile(os.path.join(path, "nvidia", names[0], "cuda_runtime_api.h")):
                found += filter(os.path.isdir, (os.path.join(path, "nvidia", name) for name in names))
                break
    return found
