# SPDX-License-Identifier: Apache-2.0
"""Whole kernels, as NVRTC compiles them: their results are compared with NumPy's."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from harness import Engine, has_header

needs_cccl = pytest.mark.skipif(
    not has_header("nv/target"), reason="needs the wheel nvidia-cuda-cccl for cooperative_groups.h"
)


def test_saxpy_of_a_million(engine: Engine, rng: np.random.Generator) -> None:
    """A grid of many blocks would skip elements, or mix them up."""
    n = 1_000_003
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)
    source = """extern "C" __global__ void saxpy(float a, const float *x, float *y, size_t n) {
        size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }"""
    _, result = engine.call(source, "saxpy", (n + 255) // 256, 256, 2.5, x, y, n)
    exact = np.float64(2.5) * x + y
    np.testing.assert_array_equal(result, exact.astype(np.float32))


@pytest.mark.parametrize("options", [(), ("-G",), ("-lineinfo",)])
def test_tiled_matrix_product(engine: Engine, rng: np.random.Generator, options: tuple[str, ...]) -> None:
    """Shared memory, barriers or two-dimensional blocks would not work in code with or without optimisation."""
    n = 48
    a, b = rng.integers(-8, 8, (n, n)).astype(np.float32), rng.integers(-8, 8, (n, n)).astype(np.float32)
    source = """template <int T> __device__ void product(float *c, const float *a, const float *b, int n) {
        __shared__ float As[T][T], Bs[T][T];
        int r = blockIdx.y * T + threadIdx.y, q = blockIdx.x * T + threadIdx.x; float s = 0;
        for (int k = 0; k < n; k += T) {
          As[threadIdx.y][threadIdx.x] = a[r * n + k + threadIdx.x];
          Bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + q];
          __syncthreads();
          for (int i = 0; i < T; i++) s += As[threadIdx.y][i] * Bs[i][threadIdx.x];
          __syncthreads(); }
        c[r * n + q] = s; }
        extern "C" __global__ void mm(float *c, const float *a, const float *b, int n) { product<16>(c, a, b, n); }"""
    module = engine.cuda(source, *options)
    pa, pb, pc = module.buffer(a), module.buffer(b), module.buffer(np.zeros((n, n), np.float32))
    fault = module.run("mm", (3, 3), (16, 16), pc, pa, pb, n)
    assert fault.kind == "none"
    np.testing.assert_array_equal(pc.array, a @ b)
    assert module.info("mm")["static_shared"] == 2048


def test_reduction_with_dynamic_shared_memory(engine: Engine, rng: np.random.Generator) -> None:
    """Dynamic shared memory would not be at the address that the launch determines."""
    n = 5000
    x = rng.integers(-1000, 1000, n).astype(np.int32)
    source = """extern __shared__ int part[];
        extern "C" __global__ void total(const int *x, int n, int *out) {
          int i = blockIdx.x * blockDim.x + threadIdx.x; part[threadIdx.x] = i < n ? x[i] : 0; __syncthreads();
          for (int s = blockDim.x / 2; s > 0; s >>= 1) {
            if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s]; __syncthreads(); }
          if (threadIdx.x == 0) atomicAdd(out, part[0]); }"""
    _, out = engine.call(source, "total", (n + 127) // 128, 128, x, n, np.zeros(1, np.int32), shared=512)
    assert out[0] == x.sum()


def test_static_and_dynamic_shared_memory_together(engine: Engine) -> None:
    """Dynamic shared memory would overlap a kernel's static shared memory, or be misaligned."""
    source = """extern __shared__ __align__(128) int extra[];
        extern "C" __global__ void k(int *o) { __shared__ int own[33]; int i = threadIdx.x; own[i % 33] = i;
          extra[i] = 1000 + i;
          __syncthreads(); o[i] = own[i % 33] + 10000 * extra[63 - i]; if (i == 0) o[64] = (size_t)extra % 128; }"""
    (out,) = engine.call(source, "k", 1, 64, np.ones(65, np.int32), shared=256)
    own = {i % 33: i for i in range(64)}
    assert all(out[i] // 10000 == 1063 - i for i in range(64))
    assert all(out[i] % 10000 in (own[i % 33], i % 33) for i in range(64))
    assert out[64] == 0


def test_inclusive_scan(engine: Engine, rng: np.random.Generator) -> None:
    """Double-buffered shared memory would lose values between barriers."""
    x = rng.integers(0, 100, 256).astype(np.int32)
    source = """extern "C" __global__ void scan(int *x) {
        __shared__ int t[2][256]; int i = threadIdx.x, in = 0; t[0][i] = x[i]; __syncthreads();
        for (int d = 1; d < 256; d *= 2) { t[1 - in][i] = t[in][i] + (i >= d ? t[in][i - d] : 0); in = 1 - in;
          __syncthreads(); }
        x[i] = t[in][i]; }"""
    (result,) = engine.call(source, "scan", 1, 256, x)
    np.testing.assert_array_equal(result, np.cumsum(x))


def test_histogram_in_shared_memory(engine: Engine, rng: np.random.Generator) -> None:
    """Atomics on shared memory would lose updates of lanes that use the same bin."""
    x = rng.integers(0, 256, 40_000).astype(np.uint8)
    source = """extern "C" __global__ void histogram(const unsigned char *x, int n, unsigned *bins) {
        __shared__ unsigned local[256]; local[threadIdx.x] = 0; __syncthreads();
        for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&local[x[i]], 1u);
        __syncthreads(); atomicAdd(&bins[threadIdx.x], local[threadIdx.x]); }"""
    _, bins = engine.call(source, "histogram", 7, 256, x, x.size, np.zeros(256, np.uint32))
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


def test_transpose_with_vectors(engine: Engine, rng: np.random.Generator) -> None:
    """Vector loads and stores would mix up their elements."""
    x = rng.random((64, 4), np.float32)
    source = """extern "C" __global__ void t(const float4 *x, float *y) { float4 v = x[threadIdx.x];
        y[threadIdx.x] = v.x; y[64 + threadIdx.x] = v.y; y[128 + threadIdx.x] = v.z; y[192 + threadIdx.x] = v.w; }"""
    _, y = engine.call(source, "t", 1, 64, x, np.zeros((4, 64), np.float32))
    np.testing.assert_array_equal(y, x.T)


def test_recursion(engine: Engine) -> None:
    """Lanes at different depths of recursion would share registers."""
    source = """__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        extern "C" __global__ void k(int *p) { p[threadIdx.x] = fib(threadIdx.x % 13); }"""
    (result,) = engine.call(source, "k", 1, 64, np.zeros(64, np.int32))
    fibonacci = [0, 1]
    while len(fibonacci) < 13:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    np.testing.assert_array_equal(result, [fibonacci[i % 13] for i in range(64)])


def test_ackermann_deep_recursion(engine: Engine) -> None:
    """The stack of a thread would not grow in a deep recursion."""
    source = """__device__ __noinline__ int a(int m, int n) { return m == 0 ? n + 1 : n == 0 ? a(m - 1, 1) : a(m - 1,
          a(m, n - 1)); }
        extern "C" __global__ void k(int *p) { p[threadIdx.x] = a(2, threadIdx.x); }"""
    (result,) = engine.call(source, "k", 1, 40, np.zeros(40, np.int32))
    np.testing.assert_array_equal(result, [2 * i + 3 for i in range(40)])


def test_function_pointers_and_virtual_calls(engine: Engine) -> None:
    """Calls through function pointers, tables of function pointers, or virtual tables would call wrong functions."""
    source = """__device__ int inc(int x) { return x + 1; } __device__ int dbl(int x) { return x * 2; }
        __device__ int (*table[2])(int) = {inc, dbl};
        struct Shape { int side; __device__ virtual int area() const = 0; };
        struct Square : Shape { __device__ int area() const override { return side * side; } };
        struct Line : Shape { __device__ int area() const override { return -side; } };
        extern "C" __global__ void k(int *p) { int i = threadIdx.x;
          Square s; Line l; s.side = i; l.side = i; Shape *shape = p[i] % 3 ? (Shape *)&s : (Shape *)&l;
          p[i] = table[i & 1](p[i]) * 1000 + shape->area(); }"""
    x = np.arange(50, 114, dtype=np.int32)
    (result,) = engine.call(source, "k", 1, 64, x)
    expected = [(v * 2 if i & 1 else v + 1) * 1000 + (i * i if v % 3 else -i) for i, v in enumerate(range(50, 114))]
    np.testing.assert_array_equal(result, expected)


def test_structs_by_value(engine: Engine) -> None:
    """Structs that are passed to kernels and functions, or returned by functions, would be truncated or shifted."""
    source = """struct S { int a; char b; double c[3]; };
        __device__ __noinline__ S next(S s, int k) { s.c[k] = s.a; s.b++; return s; }
        extern "C" __global__ void k(S s, S *o) { o[threadIdx.x] = next(s, threadIdx.x % 3); }"""
    layout = np.dtype({"names": ["a", "b", "c"], "formats": ["i4", "i1", "3f8"], "offsets": [0, 4, 8], "itemsize": 32})
    given = np.zeros(1, layout)
    given["a"], given["b"], given["c"] = 7, -1, [1.5, 2.5, 3.5]
    (result,) = engine.call(source, "k", 1, 32, given.tobytes(), np.zeros(32, layout))
    expected = np.repeat(given, 32)
    for i in range(32):
        expected[i]["c"][i % 3] = 7
    expected["b"] = 0
    for name in layout.names:
        np.testing.assert_array_equal(result[name], expected[name])


def test_parameter_array_with_dynamic_index(engine: Engine) -> None:
    """An array in a parameter, indexed at run time, would be read at a wrong offset."""
    source = """struct T { int v[16]; }; extern "C" __global__ void k(const __grid_constant__ T t, int *o) {
        o[threadIdx.x] = t.v[(threadIdx.x * 5) % 16]; }"""
    values = np.arange(100, 116, dtype=np.int32)
    (result,) = engine.call(source, "k", 1, 32, values.tobytes(), np.zeros(32, np.int32))
    np.testing.assert_array_equal(result, [values[i * 5 % 16] for i in range(32)])


def test_local_arrays(engine: Engine, rng: np.random.Generator) -> None:
    """Threads would share their local memory."""
    source = """extern "C" __global__ void k(int *p, int n) { int a[32];
        for (int i = 0; i < 32; i++) a[i] = p[threadIdx.x * 32 + i];
        for (int i = 1; i < 32; i++) { int v = a[i], j = i; while (j > 0 && a[j - 1] > v) { a[j] = a[j - 1]; j--; }
          a[j] = v; }
        for (int i = 0; i < 32; i++) p[threadIdx.x * 32 + i] = a[(i + n) % 32]; }"""
    x = rng.integers(-999, 999, (64, 32)).astype(np.int32)
    (result,) = engine.call(source, "k", 1, 64, x, 0)
    np.testing.assert_array_equal(result, np.sort(x, axis=1))


def test_switch_and_divergence(engine: Engine, rng: np.random.Generator) -> None:
    """Lanes on different branches would not all reconverge."""
    source = """extern "C" __global__ void k(int *p) { int v = p[threadIdx.x], r = 0;
        for (int i = 0; i < v % 7; i++) { if (i & 1) continue; if (i == 5) break; r += i + v; }
        switch (v % 9) { case 0: r += 5; break; case 1: r *= 3; case 2: r -= 7; break; case 3: r ^= v; break;
          case 4: r = r * r; break; case 5: r = -r; break; case 6: r += v / 3; break; case 7: r = v % 5;
          default: r += 11; }
        p[threadIdx.x] = r; }"""
    x = rng.integers(0, 1000, 256).astype(np.int32)

    def reference(v: int) -> int:
        r = 0
        for i in range(v % 7):
            if i & 1:
                continue
            if i == 5:
                break
            r += i + v
        case = v % 9
        if case == 0:
            r += 5
        elif case == 1:
            r = r * 3 - 7
        elif case == 2:
            r -= 7
        elif case == 3:
            r ^= v
        elif case == 4:
            r = r * r
        elif case == 5:
            r = -r
        elif case == 6:
            r += v // 3
        elif case == 7:
            r = v % 5 + 11
        else:
            r += 11
        return r

    (result,) = engine.call(source, "k", 1, 256, x)
    np.testing.assert_array_equal(result, [reference(int(v)) for v in x])


def test_spin_lock_between_lanes_of_a_warp(engine: Engine) -> None:
    """Lanes that spin on a lock would prevent the lane that holds it from continuing."""
    source = """extern "C" __global__ void k(int *lock, volatile int *count) {
        while (atomicCAS(lock, 0, 1) != 0) {} *count = *count + 1; __threadfence(); atomicExch(lock, 0); }"""
    _, count = engine.call(source, "k", 4, 64, np.zeros(1, np.int32), np.zeros(1, np.int32), limit=10**8)
    assert count[0] == 256


def test_lanes_that_wait_for_later_lanes(engine: Engine) -> None:
    """A lane that repeats a volatile load, until another lane of its warp has stored, would wait forever."""
    source = """extern "C" __global__ void k(volatile int *flag, int *out) { int i = threadIdx.x;
        if (i < 31) while (flag[i + 1] == 0) {} flag[i] = i + 1; out[i] = i < 31 ? flag[i + 1] : 0; }"""
    _, out = engine.call(source, "k", 1, 32, np.zeros(33, np.int32), np.zeros(32, np.int32), limit=10**8)
    np.testing.assert_array_equal(out, [i + 2 for i in range(31)] + [0])


@pytest.mark.parametrize("order", ["blockIdx.x + 1", "blockIdx.x - 1"])
def test_blocks_that_wait_for_other_blocks(engine: Engine, order: str) -> None:
    """Blocks that wait for other blocks of the grid in a loop would prevent these from running."""
    source = f"""extern "C" __global__ void k(volatile int *flag, int n) {{ unsigned other = {order};
        if (threadIdx.x == 0) {{ if (other < n) while (flag[other] == 0) {{}} flag[blockIdx.x] = 1; }} }}"""
    (flag,) = engine.call(source, "k", 40, 32, np.zeros(40, np.int32), 40, limit=10**9)
    assert flag.all()


def test_warps_that_hand_over_in_shared_memory(engine: Engine) -> None:
    """While one warp of a block waits in a loop, the other warps would not run."""
    source = """extern "C" __global__ void k(int *out) { __shared__ volatile int turn;
          if (threadIdx.x == 0) turn = 7; __syncthreads();
        if (threadIdx.x % 32 == 0) { int w = threadIdx.x / 32; while (turn != w) {}
          out[w] = 100 + w; turn = w - 1; } }"""
    (out,) = engine.call(source, "k", 1, 256, np.zeros(8, np.int32), limit=10**8)
    np.testing.assert_array_equal(out, np.arange(100, 108))


def test_what_printf_returns(engine: Engine) -> None:
    """printf would return the number of characters instead of arguments, or support `%.*f`, unlike on a GPU."""
    source = """extern "C" __global__ void k(int *p) {
        p[0] = printf("none\\n"); p[1] = printf("%d %*d %s\\n", 1, 3, 2, "x");
        p[2] = printf("%.*f\\n", 2, 2.5); }"""
    module = engine.cuda(source)
    out, output = module.buffer(np.zeros(3, np.int32)), []
    assert module.run("k", 1, 1, out, output=output).kind == "none"
    assert "".join(output) == "none\n1   2 x\n%.*f\n"
    assert out.array.tolist() == [0, 4, 0]


def test_printf(engine: Engine) -> None:
    """printf would print wrong values, or print the lanes in the wrong order."""
    source = r"""extern "C" __global__ void k(const char *s, double d) {
        if (threadIdx.x < 2) printf("%d|%5u|%-4d|%x|%#o|%lld|%c|%s|%.3f|%e|%g|%%|%p|%*d\n", -(int)threadIdx.x, 42u,
              7, 255, 8,
          1ll << 40, 'z', "text", d, d, d, (void *)0x1234, 6, 99); }"""
    module = engine.cuda(source)
    output: list[str] = []
    assert module.run("k", 1, 32, module.buffer(np.zeros(4, np.uint8)), 2.5, output=output).kind == "none"
    line = "|   42|7   |ff|010|1099511627776|z|text|2.500|2.500000e+00|2.5|%|0x1234|    99\n"
    assert "".join(output) == "0" + line + "-1" + line


def test_assert_and_trap(engine: Engine) -> None:
    """A failed assert or a trap would not stop the kernel, or the report would not say where it happened."""
    source = """extern "C" __global__ void k(int *p) { assert(p[threadIdx.x] >= 0);
          if (p[threadIdx.x] == 77) __trap(); p[threadIdx.x] = 1; }"""
    module = engine.cuda(source, "-lineinfo")
    values = np.zeros(64, np.int32)
    values[40] = -1
    output: list[str] = []
    fault = module.run("k", 1, 64, module.buffer(values), output=output)
    assert (fault.kind, fault.thread, fault.kernel) == ("assertion", (40, 0, 0), "k")
    assert "block: [0,0,0], thread: [40,0,0] Assertion `p[threadIdx.x] >= 0` failed." in "".join(output)
    values[40] = 77
    fault = module.run("k", 1, 64, module.buffer(values))
    assert (fault.kind, fault.thread, fault.source_line) == ("trap", (40, 0, 0), 2)


def test_device_heap(engine: Engine) -> None:
    """malloc in kernels would return overlapping memory, or allocations would be lost between launches."""
    source = """extern "C" __global__ void make(int **p) { int *m = (int *)malloc(40); for (int i = 0; i < 10;
          i++) m[i] = threadIdx.x * 10 + i;
          p[threadIdx.x] = m; }
        extern "C" __global__ void use(int **p, int *o) { int s = 0; for (int i = 0; i < 10;
          i++) s += p[threadIdx.x][i]; o[threadIdx.x] = s; free(p[threadIdx.x]); }
        extern "C" __global__ void huge(int **p) { p[0] = (int *)malloc(1ull << 40); }"""
    module = engine.cuda(source)
    pointers, out = module.buffer(np.ones(64, np.uint64)), module.buffer(np.zeros(64, np.int32))
    assert module.run("make", 1, 64, pointers).kind == "none"
    assert module.run("use", 1, 64, pointers, out).kind == "none"
    np.testing.assert_array_equal(out.array, [100 * i + 45 for i in range(64)])
    assert module.run("use", 1, 64, pointers, out).kind == "illegal_address"
    assert module.run("huge", 1, 1, pointers).kind == "none"
    assert pointers.array[0] == 0


def test_global_and_constant_variables(engine: Engine) -> None:
    """Variables would not have their initial values, or not keep what kernels write."""
    source = """__constant__ float table[4] = {1, 2, 3, 4}; __device__ int counter = 40;
          __device__ const char *message = "abc";
        __device__ int matrix[2][3] = {{1, 2}, {4}};
        extern "C" __global__ void k(float *o) {
          o[threadIdx.x] = table[threadIdx.x] + message[threadIdx.x % 3] + matrix[threadIdx.x % 2][threadIdx.x % 3];
          if (threadIdx.x == 0) atomicAdd(&counter, 2); }"""
    module = engine.cuda(source)
    out = module.buffer(np.zeros(4, np.float32))
    for _ in range(2):
        assert module.run("k", 1, 4, out).kind == "none"
    matrix = [[1, 2, 0], [4, 0, 0]]
    np.testing.assert_array_equal(out.array, [i + 1 + ord("abc"[i % 3]) + matrix[i % 2][i % 3] for i in range(4)])
    assert module.variables["counter"].array.view(np.int32)[0] == 44


def test_64_bit_indexing(engine: Engine) -> None:
    """Products of indices that exceed 32 bits would be truncated."""
    source = """extern "C" __global__ void k(unsigned long long *o, long long s) { long long i = threadIdx.x - 8ll;
        o[threadIdx.x] = (unsigned long long)(i * s * s) ^ ((unsigned long long)i >> 3); }"""
    (result,) = engine.call(source, "k", 1, 16, np.zeros(16, np.uint64), 3_000_000_019)
    expected = [((i * 3_000_000_019**2) & (2**64 - 1)) ^ ((i & (2**64 - 1)) >> 3) for i in range(-8, 8)]
    np.testing.assert_array_equal(result, np.array(expected, np.uint64))


def test_grid_and_block_shapes(engine: Engine) -> None:
    """The order of threads and blocks in three-dimensional shapes would be wrong."""
    source = """extern "C" __global__ void k(int *o) {
        int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        o[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + t * 100000 + lane; }"""
    shape, block = (3, 2, 4), (5, 3, 2)
    (result,) = engine.call(source, "k", shape, block, np.zeros(24 * 30, np.int32))
    expected = [b * 1000 + t * 100000 + t % 32 for b in range(24) for t in range(30)]
    np.testing.assert_array_equal(result, expected)


@needs_cccl
def test_cooperative_grid_sync(engine: Engine) -> None:
    """Grid-wide synchronisation of cooperative groups would hang or let blocks through early."""
    source = """#include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void k(int *p, int *o) { auto g = cg::this_grid(); int n = g.size(),
          i = g.thread_rank();
          for (int round = 0; round < 3; round++) { p[i] = i + round; g.sync(); o[i] += p[n - 1 - i]; g.sync(); } }"""
    _, o = engine.call(
        source, "k", 24, 64, np.zeros(1536, np.int32), np.zeros(1536, np.int32), cooperative=True, limit=10**9
    )
    np.testing.assert_array_equal(o, 3 * (1535 - np.arange(1536)) + 3)


@needs_cccl
def test_cluster_shared_memory(engine: Engine) -> None:
    """Blocks of a cluster could not access each other's shared memory, or would have wrong ranks."""
    source = """#include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void k(int *p) { auto c = cg::this_cluster(); __shared__ int s[32];
          s[threadIdx.x] = threadIdx.x + blockIdx.x * 100; c.sync();
          int *r = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks());
          p[threadIdx.x + blockIdx.x * 32] = r[threadIdx.x]; atomicAdd(&r[0], 1000); c.sync();
          if (threadIdx.x == 0) p[blockIdx.x * 32] += s[0]; }"""
    (result,) = engine.call(source, "k", 8, 32, np.zeros(256, np.int32), cluster=4)
    result = result.reshape(8, 32)
    for block in range(8):
        other = block // 4 * 4 + (block + 1) % 4
        np.testing.assert_array_equal(result[block, 1:], np.arange(1, 32) + other * 100)
        assert result[block, 0] % 1000 == (other * 100 + block * 100) % 1000


@needs_cccl
def test_cooperative_groups_of_a_warp(engine: Engine, rng: np.random.Generator) -> None:
    """Tiles of a warp would wait for each other, because their lanes execute one instruction with different masks."""
    source = """#include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void k(int *p) { auto t = cg::tiled_partition<8>(cg::this_thread_block());
          int v = p[threadIdx.x]; int s = cg::reduce(t, v, cg::plus<int>()); int m = t.shfl_xor(v, 3); int c = 0;
          if (v & 1) { auto g = cg::coalesced_threads(); c = g.size() * 1000 + g.thread_rank(); }
          p[threadIdx.x] = s * 100000 + m * 10 + c; }"""
    x = rng.integers(0, 9, 64).astype(np.int32)
    (result,) = engine.call(source, "k", 1, 64, x)
    for i, value in enumerate(x):
        tile, warp = i // 8 * 8, i // 32 * 32
        odd = [j for j in range(warp, warp + 32) if x[j] & 1]
        c = len(odd) * 1000 + odd.index(i) if value & 1 else 0
        assert result[i] == x[tile : tile + 8].sum() * 100000 + x[tile + (i - tile ^ 3)] * 10 + c


def test_random_walk_of_many_loops(engine: Engine) -> None:
    """The state of a random generator, in registers during divergent loops, would be mixed up between lanes."""
    source = """extern "C" __global__ void k(unsigned *p) { unsigned s = p[threadIdx.x] | 1, n = 0;
        while (s != 1 && n < 1000) { s = s & 1 ? 3 * s + 1 : s >> 1; n++; } p[threadIdx.x] = n; }"""
    x = np.arange(1, 257, dtype=np.uint32)
    (result,) = engine.call(source, "k", 1, 256, x)

    def collatz(value: int) -> int:
        s, n = value | 1, 0
        while s != 1 and n < 1000:
            s, n = (3 * s + 1 if s & 1 else s >> 1), n + 1
        return n

    np.testing.assert_array_equal(result, [collatz(i) for i in range(1, 257)])


def test_n_body_in_double(engine: Engine, rng: np.random.Generator) -> None:
    """A sequence of operations in double precision, with square roots, would differ from NumPy's results."""
    n = 64
    x = rng.random((n, 3))
    source = """extern "C" __global__ void k(const double *x, double *f, int n) { int i = threadIdx.x; double a = 0;
        for (int j = 0; j < n; j++) { double d = 1e-3; for (int c = 0; c < 3; c++) {
          double r = x[3 * j + c] - x[3 * i + c]; d += r * r; }
          a += 1.0 / (d * sqrt(d)); } f[i] = a; }"""
    _, f = engine.call(source, "k", 1, n, x, np.zeros(n), n)
    distance = ((x[None] - x[:, None]) ** 2).sum(-1) + 1e-3
    np.testing.assert_allclose(f, (distance**-1.5).sum(1), rtol=1e-12)


def test_async_copies(engine: Engine) -> None:
    """cp.async would copy to or from a wrong address, or not fill the rest with zeros."""
    source = """#include <cuda_pipeline.h>
        extern "C" __global__ void k(const int4 *x, int4 *y) { __shared__ int4 s[32];
          __pipeline_memcpy_async(&s[threadIdx.x], x + threadIdx.x, 16, threadIdx.x % 4 * 4); __pipeline_commit();
          __pipeline_wait_prior(0);
          __syncthreads(); y[threadIdx.x] = s[31 - threadIdx.x]; }"""
    x = np.arange(1, 129, dtype=np.int32).reshape(32, 4)
    _, y = engine.call(source, "k", 1, 32, x, np.zeros((32, 4), np.int32))
    expected = x.copy()
    for i in range(32):
        expected[i, 4 - i % 4 :] = 0
    np.testing.assert_array_equal(y, expected[::-1])


def test_mandelbrot(engine: Engine) -> None:
    """Loops whose lanes end at different times would stop early or late."""
    source = """extern "C" __global__ void k(int *o, int w) { int i = blockIdx.x * blockDim.x + threadIdx.x;
        double cx = (i % w) * 3.0 / w - 2, cy = (i / w) * 2.0 / w - 1, x = 0, y = 0; int n = 0;
        while (n < 200 && __dadd_rn(__dmul_rn(x, x), __dmul_rn(y, y)) <= 4) {
          double t = __dadd_rn(__dsub_rn(__dmul_rn(x, x), __dmul_rn(y, y)), cx); y = __dadd_rn(__dmul_rn(__dmul_rn(2,
          x), y), cy); x = t; n++; }
        o[i] = n; }"""
    w = 32
    (result,) = engine.call(source, "k", 4, 256, np.zeros(w * w, np.int32), w)
    for i in range(0, w * w, 37):
        c = complex((i % w) * 3.0 / w - 2, (i // w) * 2.0 / w - 1)
        x = y = 0.0
        n = 0
        while n < 200 and x * x + y * y <= 4:
            x, y, n = x * x - y * y + c.real, 2 * x * y + c.imag, n + 1
        assert result[i] == n


def test_half_precision_dot_product(engine: Engine, rng: np.random.Generator) -> None:
    """Sums of pairs with cuda_fp16.h would not be rounded to half precision."""
    a, b = rng.random(64).astype(np.float16), rng.random(64).astype(np.float16)
    source = """#include <cuda_fp16.h>
        extern "C" __global__ void k(const __half2 *a, const __half2 *b, __half *o) {
          __half2 s = __float2half2_rn(0.f);
          for (int i = 0; i < 32; i++) s = __hfma2(a[i], b[i], s); o[0] = __hadd(__low2half(s), __high2half(s)); }"""
    *_, out = engine.call(source, "k", 1, 1, a, b, np.zeros(1, np.float16))
    sums = [np.float16(0), np.float16(0)]
    for i in range(64):
        sums[i & 1] = np.float16(np.float64(a[i]) * np.float64(b[i]) + np.float64(sums[i & 1]))
    assert out[0] == np.float16(np.float64(sums[0]) + np.float64(sums[1]))
    assert math.isclose(out[0], float(a.astype(float) @ b.astype(float)), rel_tol=0.02)


def test_bulk_copies(engine: Engine) -> None:
    """cp.async.bulk would copy wrong bytes, or not count the bytes on its mbarrier."""
    source = """extern "C" __global__ void k(const int *x, int *y) { __shared__ alignas(16) int s[64];
          __shared__ unsigned long long bar; int i = threadIdx.x;
        unsigned b = (unsigned)__cvta_generic_to_shared(&bar), d = (unsigned)__cvta_generic_to_shared(s);
        if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b)); __syncthreads();
        if (i == 0) {
              asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 240, [%2];"
                :: "r"(d + 16), "l"(x), "r"(b) : "memory");
          asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], 240; }" :: "r"(b) :
              "memory"); }
        int done = 0;
          while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
              "selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
        if (i < 4) s[i] = -i; __syncthreads();
        if (i == 0) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
            " cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
            :: "l"(y), "r"(d) : "memory"); }"""
    x = np.arange(100, 160, dtype=np.int32)
    _, y = engine.call(source, "k", 1, 64, x, np.zeros(64, np.int32), limit=10**7)
    np.testing.assert_array_equal(y, [0, -1, -2, -3, *x])


@needs_cccl
def test_barriers_and_copies_of_libcudacxx(engine: Engine, rng: np.random.Generator) -> None:
    """cuda::barrier and cuda::memcpy_async, or cuda::atomic and its orders, would not work."""
    source = """#include <cuda/barrier>
        #include <cuda/atomic>
        #include <cooperative_groups.h>
        extern "C" __global__ void k(const int *x, int *y, int *total) {
          __shared__ cuda::barrier<cuda::thread_scope_block> bar;
          __shared__ alignas(128) int s[128]; auto g = cooperative_groups::this_thread_block();
          if (threadIdx.x == 0) init(&bar, blockDim.x); g.sync();
          cuda::memcpy_async(g, s, x, cuda::aligned_size_t<16>(sizeof(int) * 128), bar); bar.arrive_and_wait();
          y[threadIdx.x] = s[127 - threadIdx.x]; cuda::atomic_ref<int, cuda::thread_scope_device> t(*total);
          t.fetch_add(s[threadIdx.x], cuda::memory_order_acq_rel); t.fetch_max(3, cuda::memory_order_relaxed); }"""
    x = rng.integers(0, 100, 128).astype(np.int32)
    _, y, total = engine.call(source, "k", 1, 128, x, np.zeros(128, np.int32), np.zeros(1, np.int32), limit=10**7)
    np.testing.assert_array_equal(y, x[::-1])
    assert total[0] == x.sum()


def test_launches_from_many_threads(engine: Engine) -> None:
    """Concurrent launches would use each other's data."""
    module = engine.cuda(
        """extern "C" __global__ void k(int *p, int n) { __shared__ int s; if (threadIdx.x == 0) s = n;
          __syncthreads(); atomicAdd(p, s); }"""
    )

    def launches(n: int) -> int:
        private = engine.ptx(module.text)
        p = private.buffer(np.zeros(1, np.int32))
        for _ in range(20):
            assert private.run("k", 16, 64, p, n).kind == "none"
        return int(p.array[0])

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(launches, range(12))) == [n * 20 * 1024 for n in range(12)]


def test_launch_in_a_forked_child(engine: Engine) -> None:
    """A forked child would wait for the engine's threads, which exist only in the parent."""
    module = engine.cuda('extern "C" __global__ void k(int *p) { atomicAdd(p, 1); }')
    p = module.buffer(np.zeros(1, np.int32))
    assert module.run("k", 64, 64, p).kind == "none"
    child = os.fork()
    if child == 0:
        os._exit(0 if module.run("k", 64, 64, p).kind == "none" and p.array[0] == 8192 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert p.array[0] == 4096
