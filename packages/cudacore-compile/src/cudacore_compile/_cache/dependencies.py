# SPDX-License-Identifier: Apache-2.0
"""The files that a C++ program includes, for build systems."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from cudacore_compile._cache.includes import close_over
from cudacore_compile._cache.scan import UncacheableError
from cudacore_compile._compilers.options import ProgramOptions

_ANY_ARCH = "sm_90"  # which does not matter: all branches count


def included_files(code: bytes, options: ProgramOptions, headers: Mapping[bytes, bytes]) -> list[str]:
    """Return the files that a program may include; see :meth:`Program.dependencies`."""
    if options.raw_options:
        raise UncacheableError("ProgramOptions.raw_options is not understood: what the compiler reads is not known")
    if options.arch is None:
        options = dataclasses.replace(options, arch=_ANY_ARCH)
    flags = options.as_bytes("nvrtc")
    macros = [flag[15:].partition(b"=") for flag in flags if flag.startswith(b"--define-macro=")]
    closure = close_over(
        code,
        os.path.dirname(options.name or ""),
        [os.fsdecode(flag[15:]) for flag in flags if flag.startswith(b"--include-path=")],
        [os.fsdecode(flag[14:]) for flag in flags if flag.startswith(b"--pre-include=")],
        headers,
        {name: value for name, _, value in macros},
    )
    return sorted(os.fsdecode(name) for name in closure.digests if name[:1] != b"\0")
