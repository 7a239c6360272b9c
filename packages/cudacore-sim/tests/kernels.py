# SPDX-License-Identifier: Apache-2.0
"""PTX that the tests launch, and a way to run a kernel."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any

from ptx import HEADER, entry

STORE = entry(
    "store",
    "u64 where, u32 value",
    """
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r3;
""",
)
FOLLOW = entry(
    "follow", "u64 where", "ld.global.u64 %rd2, [table]; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1;"
)
PTX = f"""{HEADER}
.global .align 4 .u32 counter = 7;
.global .align 8 .u64 table[2] = {{counter, 5}};
.visible .entry empty() {{ ret; }}
.visible .entry count()
{{
  .reg .b32 %r<2>;
  atom.global.add.u32 %r1, [counter], 1;
  ret;
}}
.visible .entry fail() {{ trap; }}
.visible .entry small() .maxntid 64, 1, 1 {{ ret; }}
{FOLLOW}{STORE}""".encode()


def run_f(cuda: Any, code: bytes) -> int:
    """Load code, launch its kernel f, and return the number that the kernel writes."""
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), code)
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    memory, out = cuda.malloc(4), c_int()
    arguments = (c_void_p * 1)(ctypes.addressof(memory))
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    cuda.cuMemcpyDtoH_v2(byref(out), memory, c_size_t(4))
    return out.value
