# SPDX-License-Identifier: Apache-2.0
"""Let a C library work on the stream and the memory of a Python program."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cudacore as core
import cudacore_handles


def build(folder: str) -> ctypes.CDLL:
    """Compile c_library.c with the pkg-config flags of the installed package."""
    if not shutil.which("cc") or not shutil.which("pkg-config"):
        sys.exit("skipped: this needs a C compiler and pkg-config")
    query = ["pkg-config", "--cflags", "--libs", "cudacore-handles"]
    environment = os.environ | {"PKG_CONFIG_PATH": cudacore_handles.get_pkgconfig_dir()}
    flags = subprocess.check_output(query, env=environment, text=True).split()
    source, library = Path(__file__).with_suffix(".c"), Path(folder, "c_library.so")
    compiler = ["cc", "-std=c11", "-shared", "-fPIC"]
    subprocess.run([*compiler, source, *flags, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def pointer(face: core.Stream | core.Buffer, kind: bytes) -> ctypes.c_void_p:
    """Return the handle of an object for C, valid until the object is closed."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.c_void_p(get(face.__cudacore_handle__(), b"cudacore_handles." + kind))


device = core.Device()
device.set_current()
stream = device.create_stream()
buffer = device.allocate(20, stream=stream)

with tempfile.TemporaryDirectory() as folder:
    library = build(folder)
    status = library.start(
        pointer(stream, b"stream"), pointer(buffer, b"deviceptr"), 42
    )
    status = status or library.finish()
numbers = np.zeros(5, np.uint32)
buffer.copy_to(numbers, stream=stream)
print(f"status {status}, memory {numbers}")
