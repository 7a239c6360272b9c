# SPDX-License-Identifier: Apache-2.0
"""PTX as the compilers of other languages write it: Taichi and Halide."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from ptx import HEADER, entry

import cudacore_sim

ILLEGAL_ADDRESS = 700


def run(cuda: Any, code: str, *, shared: int = 0) -> list[int] | int:
    """Launch the kernel ``k`` with 32 threads; return the numbers that it has written, or its error."""
    module = ctypes.c_void_p(cuda.out("cuModuleLoadData", code.encode()))
    function = ctypes.c_void_p(cuda.out("cuModuleGetFunction", module, b"k"))
    out, back = cuda.malloc(128), (ctypes.c_uint32 * 32)()
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, shared, None, arguments, None)
    error = cuda.code("cuMemcpyDtoH_v2", back, out, ctypes.c_size_t(128))
    if error:
        cudacore_sim.clear_errors()
    return error or list(back)


# Each thread stores its number, and reads that of its mirror image.
EXCHANGE = """mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; {address} add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;
  bar.sync 0; mov.u32 %r5, 124; sub.u32 %r5, %r5, %r2; add.u32 %r5, %r3, %r5; ld.shared.u32 %r6, [%r5];
  cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r6;"""


def exchange(address: str) -> str:
    return entry("k", "u64 out", EXCHANGE.format(address=address))


def test_external_shared_memory_that_has_a_size(cuda: Any) -> None:
    """Taichi's shared arrays, external ones with a size, would have no memory, because no launch gives them any."""
    declared = ".extern .shared .align 4 .b8 first[128];\n.extern .shared .align 16 .b8 second[100];\n"
    code = HEADER + declared + exchange("mov.u32 %r3, first; mov.u32 %r4, second;")
    assert run(cuda, code) == list(range(31, -1, -1))
    module = ctypes.c_void_p(cuda.out("cuModuleLoadData", code.encode()))
    function = ctypes.c_void_p(cuda.out("cuModuleGetFunction", module, b"k"))
    size = cuda.out("cuFuncGetAttribute", 1, function, kind=ctypes.c_int)  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    assert size == 228


def test_shared_memory_without_a_name(cuda: Any) -> None:
    """Halide's kernels, which name no shared variable and count from 0, would fail, or read beyond their memory."""
    code = HEADER + exchange("mov.u32 %r3, 0;")
    assert run(cuda, code, shared=128) == list(range(31, -1, -1))
    assert run(cuda, code) == ILLEGAL_ADDRESS
    assert run(cuda, HEADER + exchange("mov.u32 %r3, 4;"), shared=128) == ILLEGAL_ADDRESS


def test_vprintf_without_a_result(cuda: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Taichi's print would be refused, because its declaration of vprintf has no result."""
    code = f"""{HEADER}
.extern .func vprintf (.param .b64 text, .param .b64 values);
.global .align 1 .b8 format[4] = {{104, 105, 10, 0}};
{
        entry(
            "k",
            "u64 out",
            '''{ .param .b64 p0; .param .b64 p1; mov.u64 %rd2, format; cvta.global.u64 %rd3, %rd2;
    st.param.b64 [p0], %rd3; st.param.b64 [p1], 0; call.uni vprintf, (p0, p1); }''',
        )
    }"""
    assert isinstance(run(cuda, code), list)
    cuda.cuCtxSynchronize()
    assert capfd.readouterr().out == "hi\n" * 32


@pytest.mark.parametrize("kind", ["event", "stream", "context"])
def test_destruction_by_the_old_symbol(cuda: Any, kind: str) -> None:
    """Taichi's events would not be destroyed: it looks up the symbols without a version."""
    if kind == "context":
        made = ctypes.c_void_p(cuda.out("cuCtxCreate_v4", None, 0, 0))
    else:
        made = getattr(cuda, kind)()
    before = cudacore_sim.live()[kind]
    getattr(cuda, {"event": "cuEventDestroy", "stream": "cuStreamDestroy", "context": "cuCtxDestroy"}[kind])(made)
    assert cudacore_sim.live()[kind] == before - 1
