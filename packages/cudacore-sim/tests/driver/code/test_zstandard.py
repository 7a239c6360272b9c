# SPDX-License-Identifier: Apache-2.0
"""Fat binaries that are packed with Zstandard."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Callable
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

import pytest
from kernels import PTX

import cudacore_sim

INVALID_IMAGE, NOT_SUPPORTED = 200, 801


def fat_binary(packed: bytes, size: int) -> bytes:
    """Make a fat binary whose only entry is packed PTX."""
    padded = packed + bytes(-len(packed) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0, 72, len(padded), len(packed), 0, 0, 9, 90, 0, 0, 0x8000, 0, size)
    entry += bytes(72 - len(entry))
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(padded)) + entry + padded


@pytest.fixture
def packed() -> bytes:
    """Return PTX that is packed with Zstandard."""
    try:
        zstd = ctypes.CDLL("libzstd.so.1")
    except OSError:
        pytest.skip("needs libzstd.so.1")
    zstd.ZSTD_compress.restype = ctypes.c_size_t
    room = ctypes.create_string_buffer(len(PTX) + 1000)
    size = zstd.ZSTD_compress(room, ctypes.c_size_t(len(room)), PTX, ctypes.c_size_t(len(PTX)), 3)
    return room.raw[:size]


def test_it_is_unpacked(cuda: Any, packed: bytes) -> None:
    """Code in the default format of newer compilers could not be loaded."""
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), fat_binary(packed, len(PTX)))
    cuda.cuModuleGetFunction(byref(function), module, b"store")


@pytest.mark.parametrize("damage", ["bytes", "short", "long"])
def test_damage_is_found(cuda: Any, packed: bytes, damage: str) -> None:
    """Damaged packed code would be read beyond its end, or would be accepted."""
    size = len(PTX) + {"bytes": 0, "short": -1, "long": 1}[damage]
    if damage == "bytes":
        packed = packed[:20] + bytes(20) + packed[40:]
    assert cuda.code("cuModuleLoadData", byref(c_void_p()), fat_binary(packed, size)) == INVALID_IMAGE
    assert "a broken fat binary" in cudacore_sim.why()


def test_a_system_without_the_library(run_python: Callable[..., Any], tmp_path: Path) -> None:
    """If the Zstandard library is missing, the error would not name the package to install."""
    source = tmp_path / "no_zstd.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <string.h>\n"
        "void *dlopen(const char *name, int mode) {\n"
        "  static void *(*real)(const char *, int);\n"
        '  if (!real) real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");\n'
        '  return name && strstr(name, "zstd") ? 0 : real(name, mode);\n}\n'
    )
    library = tmp_path / "no_zstd.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except OSError:
        pytest.skip("needs a C compiler")
    code = tmp_path / "code.fatbin"
    code.write_bytes(fat_binary(b"never looked at", 100))
    kept = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{kept or ''} {library}"  # the library follows a sanitizer, which must be first
    try:
        child = run_python(
            f"""
            context = c_void_p()
            cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
            print(cu.cuModuleLoad(byref(c_void_p()), {str(code)!r}.encode()))
            """
        )
    finally:
        if kept is None:
            del os.environ["LD_PRELOAD"]
        else:
            os.environ["LD_PRELOAD"] = kept
    assert child.stdout == f"{NOT_SUPPORTED}\n"
    assert "has no libzstd.so.1 to unpack it: install it" in child.stderr
