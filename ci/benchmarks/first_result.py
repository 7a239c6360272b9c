#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load code from a file, launch its kernel and print what it has computed: what a short program does, no more.

usage: first_result.py MODULE CODE          CODE: a .cubin or .ptx file with the kernel "tiny"
"""

from __future__ import annotations

import ctypes
import importlib
import sys


def main() -> None:
    name, path = sys.argv[1:]
    core = importlib.import_module(name)
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    load = core.ObjectCode.from_ptx if path.endswith(".ptx") else core.ObjectCode.from_cubin
    kernel = load(path).get_kernel("tiny")
    result = device.allocate(4, stream=stream)
    host = core.LegacyPinnedMemoryResource().allocate(4)
    core.launch(stream, core.LaunchConfig(grid=1, block=1), kernel, result)
    result.copy_to(host, stream=stream)
    stream.sync()
    print(f"{ctypes.c_float.from_address(int(host.handle)).value:g}")


if __name__ == "__main__":
    main()
