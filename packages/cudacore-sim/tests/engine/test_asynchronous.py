# SPDX-License-Identifier: Apache-2.0
"""Asynchronous stores, additions and bulk reductions, compared with NumPy; and unsupported forms of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import CompileError, Engine

COUNTED = "mbarrier::complete_tx::bytes"
BULK = "cp.reduce.async.bulk.global.shared::cta.bulk_group"

# BEGIN initializes an mbarrier, in thread 0 of each block. WAIT waits for the end of the mbarrier's first phase.
BEGIN = """
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .f32 %f<2>; .reg .f64 %fd<2>;
  .shared .align 16 .b8 tile[1024]; .shared .align 16 .b8 sums[1024]; .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
  mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, sums; mov.u32 %r4, bar; mov.u32 %r5, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};
"""
WAIT = """
again:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0;
  @!%p2 bra again;
"""
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"
PARAMETERS = ".param .u64 out, .param .u64 in"


def run(engine: Engine, body: str, out: np.ndarray, source: np.ndarray, *, bytes_: int = 0, grid: int = 1) -> None:
    """Run a kernel of 32 threads in each block, with all blocks in one cluster; `out` receives the results."""
    module = engine.body(BEGIN.format(bytes=bytes_) + body, parameters=PARAMETERS, version="8.1")
    places = module.buffer(out), module.buffer(source)
    fault = module.run("k", grid, 32, *places, cluster=grid, limit=10**6)
    assert fault.kind == "none", fault
    out[...] = places[0].array


@pytest.mark.parametrize(
    ("vector", "type_", "bytes_"),
    [("", "b32", 4), ("", "f64", 8), (".v2", "s32", 8), (".v4", "u32", 16), (".v2", "b64", 16)],
)
def test_stores_reach_the_other_block(engine: Engine, vector: str, type_: str, bytes_: int) -> None:
    """st.async would store to a wrong place, store wrong values, or count its bytes on a wrong mbarrier."""
    elements = bytes_ // (int(type_[1:]) // 8)
    register = {"f64": "fd", "b64": "rd"}.get(type_, "r")
    names = {"fd": ["%fd1"], "rd": ["%rd4", "%rd5"], "r": ["%r8", "%r9", "%r10", "%r11"]}[register][:elements]
    load = "".join(f"ld.global.{type_} {name}, [%rd3+{i * bytes_ // elements}];" for i, name in enumerate(names))
    back = "".join(
        f"ld.shared.{type_} {name}, [%r2+{32 + at}]; st.global.{type_} [%rd3+{at}], {name};"
        for at, name in zip(range(0, bytes_, bytes_ // elements), names, strict=True)
    )
    value = "{" + ", ".join(names) + "}" if vector else names[0]
    body = f"""
      {SYNC}
      mad.lo.u32 %r6, %r5, 32, %r1; mul.lo.u32 %r6, %r6, {bytes_};
      cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd3, %rd2;
      {load}
      xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r7, %r4, %r6;
      mad.lo.u32 %r2, %r1, {bytes_}, %r2; mapa.shared::cluster.u32 %r3, %r2, %r6;
      st.async.weak.shared::cluster.{COUNTED}{vector}.{type_} [%r3+32], {value}, [%r7];
      {WAIT}
      mad.lo.u32 %r6, %r5, 32, %r1; mul.lo.u32 %r6, %r6, {bytes_};
      cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd3, %rd1;
      {back}
      {SYNC}"""
    source = np.arange(1, 1 + 2 * 32 * bytes_ // 4, dtype=np.uint32)
    out = np.zeros_like(source)
    run(engine, body, out, source, bytes_=32 * bytes_, grid=2)
    np.testing.assert_array_equal(out, np.roll(source, len(source) // 2))


KINDS = {
    "u32": np.uint32,
    "s32": np.int32,
    "b32": np.uint32,
    "u64": np.uint64,
    "s64": np.int64,
    "b64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda a, b: np.where(a >= b, 0, a + 1),
    "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
}
REDUCTIONS = [
    *("add.u32", "add.s32", "add.u64", "min.u32", "min.s32", "max.u32", "max.s32"),
    *("and.b32", "or.b32", "xor.b32", "inc.u32", "dec.u32"),
]
MORE_IN_GLOBAL = [
    *("add.f32", "add.f64", "add.noftz.f16", "min.f16", "max.f16", "min.s64", "max.u64"),
    *("and.b64", "or.b64", "xor.b64"),
]


def reduction(name: str) -> tuple[type, Callable[[Any, Any], Any]]:
    """Return the element type and the NumPy function of a reduction."""
    operation, *_, kind = name.split(".")
    return KINDS[kind], FUNCTIONS[operation]


def numbers(rng: np.random.Generator, kind: type, count: int) -> np.ndarray:
    if np.issubdtype(kind, np.floating):
        return rng.normal(size=count).astype(kind)
    return np.concatenate([rng.integers(0, 3, count // 2), rng.integers(-(2**31), 2**31, count - count // 2)]).astype(
        kind
    )


@pytest.mark.parametrize("name", REDUCTIONS)
def test_sums_in_the_other_block(engine: Engine, name: str, rng: np.random.Generator) -> None:
    """red.async would compute wrong results, change a wrong place, or not count its bytes on the mbarrier."""
    kind, expected = reduction(name)
    size = np.dtype(kind).itemsize
    bits, value = ("b64", "%rd4") if size == 8 else ("b32", "%r8")
    body = f"""
      mad.lo.u32 %r6, %r5, 64, %r1; mul.lo.u32 %r6, %r6, {size}; cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd3, %rd2;
      mad.lo.u32 %r2, %r1, {size}, %r2;
      ld.global.{bits} {value}, [%rd3]; st.shared.{bits} [%r2], {value};
      ld.global.{bits} {value}, [%rd3+{32 * size}];
      {SYNC}
      xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r7, %r4, %r6; mapa.shared::cluster.u32 %r3, %r2, %r6;
      red.async.relaxed.cluster.shared::cluster.{COUNTED}.{name} [%r3], {value}, [%r7];
      {WAIT}
      mad.lo.u32 %r6, %r5, 32, %r1; mul.lo.u32 %r6, %r6, {size}; cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd3, %rd1;
      ld.shared.{bits} {value}, [%r2]; st.global.{bits} [%rd3], {value};
      {SYNC}"""
    source = numbers(rng, kind, 128).reshape(2, 2, 32)  # for each block: initial data, and data to send
    out: np.ndarray[Any, Any] = np.zeros((2, 32), kind)
    flat = out.reshape(-1)
    run(engine, body, flat, source.reshape(-1), bytes_=32 * size, grid=2)
    np.testing.assert_array_equal(flat.reshape(2, 32), expected(source[:, 0], source[::-1, 1]))


@pytest.mark.parametrize("name", [*REDUCTIONS, *MORE_IN_GLOBAL])
def test_bulk_reductions_of_global_memory(engine: Engine, name: str, rng: np.random.Generator) -> None:
    """cp.reduce.async.bulk would compute wrong results, or change elements beside its range."""
    kind, expected = reduction(name)
    source = numbers(rng, kind, 256 // np.dtype(kind).itemsize)
    out = numbers(rng, kind, len(source) + 16)
    before = out.copy()
    body = f"""
      mul.lo.u32 %r6, %r1, 8; cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd3, %rd2;
      ld.global.b64 %rd4, [%rd3]; add.u32 %r6, %r6, %r2; st.shared.b64 [%r6], %rd4;
      fence.proxy.async.shared::cta; bar.sync 0;
      @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%rd1+16], [%r2], 256;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"""
    run(engine, body, out, source)
    first = 16 // np.dtype(kind).itemsize
    wanted = before.copy()
    wanted[first : first + len(source)] = expected(before[first : first + len(source)], source)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_bulk_reductions_of_shared_memory(engine: Engine, name: str, rng: np.random.Generator) -> None:
    """cp.reduce.async.bulk to shared memory would compute wrong results, or its mbarrier would never complete."""
    kind, expected = reduction(name)
    source, out = (numbers(rng, kind, 256 // np.dtype(kind).itemsize) for _ in range(2))
    before = out.copy()
    copy = "ld.global.b64 %rd4, [{0}]; st.shared.b64 [{1}], %rd4;"
    body = f"""
      mul.lo.u32 %r6, %r1, 8; cvt.u64.u32 %rd3, %r6; add.u64 %rd4, %rd3, %rd2; add.u64 %rd3, %rd3, %rd1;
      add.u32 %r7, %r6, %r2; ld.global.b64 %rd4, [%rd4]; st.shared.b64 [%r7], %rd4;
      add.u32 %r7, %r6, %r3; {copy.format("%rd3", "%r7")}
      bar.sync 0;
      @%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.{COUNTED}.{name} [%r3], [%r2], 256, [%r4];
      {WAIT}
      ld.shared.b64 %rd4, [%r7]; st.global.b64 [%rd3], %rd4;"""
    run(engine, body, out, source, bytes_=256)
    np.testing.assert_array_equal(out, expected(before, source))


@pytest.mark.parametrize(
    ("instruction", "kind", "said"),
    [
        (f"{BULK}.add.u32 [%rd1], [%r2], 24;", "misaligned_address", "16"),
        (f"{BULK}.add.u32 [%rd1+4], [%r2], 16;", "misaligned_address", "16"),
        (f"{BULK}.add.u32 [%rd1], [%r2+4], 16;", "misaligned_address", "16"),
        (f"{BULK}.add.u32 [%rd1], [%r2], 512;", "illegal_address", ""),
        (f"{BULK}.add.u32 [%rd1], [%r2+8192], 16;", "illegal_address", "bytes of shared"),
        (f"st.async.weak.shared::cluster.{COUNTED}.b32 [%r2+8192], %r1, [%r4];", "illegal_address", "bytes of shared"),
        (f"st.async.weak.shared::cluster.{COUNTED}.b32 [%r2], %r1, [%r4+8192];", "illegal_address", "bytes of shared"),
        (f"st.async.weak.shared::cluster.{COUNTED}.v2.b32 [%r2+4], {{%r1, %r1}}, [%r4];", "misaligned_address", "8"),
        (f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.add.u32 [%r2+8192], %r1, [%r4];", "illegal_address", ""),
    ],
)
def test_faults(engine: Engine, instruction: str, kind: str, said: str) -> None:
    """An access outside of memory, or a misaligned access, would not be a fault."""
    module = engine.body(BEGIN.format(bytes=64) + instruction, parameters=PARAMETERS, version="8.1")
    fault = module.run("k", 1, 1, module.buffer(np.zeros(64, np.uint32)), module.buffer(np.zeros(4, np.uint32)))
    assert fault.kind == kind
    assert said in fault.detail


THERE = f"{COUNTED}{{0}} [%r7], {{1}}, [{{2}}];"


@pytest.mark.parametrize(
    "instruction",
    [
        "st.async.weak.shared::cluster." + THERE.format(".b32", "%r1", "{}"),
        "red.async.relaxed.cluster.shared::cluster." + THERE.format(".add.u32", "%r1", "{}"),
        "cp.async.bulk.shared::cluster.shared::cta." + THERE.format("", "[%r2], 16", "{}"),
        "cp.async.bulk.shared::cluster.global." + THERE.format("", "[%rd2], 16", "{}"),
        "cp.reduce.async.bulk.shared::cluster.shared::cta." + THERE.format(".add.u32", "[%r2], 16", "{}"),
    ],
)
def test_the_mbarrier_is_where_the_data_goes(engine: Engine, instruction: str) -> None:
    """An mbarrier in another block than the data, which faults on a GPU, would be accepted."""
    for place, is_right in (("%r8", True), ("%r4", False)):
        body = f"""
          xor.b32 %r6, %r5, 1;
          mapa.shared::cluster.u32 %r7, %r2, %r6; mapa.shared::cluster.u32 %r8, %r4, %r6;
          {SYNC}
          setp.ne.or.u32 %p2, %r5, 0, !%p1;
          @!%p2 {instruction.format(place)}
          {SYNC}"""
        module = engine.body(BEGIN.format(bytes=0) + body, parameters=PARAMETERS, version="8.1")
        places = [module.buffer(np.zeros(64, np.uint32)) for _ in range(2)]
        fault = module.run("k", 2, 32, *places, cluster=2)
        assert fault.kind == ("none" if is_right else "illegal_address"), fault
        assert is_right or "is in block 0 of the cluster, and what it counts goes to block 1" in fault.detail


@pytest.mark.parametrize(
    "instruction",
    [
        f"st.async.weak.shared::cta.{COUNTED}.b32 [%r2], %r1, [%r4];",
        f"st.async.weak.{COUNTED}.b32 [%r2], %r1, [%r4];",
        "st.async.weak.shared::cluster.b32 [%r2], %r1, [%r4];",
        f"st.async.weak.shared::cluster.{COUNTED}.b8 [%r2], %r1, [%r4];",
        f"red.async.release.cluster.shared::cluster.{COUNTED}.add.u32 [%r2], %r1, [%r4];",
        f"red.async.relaxed.gpu.shared::cluster.{COUNTED}.add.u32 [%r2], %r1, [%r4];",
        f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.exch.b32 [%r2], %r1, [%r4];",
        f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.add.f32 [%r2], %f1, [%r4];",
        f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.min.u64 [%r2], %rd1, [%r4];",
        "cp.reduce.async.bulk.global.shared::cluster.bulk_group.add.u32 [%rd1], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd1], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f32 [%rd1], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.exch.b32 [%rd1], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.noftz.f16 [%rd1], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f16x2 [%rd1], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd1], [%r2], 16;",
        f"cp.reduce.async.bulk.global.shared::cta.{COUNTED}.add.u32 [%rd1], [%r2], 16, [%r4];",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{COUNTED}.add.f32 [%r3], [%r2], 16, [%r4];",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{COUNTED}.max.f16 [%r3], [%r2], 16, [%r4];",
        "red.global.min.noftz.f16x2 [%rd1], %r1;",
        "red.global.min.v2.f16x2 [%rd1], {%r1, %r1};",
    ],
)
def test_what_there_is_not(engine: Engine, instruction: str) -> None:
    """An instruction that the GPU does not have, or whose results are undefined, would be accepted."""
    with pytest.raises(CompileError) as caught:
        engine.body(BEGIN.format(bytes=64) + instruction, parameters=PARAMETERS, version="8.1")
    assert caught.value.failure == "unsupported_instruction", caught.value.log
    assert f"unknown instruction '{instruction.split()[0]}'" in caught.value.log


def test_bulk_copies_to_several_blocks(engine: Engine) -> None:
    """A bulk copy to several blocks would miss one, reach another one, or signal only one mbarrier."""
    body = f"""
      {SYNC}
      .reg .b16 %h; setp.eq.u32 %p1, %r5, 0; and.b32 %r6, %r1, 31; setp.eq.and.u32 %p1, %r6, 0, %p1;
      mov.u16 %h, 5; mov.u32 %r7, 64;
      @%p1 cp.async.bulk.shared::cluster.global.{COUNTED}.multicast::cluster [%r2], [%rd2], %r7, [%r4], %h;
      setp.eq.u32 %p1, %r5, 1;
      @%p1 bra done;
      {WAIT}
    done:
      mad.lo.u32 %r6, %r1, 4, %r2; ld.shared.u32 %r8, [%r6];
      mad.lo.u32 %r6, %r5, 32, %r1; mad.wide.u32 %rd3, %r6, 4, %rd1; st.global.u32 [%rd3], %r8;
      {SYNC}"""
    source = np.arange(1, 17, dtype=np.uint32)
    out = np.full(96, 7, np.uint32)
    run(engine, body, out, source, bytes_=64, grid=3)
    expected = np.zeros((3, 32), np.uint32)
    expected[[0, 2], :16] = source
    np.testing.assert_array_equal(out, expected.ravel())


def test_bulk_copies_of_some_bytes(engine: Engine) -> None:
    """A bulk copy with a mask would copy other bytes."""
    module = engine.body(
        """.reg .b64 %rd; .reg .b32 %r<4>; .reg .b16 %h; .shared .align 16 .b8 tile[32]; ld.param.u64 %rd, [out];
      mov.u32 %r1, tile; mov.u32 %r2, 32; mov.u32 %r3, 0x01010101; mov.u16 %h, 0x8005;
      st.shared.v4.u32 [%r1], {%r3, %r3, %r3, %r3}; st.shared.v4.u32 [%r1+16], {%r3, %r3, %r3, %r3};
      cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd], [%r1], %r2, %h;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""",
        target="sm_100",
        version="8.6",
    )
    out = module.buffer(np.zeros(32, np.uint8))
    assert module.run("k", 1, 1, out).kind == "none"
    assert np.flatnonzero(out.array).tolist() == [0, 2, 15, 16, 18, 31]


def test_a_dropped_arrival_expects_bytes(engine: Engine) -> None:
    """arrive_drop.expect_tx would not count its bytes, not arrive, or arrive in the next phase, too."""
    module = engine.body(
        """.reg .b64 %rd, %s; .reg .b32 %r<4>; .reg .pred %p<5>; .shared .align 8 .b8 bar[8]; ld.param.u64 %rd, [out];
      mov.u32 %r1, bar;
      mbarrier.init.shared.b64 [%r1], 2;
      mbarrier.arrive_drop.expect_tx.shared::cta.b64 %s, [%r1], 16;
      mbarrier.arrive.shared.b64 %s, [%r1];
      mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;
      mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;
      mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;
      mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 1;
      mbarrier.arrive.shared.b64 %s, [%r1];
      mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 1;
      selp.u32 %r2, 1, 0, %p1; st.global.u32 [%rd], %r2; selp.u32 %r2, 1, 0, %p2; st.global.u32 [%rd+4], %r2;
      selp.u32 %r2, 1, 0, %p3; st.global.u32 [%rd+8], %r2; selp.u32 %r2, 1, 0, %p4; st.global.u32 [%rd+12], %r2;"""
    )
    out = module.buffer(np.full(4, 7, np.uint32))
    assert module.run("k", 1, 1, out).kind == "none"
    assert out.array.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("operands", "expected"), [("%hint", [1, 2]), ("4, %hint", [1, 0]), ("%ignored, %hint", [0, 0])]
)
def test_copies_with_a_cache_hint(engine: Engine, operands: str, expected: list[int]) -> None:
    """The cache hint of cp.async would count as the number of bytes to copy, or would be refused."""
    module = engine.body(
        f""".reg .b64 %rd, %hint; .reg .b32 %r<4>; .reg .pred %ignored; .shared .align 8 .b8 tile[8];
      ld.param.u64 %rd, [out]; mov.u32 %r1, tile; setp.eq.u32 %ignored, %r1, %r1;
      createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %hint, [%rd], 8, 8;
      cp.async.bulk.prefetch.L2.global [%rd], 16;
      cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd], 8, {operands};
      cp.async.wait_all;
      ld.shared.v2.u32 {{%r2, %r3}}, [%r1]; st.global.v2.u32 [%rd+8], {{%r2, %r3}};"""
    )
    out = module.buffer(np.array([1, 2, 7, 7], np.uint32))
    assert module.run("k", 1, 1, out).kind == "none"
    assert out.array[2:].tolist() == expected
