# SPDX-License-Identifier: Apache-2.0
"""Instructions of compute capability 10.0 and later, compared with NumPy and with the formats of ml_dtypes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from elements import LANES, floats, same
from harness import CompileError, Engine

F32 = np.float32


def _minifloat(codes: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Return the numbers that codes of a format without infinities and NaNs stand for."""
    codes = codes.astype(np.int64)
    sign = np.where(codes >> (exponent_bits + mantissa_bits) & 1, -1.0, 1.0)
    exponent = codes >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = (codes & ((1 << mantissa_bits) - 1)) / 2.0**mantissa_bits
    bias = (1 << (exponent_bits - 1)) - 1
    return sign * np.ldexp(np.where(exponent == 0, fraction, 1 + fraction), np.maximum(exponent, 1) - bias)


def _nearest(values: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Return the codes of the nearest numbers of a format, the even code of two; NaN gives the largest number."""
    half = 1 << (exponent_bits + mantissa_bits)
    numbers = _minifloat(np.arange(half), exponent_bits, mantissa_bits)
    magnitudes = np.minimum(np.nan_to_num(np.abs(values.astype(np.float64))), numbers[-1])
    distance = np.abs(magnitudes[:, None] - numbers[None, :])
    best = distance.min(axis=1, keepdims=True)
    candidates = np.where(distance == best, np.arange(half)[None, :], 2 * half)
    even = np.where(candidates % 2 == 0, candidates, 2 * half).min(axis=1)
    codes = np.where(even < half, even, candidates.min(axis=1))
    return np.where(np.isnan(values), half - 1, codes + np.where(np.signbit(values), half, 0)).astype(np.uint32)


SMALL = {"e2m1": (2, 1, 4), "e2m3": (2, 3, 8), "e3m2": (3, 2, 8)}  # bits of exponent and mantissa, and of a container


def run(engine: Engine, line: str, out: str, inputs: dict[str, np.ndarray], *, extra: str = "") -> np.ndarray:
    """Run a line that computes %out from registers, which are named for the inputs, for each of their elements."""
    body = [".reg .b64 %p, %q; .reg .b32 %t; mov.u32 %t, %tid.x; mov.u32 %q0, %ctaid.x; mad.lo.u32 %t, %q0, 256, %t;"]
    body[0] = ".reg .b32 %q0; " + body[0]
    for name, array in inputs.items():
        bits = array.dtype.itemsize * 8
        body.append(
            f".reg .b{bits} %{name}; ld.param.u64 %p, [{name}]; mad.wide.u32 %p, %t, {bits // 8}, %p; "
            f"ld.global.b{bits} %{name}, [%p];"
        )
    width = int(out[1:])
    body.append(f"{extra} .reg .b{width} %d; {line}")
    body.append(f"ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, {width // 8}, %p; st.global.b{width} [%p], %d;")
    parameters = ", ".join([".param .u64 out", *(f".param .u64 {name}" for name in inputs)])
    module = engine.body("\n".join(body), parameters=parameters, target="sm_100a", version="8.8")
    count = len(next(iter(inputs.values())))
    result = module.buffer(np.zeros(count, f"u{width // 8}"))
    fault = module.run("k", count // 256, 256, result, *(module.buffer(array) for array in inputs.values()))
    assert fault.kind == "none", fault
    return result.array


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp", "rn.ftz"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_pairs_of_f32(engine: Engine, rng: np.random.Generator, op: str, mode: str) -> None:
    """A number of a pair would be computed from the other one's operands, or rounded in another way than alone."""
    sources = [np.stack([floats(rng, F32), floats(rng, F32)], axis=1) for _ in range(3 if op == "fma" else 2)]
    names = "abc"[: len(sources)]
    operands = ", ".join(f"%{name}" for name in names)
    words = {name: source.view(np.uint64).ravel() for name, source in zip(names, sources, strict=True)}
    pairs = run(engine, f"{op}.{mode}.f32x2 %d, {operands};", "b64", words).view(np.uint32)
    for half in range(2):
        inputs = {name: source[:, half].copy() for name, source in zip(names, sources, strict=True)}
        alone = run(engine, f"{op}.{mode}.f32 %d, {operands};", "b32", inputs)
        np.testing.assert_array_equal(pairs[half::2], alone)
        if mode == "rn" and op != "fma":
            a, b = inputs.values()
            with np.errstate(all="ignore"):
                same(pairs[half::2].copy(), {"add": a + b, "sub": a - b, "mul": a * b}[op], F32)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("modifiers", [*itertools.product(("", ".ftz"), ("", ".NaN"), ("", ".abs"))])
def test_three_operands(engine: Engine, rng: np.random.Generator, op: str, modifiers: tuple[str, ...]) -> None:
    """The third operand of min or max would be ignored, or a NaN be treated as if there were two operands."""
    ftz, keeps_nan, magnitudes = modifiers
    sources = [floats(rng, F32) for _ in range(3)]
    line = f"{op}{''.join(modifiers)}.f32 %d, %a, %b, %c;"
    got = run(engine, line, "b32", dict(zip("abc", sources, strict=True)))
    values = [np.abs(source) if magnitudes else source for source in sources]
    if ftz:
        values = [np.where(np.abs(one) < np.finfo(F32).tiny, np.copysign(F32(0), one), one) for one in values]
    # An order of integers that puts -0 below +0.
    bits = np.stack(values).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    nan = np.isnan(np.stack(values))
    order = np.where(nan, 1 << 40 if op == "min" else -(1 << 40), order)
    chosen = order.argmin(axis=0) if op == "min" else order.argmax(axis=0)
    expected = np.take_along_axis(np.stack(values), chosen[None], axis=0)[0]
    expected = np.where(nan.any(axis=0) if keeps_nan else nan.all(axis=0), np.nan, expected).astype(F32)
    same(got, expected, F32)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("modifiers", ["", ".abs", ".NaN", ".abs.NaN"])
def test_reductions_of_f32(engine: Engine, rng: np.random.Generator, op: str, modifiers: str) -> None:
    """redux would return a NaN that it has to ignore, ignore one that it has to return, or confuse -0 and +0."""
    values = floats(rng, F32)
    values[32:64] = np.nan
    values[64:96] = rng.choice(np.array([0.0, -0.0], F32), 32)
    values[96:] = np.where(rng.random(LANES - 96) < 0.9, np.nan_to_num(values[96:], nan=1), values[96:])
    got = run(engine, f"redux.sync.{op}{modifiers}.f32 %d, %a, -1;", "b32", {"a": values}).reshape(-1, 32)
    assert (got == got[:, :1]).all()
    for warp, result in zip(values.reshape(-1, 32), got[:, 0], strict=True):
        numbers = np.abs(warp) if ".abs" in modifiers else warp
        kept = numbers[~np.isnan(numbers)]
        if kept.size == 0 or (".NaN" in modifiers and kept.size < 32):
            assert result == 0x7FFFFFFF
            continue
        extreme = (kept.min if op == "min" else kept.max)()
        if extreme == 0:
            negative = np.signbit(kept[kept == 0])
            extreme = F32(-0.0) if (negative.any() if op == "min" else negative.all()) else F32(0)
        assert result == extreme.view(np.uint32)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("source", ["f32", "f16x2", "bf16x2"])
@pytest.mark.parametrize("name", SMALL)
def test_conversions_to_small_formats(
    engine: Engine, rng: np.random.Generator, name: str, source: str, relu: str
) -> None:
    """A number would be rounded to a neighbour that is not the nearest, overflow, or go to the other half."""
    exponent, mantissa, bits = SMALL[name]
    dtype = np.float16 if source == "f16x2" else F32
    high, low = (np.where(rng.random(LANES) < 0.5, rng.normal(0, 4, LANES), floats(rng, dtype)) for _ in "hl")
    high, low = high.astype(dtype), low.astype(dtype)
    if source == "bf16x2":
        high, low = ((one.view(np.uint32) & 0xFFFF0000).view(F32) for one in (high, low))
    codes = [
        _nearest(np.where(one < 0, np.zeros_like(one), one) if relu else one, exponent, mantissa) for one in (high, low)
    ]
    if relu:
        codes = [np.where(one == 1 << (exponent + mantissa), 0, one) for one in codes]  # -0
    if source == "f32":
        inputs = {"a": high, "b": low}
    else:
        shift = 16 if source == "bf16x2" else 0
        words = [
            one.view(np.uint32) >> shift if shift else one.view(np.uint16).astype(np.uint32) for one in (high, low)
        ]
        inputs = {"a": (words[0] << 16 | words[1]).astype(np.uint32)}
    operands = ", ".join(f"%{one}" for one in inputs)
    to = ".reg .b8 %s; " if bits == 4 else ".reg .b16 %s; "
    widen = "cvt.u16.u8 %d, %s;" if bits == 4 else "mov.b16 %d, %s;"
    got = run(engine, f"cvt.rn.satfinite{relu}.{name}x2.{source} %s, {operands}; {widen}", "b16", inputs, extra=to)
    np.testing.assert_array_equal(got, codes[0] << bits | codes[1])


@pytest.mark.parametrize("to", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", SMALL)
def test_conversions_from_small_formats(engine: Engine, name: str, to: str) -> None:
    """A number of 4 or 6 bits would get another value, or the other half's."""
    exponent, mantissa, bits = SMALL[name]
    codes = np.resize(np.arange(256 if bits == 4 else 65536, dtype=np.uint16), 65536)
    if bits == 8:
        codes &= 0x3F3F
    narrow = ".reg .b8 %s; cvt.u8.u16 %s, %a;" if bits == 4 else ".reg .b16 %s; mov.b16 %s, %a;"
    got = run(engine, f"cvt.rn.{to}.{name}x2 %d, %s;", "b32", {"a": codes}, extra=narrow)
    for half in range(2):
        number = _minifloat(codes >> (bits * half) & ((1 << bits) - 1), exponent, mantissa)
        word = (got >> (16 * half)).astype(np.uint32) & 0xFFFF
        value = word.astype(np.uint16).view(np.float16) if to == "f16x2" else (word << 16).view(F32)
        np.testing.assert_array_equal(value.astype(np.float64), number)
        np.testing.assert_array_equal(np.signbit(value), np.signbit(number))


@pytest.mark.parametrize("saturates", ["", ".satfinite"])
@pytest.mark.parametrize("rounding", ["rz", "rp"])
def test_powers_of_two(engine: Engine, rng: np.random.Generator, rounding: str, saturates: str) -> None:
    """A scale would be rounded to the wrong power of two, or a number outside of their range not be limited."""
    values = floats(rng, F32)
    values[:280] = np.ldexp(1.0, np.arange(-152, 128))
    values[280:560] = np.nextafter(values[:280], F32(np.inf))
    magnitude = np.abs(values.astype(np.float64))
    with np.errstate(all="ignore"):
        exponent = (np.floor if rounding == "rz" else np.ceil)(np.log2(magnitude))
    # log2 is exact for powers of two, but can round up to the next one.
    exponent = np.where(np.isfinite(exponent), exponent, 0)
    down = np.ldexp(1.0, exponent.astype(int)) > magnitude
    exponent = exponent - down if rounding == "rz" else exponent + (np.ldexp(1.0, exponent.astype(int)) < magnitude)
    codes = np.clip(exponent + 127, 0, 255)
    codes = np.where(magnitude == 0, 0, np.where(np.isinf(magnitude), 255, codes))
    codes = np.where(np.isnan(values), 255, np.minimum(codes, 254) if saturates else codes).astype(np.uint16)
    got = run(
        engine, f"cvt.{rounding}{saturates}.ue8m0x2.f32 %d, %a, %b;", "b16", {"a": values, "b": values[::-1].copy()}
    )
    np.testing.assert_array_equal(got, codes << 8 | codes[::-1])
    pairs = np.resize(np.arange(65536, dtype=np.uint16), 65536)
    back = run(engine, "cvt.rn.bf16x2.ue8m0x2 %d, %a;", "b32", {"a": pairs}).view(np.uint16)
    scale = np.ldexp(1.0, (pairs & 255).astype(int) - 127)
    low = (back[::2].astype(np.uint32) << 16).view(F32)
    np.testing.assert_array_equal(low, np.where(pairs & 255 == 255, np.nan, scale))


def test_bulk_stores(engine: Engine) -> None:
    """st.bulk would write too much or too little, or write memory that is not shared."""
    body = """.shared .align 16 .b8 s[256]; .reg .b64 %o, %a; .reg .b32 %t, %v, %r; .reg .b64 %p;
      ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %r, s; mad.lo.u32 %r, %t, 4, %r; st.shared.b32 [%r], -1;
      bar.sync 0; .reg .pred %first; setp.eq.u32 %first, %t, 0; mov.u64 %a, s; cvta.shared.u64 %p, %a;
      @%first st.bulk.weak.shared::cta [%a+8], 16, 0; @%first st.bulk [%p+64], 128, 0;
      bar.sync 0; ld.shared.b32 %v, [%r]; mad.wide.u32 %o, %t, 4, %o; st.global.b32 [%o], %v;"""
    module = engine.body(body, target="sm_100", version="9.0")
    out = module.buffer(np.zeros(64, np.uint32))
    assert module.run("k", 1, 64, out).kind == "none"
    expected = np.full(64, 0xFFFFFFFF, np.uint32)
    expected[2:6] = expected[16:48] = 0
    np.testing.assert_array_equal(out.array, expected)
    module = engine.body(".reg .b64 %o; ld.param.u64 %o, [out]; st.bulk [%o], 8, 0;", target="sm_100", version="9.0")
    assert module.run("k", 1, 1, module.buffer(np.zeros(2, np.uint64))).kind == "invalid_address_space"


@pytest.mark.parametrize(("cluster", "multicast"), [(1, ""), (2, ".multicast::cluster::all")])
def test_cancelled_clusters(engine: Engine, cluster: int, multicast: str) -> None:
    """A block would be computed twice or not at all, where running blocks take the work of others."""
    body = f"""
      .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
      .reg .b64 %out, %at; .reg .b32 %a, %m, %x, %y, %size, %phase, %rank; .reg .pred %p, %done, %first, %leads;
      .reg .b128 %handle;
      ld.param.u64 %out, [out]; mov.u32 %a, answer; mov.u32 %m, bar; mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y;
      mov.u32 %size, %nctaid.x; mov.u32 %phase, %tid.x; setp.eq.u32 %first, %phase, 0; mov.u32 %phase, 0;
      mov.u32 %rank, %cluster_ctarank; setp.eq.and.u32 %leads, %rank, 0, %first;
      @%first mbarrier.init.shared.b64 [%m], 1;
      bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
    again:
      mad.lo.u32 %x, %y, %size, %x; mad.wide.u32 %at, %x, 4, %out;
      @%first red.global.add.u32 [%at], 1;
      @%first mbarrier.arrive.expect_tx.shared.b64 _, [%m], 16;
      barrier.cluster.arrive; barrier.cluster.wait;
      @%leads clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128 [%a], [%m];
    wait:
      mbarrier.try_wait.parity.shared.b64 %done, [%m], %phase;
      @!%done bra wait;
      xor.b32 %phase, %phase, 1;
      ld.shared.b128 %handle, [%a];
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %handle;
      @!%p bra end;
      clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%x, %y, _, _}}, %handle;
      clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %x, %handle;
      add.u32 %x, %x, %rank;
      bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
      bra again;
    end:"""
    module = engine.body(body, target="sm_100a", version="8.8")
    out = module.buffer(np.zeros(64 * 3, np.uint32))
    fault = module.run("k", (64, 3), 64, out, cluster=cluster)
    assert fault.kind == "none", fault
    assert (out.array == 1).all()


@pytest.mark.parametrize(
    "line",
    [
        "add.sat.f32x2 %d1, %d2, %d3;",
        "div.rn.f32x2 %d1, %d2, %d3;",
        "min.f32x2 %d1, %d2, %d3;",
        "min.xorsign.abs.f32 %f1, %f2, %f3, %f4;",
        "min.f64 %d1, %d2, %d3, %d4;",
        "max.f16x2 %r1, %r2, %r3, %r4;",
        "max.s32 %r1, %r2, %r3, %r4;",
        "redux.sync.add.f32 %f1, %f2, -1;",
        "redux.sync.max.abs.s32 %r1, %r2, -1;",
        "cvt.rz.satfinite.e2m3x2.f32 %h1, %f1, %f2;",
        "cvt.rn.e2m3x2.f32 %h1, %f1, %f2;",
        "cvt.rn.ue8m0x2.f32 %h1, %f1, %f2;",
        "cvt.rn.f16x2.ue8m0x2 %r1, %h1;",
        "cvt.rn.satfinite.f16x2.e2m3x2 %r1, %h1;",
        "cvt.rz.ue8m0x2.f16x2 %h1, %r1;",
        "cvt.rn.e2m3x2.e3m2x2 %h1, %h2;",
        "st.bulk.global [%d1], 8, 0;",
        "st.bulk [%d1], 8, 1;",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.b32.b128 %r1, %q1;",
    ],
)
def test_forms_that_do_not_exist(engine: Engine, line: str) -> None:
    """An instruction that the assembler refuses would run as some other one."""
    registers = ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>; .reg .b128 %q<9>;"
    with pytest.raises(CompileError):
        engine.body(f"{registers}\n{line}", target="sm_100a", version="8.8")
