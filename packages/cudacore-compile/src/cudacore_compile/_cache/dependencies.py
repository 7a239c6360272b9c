# SPDX-License-Identifier: Apache-2.0
"""The files that a C++ program includes, for build systems."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from cudacore_compile._cache.identity import Look
from cudacore_compile._cache.inputs import inputs_of
from cudacore_compile._cache.settings import check_options
from cudacore_compile._compilers.options import ProgramOptions

_ANY_ARCH = "sm_90"  # any architecture will do, because all branches are considered


def included_files(code: bytes, options: ProgramOptions, headers: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """Return the files that a program may include, with hashes; see :meth:`Program.dependencies`."""
    precompiled = [] if options.use_pch is None else [os.fspath(options.use_pch)]
    # Compilations with precompiled headers are not cached, but the files that they include can be determined.
    options = dataclasses.replace(options, arch=options.arch or _ANY_ARCH, pch=None, use_pch=None)
    check_options(options)
    inputs = inputs_of(code, options.as_bytes("nvrtc"), options, names=(), headers=headers)
    inputs.look(Look())
    return dict.fromkeys(precompiled, b"") | {path: digest for path, (digest, _) in inputs.closure.files.items()}
