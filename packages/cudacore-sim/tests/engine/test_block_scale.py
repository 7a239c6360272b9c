# SPDX-License-Identifier: Apache-2.0
"""mma with .kind: numbers of 8, 6 and 4 bits, and scales of blocks, compared with products in f64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from harness import CompileError, Engine

F32 = np.float32


def decode(codes: np.ndarray, name: str) -> np.ndarray:
    """Return the numbers that codes of a small format stand for."""
    exponent_bits, mantissa_bits = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}[
        name
    ]
    codes = codes.astype(np.int64)
    sign = np.where(codes >> (exponent_bits + mantissa_bits) & 1, -1.0, 1.0)
    exponent = codes >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = (codes & ((1 << mantissa_bits) - 1)) / 2.0**mantissa_bits
    bias = (1 << (exponent_bits - 1)) - 1
    return sign * np.ldexp(np.where(exponent == 0, fraction, 1 + fraction), np.maximum(exponent, 1) - bias)


def random_codes(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return codes of finite numbers."""
    top = {"e4m3": 0x7E, "e5m2": 0x7B, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 7}[name]
    sign = {"e4m3": 7, "e5m2": 7, "e2m3": 5, "e3m2": 5, "e2m1": 3}[name]
    return (rng.integers(0, top + 1, shape) | rng.integers(0, 2, shape) << sign).astype(np.uint32)


def words(codes: np.ndarray, name: str, packed: bool) -> np.ndarray:
    """Return lines of codes as words of registers: four or, if they are packed, eight codes of a line in each."""
    bits = 4 if packed else 8
    each = codes << 2 if name == "e2m1" and not packed else codes
    parts = each.reshape(*each.shape[:-1], -1, 32 // bits)
    shifts = np.arange(32 // bits, dtype=np.uint32) * bits
    return np.bitwise_or.reduce(parts.astype(np.uint32) << shifts, axis=-1).astype(np.uint32)


def run(
    engine: Engine,
    form: str,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    scales: str = "",
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Multiply a (16 rows of words) by b (8 columns of words), and add c. Return the result."""
    lane = np.arange(32)
    group, place = lane // 4, lane % 4
    in_a = np.stack([a[group, place], a[group + 8, place], a[group, place + 4], a[group + 8, place + 4]], axis=1)
    in_b = np.stack([b[group, place], b[group, place + 4]], axis=1)
    in_c = np.stack([c[group + 8 * (i // 2), place * 2 + i % 2] for i in range(4)], axis=1).astype(F32)
    extra = np.zeros((32, 2), np.uint32) if given is None else given
    data = np.concatenate([in_a, in_b, in_c.view(np.uint32), extra], axis=1).astype(np.uint32)
    loads = "".join(f"ld.global.b32 %r{i}, [%q+{4 * i}];" for i in range(12))
    stores = "".join(f"st.global.b32 [%o+{4 * i}], %r{i + 12};" for i in range(4))
    body = f""".reg .b32 %r<20>, %t; .reg .b64 %q, %o; .reg .b16 %h<4>;
      ld.param.u64 %q, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %q, %t, 48, %q;
      mad.wide.u32 %o, %t, 16, %o; {loads} mov.u16 %h0, 0; mov.u16 %h1, 1; mov.u16 %h2, 2; mov.u16 %h3, 3;
      mma.sync.aligned.{form} {{%r12, %r13, %r14, %r15}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}},
        {{%r6, %r7, %r8, %r9}}{scales}; {stores}"""
    module = engine.body(body, parameters=".param .u64 in, .param .u64 out", target="sm_120a", version="8.8")
    out = module.buffer(np.zeros((32, 4), F32))
    assert module.run("k", 1, 32, module.buffer(data), out).kind == "none"
    result = np.zeros((16, 8), F32)
    for i in range(4):
        result[group + 8 * (i // 2), place * 2 + i % 2] = out.array[:, i]
    return result


def check(result: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Compare with the product in f64; the sum is exact to the precision of f32 at the largest term."""
    expected = a @ b.T + c
    largest = np.maximum(np.max(np.abs(a[:, None, :] * b[None, :, :]), axis=2), np.abs(c))
    assert (np.abs(result - expected) <= largest * a.shape[1] * 2.0**-22).all()


@pytest.mark.parametrize("types", [*itertools.product(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), repeat=2)])
def test_small_types(engine: Engine, rng: np.random.Generator, types: tuple[str, str]) -> None:
    """The numbers of one type would be read as those of another, or at the wrong bits of their byte."""
    codes = [random_codes(rng, (lines, 32), name) for lines, name in zip((16, 8), types, strict=True)]
    a, b = (decode(one, name) for one, name in zip(codes, types, strict=True))
    c = rng.normal(0, 10, (16, 8)).astype(F32)
    registers = [words(one, name, packed=False) for one, name in zip(codes, types, strict=True)]
    form = f"m16n8k32.row.col.kind::f8f6f4.f32.{types[0]}.{types[1]}.f32"
    check(run(engine, form, *registers, c), a, b, c)


SCALED = [
    ("kind::mxf8f6f4.block_scale", 1, "ue8m0", "e4m3", "e2m1", (3, 1), (2, 3)),
    ("kind::mxf8f6f4.block_scale.scale_vec::1X", 1, "ue8m0", "e3m2", "e5m2", (0, 0), (1, 2)),
    ("kind::mxf4.block_scale", 2, "ue8m0", "e2m1", "e2m1", (2, 1), (0, 3)),
    ("kind::mxf4nvf4.block_scale.scale_vec::2X", 2, "ue8m0", "e2m1", "e2m1", (0, 1), (2, 0)),
    ("kind::mxf4nvf4.block_scale.scale_vec::4X", 4, "ue4m3", "e2m1", "e2m1", (0, 0), (0, 1)),
    ("kind::mxf4nvf4.block_scale.scale_vec::4X", 4, "ue8m0", "e2m1", "e2m1", (0, 1), (0, 2)),
]


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("case", SCALED)
def test_scales(engine: Engine, rng: np.random.Generator, case: tuple, registers: bool) -> None:
    """A block would be multiplied by the scale of another one, or of another lane or byte."""
    kind, count, type_name, a_name, b_name, a_from, b_from = case
    packed = "mxf4" in kind
    k = 64 if packed else 32
    codes = random_codes(rng, (16, k), a_name), random_codes(rng, (8, k), b_name)
    a, b = decode(codes[0], a_name), decode(codes[1], b_name)
    c = rng.normal(0, 10, (16, 8)).astype(F32)
    low, high = (120, 135) if type_name == "ue8m0" else (0, 0x7F)
    given = rng.integers(low, high, (32, 2, 4)).astype(np.uint32)  # bytes of each lane, for A and B
    word = np.bitwise_or.reduce(given << (np.arange(4, dtype=np.uint32) * 8), axis=2).astype(np.uint32)

    def value(byte: np.ndarray) -> np.ndarray:
        return np.ldexp(1.0, byte.astype(int) - 127) if type_name == "ue8m0" else decode(byte, "e4m3")

    row, column = np.arange(16), np.arange(8)
    a_scale = value(given[row % 8 * 4 + 2 * a_from[1] + row // 8, 0, a_from[0] : a_from[0] + count])
    b_scale = value(given[column * 4 + b_from[1], 1, b_from[0] : b_from[0] + count])
    names = [f"%h{i}" if registers else str(i) for i in (*a_from, *b_from)]
    result = run(
        engine,
        f"m16n8k{k}.row.col.{kind}.f32.{a_name}.{b_name}.f32.{type_name}",
        words(codes[0], a_name, packed),
        words(codes[1], b_name, packed),
        c,
        f", %r10, {{{names[0]}, {names[1]}}}, %r11, {{{names[2]}, {names[3]}}}",
        word,
    )
    check(result, a * np.repeat(a_scale, k // count, axis=1), b * np.repeat(b_scale, k // count, axis=1), c)


SCALES = "{}, {}, {}, {}, %r1, {0, 0}, %r1, {0, 0}"


@pytest.mark.parametrize(
    "form",
    [
        "m16n8k32.row.col.f32.e3m2.e2m1.f32 {}, {}, {}, {}",
        "m16n8k16.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32 {}, {}, {}, {}",
        "m16n8k32.row.col.kind::f8f6f4.f32.f16.e4m3.f32 {}, {}, {}, {}",
        f"m16n8k32.row.col.kind::mxf8f6f4.f32.e4m3.e4m3.f32.ue8m0 {SCALES}",
        f"m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue4m3 {SCALES}",
        f"m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::2X.f32.e4m3.e4m3.f32.ue8m0 {SCALES}",
        f"m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {SCALES}",
        f"m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0 {SCALES}",
        f"m16n8k64.row.col.kind::mxf4.block_scale.f32.e4m3.e4m3.f32.ue8m0 {SCALES}",
    ],
)
def test_forms_that_do_not_exist(engine: Engine, form: str) -> None:
    """A product that the assembler refuses would be computed as some other one."""
    four, two = "{%r1, %r2, %r3, %r4}", "{%r5, %r6}"
    line = form.replace("{}", four, 2).replace("{}", two, 1).replace("{}", four)
    with pytest.raises(CompileError):
        engine.body(f".reg .b32 %r<9>;\nmma.sync.aligned.{line};", target="sm_120a", version="8.8")
