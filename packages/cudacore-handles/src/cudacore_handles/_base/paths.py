# SPDX-License-Identifier: Apache-2.0
"""The paths of the headers, the library, and the files for pkg-config and CMake, for C programs."""

from __future__ import annotations

import os

from cudacore_handles._cffi import ffi, lib


def get_include() -> str:
    """Return the folder for ``-I`` of a C compiler. It contains ``cudacore/cudacore.h``.

    Examples
    --------
    >>> import os.path, cudacore_handles
    >>> os.path.exists(os.path.join(cudacore_handles.get_include(), "cudacore", "cudacore.h"))
    True
    """
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    installed = os.path.join(package, "include")
    if os.path.isdir(installed):
        return installed
    # An editable install runs from the source tree, which contains the headers.
    return os.path.join(os.path.dirname(os.path.dirname(package)), "include")


def get_library() -> str:
    """Return the path of the C library that this process uses, ``libcudacore_handles.so.1``.

    Examples
    --------
    >>> import cudacore_handles
    >>> cudacore_handles.get_library()
    '...libcudacore_handles.so.1'
    """
    return os.path.realpath(os.fsdecode(ffi.string(lib.cch_library_path())))


def get_pkgconfig_dir() -> str:
    """Return the folder for ``PKG_CONFIG_PATH``. It contains ``cudacore-handles.pc``.

    Examples
    --------
    >>> import os, cudacore_handles
    >>> "cudacore-handles.pc" in os.listdir(cudacore_handles.get_pkgconfig_dir())
    True
    """
    return _installed("pkgconfig")


def get_cmake_dir() -> str:
    """Return the folder for ``cudacore_DIR`` of CMake. It contains ``cudacore-config.cmake``.

    Examples
    --------
    >>> import os, cudacore_handles
    >>> "cudacore-config.cmake" in os.listdir(cudacore_handles.get_cmake_dir())
    True
    """
    return _installed("cmake")


def _installed(name: str) -> str:
    """Return a folder of the package; in an editable install, the build folder, which has the same files."""
    folder = os.path.dirname(get_library())
    installed = os.path.join(os.path.dirname(folder), name)
    return installed if os.path.isdir(installed) else folder
