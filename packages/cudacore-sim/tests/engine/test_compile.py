# SPDX-License-Identifier: Apache-2.0
"""Loading PTX: information about kernels, errors, and random text, which must not crash the compiler."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from harness import CompileError, Engine, has_header, nvrtc
from hypothesis import given, settings
from hypothesis import strategies as st

needs_cccl = pytest.mark.skipif(
    not has_header("nv/target"), reason="needs the wheel nvidia-cuda-cccl for cooperative_groups.h"
)

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"

EVERYTHING = r"""
struct S { int a; double b[3]; };
struct Base { __device__ virtual int f(int) = 0; };
struct Derived : Base { int x; __device__ int f(int a) override { return a + x; } };
__device__ int (*table[2])(int);
__constant__ float coefficients[8] = {1, 2, 3};
__device__ __noinline__ int recursive(int n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }
extern __shared__ double dynamic[];
template <class T> __device__ T sum(const T *x, int n) { T s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
extern "C" __global__ void __launch_bounds__(256, 2) k(S s, float *f, double *d, int n, Base *b) {
  __shared__ int tile[33]; int local[20]; for (int i = 0; i < 20; i++) local[i] = i * n;
  tile[threadIdx.x % 33] = local[n % 20]; dynamic[threadIdx.x] = d[n]; __syncthreads();
  f[0] = sinf(f[1]) + expf(f[2]) + sum(f, n) + coefficients[n & 7] + __shfl_down_sync(~0u, f[3], 2);
  d[0] = pow(d[1], d[2]) + s.b[n % 3] + sum(d, n) + tile[n % 33] + dynamic[0] + fmod(d[3], d[4]);
  if (n == 3) printf("%d %f\n", n, d[0]); assert(n > 0);
  switch (n) { case 0: f[9] = 1; break; case 1: f[8] = 3; break; case 2: f[7] = 5; break; case 3: d[9] = 2; break;
          case 4: f[6] = 1; break; case 5: f[1] = 2; }
  atomicAdd(f, 1.0f); atomicCAS((int *)f + 1, 3, 4); f[4] = b->f(n) + table[n & 1](n) + recursive(n);
  int *heap = (int *)malloc(n); heap[0] = n; free(heap);
}
"""


@pytest.mark.parametrize(
    "arch", ["compute_75", "compute_80", "compute_86", "compute_89", "compute_90", "compute_100", "compute_120"]
)
@pytest.mark.parametrize("option", ["-lineinfo", "-G", "--use_fast_math", "-rdc=true"])
def test_every_architecture_and_option(engine: Engine, arch: str, option: str) -> None:
    """PTX for some architecture, or PTX that was compiled with some option of NVRTC, would not load."""
    assert engine.cuda(EVERYTHING, option, arch=arch).kernels == ["k"]


@pytest.mark.parametrize(
    "header",
    [
        "cuda_fp16.h",
        "cuda_bf16.h",
        "cuda_fp8.h",
        pytest.param("cooperative_groups.h", marks=needs_cccl),
        "cuda_pipeline.h",
        "cuComplex.h",
    ],
)
def test_headers_that_define_functions(engine: Engine, header: str) -> None:
    """PTX of all functions of a header of CUDA (compiled as relocatable code) would not load."""
    engine.cuda(f'#include <{header}>\nextern "C" __global__ void k() {{}}', "-rdc=true")


def test_kernel_information(engine: Engine) -> None:
    """The sizes, offsets and launch bounds that the engine reports for a kernel would be wrong."""
    module = engine.cuda(EVERYTHING)
    info = module.info("k")
    assert module.parameters("k") == [(0, 32, 8), (32, 8, 8), (40, 8, 8), (48, 4, 4), (56, 8, 8)]
    assert (info["parameter_bytes"], info["static_shared"], info["max_threads"], info["min_blocks"]) == (
        64,
        144,  # 132 bytes, padded to the alignment of the dynamic shared memory
        256,
        2,
    )
    assert 20 * 4 <= info["local"] <= 400
    assert 24 <= info["registers"] <= 128


def test_static_shared_memory_is_that_of_the_kernel(engine: Engine) -> None:
    """A kernel's shared memory would include variables of other kernels, or lack those of functions it calls."""
    module = engine.cuda(
        """__device__ __noinline__ int f(int i) { __shared__ int s[100]; s[i] = i; __syncthreads(); return s[99 - i];
              }
        extern "C" __global__ void a(int *p) { p[threadIdx.x] = f(threadIdx.x); }
        extern "C" __global__ void b(int *p) { __shared__ int s[7]; s[threadIdx.x] = p[0]; __syncthreads();
          p[1] = s[6 - threadIdx.x]; }
        extern "C" __global__ void c(int *p) { p[0] = 0; }"""
    )
    assert [module.info(k)["static_shared"] for k in "abc"] == [400, 28, 0]


def test_shared_memory_that_nothing_uses(engine: Engine) -> None:
    """The shared memory of a kernel would include variables that no instruction uses."""
    module = engine.ptx(
        """.version 8.0\n.target sm_90\n.address_size 64\n.shared .align 4 .b8 nobody[64];\n.shared .align 4 .b8 all[8];
        .visible .entry k() { .shared .align 4 .b8 own[32]; .reg .b32 %r; ld.shared.u32 %r, [all]; ret; }"""
    )
    assert module.info("k")["static_shared"] == 8


def test_registers_grow_with_what_lives_at_once(engine: Engine) -> None:
    """The estimated number of registers would not grow with the number of values that are live at the same time."""
    few = engine.cuda('extern "C" __global__ void k(int *p) { for (int i = 0; i < 64; i++) p[i] = p[i] * 3 + i; }')
    many = engine.cuda(
        """extern "C" __global__ void k(int *p) { int v[48]; for (int i = 0; i < 48; i++) v[i] = p[i]; __syncthreads();
          for (int i = 0; i < 48; i++) p[i * 7] = v[47 - i]; }"""
    )
    assert few.info("k")["registers"] < 40 < 50 < many.info("k")["registers"] < 100


def failure(engine: Engine, text: str) -> CompileError:
    """Return the error of loading PTX."""
    with pytest.raises(CompileError) as caught:
        engine.ptx(text)
    return caught.value


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("frobnicate.s32 %r1, %r2;", "unsupported_instruction", "line 6: unknown instruction 'frobnicate.s32'"),
        ("add.weird.s32 %r1, %r2, %r3;", "unsupported_instruction", "line 6: unknown instruction 'add.weird.s32'"),
        ("add.f8 %r1, %r2, %r3;", "unsupported_instruction", "unknown instruction 'add.f8'"),
        (
            "fabric.wait.sync.aligned;",
            "unsupported_instruction",
            "unknown instruction 'fabric.wait.sync.aligned'",
        ),
        ("add.s32 %r1, %r2;", "syntax", "expected 3 operands, found 2"),
        ("add.s32 %r1, %r2, %r99;", "syntax", "unknown name '%r99'"),
        ("add.s32 %r1, %r2, %rd1;", "syntax", "'%rd1' is no register of type .s32"),
        ("add.s32 %r1, %r2, %p1;", "syntax", "'%p1' cannot be used as a number"),
        ("setp.eq.s32 %r1, %r2, %r3;", "syntax", "'%r1' is no predicate"),
        ("@%r1 ret;", "syntax", "'%r1' is no predicate"),
        ("bra nowhere;", "syntax", "unknown label 'nowhere'"),
        ("call nobody;", "syntax", "unknown name 'nobody'"),
        ("call (%r1), ghost, ();", "unresolved", "unresolved function 'ghost'"),
        ("ld.param.u32 %r1, [p+4];", "syntax", "outside of 'p'"),
        ("cvt.s32.f32 %r1, %r2;", "syntax", "needs a rounding"),
        (".reg .b32 %r1;  .reg .b32 %r1;", "syntax", "'%r1' is declared twice"),
        ("mov.u32 %r1, 99999999999999999999999;", "syntax", "no number of 64 bits"),
        ("mov.u32 %r1, 1/0;", "syntax", "division by zero"),
        ("mov.f32 %r1, 0f123;", "syntax", "needs exactly 8"),
        ("add.s32 %r1, %r2, %r3", "syntax", "expected ';'"),
        ("L: L: ret;", "syntax", "label 'L' is defined twice"),
    ],
)
def test_errors_say_what_and_where(engine: Engine, line: str, kind: str, message: str) -> None:
    """PTX with a mistake would load, or the error would not describe the mistake and its place."""
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;"
    text = f"{HEADER}.visible .entry k(.param .u32 p) {{\n{registers}\n{line}\nret; }}"
    if "ghost" in line:
        text = text.replace(".visible", ".extern .func (.reg .b32 r) ghost();\n.visible")
    error = failure(engine, text)
    assert error.failure == kind
    assert message in error.log


def test_all_errors_are_listed(engine: Engine) -> None:
    """Only the first of several mistakes would be reported."""
    log = failure(engine, HEADER + ".entry k() {\nfoo;\nbar.s32 %r1;\nret;\n}").log
    assert re.findall(r"line (\d+): unknown instruction '(\w+)", log) == [("5", "foo"), ("6", "bar")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "syntax"),
        ("\0\1\2\3", "syntax"),
        ("\x7fELF\2\1\1", "syntax"),
        (".version 99.0\n.target sm_90\n.address_size 64\n", "unsupported_version"),
        (".version x", "syntax"),
        (".version 8.0 .target sm_90 .address_size 32", "syntax"),
        (HEADER + ".global .b8 x[99999999999999];", "syntax"),
        (HEADER + ".global .u64 x = y;", "syntax"),
        (HEADER + ".global .u32 x[2] = {1, 2, 3};", "syntax"),
        (HEADER + ".entry k() { .local .b8 x[1000000]; ret; }", "syntax"),
        (HEADER + ".entry k() { { { { ret; }", "syntax"),
        (HEADER + ".entry k() {} .entry k() {}", "syntax"),
        (HEADER + ".func f(); .func f(.param .b32 a) { ret; }", "syntax"),
        (HEADER + ".func f(.param .b32 a); .func f(.param .b64 a) { ret; } .entry k() { ret; }", "syntax"),
        (HEADER + ".func f(); .entry f() { ret; }", "syntax"),
        (HEADER + ".texref t;", "syntax"),
        (HEADER + "/* never closed", "syntax"),
        (HEADER + ".global .u32 x = " + "(" * 5000 + "1" + ")" * 5000 + ";", "syntax"),
        (HEADER + ".entry k() " + "{" * 100_000, "syntax"),
    ],
)
def test_malformed_modules(engine: Engine, text: str, kind: str) -> None:
    """Text that is not a PTX module would be accepted, or crash the compiler."""
    assert failure(engine, text).failure == kind


def test_scopes_hide_names(engine: Engine) -> None:
    """A register of an inner block would be confused with the register of that name in the outer block."""
    module = engine.body(
        """.reg .b64 %a; .reg .b32 x, %r<3>; ld.param.u64 %a, [out]; mov.u32 x, 1; { .reg .b32 x; mov.u32 x, 2;
              bra L; L: st.global.u32 [%a], x;
        { .reg .b32 %r<3>; mov.u32 %r1, 3; L: st.global.u32 [%a+4], %r1; } } mov.u32 %r1, 4;
        st.global.u32 [%a+8], x; st.global.u32 [%a+12], %r1;"""
    )
    out = module.buffer(np.zeros(4, np.uint32))
    assert module.run("k", 1, 1, out).kind == "none"
    assert out.array.tolist() == [2, 3, 1, 4]


def test_indexed_branches_and_register_parameters(engine: Engine) -> None:
    """brx.idx would jump to a wrong target, or parameters that are passed in registers would be wrong."""
    module = engine.ptx(
        HEADER
        + """.func (.reg .u32 r) twice(.reg .u32 a, .reg .u64 b) { .reg .b32 t; cvt.u32.u64 t, b; mad.lo.u32 r, a, 2,
              t; ret; }
        .visible .entry k(.param .u64 out) { .reg .b64 %a, %i; .reg .b32 %t, %r; ld.param.u64 %a, [out]; mov.u32 %t,
          %tid.x; cvt.u64.u32 %i, %t;
        mad.lo.u64 %a, %i, 4, %a; and.b32 %r, %t, 3; T: .branchtargets A, B, C, A; brx.idx %r, T;
        A: mov.u32 %r, 100; bra.uni E; B: mov.u32 %r, 200; bra.uni E; C: mov.u32 %r, 300;
        E: call (%r), twice, (%r, %i); st.global.u32 [%a], %r; ret; }"""
    )
    out = module.buffer(np.zeros(64, np.uint32))
    assert module.run("k", 1, 64, out).kind == "none"
    np.testing.assert_array_equal(out.array, [[100, 200, 300, 100][i % 4] * 2 + i for i in range(64)])


def test_huge_grids_start_at_once(engine: Engine) -> None:
    """Launching a grid of billions of blocks would allocate memory for all blocks at the start."""
    module = engine.cuda('extern "C" __global__ void k(int *p) { if (blockIdx.x == 5) p[1 << 20] = 0; }')
    fault = module.run("k", (2**31 - 1, 65535, 65535), 32, module.buffer(np.zeros(1, np.int32)))
    assert (fault.kind, fault.block[0]) == ("illegal_address", 5)


def test_launches_that_cannot_run(engine: Engine) -> None:
    """A launch with an impossible shape that no driver has refused before would crash the engine."""
    module = engine.cuda('extern "C" __global__ void k() {}')
    for grid, block, cluster in (((0, 1, 1), 32, 1), (1, 0, 1), (1, (1024, 2, 1), 1), (3, 32, 2), (32, 32, 32)):
        assert module.run("k", grid, block, cluster=cluster).kind == "illegal_instruction"


# --- fuzzing -------------------------------------------------------------------------------------------------------


def _mutate(text: str, random_source: random.Random) -> str:
    """Damage a text in a few places: characters, lines, tokens, numbers."""
    lines = text.split("\n")
    for _ in range(random_source.randint(1, 4)):
        at = random_source.randrange(len(lines))
        kind = random_source.randrange(7)
        if kind == 0:
            del lines[at : at + random_source.randint(1, 5)]
            lines = lines or [""]
        elif kind == 1:
            lines.insert(at, lines[random_source.randrange(len(lines))])
        elif kind == 2 and lines[at]:
            i = random_source.randrange(len(lines[at]))
            lines[at] = lines[at][:i] + random_source.choice('{}()[],;.%@!|<>+-=0x9"\\\0é$') + lines[at][i + 1 :]
        elif kind == 3:
            tokens = re.findall(r"[\w.%$]+", text)
            words = re.findall(r"[\w.%$]+", lines[at])
            if words:
                lines[at] = lines[at].replace(random_source.choice(words), random_source.choice(tokens), 1)
        elif kind == 4:
            lines[at] = re.sub(
                r"\d+",
                str(random_source.choice([0, 1, 31, 64, 255, 2**31, 2**32, 2**63, 2**64 - 1])),
                lines[at],
                count=1,
            )
        elif kind == 5:
            lines[at] = lines[at][: random_source.randint(0, len(lines[at]))]
        else:
            i = random_source.randrange(len(lines))
            lines[at], lines[i] = lines[i], lines[at]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_modules_never_crash(engine: Engine, seed: int) -> None:
    """Damaged PTX would crash the compiler or, if it still compiles, the engine."""
    text = nvrtc(EVERYTHING)
    random_source = random.Random(seed)
    told: list[str] = []
    for _ in range(60):
        damaged = _mutate(text, random_source)
        try:
            module = engine.ptx(damaged)
        except CompileError as error:
            told.append(error.log)
            continue
        if "k" not in module.kernels or module.info("k")["parameter_bytes"] != 64:
            continue
        f, d = module.buffer(np.ones(16, np.float32)), module.buffer(np.ones(16))
        if [size for _, size, _ in module.parameters("k")] == [32, 8, 8, 4, 8]:
            module.run("k", 2, 64, bytes(32), f, d, 3, f, shared=1024, limit=20_000, output=[])
    assert all(log.startswith("line ") for log in told)


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(
            [
                *".{}();,[]+-<>=@!|",
                ".reg",
                ".b32",
                ".entry",
                ".func",
                ".param",
                "%r1",
                "x",
                "0x1",
                "1.5",
                ".global",
                ".align",
                "ret",
                '"s"',
                ".version 8.0 .target sm_90",
                "bra",
                "call",
                "mov.u32",
                ".v2",
                "generic",
                ".loc",
                ".file",
                ".section",
                "\n",
            ]
        ),
        max_size=60,
    ).map(" ".join)
)
def test_random_text_never_crashes(engine: Engine, text: str) -> None:
    """Random text would crash the compiler."""
    told: list[str] = []
    for candidate in (text, HEADER + text, HEADER + ".entry k() {" + text + "}"):
        try:
            engine.ptx(candidate)
        except CompileError as error:
            told.append(error.log)
    assert all(log.startswith("line ") for log in told)
