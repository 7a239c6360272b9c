# SPDX-License-Identifier: Apache-2.0
"""The functions that CUDA's headers declare for kernels, and kernels that call them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness import include_directories, nvrtc

HEADERS = (
    *("crt/device_functions.h", "crt/device_double_functions.h", "crt/math_functions.h", "crt/sm_70_rt.h"),
    *("crt/sm_80_rt.h", "crt/sm_90_rt.h", "crt/sm_100_rt.h", "sm_20_intrinsics.h", "sm_30_intrinsics.h"),
    *("sm_32_intrinsics.h", "sm_35_intrinsics.h", "sm_61_intrinsics.h", "device_atomic_functions.h"),
    *("sm_20_atomic_functions.h", "sm_32_atomic_functions.h", "sm_60_atomic_functions.h", "cuda_fp16.h", "cuda_bf16.h"),
    *("cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h"),
)
WORDS = re.compile(r"\b(__\w*DECL__|__NV_\w+|__device_builtin__|__cudart_builtin__|__inline__|static|extern|const)\b")
INCLUDES = "".join(f"#include <cuda_{name}.h>\n" for name in ("fp16", "bf16", "fp8", "fp6", "fp4"))
HELPERS = """
template <class T> struct Plain { using type = T; };
template <class T> struct Plain<T &> { using type = T; };
template <class F> __device__ void keep(char *at, F call, void (*)()) { call(); }
template <class R, class F> __device__ void keep(char *at, F call, R (*)()) { *(typename Plain<R>::type *)at = call(); }
"""


def declarations() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the types of the parameters of each function."""
    for directory in map(Path, include_directories()):
        for path in (directory / name for name in HEADERS):
            if not path.is_file():
                continue
            for line in path.read_text(errors="replace").splitlines():
                found = re.match(r"[^#/*]*DECL__\s[^()=]*?\b(\w+)\s*\(([^()]*)\)\s*(;|__DEF_IF_HOST|\{|$)", line)
                if not found or "operator" in line or "template" in line:
                    continue
                types = []
                for parameter in found[2].split(","):
                    text = WORDS.sub("", parameter.split("=")[0]).strip()
                    if text not in {"", "void"}:
                        types.append(re.sub(r"\s*\b\w+$", "", text) if re.search(r"[\s*&]\w+$", text) else text)
                yield found[1], tuple(types)


def calls() -> list[str]:
    """Return an expression for each function, whose arguments are in memory at ``p``."""
    found = set()
    for name, types in declarations():
        arguments = (f"(({one})p)" if one.endswith("*") else f"*({one.rstrip('& ')} *)p" for one in types)
        found.add(f"{name}({', '.join(arguments)})")
    return sorted(found)


def compile_calls(expressions: list[str], arch: str) -> str:
    """Return PTX with a kernel for each call that NVRTC accepts."""
    lines = list(expressions)
    while True:
        kernels = "\n".join(
            f'extern "C" __global__ void k{i}(char *p) {{ auto call = [=]() -> decltype(auto) {{ return {line}; }}; '
            f"keep(p, call, (decltype(call()) (*)())nullptr); }}"
            if line
            else ""
            for i, line in enumerate(lines)
        )
        prologue = INCLUDES + HELPERS
        try:
            return nvrtc(prologue + kernels, (), arch)
        except RuntimeError as error:
            first = prologue.count("\n") + 1
            wrong = {int(line) - first for line in re.findall(r"kernel\.cu\((\d+)\): error", str(error))}
            if not any(0 <= i < len(lines) and lines[i] for i in wrong):
                raise
            for i in wrong:
                if 0 <= i < len(lines):
                    lines[i] = ""
