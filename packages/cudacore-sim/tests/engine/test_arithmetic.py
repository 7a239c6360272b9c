# SPDX-License-Identifier: Apache-2.0
"""Single instructions on random and special values: bit for bit if PTX defines the bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from harness import Engine

LANES = 1024
BITS = {"16": np.uint16, "32": np.uint32, "64": np.uint64}


def _bits_of(type_name: str) -> int:
    return int("".join(c for c in type_name.split("x")[0] if c.isdigit()) or 0) * (2 if type_name.endswith("x2") else 1)


def apply(
    engine: Engine,
    instruction: str,
    result: str,
    types: list[str],
    inputs: list[np.ndarray],
    *,
    extra: str = "",
    pre: str = "",
) -> np.ndarray:
    """Run `instruction d, a, b, ...` on every element; return the bits of d."""
    width = {"pred": 32}.get(result, _bits_of(result))
    n = len(inputs[0])
    lines = [".reg .b64 %addr, %i; .reg .b32 %tid, %cta; .reg .pred %p;"]
    lines.append(f".reg .b{width} %d;")
    parameters = [".param .u64 out", *(f".param .u64 in{k}" for k in range(len(inputs)))]
    lines.append(
        "mov.u32 %tid, %tid.x; mov.u32 %cta, %ctaid.x; mad.lo.u32 %tid, %cta, 256, %tid; cvt.u64.u32 %i, %tid;"
    )
    names = []
    for k, type_name in enumerate(types):
        bits = max(_bits_of(type_name), 16)
        names.append(f"%s{k}")
        lines.append(
            f".reg .b{bits} %s{k}; ld.param.u64 %addr, [in{k}]; mad.lo.u64 %addr, %i, {bits // 8}, %addr; "
            f"ld.global.b{bits} %s{k}, [%addr];"
        )
    lines.append(pre)
    operands = ", ".join(names) + extra
    if result == "pred":
        lines.append(f"{instruction} %p, {operands}; selp.b32 %d, 1, 0, %p;")
    else:
        lines.append(f"{instruction} %d, {operands};")
    lines.append(
        f"ld.param.u64 %addr, [out]; mad.lo.u64 %addr, %i, {width // 8}, %addr; st.global.b{width} [%addr], %d;"
    )
    module = engine.body("\n".join(lines), parameters=", ".join(parameters), target="sm_90a", version="8.6")
    out = module.buffer(np.zeros(n, BITS[str(width)]))
    buffers = [module.buffer(one) for one in inputs]
    assert n % 256 == 0
    fault = module.run("k", n // 256, 256, out, *buffers)
    assert fault.kind == "none", fault
    return out.array


# --- integers ------------------------------------------------------------------------------------------------------


def integers(rng: np.random.Generator, bits: int) -> np.ndarray:
    """Return random bits, small numbers, and the ends of the range, as unsigned integers."""
    values = (
        rng.integers(0, 2**bits, LANES, dtype=np.uint64, endpoint=False)
        if bits < 64
        else rng.integers(0, 2**64, LANES, dtype=np.uint64)
    )
    small = rng.integers(0, 12, LANES).astype(np.uint64)
    special = np.array([0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 2 ** (bits - 1) + 1], np.uint64)
    kind = rng.integers(0, 4, LANES)
    values = np.where(kind == 0, small, np.where(kind == 1, rng.choice(special, LANES), values))
    return values.astype(BITS[str(bits)])


def as_int(value: Any, type_name: str) -> int:
    """Return the number that bits represent in a type."""
    bits = _bits_of(type_name)
    number = int(value) & ((1 << bits) - 1)
    return number - (1 << bits) if type_name[0] == "s" and number >> (bits - 1) else number


def _div(a: int, b: int, bits: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rem(a: int, b: int, bits: int) -> int:
    return -1 if b == 0 else a - b * _div(a, b, bits)


INTEGER_BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: (a * b) >> n,
    "div": _div,
    "rem": _rem,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
}


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_integer_binary(engine: Engine, rng: np.random.Generator, op: str, type_name: str) -> None:
    """Integer arithmetic of a type would be wrong, for example at the ends of its range or with zero."""
    n = _bits_of(type_name)
    a, b = integers(rng, n), integers(rng, n)
    result = apply(engine, f"{op}.{type_name}", type_name, [type_name] * 2, [a, b])
    expected = [
        INTEGER_BINARY[op](as_int(x, type_name), as_int(y, type_name), n) & (2**n - 1)
        for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32"])
def test_widening_products(engine: Engine, rng: np.random.Generator, type_name: str) -> None:
    """mul.wide and mad.wide would lose the upper half."""
    n = _bits_of(type_name)
    wide = type_name[0] + str(2 * n)
    a, b, c = integers(rng, n), integers(rng, n), integers(rng, 2 * n)
    product = [as_int(x, type_name) * as_int(y, type_name) for x, y in zip(a, b, strict=True)]
    mask = 2 ** (2 * n) - 1
    np.testing.assert_array_equal(
        apply(engine, f"mul.wide.{type_name}", wide, [type_name] * 2, [a, b]),
        np.array([p & mask for p in product], BITS[str(2 * n)]),
    )
    sums = [(p + int(z)) & mask for p, z in zip(product, c, strict=True)]
    np.testing.assert_array_equal(
        apply(engine, f"mad.wide.{type_name}", wide, [type_name] * 2 + [wide], [a, b, c]),
        np.array(sums, BITS[str(2 * n)]),
    )


def _saturated(value: int) -> int:
    return max(-(2**31), min(2**31 - 1, value))


TERNARY: dict[str, tuple[str, Callable[[int, int, int], int]]] = {
    "mad.lo.s32": ("s32", lambda a, b, c: a * b + c),
    "mad.hi.s32": ("s32", lambda a, b, c: ((a * b) >> 32) + c),
    "mad.hi.u32": ("u32", lambda a, b, c: ((a * b) >> 32) + c),
    "mad.hi.sat.s32": ("s32", lambda a, b, c: _saturated(((a * b) >> 32) + c)),
    "mad.lo.u16": ("u16", lambda a, b, c: a * b + c),
    "mad.lo.s64": ("s64", lambda a, b, c: a * b + c),
    "sad.s32": ("s32", lambda a, b, c: abs(a - b) + c),
    "sad.u32": ("u32", lambda a, b, c: abs(a - b) + c),
    "sad.u64": ("u64", lambda a, b, c: abs(a - b) + c),
    "mad24.lo.u32": ("u32", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "mad24.hi.u32": ("u32", lambda a, b, c: (((a & 0xFFFFFF) * (b & 0xFFFFFF)) >> 16) + c),
}


@pytest.mark.parametrize("op", TERNARY)
def test_integer_ternary(engine: Engine, rng: np.random.Generator, op: str) -> None:
    """Multiply-add and sums of absolute differences would be wrong."""
    type_name, reference = TERNARY[op]
    n = _bits_of(type_name)
    inputs = [integers(rng, n) for _ in range(3)]
    result = apply(engine, op, type_name, [type_name] * 3, inputs)
    expected = [reference(*(as_int(v, type_name) for v in row)) & (2**n - 1) for row in zip(*inputs, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


def _bfe(type_name: str) -> Callable[[int, int, int], int]:
    n = _bits_of(type_name)

    def reference(a: int, b: int, c: int) -> int:
        position, length = b & 255, c & 255
        sign = 0 if type_name[0] == "u" or length == 0 else (a >> min(position + length - 1, n - 1)) & 1
        bits = [(a >> (position + i)) & 1 if i < length and position + i <= n - 1 else sign for i in range(n)]
        return sum(bit << i for i, bit in enumerate(bits))

    return reference


def _bfi(n: int) -> Callable[[int, int, int, int], int]:
    def reference(a: int, b: int, c: int, d: int) -> int:
        position, length = c & 255, d & 255
        bits = [(b >> i) & 1 for i in range(n)]
        for i in range(length):
            if position + i <= n - 1:
                bits[position + i] = (a >> i) & 1
        return sum(bit << i for i, bit in enumerate(bits))

    return reference


def _bfind(type_name: str) -> Callable[[int], int]:
    n = _bits_of(type_name)

    def reference(a: int) -> int:
        if type_name[0] == "s" and a >> (n - 1):
            a = ~a & (2**n - 1)
        return a.bit_length() - 1 if a else 0xFFFFFFFF

    return reference


def _shift(type_name: str, left: bool) -> Callable[[int, int], int]:
    n = _bits_of(type_name)

    def reference(a: int, b: int) -> int:
        return as_int(a, type_name) << b if left and b < n else 0 if left else as_int(a, type_name) >> min(b, n)

    return reference


def _prmt(a: int, b: int, c: int) -> int:
    both, result = b << 32 | a, 0
    for i in range(4):
        selector = (c >> (4 * i)) & 15
        byte = (both >> (8 * (selector & 7))) & 255
        result |= (255 * (byte >> 7) if selector & 8 else byte) << (8 * i)
    return result


def _dp4a(signed_a: bool, signed_b: bool) -> Callable[[int, int, int], int]:
    def byte(word: int, i: int, signed: bool) -> int:
        value = (word >> (8 * i)) & 255
        return value - 256 if signed and value > 127 else value

    return lambda a, b, c: c + sum(byte(a, i, signed_a) * byte(b, i, signed_b) for i in range(4))


def _fns(mask: int, base: int, offset: int) -> int:
    offset = offset - 2**32 if offset >> 31 else offset
    if base > 31:
        return 2**32 - 1
    if offset == 0:
        return base if mask >> base & 1 else 2**32 - 1
    step, left = (1, offset) if offset > 0 else (-1, -offset)
    at = base
    while 0 <= at < 32:
        if mask >> at & 1:
            left -= 1
            if left == 0:
                return at
        at += step
    return 2**32 - 1


BITWISE: dict[str, tuple[str, list[str], Callable[..., int]]] = {
    "and.b16": ("b16", ["b16"] * 2, lambda a, b: a & b),
    "or.b32": ("b32", ["b32"] * 2, lambda a, b: a | b),
    "xor.b64": ("b64", ["b64"] * 2, lambda a, b: a ^ b),
    "not.b64": ("b64", ["b64"], lambda a: ~a),
    "cnot.b32": ("b32", ["b32"], lambda a: int(a == 0)),
    "shl.b16": ("b16", ["b16", "small"], _shift("u16", True)),
    "shl.b32": ("b32", ["b32", "small"], _shift("u32", True)),
    "shl.b64": ("b64", ["b64", "small"], _shift("u64", True)),
    "shr.u16": ("u16", ["u16", "small"], _shift("u16", False)),
    "shr.s16": ("s16", ["s16", "small"], _shift("s16", False)),
    "shr.u32": ("u32", ["u32", "small"], _shift("u32", False)),
    "shr.s32": ("s32", ["s32", "small"], _shift("s32", False)),
    "shr.u64": ("u64", ["u64", "small"], _shift("u64", False)),
    "shr.s64": ("s64", ["s64", "small"], _shift("s64", False)),
    "shf.l.wrap.b32": ("b32", ["b32", "b32", "small"], lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    "shf.r.wrap.b32": ("b32", ["b32", "b32", "small"], lambda a, b, c: (b << 32 | a) >> (c & 31)),
    "shf.l.clamp.b32": ("b32", ["b32", "b32", "small"], lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    "shf.r.clamp.b32": ("b32", ["b32", "b32", "small"], lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    "popc.b32": ("b32", ["b32"], lambda a: a.bit_count()),
    "popc.b64": ("b32", ["b64"], lambda a: a.bit_count()),
    "clz.b32": ("b32", ["b32"], lambda a: 32 - a.bit_length()),
    "clz.b64": ("b32", ["b64"], lambda a: 64 - a.bit_length()),
    "brev.b32": ("b32", ["b32"], lambda a: int(f"{a:032b}"[::-1], 2)),
    "brev.b64": ("b64", ["b64"], lambda a: int(f"{a:064b}"[::-1], 2)),
    "bfind.u32": ("u32", ["u32"], _bfind("u32")),
    "bfind.s32": ("u32", ["s32"], _bfind("s32")),
    "bfind.u64": ("u32", ["u64"], _bfind("u64")),
    "bfind.s64": ("u32", ["s64"], _bfind("s64")),
    "bfind.shiftamt.u32": ("u32", ["u32"], lambda a: 32 - a.bit_length() if a else 2**32 - 1),
    "bfe.u32": ("u32", ["u32", "small", "small"], _bfe("u32")),
    "bfe.s32": ("s32", ["s32", "small", "small"], _bfe("s32")),
    "bfe.u64": ("u64", ["u64", "small", "small"], _bfe("u64")),
    "bfe.s64": ("s64", ["s64", "small", "small"], _bfe("s64")),
    "bfi.b32": ("b32", ["b32", "b32", "small", "small"], _bfi(32)),
    "bfi.b64": ("b64", ["b64", "b64", "small", "small"], _bfi(64)),
    "prmt.b32": ("b32", ["b32"] * 3, _prmt),
    "prmt.b32.f4e": ("b32", ["b32"] * 3, lambda a, b, c: _prmt(a, b, [0x3210, 0x4321, 0x5432, 0x6543][c & 3])),
    "prmt.b32.b4e": ("b32", ["b32"] * 3, lambda a, b, c: _prmt(a, b, [0x5670, 0x6701, 0x7012, 0x0123][c & 3])),
    "prmt.b32.rc8": ("b32", ["b32"] * 3, lambda a, b, c: _prmt(a, b, 0x1111 * (c & 3))),
    "fns.b32": ("b32", ["b32", "small", "signed_small"], _fns),
    "bmsk.clamp.b32": ("b32", ["small", "small"], lambda a, b: ((1 << min(b, 32)) - 1) << a if a < 32 else 0),
    "szext.clamp.s32": (
        "b32",
        ["b32", "small"],
        lambda a, b: as_int(a << 32 - b, "s32") >> 32 - b if 0 < b < 32 else a if b else 0,
    ),
    "dp4a.s32.s32": ("s32", ["b32"] * 3, _dp4a(True, True)),
    "dp4a.u32.u32": ("u32", ["b32"] * 3, _dp4a(False, False)),
    "dp4a.s32.u32": ("s32", ["b32"] * 3, _dp4a(True, False)),
    "add.u16x2": ("u16x2", ["b32"] * 2, lambda a, b: (a + b) & 0xFFFF | ((a >> 16) + (b >> 16) & 0xFFFF) << 16),
    "mul24.lo.s32": ("s32", ["s32"] * 2, lambda a, b: as_int(a << 8, "s32") * as_int(b << 8, "s32") >> 16),
    "add.sat.s32": ("s32", ["s32"] * 2, lambda a, b: _saturated(as_int(a, "s32") + as_int(b, "s32"))),
    "sub.sat.s32": ("s32", ["s32"] * 2, lambda a, b: _saturated(as_int(a, "s32") - as_int(b, "s32"))),
    "abs.s64": ("s64", ["s64"], lambda a: abs(as_int(a, "s64"))),
    "neg.s16": ("s16", ["s16"], lambda a: -a),
    "slct.u64.s32": ("u64", ["u64", "u64", "s32"], lambda a, b, c: b if c >> 31 else a),
}


@pytest.mark.parametrize("op", BITWISE)
def test_bits(engine: Engine, rng: np.random.Generator, op: str) -> None:
    """An instruction on bits would differ from the PTX manual."""
    result_type, types, reference = BITWISE[op]
    inputs = []
    for type_name in types:
        if type_name == "small":
            inputs.append(rng.integers(0, 80, LANES).astype(np.uint32))
        elif type_name == "signed_small":
            inputs.append(rng.integers(-6, 7, LANES).astype(np.int32).view(np.uint32))
        else:
            inputs.append(integers(rng, _bits_of(type_name)))
    types = ["b32" if "small" in name else name for name in types]
    result = apply(engine, op, result_type, types, inputs)
    n = _bits_of(result_type)
    expected = [reference(*(int(v) for v in row)) & (2**n - 1) for row in zip(*inputs, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0x1B])
def test_lop3(engine: Engine, rng: np.random.Generator, table: int) -> None:
    """A truth table of three inputs would be read in the wrong order."""
    a, b, c = (integers(rng, 32) for _ in range(3))
    result = apply(engine, "lop3.b32", "b32", ["b32"] * 3, [a, b, c], extra=f", {table}")
    expected = np.zeros(LANES, np.uint32)
    for term in range(8):
        if table >> term & 1:
            expected |= (a if term & 4 else ~a) & (b if term & 2 else ~b) & (c if term & 1 else ~c)
    np.testing.assert_array_equal(result, expected)


def test_carry_chains(engine: Engine, rng: np.random.Generator) -> None:
    """Carries and borrows would be lost between words."""
    words = [integers(rng, 32) for _ in range(4)]
    module = engine.body(
        """.reg .b32 %r<12>; .reg .b64 %a<6>; .reg .b64 %i;
        mov.u32 %r0, %tid.x; mov.u32 %r11, %ctaid.x; mad.lo.u32 %r0, %r11, 256, %r0; cvt.u64.u32 %i, %r0; shl.b64 %i,
          %i, 2;
        ld.param.u64 %a0, [w0]; ld.param.u64 %a1, [w1]; ld.param.u64 %a2, [w2]; ld.param.u64 %a3, [w3];
          ld.param.u64 %a4, [out];
        add.u64 %a0, %a0, %i; add.u64 %a1, %a1, %i; add.u64 %a2, %a2, %i; add.u64 %a3, %a3, %i;
        ld.global.u32 %r1, [%a0]; ld.global.u32 %r2, [%a1]; ld.global.u32 %r3, [%a2]; ld.global.u32 %r4, [%a3];
        add.cc.u32 %r5, %r1, %r3; addc.cc.u32 %r6, %r2, %r4; addc.u32 %r7, 0, 0;
        sub.cc.u32 %r8, %r1, %r3; subc.cc.u32 %r9, %r2, %r4; subc.u32 %r10, 0, 0;
        mul.lo.u64 %i, %i, 6; add.u64 %a4, %a4, %i;
        st.global.u32 [%a4], %r5; st.global.u32 [%a4+4], %r6; st.global.u32 [%a4+8], %r7;
        st.global.u32 [%a4+12], %r8; st.global.u32 [%a4+16], %r9; st.global.u32 [%a4+20], %r10;""",
        parameters=".param .u64 out, .param .u64 w0, .param .u64 w1, .param .u64 w2, .param .u64 w3",
    )
    out = module.buffer(np.zeros((LANES, 6), np.uint32))
    assert module.run("k", LANES // 256, 256, out, *(module.buffer(w) for w in words)).kind == "none"
    for i in range(LANES):
        a, b = int(words[1][i]) << 32 | int(words[0][i]), int(words[3][i]) << 32 | int(words[2][i])
        sums, differences = (a + b) & (2**96 - 1), (a - b) & (2**96 - 1)
        expected = [(value >> shift) & 0xFFFFFFFF for value in (sums, differences) for shift in (0, 32, 64)]
        assert out.array[i].tolist() == expected


def test_128_bit_product_by_carries(engine: Engine, rng: np.random.Generator) -> None:
    """mad.cc and madc would not carry correctly, which 128-bit products in CUDA C++ need."""
    a, b = integers(rng, 64), integers(rng, 64)
    source = """extern "C" __global__ void k(const unsigned long long *a, const unsigned long long *b,
          unsigned long long *o) {
        int i = blockIdx.x * 256 + threadIdx.x; unsigned __int128 p = (unsigned __int128)a[i] * b[i] + a[i];
        unsigned __int128 q = b[i] ? p / b[i] : 0; o[3 * i] = p; o[3 * i + 1] = p >> 64; o[3 * i + 2] = q; }"""
    module = engine.cuda(source, "-device-int128")
    out = module.buffer(np.zeros((LANES, 3), np.uint64))
    assert module.run("k", LANES // 256, 256, module.buffer(a), module.buffer(b), out).kind == "none"
    for i in range(LANES):
        p = int(a[i]) * int(b[i]) + int(a[i])
        q = p // int(b[i]) if b[i] else 0
        assert out.array[i].tolist() == [p & (2**64 - 1), p >> 64, q & (2**64 - 1)]


# --- floating point ------------------------------------------------------------------------------------------------


def floats(rng: np.random.Generator, dtype: Any) -> np.ndarray:
    """Return numbers of all magnitudes, including subnormals, zeros, infinities and NaNs."""
    info = np.finfo(dtype)
    unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    raw = rng.integers(0, np.iinfo(unsigned).max, LANES, dtype=unsigned, endpoint=True).view(dtype)
    near = rng.normal(0, 3, LANES).astype(dtype)
    special = np.array(
        [
            0.0,
            -0.0,
            1,
            -1,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            -info.max,
            info.tiny,
            info.smallest_subnormal,
            0.5,
            1.5,
            2.5,
        ],
        dtype,
    )
    kind = rng.integers(0, 4, LANES)
    return np.where(kind == 0, rng.choice(special, LANES), np.where(kind == 1, raw, near)).astype(dtype)


def same(result: np.ndarray, expected: np.ndarray, dtype: Any, *, canonical: bool = True) -> None:
    """Check that bits are equal, except for those of NaNs. With `canonical`, NaNs of f32 must be 0x7fffffff."""
    got = result.view(dtype)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(result[~nan], expected.astype(dtype).view(result.dtype)[~nan])
    if canonical and dtype is np.float32:
        assert (result[nan] == 0x7FFFFFFF).all()


@pytest.mark.parametrize(
    "op", ["add.f32", "sub.f32", "mul.f32", "div.rn.f32", "add.f64", "sub.f64", "mul.rn.f64", "div.rn.f64"]
)
def test_ieee_binary(engine: Engine, rng: np.random.Generator, op: str) -> None:
    """The results of basic arithmetic would not be correctly rounded."""
    dtype = np.float32 if op.endswith("f32") else np.float64
    a, b = floats(rng, dtype), floats(rng, dtype)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op.split(".")[0]]
    type_name = op.split(".")[-1]
    with np.errstate(all="ignore"):
        same(apply(engine, op, type_name, [type_name] * 2, [a, b]), function(a, b), dtype)


def _exact(a: float, b: float, c: float) -> Fraction:
    return Fraction(a) * Fraction(b) + Fraction(c)


def _neighbour(value: Fraction, rounding: str) -> np.float32:
    """Return the f32 for a directed rounding of a value within the range of f32."""
    nearest = np.float32(0)
    if value:
        guess = np.float32(float(value))
        nearest = guess if np.isfinite(guess) else np.float32(np.copysign(np.finfo(np.float32).max, guess))
    below, above = nearest, nearest
    while Fraction(float(below)) > value:
        below = np.nextafter(below, np.float32(-np.inf))
    while Fraction(float(above)) < value:
        above = np.nextafter(above, np.float32(np.inf))
    while np.isfinite(step := np.nextafter(below, np.float32(np.inf))) and Fraction(float(step)) <= value:
        below = step
    while np.isfinite(step := np.nextafter(above, np.float32(-np.inf))) and Fraction(float(step)) >= value:
        above = step
    return {"rm": below, "rp": above, "rz": below if value > 0 else above}[rounding]


@pytest.mark.parametrize("rounding", ["rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_directed_rounding(engine: Engine, rng: np.random.Generator, op: str, rounding: str) -> None:
    """A rounding mode would be ignored, or leak into other instructions."""
    a, b, c = (rng.normal(0, 100, LANES).astype(np.float32) for _ in range(3))
    inputs = [a, b, c] if op == "fma" else [a, b]
    result = apply(engine, f"{op}.{rounding}.f32", "f32", ["f32"] * len(inputs), inputs).view(np.float32)
    for i in range(0, LANES, 5):
        x, y, z = float(a[i]), float(b[i]), float(c[i])
        exact = _exact(x, 1.0, y) if op == "add" else _exact(x, y, 0.0) if op == "mul" else _exact(x, y, z)
        assert result[i] == _neighbour(exact, rounding)


@pytest.mark.parametrize("type_name", ["f32", "f64"])
def test_fused_multiply_add(engine: Engine, rng: np.random.Generator, type_name: str) -> None:
    """fma would round twice."""
    dtype = np.float32 if type_name == "f32" else np.float64
    a, b = rng.normal(0, 1, LANES).astype(dtype), rng.normal(0, 1, LANES).astype(dtype)
    c = (-(a * b)).astype(dtype)  # so that the sum is the rounding error of the product
    result = apply(engine, f"fma.rn.{type_name}", type_name, [type_name] * 3, [a, b, c]).view(dtype)
    expected = [float(_exact(float(x), float(y), float(z))) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, dtype))


def test_flush_and_saturate(engine: Engine, rng: np.random.Generator) -> None:
    """.ftz would keep subnormal numbers, or .sat let values out of [0, 1]."""
    a, b = floats(rng, np.float32), floats(rng, np.float32)

    def flushed(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x).astype(np.float32)

    with np.errstate(all="ignore"):
        same(apply(engine, "mul.ftz.f32", "f32", ["f32"] * 2, [a, b]), flushed(flushed(a) * flushed(b)), np.float32)
        total = a + b
        expected = np.where(np.isnan(total), np.float32(0), np.clip(total, np.float32(0), np.float32(1))) + np.float32(
            0
        )
        same(apply(engine, "add.sat.f32", "f32", ["f32"] * 2, [a, b]), expected, np.float32)


@pytest.mark.parametrize(
    "op", ["min.f32", "max.f32", "min.f64", "max.f64", "min.NaN.f32", "max.NaN.f32", "min.f16", "max.f16"]
)
def test_minimum_and_maximum(engine: Engine, rng: np.random.Generator, op: str) -> None:
    """A NaN would be chosen instead of a number, or -0 would not be less than +0."""
    type_name = op.split(".")[-1]
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[type_name]
    a, b = floats(rng, dtype), floats(rng, dtype)
    result = apply(engine, op, type_name, [type_name] * 2, [a, b])
    largest = op.startswith("max")

    def pick(x: Any, y: Any) -> Any:
        if np.isnan(x) or np.isnan(y):
            return np.nan if "NaN" in op or (np.isnan(x) and np.isnan(y)) else y if np.isnan(x) else x
        if x == y:
            return y if np.signbit(x) == largest else x
        return max(x, y) if largest else min(x, y)

    same(result, np.array([pick(x, y) for x, y in zip(a, b, strict=True)], dtype), dtype)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("paired", [False, True])
def test_half_precision(engine: Engine, rng: np.random.Generator, op: str, paired: bool) -> None:
    """f16 arithmetic would be rounded twice, or the halves of a pair swapped."""
    inputs = [floats(rng, np.float16) for _ in range(3 if op == "fma" else 2)]
    if paired:
        packed = [one.view(np.uint32) for one in inputs]
        packed = [np.resize(one, LANES) for one in packed]
        result = apply(engine, f"{op}{'.rn' if op == 'fma' else ''}.f16x2", "f16x2", ["b32"] * len(inputs), packed)
        result = result[: LANES // 2].view(np.uint16)
    else:
        result = apply(engine, f"{op}{'.rn' if op == 'fma' else ''}.f16", "f16", ["f16"] * len(inputs), inputs)
    with np.errstate(all="ignore"):
        wide = [one.astype(np.longdouble) for one in inputs]
        exact = {
            "add": lambda: wide[0] + wide[1],
            "sub": lambda: wide[0] - wide[1],
            "mul": lambda: wide[0] * wide[1],
            "fma": lambda: wide[0] * wide[1] + wide[2],
        }[op]()
        same(result, exact.astype(np.float16), np.float16)


def _to_bf16(value: float) -> int:
    """Round to the nearest bfloat16, ties to even, by exact arithmetic."""
    if math.isnan(value):
        return 0x7FFF
    bits = int(np.float32(value).view(np.uint32))
    if math.isinf(value):
        return bits >> 16
    magnitude = Fraction(abs(value))
    candidates = [k for k in ((bits >> 16) + d & 0x7FFF for d in (-1, 0, 1)) if k <= 0x7F80]

    def of(k: int) -> Fraction:
        return Fraction(float(np.array(k << 16, np.uint32).view(np.float32))) if k < 0x7F80 else Fraction(2) ** 128

    best = min(candidates, key=lambda k: (abs(of(k) - magnitude), k & 1))
    return best | (0x8000 if math.copysign(1, value) < 0 else 0)


def test_bfloat16(engine: Engine, rng: np.random.Generator) -> None:
    """bf16 multiply-add and conversions would be rounded wrongly."""
    a, b, c = (rng.normal(0, 4, LANES).astype(np.float32) for _ in range(3))
    packed = [np.array([_to_bf16(float(v)) for v in one], np.uint16) for one in (a, b, c)]
    np.testing.assert_array_equal(apply(engine, "cvt.rn.bf16.f32", "bf16", ["f32"], [a]), packed[0])
    values = [(one.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for one in packed]
    result = apply(engine, "fma.rn.bf16", "bf16", ["bf16"] * 3, packed)
    expected = [_to_bf16(float(x * y + z)) for x, y, z in zip(*values, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, np.uint16))


APPROXIMATIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "rcp.approx.f32": (lambda x: 1 / x, 1),
    "sqrt.approx.f32": (np.sqrt, 1),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2),
    "sin.approx.f32": (np.sin, 2),
    "cos.approx.f32": (np.cos, 2),
    "ex2.approx.f32": (np.exp2, 2),
    "lg2.approx.f32": (np.log2, 2),
    "tanh.approx.f32": (np.tanh, 2),
    "sqrt.rn.f32": (np.sqrt, 0),
    "rcp.rn.f32": (lambda x: 1 / x, 0),
}


@pytest.mark.parametrize("op", APPROXIMATIONS)
def test_unary_functions(engine: Engine, rng: np.random.Generator, op: str) -> None:
    """A function of one number would be outside of its documented error, or wrong at a special value."""
    x = floats(rng, np.float32)
    function, ulps = APPROXIMATIONS[op]
    result = apply(engine, op, "f32", ["f32"], [x]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64)).astype(np.float32)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(result[~finite & ~np.isnan(expected)], expected[~finite & ~np.isnan(expected)])
        assert (
            np.abs(result[finite].astype(np.float64) - expected[finite]) <= ulps * np.spacing(np.abs(expected[finite]))
        ).all()


@pytest.mark.parametrize("test", ["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
def test_testp(engine: Engine, rng: np.random.Generator, test: str) -> None:
    """A class of numbers would not be recognised."""
    x = floats(rng, np.float32)
    tiny = np.finfo(np.float32).tiny
    expected = {
        "finite": np.isfinite(x),
        "infinite": np.isinf(x),
        "number": ~np.isnan(x),
        "notanumber": np.isnan(x),
        "normal": np.isfinite(x) & ((np.abs(x) >= tiny) | (x == 0)),
        "subnormal": (np.abs(x) < tiny) & (x != 0),
    }[test]
    np.testing.assert_array_equal(apply(engine, f"testp.{test}.f32", "pred", ["f32"], [x]), expected)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "f64"])
@pytest.mark.parametrize("comparison", [*COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])
def test_comparisons(engine: Engine, rng: np.random.Generator, comparison: str, type_name: str) -> None:
    """A comparison would be wrong, especially for NaNs or mixed signs."""
    is_float = type_name[0] == "f"
    if not is_float and comparison not in COMPARISONS:
        return
    n = _bits_of(type_name)
    if is_float:
        dtype = {16: np.float16, 32: np.float32, 64: np.float64}[n]
        a, b = floats(rng, dtype), floats(rng, dtype)
        b = np.where(rng.integers(0, 3, LANES) == 0, a, b)
        unordered = np.isnan(a) | np.isnan(b)
    else:
        a, b = integers(rng, n), integers(rng, n)
        b = np.where(rng.integers(0, 3, LANES) == 0, a, b)
        unordered = np.zeros(LANES, bool)
    result = apply(engine, f"setp.{comparison}.{type_name}", "pred", [type_name] * 2, [a, b])
    x, y = (
        (a, b)
        if is_float
        else (
            a.view(f"{'i' if type_name[0] == 's' else 'u'}{n // 8}"),
            b.view(f"{'i' if type_name[0] == 's' else 'u'}{n // 8}"),
        )
    )
    if comparison in COMPARISONS:
        expected = COMPARISONS[comparison](x, y) & ~unordered
    elif comparison in ("num", "nan"):
        expected = unordered == (comparison == "nan")
    else:
        expected = COMPARISONS[comparison[:-1]](x, y) | unordered
    np.testing.assert_array_equal(result, expected)


def test_set_and_boolean_operators(engine: Engine, rng: np.random.Generator) -> None:
    """`set` would return something else than all ones or 1.0 for true, or combine the predicate wrongly."""
    a, b = integers(rng, 32), integers(rng, 32)
    less = a < b
    np.testing.assert_array_equal(
        apply(engine, "set.lt.u32.u32", "u32", ["u32"] * 2, [a, b]), np.where(less, 0xFFFFFFFF, 0)
    )
    np.testing.assert_array_equal(
        apply(engine, "set.lt.f32.u32", "f32", ["u32"] * 2, [a, b]).view(np.float32), less.astype(np.float32)
    )
    odd = (a & 1).astype(bool)
    pre = ".reg .pred %q; .reg .b32 %m; and.b32 %m, %s0, 1; setp.eq.u32 %q, %m, 1;"
    for op, expected in (("and", less & odd), ("or", less | odd), ("xor", less ^ odd)):
        result = apply(engine, f"setp.lt.{op}.u32", "pred", ["u32"] * 2, [a, b], extra=", %q", pre=pre)
        np.testing.assert_array_equal(result, expected)
        result = apply(engine, f"setp.lt.{op}.u32", "pred", ["u32"] * 2, [a, b], extra=", !%q", pre=pre)
        inverse = {"and": less & ~odd, "or": less | ~odd, "xor": less ^ ~odd}[op]
        np.testing.assert_array_equal(result, inverse)


# --- conversions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
def test_float_to_integer(engine: Engine, rng: np.random.Generator, source: str, to: str, rounding: str) -> None:
    """Rounding, clamping or the integer for a NaN would be wrong."""
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[source]
    x = floats(rng, dtype)
    n = max(_bits_of(to), 16)
    result = apply(engine, f"cvt.{rounding}.{to}.{source}", f"b{n}", [source], [x])
    bits, signed = _bits_of(to), to[0] == "s"
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def convert(value: float) -> int:
        if math.isnan(value):
            integer = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
            return integer - (1 << bits) if signed and integer >> (bits - 1) else integer
        if math.isinf(value):
            return high if value > 0 else low
        integer = {
            "rni": lambda: round(Fraction(value)),
            "rzi": lambda: math.trunc(value),
            "rmi": lambda: math.floor(value),
            "rpi": lambda: math.ceil(value),
        }[rounding]()
        return max(low, min(high, integer))

    expected = [convert(float(v)) & (2**n - 1) for v in x]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


@pytest.mark.parametrize("to", ["f16", "f32", "f64"])
@pytest.mark.parametrize("source", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_to_float(engine: Engine, rng: np.random.Generator, source: str, to: str) -> None:
    """Large integers would be rounded twice."""
    x = integers(rng, _bits_of(source))
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[to]
    result = apply(engine, f"cvt.rn.{to}.{source}", to, [source], [x])
    values = [as_int(v, source) for v in x]
    with np.errstate(over="ignore"):
        if to == "f16":
            expected = np.array([float(max(-(10**6), min(10**6, v))) for v in values]).astype(np.float16)
        elif to == "f32":
            expected = x.view(f"{'i' if source[0] == 's' else 'u'}{_bits_of(source) // 8}").astype(np.float32)
        else:
            expected = np.array([float(v) for v in values])
    same(result, expected, dtype)


def test_integer_to_integer(engine: Engine, rng: np.random.Generator) -> None:
    """Signs would not be extended, or .sat would not clamp."""
    x = integers(rng, 32)
    signed = x.view(np.int32)
    np.testing.assert_array_equal(apply(engine, "cvt.s64.s32", "s64", ["s32"], [x]).view(np.int64), signed)
    np.testing.assert_array_equal(apply(engine, "cvt.u64.u32", "u64", ["u32"], [x]), x)
    np.testing.assert_array_equal(
        apply(engine, "cvt.s32.s8", "s32", ["s32"], [x]).view(np.int32), x.astype(np.uint8).view(np.int8)
    )
    np.testing.assert_array_equal(apply(engine, "cvt.u32.u16", "u32", ["u32"], [x]), x.astype(np.uint16))
    np.testing.assert_array_equal(apply(engine, "cvt.sat.u8.s32", "b32", ["s32"], [x]), np.clip(signed, 0, 255))
    np.testing.assert_array_equal(
        apply(engine, "cvt.sat.s16.s32", "b32", ["s32"], [x]).view(np.int32), np.clip(signed, -32768, 32767)
    )
    np.testing.assert_array_equal(apply(engine, "cvt.sat.s32.u32", "b32", ["u32"], [x]), np.minimum(x, 2**31 - 1))


def test_float_to_float(engine: Engine, rng: np.random.Generator) -> None:
    """Conversions between precisions would round wrongly, or integral ones keep fractions."""
    x, y = floats(rng, np.float64), floats(rng, np.float32)
    with np.errstate(all="ignore"):
        narrow = apply(engine, "cvt.rn.f32.f64", "f32", ["f64"], [x])
        same(narrow, x.astype(np.float32), np.float32, canonical=False)
        same(apply(engine, "cvt.f64.f32", "f64", ["f32"], [y]), y.astype(np.float64), np.float64)
        same(apply(engine, "cvt.rn.f16.f32", "f16", ["f32"], [y]), y.astype(np.float16), np.float16)
        same(apply(engine, "cvt.rn.f16.f64", "f16", ["f64"], [x]), x.astype(np.float16), np.float16)
        same(apply(engine, "cvt.rmi.f32.f32", "f32", ["f32"], [y]), np.floor(y), np.float32)
        same(apply(engine, "cvt.rni.f64.f64", "f64", ["f64"], [x]), np.rint(x), np.float64)
        clipped = np.where(np.isnan(y), np.float32(0), np.clip(y, np.float32(0), np.float32(1))) + np.float32(0)
        same(apply(engine, "cvt.sat.f32.f32", "f32", ["f32"], [y]), clipped, np.float32)
        toward_zero = apply(engine, "cvt.rz.f32.f64", "f32", ["f64"], [x]).view(np.float32)
        finite = np.isfinite(x)
        assert (np.abs(toward_zero[finite].astype(np.float64)) <= np.abs(x[finite])).all()


def test_eight_bit_floats(engine: Engine, rng: np.random.Generator) -> None:
    """e4m3 and e5m2 would not saturate, or would change when they are converted back and forth."""
    codes = np.resize(np.arange(65536, dtype=np.uint16), LANES * 64)
    for name, mantissa, bias in (("e4m3", 3, 7), ("e5m2", 2, 15)):
        wide = apply(engine, f"cvt.rn.f16x2.{name}x2", "f16x2", ["b16"], [codes])
        low = wide.astype(np.uint16).view(np.float16)

        def decode(code: int, mantissa: int = mantissa, bias: int = bias, name: str = name) -> float:
            exponent, fraction = code >> mantissa & (2 ** (7 - mantissa) - 1), code & (2**mantissa - 1)
            sign = -1.0 if code & 0x80 else 1.0
            if name == "e4m3" and code & 0x7F == 0x7F:
                return math.nan
            if name == "e5m2" and exponent == 31:
                return math.nan if fraction else sign * math.inf
            if exponent == 0:
                return sign * fraction * 2.0 ** (1 - bias - mantissa)
            return sign * (1 + fraction / 2**mantissa) * 2.0 ** (exponent - bias)

        expected = np.array([decode(int(c) & 255) for c in codes], np.float16)
        same(wide.astype(np.uint16), expected, np.float16)
        finite = np.isfinite(low)
        values = np.where(finite, low, 0).astype(np.float32)
        back = apply(engine, f"cvt.rn.satfinite.{name}x2.f32", "b16", ["f32", "f32"], [np.zeros_like(values), values])
        np.testing.assert_array_equal(back[finite] & 255, codes[finite] & 255)


def test_pack_and_unpack(engine: Engine, rng: np.random.Generator) -> None:
    """mov between vectors and wider registers would swap elements."""
    x = integers(rng, 64)
    pre = (
        ".reg .b32 %l, %h; .reg .b16 %q<4>; mov.b64 {%l, %h}, %s0; mov.b32 {%q0, %q1}, %l; mov.b32 {%q2, %q3}, %h; "
        "mov.b64 %s0, {%q3, %q2, %q1, %q0};"
    )
    result = apply(engine, "mov.b64", "b64", ["b64"], [x], pre=pre)
    np.testing.assert_array_equal(result.view(np.uint16).reshape(-1, 4), x.view(np.uint16).reshape(-1, 4)[:, ::-1])


@pytest.mark.parametrize(
    "function",
    ["sinf", "cosf", "tanf", "expf", "logf", "atanf", "sinhf", "erff", "tgammaf", "cbrtf", "log1pf", "asinf"],
)
def test_float_math_library(engine: Engine, rng: np.random.Generator, function: str) -> None:
    """NVRTC's f32 math functions would be far off: some instruction in them is wrong."""
    low, high = {"asinf": (-1.0, 1.0), "logf": (1e-6, 50.0), "log1pf": (-0.9, 50.0), "tgammaf": (0.5, 8.0)}.get(
        function, (-6.0, 6.0)
    )
    x = rng.uniform(low, high, 256).astype(np.float32)
    source = f'extern "C" __global__ void k(float *x) {{ x[threadIdx.x] = {function}(x[threadIdx.x]); }}'
    (result,) = engine.call(source, "k", 1, 256, x)
    reference = {"erff": math.erf, "tgammaf": math.gamma, "cbrtf": np.cbrt}.get(function) or getattr(
        math, function[:-1]
    )
    np.testing.assert_allclose(result, [reference(float(v)) for v in x], rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    "function", ["sin", "cos", "tan", "exp", "log", "atan", "tanh", "erf", "lgamma", "cbrt", "expm1", "acos"]
)
def test_double_math_library(engine: Engine, rng: np.random.Generator, function: str) -> None:
    """NVRTC's f64 math functions would be far off: some instruction in them is wrong."""
    low, high = {"acos": (-1.0, 1.0), "log": (1e-6, 50.0), "lgamma": (0.5, 30.0)}.get(function, (-20.0, 20.0))
    x = rng.uniform(low, high, 256)
    source = f'extern "C" __global__ void k(double *x) {{ x[threadIdx.x] = {function}(x[threadIdx.x]); }}'
    (result,) = engine.call(source, "k", 1, 256, x)
    reference = np.cbrt if function == "cbrt" else getattr(math, function)
    np.testing.assert_allclose(result, [reference(float(v)) for v in x], rtol=1e-14, atol=1e-15)


def test_power_and_large_arguments(engine: Engine, rng: np.random.Generator) -> None:
    """pow, or the reduction of large angles with its 64-bit products, would be wrong."""
    x, y = rng.uniform(0.1, 30, 256), rng.uniform(-8, 8, 256)
    z = rng.uniform(1e6, 1e15, 256)
    source = """extern "C" __global__ void k(double *x, double *y, double *z) { int i = threadIdx.x;
        x[i] = pow(x[i], y[i]); y[i] = sin(z[i]); z[i] = cosf((float)z[i]); }"""
    powers, sines, cosines = engine.call(source, "k", 1, 256, x, y, z)
    np.testing.assert_allclose(powers, x**y, rtol=1e-14)
    np.testing.assert_allclose(sines, [math.sin(v) for v in z], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(cosines, [math.cos(float(np.float32(v))) for v in z], rtol=1e-5, atol=1e-6)
