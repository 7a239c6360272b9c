# SPDX-License-Identifier: Apache-2.0
"""The files that a C++ program includes, for build systems."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from cudacore_compile._cache.inputs import inputs_of
from cudacore_compile._cache.settings import check_options
from cudacore_compile._compilers.options import ProgramOptions

_ANY_ARCH = "sm_90"  # any architecture will do, because all branches are considered


def dependencies(code: bytes, options: ProgramOptions, headers: Mapping[bytes, bytes]) -> list[str]:
    """Return the files that a program may include; see :meth:`Program.dependencies`."""
    files, trees = included_files(code, options, headers)
    return sorted({*files, *(os.path.normpath(path) for _, paths in trees.values() for path in paths)})


def included_files(
    code: bytes, options: ProgramOptions, headers: Mapping[bytes, bytes]
) -> tuple[dict[str, bytes], dict[str, tuple[bytes, list[str]]]]:
    """Return hashes of the files that a program may include, and directories of installed headers: hash and files."""
    precompiled = [] if options.use_pch is None else [os.fspath(options.use_pch)]
    # Compilations with precompiled headers are not cached, but the files that they include can be determined.
    options = dataclasses.replace(options, arch=options.arch or _ANY_ARCH, pch=None, use_pch=None)
    check_options(options)
    search = inputs_of(code, options.as_bytes("nvrtc"), options, names=(), headers=headers).search()
    trees = {tree.top: (tree.digest, list(filter(os.path.isfile, tree.paths()))) for tree in search.trees.values()}
    return dict.fromkeys(precompiled, b"") | search.files, trees
