# SPDX-License-Identifier: Apache-2.0
"""Copies by cp.async without a wait: the data that kernels read too early."""

from __future__ import annotations

from running import RUN, Run

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{
  .reg .b64 %rd<3>; .reg .b32 %r<8>; .reg .pred %p;
  .shared .align 16 .b8 tile[16];
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, tile;
  st.shared.u32 [tile], 7;
  st.shared.u32 [tile+4], 7;
  cp.async.ca.shared.global [%r1], [%rd1], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r1+4], [%rd1+4], 4;
  cp.async.commit_group;
  ld.shared.v2.u32 {%r2, %r3}, [tile];
  st.global.v2.u32 [%rd2], {%r2, %r3};
  cp.async.wait_group 1;
  ld.shared.v2.u32 {%r2, %r3}, [tile];
  st.global.v2.u32 [%rd2+8], {%r2, %r3};
  cp.async.wait_group 0;
  ld.shared.v2.u32 {%r2, %r3}, [tile];
  st.global.v2.u32 [%rd2+16], {%r2, %r3};
  ret;
}
"""


def test_copies_are_late(run_python: Run) -> None:
    """A kernel that does not wait would read the copied data, so that its test would pass here and fail on a GPU."""
    code = f"""
import ctypes
module = cuda.out("cuModuleLoadData", {KERNEL.encode()!r})
source, result = cuda.allocate(8), cuda.allocate(24)
cuda.cuMemcpyHtoD_v2(source, (ctypes.c_uint * 2)(1, 2), ctypes.c_size_t(8))
cuda.launch(module, "k", 1, 1, 0, source, result)
values = (ctypes.c_uint * 6)()
cuda.cuMemcpyDtoH_v2(values, result, ctypes.c_size_t(24))
print(*values)
"""
    result = run_python(RUN + code)
    assert (result.returncode, result.stdout) == (0, "7 7 1 7 1 2\n"), result.stderr
