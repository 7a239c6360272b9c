# SPDX-License-Identifier: Apache-2.0
"""Memory: atomics of every type, address spaces, and the faults that stop a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Engine, Module

N = 256  # the number of threads that update one address


def _atomic(engine: Engine, op: str, type_name: str, initial: np.ndarray, values: np.ndarray, space: str) -> np.ndarray:
    """Update one address in all threads: half of the threads use `atom`, the other half use `red`."""
    bits = initial.dtype.itemsize * 8
    size = bits // 8
    target = "s" if space == "shared" else "out"
    load = ".shared .align 8 .b64 s;\n" if space == "shared" else ""
    where = "[s]" if space == "shared" else "[%a]"
    lines = f"""{load}.reg .b64 %a, %v, %i; .reg .b{bits} %x, %d; .reg .b32 %t, %c, %n; .reg .pred %p;
        mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %c, %c, %n, %t; cvt.u64.u32 %i, %c;
        ld.param.u64 %v, [in]; mad.lo.u64 %v, %i, {size}, %v; ld.global.b{bits} %x, [%v]; ld.param.u64 %a, [out];
        setp.eq.u32 %p, %t, 0;
          {f"@%p ld.global.b{bits} %d, [%a]; @%p st.shared.b{bits} [s], %d;" if space == "shared" else ""} bar.sync 0;
        and.b32 %t, %t, 1; setp.eq.u32 %p, %t, 0;
        @%p atom.{space}.{op}.{type_name} %d, {where}, %x; @!%p red.{space}.{op}.{type_name} {where}, %x; bar.sync 0;
        {f"ld.shared.b{bits} %d, [s]; st.global.b{bits} [%a], %d;" if space == "shared" else ""}"""
    assert target
    module = engine.body(lines, parameters=".param .u64 out, .param .u64 in", version="8.1")
    out = module.buffer(initial)
    grid = 1 if space == "shared" else 8
    fault = module.run("k", grid, N // grid, out, module.buffer(values))
    assert fault.kind == "none", fault
    return out.array


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("type_name", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_integer_atomics(engine: Engine, rng: np.random.Generator, op: str, type_name: str, space: str) -> None:
    """Concurrent updates of one address would be lost, or signed numbers would be compared as unsigned ones."""
    if (op, type_name) == ("add", "s64"):
        type_name = "u64"
    dtype = np.dtype(f"{'i' if type_name[0] == 's' else 'u'}{int(type_name[1:]) // 8}")
    info = np.iinfo(dtype)
    values = rng.integers(info.min // 1024, info.max // 1024, N).astype(dtype)
    result = _atomic(engine, op, type_name, values[:1], values, space)
    expected = {"add": values.sum(dtype=dtype) + values[0], "min": values.min(), "max": values.max()}[op]
    assert result[0] == expected


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    "op", ["and.b32", "or.b32", "xor.b32", "and.b64", "or.b64", "xor.b64", "exch.b32", "exch.b64", "inc.u32", "dec.u32"]
)
def test_bitwise_and_exchanging_atomics(engine: Engine, rng: np.random.Generator, op: str, space: str) -> None:
    """Atomic logic operations, exchanges or wrapping counters would be wrong."""
    name, type_name = op.split(".")
    dtype = np.uint64 if type_name == "b64" else np.uint32
    values = rng.integers(0, 2**31, N).astype(dtype)
    if name in ("inc", "dec"):
        values[:] = 99
    result = int(_atomic(engine, name, type_name, np.array([7], dtype), values, space)[0])
    if name == "exch":
        assert result in values
    elif name in ("inc", "dec"):
        assert result == (7 + N) % 100 if name == "inc" else (7 - N) % 100
    else:
        reduce = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name]
        assert result == int(reduce.reduce(np.append(values, dtype(7))))


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("type_name", ["f32", "f64"])
def test_float_atomics(engine: Engine, rng: np.random.Generator, type_name: str, space: str) -> None:
    """Concurrent floating-point additions would be lost, or would lose bits."""
    dtype = np.float32 if type_name == "f32" else np.float64
    values = rng.integers(-1000, 1000, N).astype(dtype)
    values += rng.integers(0, 16, N).astype(dtype) * dtype(2.0**-5 if type_name == "f32" else 2.0**-30)  # still exact
    assert _atomic(engine, "add", type_name, np.zeros(1, dtype), values, space)[0] == values.sum()


@pytest.mark.parametrize(("space", "kept"), [("global", False), ("shared", True)])
def test_subnormal_sums(engine: Engine, space: str, kept: bool) -> None:
    """f32 additions in global memory would keep subnormal numbers, or additions in shared memory would flush them."""
    values = np.full(N, np.finfo(np.float32).smallest_subnormal, np.float32)
    result = _atomic(engine, "add", "f32", np.zeros(1, np.float32), values, space)[0]
    assert result == (values.sum() if kept else 0)


@pytest.mark.parametrize("type_name", ["f16", "f16x2", "bf16", "bf16x2"])
def test_half_atomics(engine: Engine, rng: np.random.Generator, type_name: str) -> None:
    """Half-precision additions would change the neighbouring value, or be lost."""
    small = rng.integers(0, 4, 2 * N)
    if type_name.startswith("bf16"):
        small = small % 2  # with 8 bits of mantissa, sums up to 256 are exact
        bits = (small.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        bits = small.astype(np.float16).view(np.uint16)
    pair = type_name.endswith("x2")
    values = bits.view(np.uint32) if pair else bits[:N]
    result = _atomic(engine, "add.noftz", type_name, np.zeros(1, values.dtype), values, "global").view(np.uint16)
    for half, got in enumerate(result):
        number = (
            np.array(int(got) << 16, np.uint32).view(np.float32)
            if type_name.startswith("bf16")
            else np.uint16(got).view(np.float16)
        )
        assert number == (small[half::2].sum() if pair else small[:N].sum())


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_compare_and_swap(engine: Engine, bits: int) -> None:
    """A lock-free counter by compare-and-swap would lose increments."""
    type_name = {16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}[bits]
    source = f"""extern "C" __global__ void k({type_name} *p) {{ {type_name} old = *p, seen;
        do {{ seen = old; old = atomicCAS(p, seen, ({type_name})(seen + 3)); }} while (old != seen); }}"""
    (result,) = engine.call(
        source, "k", 8, 64, np.zeros(4, {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]), limit=10**8
    )
    assert result.tolist() == [3 * 512, 0, 0, 0]


def test_128_bit_compare_and_swap(engine: Engine) -> None:
    """A compare-and-swap of 128 bits would not be atomic."""
    module = engine.body(
        """.reg .b128 %o, %n, %r; .reg .b64 %a, %l, %h, %x, %y; .reg .pred %p; ld.param.u64 %a, [out];
        ld.global.v2.b64 {%l, %h}, [%a];
        L: mov.b128 %o, {%l, %h}; add.u64 %x, %l, 1; sub.u64 %y, %h, 1; mov.b128 %n, {%x, %y};
        atom.global.cas.b128 %r, [%a], %o, %n; mov.b64 %x, %l; mov.b64 %y, %h; mov.b128 {%l, %h}, %r;
        setp.ne.u64 %p, %l, %x; @%p bra L; setp.ne.u64 %p, %h, %y; @%p bra L;""",
        target="sm_90",
        version="8.4",
    )
    out = module.buffer(np.zeros(2, np.uint64))
    assert module.run("k", 8, 64, out, limit=10**8).kind == "none"
    assert out.array.tolist() == [512, 2**64 - 512]


def test_generic_addresses(engine: Engine) -> None:
    """Pointers into shared, local, global and constant memory would be confused."""
    source = """__constant__ int c[4] = {5, 6, 7, 8}; __device__ int g[4] = {1, 2, 3, 4};
        __device__ __noinline__ int at(const int *p, int i) { return p[i]; }
        extern "C" __global__ void k(int *o, int n) { __shared__ int s[4]; int l[4];
          if (threadIdx.x < 4) s[threadIdx.x] = 10 + threadIdx.x; __syncthreads();
          for (int i = 0; i < 4; i++) l[(i + n) % 4] = 20 + i; int i = threadIdx.x;
          const int *p = i % 4 == 0 ? s : i % 4 == 1 ? l : i % 4 == 2 ? g : c;
          o[i] = at(p, i / 4 % 4) + 100 * (__isShared(p) + 2 * __isLocal(p) +
            4 * __isGlobal(p) + 8 * __isConstant(p)); }"""
    (out,) = engine.call(source, "k", 1, 64, np.zeros(64, np.int32), 0)
    for i in range(64):
        base = [10, 20, 1, 5][i % 4] + i // 4 % 4
        flags = out[i] // 100
        assert out[i] % 100 == base
        assert flags & [1, 2, 4, 8][i % 4]
        assert i % 4 == 3 or not flags & ~[1, 2, 4, 8][i % 4]


def _vector_sum(engine: Engine) -> Module:
    return engine.cuda(
        """extern "C" __global__ void k(const int *x, int *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
          y[i] = x[i] + 1;
        }""",
        "-lineinfo",
    )


def test_read_out_of_bounds(engine: Engine) -> None:
    """A read beyond an allocation would go unnoticed, or the wrong thread would be reported."""
    module = _vector_sum(engine)
    x, y = module.buffer(np.zeros(100, np.int32)), module.buffer(np.zeros(128, np.int32))
    fault = module.run("k", 2, 64, x, y, 128)
    assert (fault.kind, fault.space, fault.is_write, fault.access_bytes) == ("illegal_address", "global", False, 4)
    assert (fault.block, fault.thread) == ((1, 0, 0), (36, 0, 0))
    assert fault.address == x.address + 400
    assert fault.source_line == 4
    assert fault.source_file.endswith("kernel.cu")
    assert "ld.global" in module.text.splitlines()[fault.ptx_line - 1]


def test_write_to_read_only_memory(engine: Engine) -> None:
    """A write to read-only memory would succeed."""
    module = _vector_sum(engine)
    x, y = module.buffer(np.zeros(64, np.int32)), module.buffer(np.zeros(64, np.int32), writable=False)
    fault = module.run("k", 1, 64, x, y, 64)
    assert (fault.kind, fault.is_write, fault.address) == ("illegal_address", True, y.address)
    assert not y.array.any()


@pytest.mark.parametrize(
    ("body", "kind", "space", "offset"),
    [
        ("*(int *)((char *)p + 2) = 1;", "misaligned_address", "global", 2),
        ("*(int4 *)(p + 1) = make_int4(1, 2, 3, 4);", "misaligned_address", "global", 4),
        ("p[1 << 28] = 1;", "illegal_address", "global", 1 << 30),
        ("__shared__ int s[4]; s[n] = 1; __syncthreads(); p[0] = s[1];", "illegal_address", "shared", None),
        (
            "int l[4]; for (int i = 0; i < 4; i++) l[i] = p[i]; l[n * 4] = 3; p[1] = l[p[2]];",
            "illegal_address",
            "local",
            None,
        ),
        ("int (*f)(int) = (int (*)(int))p; p[0] = f(3);", "illegal_instruction", "generic", 0),
    ],
)
def test_faults(engine: Engine, body: str, kind: str, space: str, offset: int | None) -> None:
    """An invalid access would be accepted, or reported as the wrong kind of fault."""
    module = engine.cuda(f'extern "C" __global__ void k(int *p, int n) {{ {body} }}')
    p = module.buffer(np.zeros(16, np.int32))
    fault = module.run("k", 1, 1, p, 100000)
    assert (fault.kind, fault.space) == (kind, space)
    if offset is not None:
        assert fault.address == p.address + offset


def test_vector_atomics(engine: Engine) -> None:
    """An atomic addition of vectors would mix up elements, or overwrite operands before they are read."""
    module = engine.body(
        """.reg .b64 %a; .reg .f32 %f<4>; ld.param.u64 %a, [out];
        mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000; mov.f32 %f2, 0f40400000; mov.f32 %f3, 0f40800000;
        atom.global.add.v4.f32 {%f3, %f2, %f1, %f0}, [%a], {%f0, %f1, %f2, %f3};
        st.global.v4.f32 [%a+16], {%f0, %f1, %f2, %f3}; red.global.add.noftz.v2.f16x2 [%a+32], {%f0, %f1};""",
        version="8.1",
    )
    start = np.array([10, 20, 30, 40, 0, 0, 0, 0, 0, 0], np.float32)
    out = module.buffer(start)
    assert module.run("k", 1, 1, out).kind == "none"
    np.testing.assert_array_equal(out.array, [11, 22, 33, 44, 40, 30, 20, 10, 40, 30])


def test_vector_atomics_are_aligned_as_a_whole(engine: Engine) -> None:
    """An atomic addition of vectors at a misaligned address would be executed."""
    module = engine.body(
        """.reg .b64 %a; .reg .f32 %f<2>; ld.param.u64 %a, [out];
        add.u64 %a, %a, 4; mov.f32 %f0, 0f3F800000; red.global.add.v2.f32 [%a], {%f0, %f0};""",
        version="8.1",
    )
    out = module.buffer(np.zeros(4, np.float32))
    assert module.run("k", 1, 1, out).kind == "misaligned_address"
    assert not out.array.any()


def test_use_of_memory_that_was_never_mapped(engine: Engine) -> None:
    """A write through a null pointer would not be a fault."""
    module = engine.cuda('extern "C" __global__ void k(int **p) { p[1][0] = 3; }')
    fault = module.run("k", 1, 32, module.buffer(np.zeros(2, np.uint64)))
    assert (fault.kind, fault.address, fault.is_write) == ("illegal_address", 0, True)


def test_stack_overflow(engine: Engine) -> None:
    """Endless recursion would use up all memory instead of failing."""
    module = engine.cuda(
        """__device__ __noinline__ int f(int n, int *p) { return n + p[n & 1] + f(n + 1, p) * 3; }
          extern "C" __global__ void k(int *p) { p[0] = f(1, p); }"""
    )
    fault = module.run("k", 1, 32, module.buffer(np.zeros(2, np.int32)))
    assert fault.kind == "illegal_address"
    assert "stack overflow" in fault.detail


def test_fault_in_one_block_stops_the_others(engine: Engine) -> None:
    """Blocks in an endless loop would continue after the fault of another block."""
    module = engine.cuda(
        """extern "C" __global__ void k(volatile int *p) { if (blockIdx.x == 3) p[1 << 20] = 1;
          else while (p[0] == 0) {} }"""
    )
    assert module.run("k", 8, 64, module.buffer(np.zeros(1, np.int32))).kind == "illegal_address"


def test_shared_memory_is_given_in_units(engine: Engine) -> None:
    """A load just beyond the requested shared memory, which compilers generate and devices allow, would be a fault."""
    source = """extern __shared__ int buffer[]; extern "C" __global__ void k(int *out, int at) {
        buffer[threadIdx.x] = threadIdx.x; __syncthreads();
        int4 four = *(int4 *)(buffer + at); out[threadIdx.x] = four.x + four.y + four.z; }"""
    module = engine.cuda(source)
    out = module.buffer(np.zeros(7, np.int32))
    assert module.run("k", 1, 7, out, 4, shared=28).kind == "none"
    assert (out.array == 15).all()
    assert module.run("k", 1, 7, out, 28, shared=28).kind == "none"
    fault = module.run("k", 1, 7, out, 32, shared=28)
    assert (fault.kind, fault.space, fault.access_bytes) == ("illegal_address", "shared", 16)
    assert "128 bytes" in fault.detail
    assert module.run("k", 1, 7, out, 32, shared=129).kind == "none"


def test_shared_memory_of_the_system(engine: Engine) -> None:
    """Reserved shared memory would be missing, have wrong bounds, or contain data of an earlier block."""
    module = engine.body(
        """.reg .b64 %a; .reg .b32 %r<9>; ld.param.u64 %a, [out];
      mov.u32 %r1, %reserved_smem_offset_begin; mov.u32 %r2, %reserved_smem_offset_end;
      mov.u32 %r3, %reserved_smem_offset_cap; mov.u32 %r4, %reserved_smem_offset_0;
      mov.u32 %r5, %reserved_smem_offset_1; ld.shared.u32 %r6, [%r5]; st.shared.u32 [%r5+284], 5;
      ld.shared.u32 %r7, [%r5+284]; add.u32 %r6, %r6, %r7; st.shared.u32 [%r5], 9;
      st.global.v4.u32 [%a], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%a+16], {%r5, %r6};
      mov.u32 %r1, %total_smem_size; mov.u32 %r2, %aggr_smem_size; st.global.v2.u32 [%a+24], {%r1, %r2};"""
    )
    out = module.buffer(np.zeros(8, np.uint32))
    for _ in range(2):
        assert module.run("k", 3, 1, out, shared=130).kind == "none"
        begin, end, cap, first, second, sum_, total, all_of_it = out.array.tolist()
        assert (begin, end, cap, first, sum_, total, all_of_it) == (0, 1024, 1024, 0, 5, 256, 1280)
        assert 0 < second <= 1024 - 288
    for address in (0, second - 4, second + 288):
        module = engine.body(f".reg .b32 %r<3>; mov.u32 %r1, {address}; ld.shared.u32 %r2, [%r1];")
        assert module.run("k", 1, 1, module.buffer(np.zeros(1, np.uint32))).kind == "illegal_address"
