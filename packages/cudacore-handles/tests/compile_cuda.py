# SPDX-License-Identifier: Apache-2.0
"""Compile CUDA C++ with NVRTC itself: ``compile_cuda.py ARCH TARGET < SOURCE > CODE``; TARGET is cubin or ptx.

This is a separate program, because NVRTC looks in a loaded libcuda for symbols that the simulated driver lacks. It
exits with 2 and the compiler's log if the source does not compile, and with 3 if there is no NVRTC.
"""

from __future__ import annotations

import sys
from typing import Any


def call(name: str, *args: object) -> Any:
    from cuda.bindings import nvrtc

    status, *values = getattr(nvrtc, name)(*args)
    if int(status) and name != "nvrtcCompileProgram":
        raise RuntimeError(f"{name}: {status}")
    return values[0] if values else int(status)


def get(program: object, what: str) -> bytes:
    text = bytearray(call(f"nvrtcGet{what}Size", program))
    call(f"nvrtcGet{what}", program, text)
    return bytes(text)


def main() -> None:
    arch, target = sys.argv[1:]
    try:
        call("nvrtcVersion")
    except (ImportError, RuntimeError) as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    program = call("nvrtcCreateProgram", sys.stdin.buffer.read(), b"tests.cu", 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    if call("nvrtcCompileProgram", program, len(options), options):
        print(get(program, "ProgramLog").decode(), file=sys.stderr)
        sys.exit(2)
    sys.stdout.buffer.write(get(program, target.upper()))


if __name__ == "__main__":
    main()
