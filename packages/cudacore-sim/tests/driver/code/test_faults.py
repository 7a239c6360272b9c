# SPDX-License-Identifier: Apache-2.0
"""Reports of kernels that fail for a reason other than a memory access."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import cudacore_sim

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.global .align 1 .b8 text[2] = {120, 0};
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.extern .func free(.param .b64 a);
.func endless()
{
  .local .align 16 .b8 frame[4096];
  call.uni endless, ();
  ret;
}
.visible .entry recursion() { call.uni endless, (); ret; }
.visible .entry stop() { trap; }
.visible .entry release()
{
  .reg .b64 %rd<2>;
  .param .b64 a;
  mov.u64 %rd1, 291;
  st.param.b64 [a], %rd1;
  call.uni free, (a);
  ret;
}
.visible .entry check()
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd2, %rd1;
  mov.u32 %r1, 7;
  st.param.b64 [a], %rd2;
  st.param.b64 [b], %rd2;
  st.param.b32 [c], %r1;
  st.param.b64 [d], %rd2;
  st.param.b64 [e], 1;
  call.uni __assertfail, (a, b, c, d, e);
  ret;
}
"""


@pytest.mark.parametrize(
    ("kernel", "code", "text"),
    [
        (b"recursion", 700, "stack overflow: more than 512 KiB of local memory"),
        (b"release", 700, "illegal address 0x123: free() of what malloc() did not give, or twice"),
        (b"stop", 719, "trap"),
        (b"check", 710, "assertion `x` failed"),
    ],
)
def test_what_is_said(cuda: Any, kernel: bytes, code: int, text: str) -> None:
    """The report would describe a memory access that did not happen, or would be repeated."""
    module = ctypes.c_void_p(cuda.out("cuModuleLoadData", PTX))
    function = ctypes.c_void_p(cuda.out("cuModuleGetFunction", module, kernel))
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    assert cuda.code("cuCtxSynchronize") == code
    said = cudacore_sim.reports()[-1]
    assert said.startswith(f"kernel '{kernel.decode()}', block (0,0,0), thread (0,0,0): {text} [PTX line ")
