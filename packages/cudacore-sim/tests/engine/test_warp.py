# SPDX-License-Identifier: Apache-2.0
"""Operations that lanes of a warp, or warps of a block, execute together."""

from __future__ import annotations

import time

import numpy as np
import pytest
from harness import Engine, has_header


def _segments(lane: int, c: int) -> tuple[int, int]:
    clamp, segment = c & 31, c >> 8 & 31
    return lane & segment, (lane & segment) | (clamp & ~segment & 31)


@pytest.mark.parametrize("width", [32, 16, 8, 2])
@pytest.mark.parametrize("mode", ["up", "down", "xor", "idx"])
def test_shuffles(engine: Engine, rng: np.random.Generator, mode: str, width: int) -> None:
    """A shuffle would read from the wrong lane for its mode and width."""
    x = rng.integers(0, 1000, 64).astype(np.int32)
    call = {"up": "__shfl_up_sync", "down": "__shfl_down_sync", "xor": "__shfl_xor_sync", "idx": "__shfl_sync"}[mode]
    source = f"""extern "C" __global__ void k(int *x, int n, int w) {{ x[threadIdx.x] = {call}(~0u, x[threadIdx.x],
          n, {width}); }}"""
    for n in (1, 3, 7):
        (result,) = engine.call(source, "k", 1, 64, x, n, width)
        for i in range(64):
            lane, base = i % 32, i // 32 * 32
            segment = lane // width * width
            if mode == "up":
                source_lane = lane - n if lane - n >= segment else lane
            elif mode == "down":
                source_lane = lane + n if lane + n < segment + width else lane
            elif mode == "xor":
                # A source lane below the segment is valid; a source lane above the segment is not.
                source_lane = lane ^ n if lane ^ n < segment + width else lane
            else:
                source_lane = segment + n % width
            assert result[i] == x[base + source_lane], (i, mode, width, n)


def test_votes_and_matches(engine: Engine, rng: np.random.Generator) -> None:
    """A vote or match would include lanes that do not take part, or omit lanes that do."""
    x = rng.integers(0, 4, 96).astype(np.int32)
    x[64:] = 2
    source = """extern "C" __global__ void k(const int *x, unsigned *o) { int v = x[threadIdx.x], p;
          unsigned *q = o + threadIdx.x * 8;
        q[0] = __ballot_sync(~0u, v > 1); q[1] = __any_sync(~0u, v == 3); q[2] = __all_sync(~0u, v == 2);
          q[3] = __match_any_sync(~0u, v);
        q[4] = __match_all_sync(~0u, v, &p); q[5] = p; if (v & 1) { q[6] = __ballot_sync(__activemask(), v == 3);
          q[7] = __activemask(); }
        else { q[6] = __match_any_sync(__activemask(), (long long)v << 40); q[7] = __activemask(); } }"""
    _, out = engine.call(source, "k", 1, 96, x, np.zeros((96, 8), np.uint32))
    for i in range(96):
        warp = x[i // 32 * 32 : i // 32 * 32 + 32]

        def mask(condition: np.ndarray) -> int:
            return sum(1 << j for j in range(32) if condition[j])

        same_side = (warp & 1) == (x[i] & 1)
        expected = [mask(warp > 1), int((warp == 3).any()), int((warp == 2).all()), mask(warp == x[i])]
        uniform = bool((warp == x[i]).all())
        expected += [0xFFFFFFFF if uniform else 0, int(uniform)]
        expected += [mask(warp == 3) if x[i] & 1 else mask(warp == x[i]), mask(same_side)]
        assert out[i].tolist() == expected


def test_warp_reductions(engine: Engine, rng: np.random.Generator) -> None:
    """redux would use the wrong operation, or treat signed numbers as unsigned ones."""
    x = rng.integers(-1000, 1000, 32).astype(np.int32)
    source = """extern "C" __global__ void k(const int *x, int *o) { int v = x[threadIdx.x];
          int *q = o + threadIdx.x * 8;
        q[0] = __reduce_add_sync(~0u, v); q[1] = __reduce_min_sync(~0u, v); q[2] = __reduce_max_sync(~0u, v);
        q[3] = __reduce_max_sync(~0u, (unsigned)v); q[4] = __reduce_and_sync(~0u, (unsigned)v);
          q[5] = __reduce_or_sync(~0u, (unsigned)v); q[6] = __reduce_xor_sync(~0u, (unsigned)v);
        unsigned half = threadIdx.x < 16 ? 0xffffu : 0xffff0000u; q[7] = __reduce_add_sync(half, v); }"""
    _, out = engine.call(source, "k", 1, 32, x, np.zeros((32, 8), np.int32))
    u = x.view(np.uint32)
    expected = [
        x.sum(),
        x.min(),
        x.max(),
        u.max().view(np.int32),
        np.bitwise_and.reduce(x),
        np.bitwise_or.reduce(x),
        np.bitwise_xor.reduce(x),
    ]
    for i in range(32):
        assert out[i].tolist() == [*(int(v) for v in expected), int(x[:16].sum() if i < 16 else x[16:].sum())]


def test_shuffle_after_divergence(engine: Engine) -> None:
    """A shuffle would run before all of its lanes have arrived from divergent branches."""
    source = """extern "C" __global__ void k(int *o) { int i = threadIdx.x, v = 0; for (int j = 0; j < i * 7 % 13;
          j++) v += j * i;
        if (i % 3 == 0) { v = v * 2 + 1; } else if (i % 3 == 1) { v ^= 5; }
        __syncwarp(); o[i] = __shfl_sync(~0u, v, (i + 5) % 32); }"""
    (out,) = engine.call(source, "k", 1, 32, np.zeros(32, np.int32))

    def value(i: int) -> int:
        v = sum(j * i for j in range(i * 7 % 13))
        return v * 2 + 1 if i % 3 == 0 else v ^ 5 if i % 3 == 1 else v

    np.testing.assert_array_equal(out, [value((i + 5) % 32) for i in range(32)])


def test_syncwarp_in_different_branches(engine: Engine) -> None:
    """__syncwarp would never complete if lanes call it in different branches."""
    source = """extern "C" __global__ void k(int *o) { __shared__ volatile int s[32]; int i = threadIdx.x;
        if (i < 16) { s[i] = i * 10; __syncwarp(); o[i] = s[31 - i]; }
        else { s[i] = i * 100; __syncwarp(); o[i] = s[31 - i]; } }"""
    (out,) = engine.call(source, "k", 1, 32, np.zeros(32, np.int32), limit=10**7)
    np.testing.assert_array_equal(out, [(31 - i) * (10 if 31 - i < 16 else 100) for i in range(32)])


def test_partial_warps_and_early_exits(engine: Engine) -> None:
    """Barriers and warp operations would wait for threads that have returned."""
    source = """extern "C" __global__ void k(int *o, int n) { if (threadIdx.x >= n) return; __syncthreads();
        unsigned m = __activemask(); o[threadIdx.x] = __popc(m) * 100 + __shfl_sync(m, (int)threadIdx.x, 0);
          __syncthreads();
        if (threadIdx.x == 0) o[0] += 100000; }"""
    (out,) = engine.call(source, "k", 1, 77, np.zeros(77, np.int32), 45)
    expected = [(32 if i < 32 else 13) * 100 + i // 32 * 32 for i in range(45)] + [0] * 32
    expected[0] += 100000
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("condition", ["i % 4 == 0", "i % 4 != 0"])
def test_lanes_that_come_to_a_barrier_one_after_another(engine: Engine, condition: str) -> None:
    """A barrier would complete although only some lanes of a warp have arrived."""
    source = f"""extern "C" __global__ void k(int *o, int n) {{ __shared__ volatile int s[64]; int i = threadIdx.x;
        s[i] = -1;
        asm volatile("barrier.sync 0;" ::: "memory");
        if ({condition}) {{ s[i] = i * 3; asm volatile("barrier.sync 0;" ::: "memory"); o[i] = s[63 - i]; }}
        else {{ for (int j = 0; j < n * i; j++) s[i] = j; s[i] = i * 3;
          asm volatile("barrier.sync 0;" ::: "memory"); o[i] = s[63 - i]; }} }}"""
    (out,) = engine.call(source, "k", 1, 64, np.zeros(64, np.int32), 3000, limit=10**8)
    np.testing.assert_array_equal(out, [(63 - i) * 3 for i in range(64)])


def test_block_wide_votes(engine: Engine, rng: np.random.Generator) -> None:
    """__syncthreads_count, _and or _or would return wrong results, or the result of an earlier barrier."""
    x = rng.integers(0, 10, 200).astype(np.int32)
    source = """extern "C" __global__ void k(const int *x, int *o) { int v = x[threadIdx.x];
          int *q = o + threadIdx.x * 4;
        q[0] = __syncthreads_count(v > 4); q[1] = __syncthreads_and(v >= 0); q[2] = __syncthreads_or(v > 9);
        q[3] = __syncthreads_count(v & 1); }"""
    _, out = engine.call(source, "k", 1, 200, x, np.zeros((200, 4), np.int32))
    assert (out == [(x > 4).sum(), 1, 0, (x & 1).sum()]).all()


def test_named_barriers_between_producers_and_consumers(engine: Engine) -> None:
    """bar.arrive would wait, or a barrier for some of the warps would wait for all warps."""
    source = """extern "C" __global__ void k(int *o) { __shared__ int s[32]; int i = threadIdx.x;
        for (int r = 0; r < 4; r++) {
          if (i < 32) { asm volatile("bar.sync 2, 64;" ::: "memory"); s[i] = i * 10 + r; __threadfence_block();
              asm volatile("bar.arrive 1, 64;" ::: "memory"); }
          else { asm volatile("bar.arrive 2, 64;" ::: "memory"); asm volatile("bar.sync 1, 64;" ::: "memory");
            o[(i - 32) * 4 + r] = s[63 - i]; } } }"""
    (out,) = engine.call(source, "k", 1, 64, np.zeros((32, 4), np.int32), limit=10**7)
    np.testing.assert_array_equal(out, [[(31 - i) * 10 + r for r in range(4)] for i in range(32)])


def test_elect(engine: Engine) -> None:
    """elect.sync would choose no lane or several lanes."""
    source = """extern "C" __global__ void k(int *o) { int p;
          asm volatile("{ .reg .pred q; .reg .b32 d; elect.sync d|q, 0xffffffff; selp.b32 %0, 1, 0, q; }" : "=r"(p));
        o[threadIdx.x] = p; }"""
    (out,) = engine.call(source, "k", 1, 64, np.zeros(64, np.int32))
    assert out.reshape(2, 32).sum(1).tolist() == [1, 1]


def test_mbarrier_of_a_block(engine: Engine) -> None:
    """Arrivals on an mbarrier would be lost, or its phase would not change."""
    source = """extern "C" __global__ void k(int *o) { __shared__ unsigned long long bar; __shared__ int s[64];
          int i = threadIdx.x;
        unsigned a = (unsigned)__cvta_generic_to_shared(&bar);
        if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(a), "r"(64)); __syncthreads();
        for (int r = 0; r < 3; r++) { s[i] = i + r;
          asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" :: "r"(a) : "memory");
          int done = 0;
          while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
              "selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(a), "r"(r & 1) : "memory");
          o[i * 3 + r] = s[63 - i]; __syncthreads(); } }"""
    (out,) = engine.call(source, "k", 1, 64, np.zeros((64, 3), np.int32), limit=10**7)
    np.testing.assert_array_equal(out, [[63 - i + r for r in range(3)] for i in range(64)])


@pytest.mark.parametrize("name", ["barrier", "arrive_wait"])
def test_hang_is_reported(engine: Engine, name: str) -> None:
    """A barrier that cannot complete would hang the process."""
    body = {
        "barrier": 'if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");',
        "arrive_wait": "if (threadIdx.x == 0) __shfl_sync(3u, 1, 0); else { __syncthreads(); }",
    }[name]
    module = engine.cuda(f'extern "C" __global__ void k() {{ {body} }}')
    fault = module.run("k", 1, 64, limit=10**7)
    assert (fault.kind, fault.kernel) == ("hang", "k")
    assert "never complete" in fault.detail


def test_endless_loop_meets_the_limit(engine: Engine) -> None:
    """The limit on the number of instructions would not end an endless loop."""
    module = engine.cuda('extern "C" __global__ void k(volatile int *p) { while (*p == 0) {} }')
    assert module.run("k", 4, 64, module.buffer(np.zeros(1, np.int32)), limit=100_000).kind == "hang"


def test_endless_calls_meet_the_limit(engine: Engine) -> None:
    """The limit on the number of instructions would not end an endless loop of function calls."""
    module = engine.cuda(
        """__device__ __noinline__ unsigned f(unsigned n) { return n * 2 + 1; }
        extern "C" __global__ void k(unsigned *p) { unsigned n = p[0]; while (n != 4) n = f(n); p[0] = n; }"""
    )
    assert module.run("k", 1, 64, module.buffer(np.zeros(1, np.int32)), limit=100_000).kind == "hang"


def test_special_registers(engine: Engine) -> None:
    """Special registers that describe the launch would have wrong values."""
    names = [
        "laneid",
        "warpid",
        "nctaid.y",
        "ntid.x",
        "lanemask_eq",
        "lanemask_lt",
        "lanemask_le",
        "lanemask_gt",
        "lanemask_ge",
        "nsmid",
        "dynamic_smem_size",
    ]
    lines = [
        ".reg .b64 %a, %i; .reg .b32 %r; ld.param.u64 %a, [out];",
        "mov.u32 %r, %tid.x; cvt.u64.u32 %i, %r; mad.lo.u64 %a, %i, 44, %a;",
    ]
    lines += [f"mov.u32 %r, %{name}; st.global.u32 [%a+{4 * i}], %r;" for i, name in enumerate(names)]
    module = engine.body("\n".join(lines))
    out = module.buffer(np.zeros((64, len(names)), np.uint32))
    assert module.run("k", (1, 3), 64, out, shared=48).kind == "none"
    for i in range(64):
        lane = i % 32
        lt, full = (1 << lane) - 1, 0xFFFFFFFF
        le = lt | 1 << lane
        assert out.array[i].tolist() == [lane, i // 32, 3, 64, 1 << lane, lt, le, full & ~le, full & ~lt, 132, 48]


@pytest.mark.skipif(not has_header("nv/target"), reason="needs the wheel nvidia-cuda-cccl for cooperative_groups.h")
def test_tiles_of_several_warps(engine: Engine) -> None:
    """Code with tiles of several warps, which need reserved shared memory, would not load, or compute wrong results."""
    source = """#include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void k(int *out) {
          auto tile = cg::tiled_partition<64>(cg::this_thread_block());
          int *mine = out + threadIdx.x * 4; int x = threadIdx.x;
          mine[0] = tile.shfl(x, 40); tile.sync();
          mine[1] = cg::reduce(tile, x, cg::plus<int>());
          mine[2] = tile.any(x == 70); mine[3] = tile.meta_group_rank(); }"""
    (out,) = engine.call(source, "k", 2, 192, np.zeros((192, 4), np.int32), limit=10**6)
    for i, row in enumerate(out.tolist()):
        first = i // 64 * 64
        assert row == [first + 40, sum(range(first, first + 64)), int(first == 64), i // 64]


def test_nanosleep_takes_its_time(engine: Engine) -> None:
    """nanosleep would return at once, or a warp would wait until another warp's sleep ends."""
    source = """extern "C" __global__ void k(long long *begin, long long *end, unsigned ns) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin[threadIdx.x]));
        __nanosleep(threadIdx.x % 2 ? ns : 0);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end[threadIdx.x])); }"""
    module = engine.cuda(source)
    begins, ends = (module.buffer(np.zeros(256, np.int64)) for _ in range(2))

    def sleep_together() -> bool:
        """Let every second lane of eight warps sleep; return whether all lanes began before the first one awoke."""
        assert module.run("k", 1, 256, begins, ends, 900_000).kind == "none"
        times = ends.array - begins.array
        assert times[1::2].min() >= 900_000
        return bool(times[0::2].min() < 900_000 and begins.array.max() < ends.array[1::2].min())

    assert any(sleep_together() for _ in range(20))  # any: a busy machine can delay some of the runs
    # nanosleep takes at most a millisecond.
    begin = time.perf_counter()
    assert module.run("k", 1, 1, begins, ends, 0).kind == module.run("k", 1, 2, begins, ends, 0xFFFFFFFF).kind == "none"
    assert 1e-3 <= time.perf_counter() - begin < 1


def test_blocks_sleep_at_the_same_time(engine: Engine) -> None:
    """Blocks would sleep one after another, or a working block would wait for sleeping ones."""
    source = """extern "C" __global__ void k(int *flag) {
        if (blockIdx.x) for (int i = 0; i < 20; i++) __nanosleep(1000000);
        else { while (atomicAdd(flag, 0) < 1000) atomicAdd(flag, 1); } }"""
    module = engine.cuda(source)
    flag = module.buffer(np.zeros(1, np.int32))
    begin = time.perf_counter()
    assert module.run("k", 100, 1, flag).kind == "none"
    assert 0.02 <= time.perf_counter() - begin < 1.0
    assert flag.array[0] == 1000
