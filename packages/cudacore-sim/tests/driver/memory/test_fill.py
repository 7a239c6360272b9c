# SPDX-License-Identifier: Apache-2.0
"""The contents of new memory, which CUDACORE_SIM_FILL determines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from ptx import HEADER, entry

READ_SHARED = """
  .shared .align 4 .b32 tile[256];
  ld.shared.u32 %r1, [tile+1020];
  st.global.u32 [%rd1], %r1;
  st.shared.u32 [tile+1020], 7;
"""
CODE = (
    f"PTX = {(HEADER + entry('read_shared', 'u64 out', READ_SHARED)).encode()!r}"
    """
context, module, function, out, large, pooled = (c_void_p() for _ in range(6))
first = (c_ubyte * 4)()

def show(address):
    cu.cuCtxSynchronize()
    assert cu.cuMemcpyDtoH_v2(first, address, c_size_t(4)) == 0
    print(bytes(first).hex(), end=" ")

cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
for _ in range(2):  # what was freed is new again
    cu.cuMemAlloc_v2(byref(out), c_size_t(100)), show(out)
    cu.cuMemsetD8_v2(out, c_ubyte(1), c_size_t(100)), cu.cuMemFree_v2(out)
cu.cuMemAllocAsync(byref(pooled), c_size_t(1 << 20), None), show(pooled)
cu.cuMemAlloc_v2(byref(large), c_size_t(1 << 34)), show(large)
cu.cuModuleLoadData(byref(module), PTX), cu.cuModuleGetFunction(byref(function), module, b"read_shared")
cu.cuMemAlloc_v2(byref(out), c_size_t(4))
for _ in range(2):
    cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (c_void_p * 1)(addressof(out)), None), show(out)
"""
)


@pytest.mark.parametrize(("settings", "byte"), [({}, "00"), ({"FILL": "0xA5"}, "a5")])
def test_new_memory(
    run_python: Callable[..., subprocess.CompletedProcess[str]], settings: dict[str, str], byte: str
) -> None:
    """New memory would not be filled with the chosen byte, or a large allocation would exhaust the host by its fill."""
    new, sparse = byte * 4, "00" * 4
    assert run_python(CODE, **settings).stdout.split() == [new, new, new, sparse, new, new]


def test_a_fill_that_is_none(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A value of CUDACORE_SIM_FILL that is larger than one byte would be accepted and truncated."""
    child = run_python("print(*cudacore_sim.ignored_settings())", FILL="0x1A5")
    assert child.stdout == "CUDACORE_SIM_FILL=0x1A5 is ignored: a number from 0 to 255 is wanted\n"
