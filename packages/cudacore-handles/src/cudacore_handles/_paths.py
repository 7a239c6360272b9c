# SPDX-License-Identifier: Apache-2.0
"""Where a C program finds the headers, the library and the pkg-config file."""

from __future__ import annotations

from pathlib import Path

from cudacore_handles._cffi import ffi, lib


def get_include() -> str:
    """Return the folder to give to a C compiler with ``-I``: it holds ``cudacore/cudacore.h``."""
    package = Path(__file__).parent
    installed = package / "include"
    # An editable install runs from the source tree, where the headers stand beside the sources.
    return str(installed if installed.is_dir() else package.parents[1] / "include")


def get_library() -> str:
    """Return the path of the C library that this process uses, ``libcudacore_handles.so.1``."""
    return str(Path(ffi.string(lib.cch_library_path()).decode()).resolve())


def get_pkgconfig_dir() -> str:
    """Return the folder to add to ``PKG_CONFIG_PATH``: it holds ``cudacore-handles.pc``."""
    library = Path(get_library()).parent
    installed = library.parent / "pkgconfig"
    return str(installed if installed.is_dir() else library)
