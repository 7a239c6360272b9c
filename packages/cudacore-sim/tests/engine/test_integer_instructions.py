# SPDX-License-Identifier: Apache-2.0
"""Integer and bit instructions, on random and special values: the results are compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from elements import BITS, LANES, apply, as_int, bits_of, integers
from harness import Engine


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
    """Integer arithmetic would be wrong, for example at the ends of a type's range or with zero."""
    n = bits_of(type_name)
    a, b = integers(rng, n), integers(rng, n)
    result = apply(engine, f"{op}.{type_name}", type_name, [type_name] * 2, [a, b])
    expected = [
        INTEGER_BINARY[op](as_int(x, type_name), as_int(y, type_name), n) & (2**n - 1)
        for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32"])
def test_widening_products(engine: Engine, rng: np.random.Generator, type_name: str) -> None:
    """mul.wide and mad.wide would lose the upper half of the product."""
    n = bits_of(type_name)
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
    n = bits_of(type_name)
    inputs = [integers(rng, n) for _ in range(3)]
    result = apply(engine, op, type_name, [type_name] * 3, inputs)
    expected = [reference(*(as_int(v, type_name) for v in row)) & (2**n - 1) for row in zip(*inputs, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


def _bfe(type_name: str) -> Callable[[int, int, int], int]:
    n = bits_of(type_name)

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
    n = bits_of(type_name)

    def reference(a: int) -> int:
        if type_name[0] == "s" and a >> (n - 1):
            a = ~a & (2**n - 1)
        return a.bit_length() - 1 if a else 0xFFFFFFFF

    return reference


def _shift(type_name: str, left: bool) -> Callable[[int, int], int]:
    n = bits_of(type_name)

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
    """The result of a bit instruction would differ from the PTX manual."""
    result_type, types, reference = BITWISE[op]
    inputs = []
    for type_name in types:
        if type_name == "small":
            inputs.append(rng.integers(0, 80, LANES).astype(np.uint32))
        elif type_name == "signed_small":
            inputs.append(rng.integers(-6, 7, LANES).astype(np.int32).view(np.uint32))
        else:
            inputs.append(integers(rng, bits_of(type_name)))
    types = ["b32" if "small" in name else name for name in types]
    result = apply(engine, op, result_type, types, inputs)
    n = bits_of(result_type)
    expected = [reference(*(int(v) for v in row)) & (2**n - 1) for row in zip(*inputs, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, BITS[str(n)]))


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0x1B])
def test_lop3(engine: Engine, rng: np.random.Generator, table: int) -> None:
    """lop3 would read the rows of its truth table in the wrong order."""
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
    """Carries of mad.cc and madc, which 128-bit products in CUDA C++ need, would be wrong."""
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
