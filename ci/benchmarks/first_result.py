#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load code from a file, launch its kernel, and print the result, like a short program.

usage: first_result.py MODULE CODE [CACHE]

CODE is a .cubin or .ptx file with the kernel "tiny", or a file with the source of this kernel, which is then compiled
with a program cache in the folder CACHE.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from typing import Any

# rows.py has the same TARGET. This script does not import rows.py, because the import would count as start-up time.
TARGET = "ptx" if os.environ.get("CUDACORE_DRIVER") else "cubin"


def compile_cached(core: Any, source: str, arch: str, folder: str) -> Any:
    cache = importlib.import_module(f"{core.__name__}.utils").FileStreamProgramCache(folder)
    return core.Program(source, "c++", core.ProgramOptions(arch=arch)).compile(TARGET, cache=cache)


def main() -> None:
    name, path, *cache = sys.argv[1:]
    core = importlib.import_module(name)
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    if cache:
        code = compile_cached(core, Path(path).read_text(), f"sm_{device.arch}", cache[0])
    else:
        code = (core.ObjectCode.from_ptx if path.endswith(".ptx") else core.ObjectCode.from_cubin)(path)
    kernel = code.get_kernel("tiny")
    result = device.allocate(4, stream=stream)
    host = core.LegacyPinnedMemoryResource().allocate(4)
    core.launch(stream, core.LaunchConfig(grid=1, block=1), kernel, result)
    result.copy_to(host, stream=stream)
    stream.sync()
    print(f"{ctypes.c_float.from_address(int(host.handle)).value:g}")


if __name__ == "__main__":
    main()
