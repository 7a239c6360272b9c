# SPDX-License-Identifier: Apache-2.0
"""Where a C program finds the headers, the library and the pkg-config file."""

from __future__ import annotations

import os

from cudacore_handles._cffi import ffi, lib


def get_include() -> str:
    """Return the folder to give to a C compiler with ``-I``: it holds ``cudacore/cudacore.h``."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    installed = os.path.join(package, "include")
    if os.path.isdir(installed):
        return installed
    # An editable install runs from the source tree, where the headers stand beside the sources.
    return os.path.join(os.path.dirname(os.path.dirname(package)), "include")


def get_library() -> str:
    """Return the path of the C library that this process uses, ``libcudacore_handles.so.1``."""
    return os.path.realpath(os.fsdecode(ffi.string(lib.cch_library_path())))


def get_pkgconfig_dir() -> str:
    """Return the folder to add to ``PKG_CONFIG_PATH``: it holds ``cudacore-handles.pc``."""
    folder = os.path.dirname(get_library())
    installed = os.path.join(os.path.dirname(folder), "pkgconfig")
    # In an editable install the library lies in the build folder, and a pkg-config file for that place beside it.
    return installed if os.path.isdir(installed) else folder
