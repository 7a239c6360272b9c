# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import re
from pathlib import Path

import cudacore_handles as ch


def test_include() -> None:
    """A C program would not find the headers."""
    folder = Path(ch.get_include())
    assert folder.is_absolute()
    assert (folder / "cudacore" / "cudacore.h").is_file()
    included = re.findall(r"#include <(cudacore/\w+\.h)>", (folder / "cudacore" / "cudacore.h").read_text())
    assert len(included) >= 10
    assert all((folder / name).is_file() for name in included)


def test_library() -> None:
    """A C program would link to another copy of the library than the one that Python uses."""
    path = Path(ch.get_library())
    assert path.is_absolute()
    assert path.is_file()
    assert path.name.startswith("libcudacore_handles.so.")
    library = ctypes.CDLL(str(path))
    library.cch_library_path.restype = ctypes.c_char_p
    assert Path(library.cch_library_path().decode()).resolve() == path
    assert str(path) in Path("/proc/self/maps").read_text()


def test_pkgconfig() -> None:
    """pkg-config would not find the library, or would return a wrong path."""
    folder = Path(ch.get_pkgconfig_dir())
    assert folder.is_absolute()
    text = (folder / "cudacore-handles.pc").read_text()
    assert f"Version: {ch.__version__}" in text


def test_typing_marker() -> None:
    """Type checkers would ignore the package's annotations."""
    assert (Path(ch.__file__).parent / "py.typed").is_file()
