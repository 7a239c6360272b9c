# SPDX-License-Identifier: Apache-2.0
"""Instructions that a warp executes together, reached from both sides of a branch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from ptx import HEADER, entry

COLLECTIVES = """
  shfl.sync.idx.b32 %r3, %r2, SOURCE, 31, -1;
  setp.lt.u32 %p2, %r2, 32;
  vote.sync.ballot.b32 %r4, %p2, -1;
  mov.u32 %r5, 7;
  match.any.sync.b32 %r5, %r5, -1;
  mov.u32 %r6, 1;
  redux.sync.add.u32 %r6, %r6, -1;
"""
SIDES = entry(
    "sides",
    "u64 where",
    ".reg .pred %p<3>; mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 16; @%p1 bra FIRST;"
    + COLLECTIVES.replace("SOURCE", "20")
    + "bra BOTH;\nFIRST:"
    + COLLECTIVES.replace("SOURCE", "3")
    + """
BOTH:
  mul.wide.u32 %rd2, %r2, 16; add.u64 %rd2, %rd1, %rd2;
  st.global.v4.u32 [%rd2], {%r3, %r4, %r5, %r6};
  // On the way back, both sides meet at one instruction again.
  add.u32 %r7, %r2, 1;
  shfl.sync.bfly.b32 %r7, %r7, 16, 31, -1;
  mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2+512], %r7;
""",
)
BARRIER = entry(
    "barrier",
    "u64 where",
    """
  .reg .pred %p<2>; mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 16; @%p1 bra FIRST;
  barrier.sync 0; bra BOTH;
FIRST:
  shfl.sync.idx.b32 %r3, %r2, 3, 31, -1;
  barrier.sync 0;
BOTH:
""",
)


def launch(cuda: Any, name: bytes, memory: Any) -> None:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuModuleLoadData(ctypes.byref(module), (HEADER + SIDES + BARRIER).encode())
    cuda.cuModuleGetFunction(ctypes.byref(function), module, name)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)


def test_both_sides_of_a_branch(cuda: Any) -> None:
    """A shuffle, vote, match or redux on both sides of a branch would hang, or one side would see the other's lanes."""
    memory, got = cuda.malloc(640), (ctypes.c_uint * 160)()
    launch(cuda, b"sides", memory)
    cuda.cuMemcpyDtoH_v2(got, memory, ctypes.c_size_t(640))
    for lane in range(32):
        side = 0xFFFF if lane < 16 else 0xFFFF0000
        assert list(got[4 * lane : 4 * lane + 4]) == [3 if lane < 16 else 20, side, side, 16]
        assert got[128 + lane] == (lane ^ 16) + 1


@pytest.mark.cuda_sim
@pytest.mark.cuda_misuse_ok("a kernel hangs on purpose")
def test_a_lane_that_waits_for_a_barrier(cuda: Any) -> None:
    """A shuffle would go on without lanes that wait for something else, and which it names."""
    launch(cuda, b"barrier", cuda.malloc(640))
    with pytest.raises(Exception, match="702"):
        cuda.cuCtxSynchronize()
