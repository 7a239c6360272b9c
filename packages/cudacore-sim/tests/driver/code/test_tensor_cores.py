# SPDX-License-Identifier: Apache-2.0
"""Instructions for tensor cores: refused forms, and faulting accesses. The corpus tests the results."""

from __future__ import annotations

from ctypes import addressof, byref, c_float, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import pytest

import cudacore_sim

INVALID_PTX, ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED = 218, 700, 715, 716

FRAME = """.version 9.0
.target sm_90
.address_size 64
.visible .entry f(.param .u64 out) {{
  .reg .b32 %r<64>; .reg .b64 %rd<8>; .reg .f64 %fd<32>; .reg .pred %p<4>;
  .shared .align 16 .b8 tile[512];
  {body}
  ret;
}}
"""


def registers(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def product(form: str, d: int, a: int, b: int, c: int, more: str = "") -> str:
    return f"{form} {registers(d)}, {registers(a, 16)}, {registers(b, 32)}, {registers(c, 48)}{more};"


def load(cuda: Any, body: str) -> int:
    return cuda.code("cuModuleLoadData", byref(c_void_p()), FRAME.format(body=body).encode())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            product("mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, 2, 4),
            "there is no shape .m16n8k32 for .f16, but .m8n8k4, .m16n8k8, .m16n8k16",
        ),
        (product("mma.sync.aligned.m16n8k7.row.col.f32.f16.f16.f32", 4, 4, 2, 4), "expected a shape that there is"),
        (product("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", 2, 4, 2, 2), "of .bf16 are not summed in .f16"),
        (product("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32", 4, 4, 2, 4), "cannot be .f16 and .bf16"),
        (product("mma.sync.aligned.m16n8k16.row.col.s32.s8.s4.s32", 4, 2, 1, 4), "cannot be .s8 and .s4"),
        (product("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32", 2, 4, 2, 4), "C cannot be .f32 where D is .f16"),
        (product("mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32", 4, 4, 2, 4), "A has to be .row and B .col"),
        (product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 4, 4), "expected 2 registers of B"),
        (product("mma.sync.m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2, 4), "expected .sync.aligned"),
        (product("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32", 4, 4, 2, 4), "expected .xor.popc or .and.popc"),
        (
            product("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", 4, 4, 2, 4),
            "unknown instruction 'mma.sync.aligned.m16n8k16.row.col.satfinite",
        ),
        (
            product("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 4, 2, 4),
            "'mma.kind::f8f6f4' not supported on .target 'sm_90'",
        ),
        (
            product("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, 4, 4, ", %r60, 2"),
            "the selector is 2, but there are 2 here",
        ),
        (
            product(
                "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16", 2, 4, 4, 2, ", %r60, 0"
            ),
            "need a newer device than sm_90",
        ),
        (
            product("wmma.mma.sync.aligned.row.col.m16n16k8.f32.f32", 8, 8, 8, 8),
            "there is no shape .m16n16k8 for .f16, but .m16n16k16, .m32n8k16, .m8n32k16",
        ),
        (product("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32", 8, 2, 2, 8), "have to be of one type"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f32 " + registers(8) + ", [%rd1];", "no such product of .f32"),
        (
            "wmma.load.c.sync.aligned.row.m16n16k8.f16 " + registers(4) + ", [%rd1];",
            "no matrix C of .f16 in the shape .m16n16k8",
        ),
        ("wmma.load.b.sync.aligned.row.m8n8k32.s4 " + registers(1) + ", [%rd1];", "A has to be .row and B .col"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 " + registers(4) + ", [%rd1];", "expected 8 registers of A"),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16 " + registers(3) + ", [%r9];", "expected .x1, .x2 or .x4"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 " + registers(4) + ", [%r9];", "expected 2 registers"),
        ("ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%rd1];", "the matrix has to be in .shared"),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%r9];", "on sm_90, there is .m8n8 of .b16"),
        ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r9], {%r0};", "on sm_90, there is .m8n8 of .b16"),
        ("movmatrix.sync.aligned.m8n8.b16 %r0, %r1;", "expected .trans"),
        ("tcgen05.wait::ld.sync.aligned;", "not supported on .target 'sm_90'"),
        ("wgmma.fence.sync.aligned;", "'wgmma' not supported on .target 'sm_90': compile for compute_90a"),
    ],
)
def test_forms_that_there_are_not(cuda: Any, body: str, said: str) -> None:
    """A form of an instruction that ptxas refuses would load, or would be refused without a reason."""
    assert load(cuda, body) == INVALID_PTX
    assert said in cudacore_sim.why()
    assert cudacore_sim.why().count("line ") == 1


def group_product(form: str, d: int, more: str, a: str = "%rd1") -> str:
    return f"wgmma.mma_async.{form} {registers(d)}, {a}, %rd2, {more};"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            group_product("sync.aligned.m64n8k8.f32.f16.f16", 4, "1, 1, 1, 0, 0"),
            ".m64nNk16 with N a multiple of 8 up to",
        ),
        (group_product("sync.aligned.m64n12k16.f32.f16.f16", 4, "1, 1, 1, 0, 0"), ".m64nNk16 with N a multiple of 8"),
        (group_product("sync.aligned.m64n264k16.f32.f16.f16", 4, "1, 1, 1, 0, 0"), "expected a shape that there is"),
        (group_product("sync.aligned.m64n40k32.s32.s8.s8", 20, "1"), "N of 8, 16, 24, 32 or a multiple of 16"),
        (group_product("sync.aligned.m64n8k16.f16.bf16.bf16", 2, "1, 1, 1, 0, 0"), "of .bf16 are not summed in .f16"),
        (group_product("sync.aligned.m64n8k16.f32.f16.bf16", 4, "1, 1, 1, 0, 0"), "cannot be .f16 and .bf16"),
        (group_product("sync.aligned.m64n8k64.s32.s4.s4", 4, "1"), "there is no such product of .s4"),
        (group_product("sp.sync.aligned.m64n8k512.s32.b1.b1.and.popc", 4, "%r60, 0, 1"), "no such product of .b1"),
        (group_product("sync.aligned.m64n8k256.s32.b1.b1.xor.popc", 4, "1"), "expected .and.popc"),
        (group_product("sync.aligned.m64n8k16.satfinite.f32.f16.f16", 4, "1, 1, 1, 0, 0"), "unknown instruction"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 1, 1, 0"), "expected 8 operands, found 7"),
        (
            group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 1, 1, 0, 0", registers(4, 16)),
            "expected 7 operands",
        ),
        (group_product("sync.aligned.m64n8k8.f32.tf32.tf32", 4, "1, 1, 1, 0, 0"), "expected 6 operands, found 8"),
        (group_product("sync.aligned.m64n8k32.s32.s8.s8", 4, "1, 1, 1"), "expected 4 operands, found 6"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "2, 1, 1, 0, 0"), "the scale of D cannot be 2"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "-1, 1, 1, 0, 0"), "the scale of D cannot be -1"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 0, 1, 0, 0"), "the scale of A cannot be 0"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 1, -2, 0, 0"), "the scale of B cannot be -2"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 1, 1, 2, 0"), "the transposition of A cannot be 2"),
        (group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 1, 1, 0, 3"), "the transposition of B cannot be 3"),
        (group_product("sync.aligned.m64n16k16.f32.f16.f16", 4, "1, 1, 1, 0, 0"), "expected 8 registers of C"),
        (group_product("sync.aligned.m64n8k16.f16.f16.f16", 4, "1, 1, 1, 0, 0"), "expected 2 registers of C"),
        (
            group_product("sync.aligned.m64n8k16.f32.f16.f16", 4, "1, 1, 1, 0", registers(8, 16)),
            "expected 4 registers of A",
        ),
        (
            group_product("sp.sync.aligned.m64n8k32.f32.f16.f16", 4, "%r60, 2, 1, 1, 1, 0, 0"),
            "the selector is 2, but there are 2 here",
        ),
        (
            group_product("sp.sync.aligned.m64n8k64.f32.e4m3.e5m2", 4, "%r60, 1, 1, 1, 1"),
            "the selector is 1, but there are 1 here",
        ),
        (group_product("m64n8k16.f32.f16.f16", 4, "1, 1, 1, 0, 0"), "expected .sync.aligned"),
        ("wgmma.wait_group.sync.aligned %r1;", "must be a number"),
        ("wgmma.wait_group.sync.aligned -1;", "that need not be complete cannot be -1"),
        ("wgmma.fence;", "expected .sync.aligned"),
        ("wgmma.begin.sync.aligned;", "unknown instruction 'wgmma.begin.sync.aligned'"),
        ("setmaxnreg.inc.sync.aligned.u32 100;", "the number of registers is 100, but has to be a multiple of 8"),
        ("setmaxnreg.dec.sync.aligned.u32 264;", "the number of registers is 264"),
        ("setmaxnreg.dec.sync.aligned.u32 -8;", "the number of registers is -8"),
    ],
)
def test_forms_of_groups_that_there_are_not(cuda: Any, body: str, said: str) -> None:
    """A form of wgmma that ptxas refuses would load, or would be refused without a reason."""
    code = FRAME.format(body=body).replace("sm_90", "sm_90a").encode()
    assert cuda.code("cuModuleLoadData", byref(c_void_p()), code) == INVALID_PTX
    assert said in cudacore_sim.why()
    assert cudacore_sim.why().count("line ") == 1


POINTER = "ld.param.u64 %rd1, [out]; "
FIRST_LANES = "mov.u32 %r1, %laneid; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r4, %r2, %r3; "


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("setp.eq.u32 %p1, %r1, 3; @%p1 add.u32 %r4, %r4, 8; LOAD", MISALIGNED, "misaligned read of 16 bytes"),
        ("setp.eq.u32 %p1, %r1, 3; @%p1 add.u32 %r4, %r4, 4; STORE", MISALIGNED, "misaligned write of 16 bytes"),
        ("setp.eq.u32 %p1, %r1, 3; @%p1 add.u32 %r4, %r4, 1048576; LOAD", ILLEGAL_ADDRESS, "the block has 512 bytes"),
        ("setp.eq.u32 %p1, %r1, 5; @%p1 add.u32 %r4, %r4, 1048576; STORE", ILLEGAL_ADDRESS, "thread (5,0,0)"),
        # Only the first eight lanes provide the address of a row. The addresses of the other lanes are ignored.
        ("setp.gt.u32 %p1, %r1, 7; @%p1 mov.u32 %r4, 0xfffffff3; LOAD STORE", 0, ""),
        (
            POINTER + "ldmatrix.sync.aligned.m8n8.x1.b16 {%r5}, [%rd1];",
            ILLEGAL_INSTRUCTION,
            "have to be in shared memory",
        ),
        (
            POINTER + f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {registers(8, 16)}, [%rd1+2];",
            MISALIGNED,
            "misaligned read of 4 bytes",
        ),
        (
            POINTER + f"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {registers(8, 16)};",
            ILLEGAL_ADDRESS,
            "write of 4 bytes",
        ),
    ],
)
def test_accesses_that_fault(cuda: Any, body: str, code: int, said: str) -> None:
    """An invalid address of a row would not cause the error that it causes on an H200."""
    body = body.replace("LOAD", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];")
    body = body.replace("STORE", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r5};")
    module, function, memory = c_void_p(), c_void_p(), c_uint64()
    cuda.cuModuleLoadData(byref(module), FRAME.format(body=FIRST_LANES + body).encode())
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    cuda.cuMemAlloc_v2(byref(memory), c_size_t(512))
    arguments = (c_void_p * 1)(addressof(memory))
    cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
    assert cuda.code("cuCtxSynchronize") == code
    assert said in cudacore_sim.why()
    if code == 0:
        cuda.cuMemFree_v2(memory)
        cuda.cuModuleUnload(module)


@pytest.mark.parametrize(
    ("a", "b", "c", "sum_of_products"),
    [
        # The sum is -2**-152.1, or -2**-150.1 with C = -0. Both are rounded to +0.
        ((0x0144BF19, 0x008C28E8, 0x00A604BC, 0x80750B65), (0x055B0E15, 0x185D7C16, 0xB2334787, 0x2AFCBD2C), 0, 0),
        (
            (0x8160F2E0, 0x00D89710, 0x0042AA37, 0x8112487B),
            (0x328FF7E3, 0x2D132F79, 0x0E5879A9, 0xB0DA1E1D),
            1 << 31,
            0,
        ),
        # The first product is too small to change the sum. It is large enough to change a number such as 2**-140.
        (
            (0x803A54DF, 0x809D0B18, 0x00E37C29, 0x80DCEE11),
            (0x25C4FBD4, 0xB1E60810, 0xB75C69C6, 0x389F2A78),
            0,
            0x8000050D,
        ),
    ],
)
def test_sums_of_least_numbers(cuda: Any, a: tuple[int, ...], b: tuple[int, ...], c: int, sum_of_products: int) -> None:
    """Sums of values at the lower limit of the format would differ from the recorded sums of an H200."""
    body = POINTER + (
        "mov.u32 %r20, %laneid; setp.lt.u32 %p1, %r20, 4; mul.wide.u32 %rd2, %r20, 4; add.u64 %rd3, %rd1, %rd2;"
        "mov.b32 %r16, 0; mov.b32 %r17, 0; mov.b32 %r32, 0; mov.b32 %r49, 0; mov.b32 %r50, 0; mov.b32 %r51, 0;"
        "@%p1 ld.global.b32 %r16, [%rd3]; @%p1 ld.global.b32 %r32, [%rd3+16]; ld.global.b32 %r48, [%rd1+32];"
    )
    body += product("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1, 4)
    body += "setp.eq.u32 %p2, %r20, 0; @%p2 st.global.b32 [%rd1+36], %r0;"
    module, function, memory = c_void_p(), c_void_p(), c_uint64()
    cuda.cuModuleLoadData(byref(module), FRAME.format(body=body).encode())
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    cuda.cuMemAlloc_v2(byref(memory), c_size_t(40))
    numbers = (c_uint32 * 10)(*a, *b, c, 1)
    cuda.cuMemcpyHtoD_v2(memory, numbers, c_size_t(40))
    arguments = (c_void_p * 1)(addressof(memory))
    cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
    cuda.cuMemcpyDtoH_v2(numbers, memory, c_size_t(40))
    assert hex(numbers[9]) == hex(sum_of_products)
    cuda.cuMemFree_v2(memory)
    cuda.cuModuleUnload(module)


GROUP = """.reg .b16 %h1;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3;
  mov.u32 %r2, tile; shr.u32 %r3, %r2, 4; cvt.u64.u32 %rd2, %r3; or.b64 %rd2, %rd2, DESCRIPTOR;
  shl.b32 %r4, %r1, 1; add.u32 %r4, %r4, %r2; mov.u32 %r5, 0;
  mov.b32 %r16, 0x3c003c00; mov.b32 %r17, %r16; mov.b32 %r18, %r16; mov.b32 %r19, %r16;
  mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0;
AGAIN:
  add.u32 %r5, %r5, 1; cvt.rn.f16.u32 %h1, %r5; st.shared.b16 [%r4], %h1; fence.proxy.async;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20, %r21, %r22, %r23},
    {%r16, %r17, %r18, %r19}, %rd2, 1, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  setp.lt.u32 %p1, %r5, 4; @%p1 bra AGAIN;
  st.global.b32 [%rd1], %r20;"""


def run_group(cuda: Any, descriptor: int) -> tuple[int, set[float]]:
    """Multiply ones by a matrix of 1, then of 2, 3 and 4, which four warps write. Return the error and the sums."""
    module, function, memory = c_void_p(), c_void_p(), c_uint64()
    body = GROUP.replace("DESCRIPTOR", hex(descriptor))
    cuda.cuModuleLoadData(byref(module), FRAME.format(body=body).replace("sm_90", "sm_90a").encode())
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    cuda.cuMemAlloc_v2(byref(memory), c_size_t(512))
    arguments = (c_void_p * 1)(addressof(memory))
    cuda.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, None, arguments, None)
    error, sums = cuda.code("cuCtxSynchronize"), (c_float * 128)()
    if not error:
        cuda.cuMemcpyDtoH_v2(sums, memory, c_size_t(512))
        cuda.cuMemFree_v2(memory)
        cuda.cuModuleUnload(module)
    return error, set(sums)


def test_warps_of_a_group_wait_for_each_other(cuda: Any) -> None:
    """A warp would multiply data before another warp has written it, or data that is meant for the next product."""
    assert run_group(cuda, 8 << 16 | 16 << 32) == (0, {16 * (1 + 2 + 3 + 4)})


def test_matrices_outside_of_shared_memory(cuda: Any) -> None:
    """A descriptor that points outside of the block's memory would not fail with the error of an H200."""
    assert run_group(cuda, 0x3000 << 16 | 16 << 32)[0] == ILLEGAL_ADDRESS
    assert "illegal read of 16 bytes at 0x30400 in shared memory: the block has 512 bytes" in cudacore_sim.why()
