# SPDX-License-Identifier: Apache-2.0
"""Instructions on floating-point numbers, on random and special values: bit for bit if PTX defines the bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from elements import COMPARISONS, LANES, apply, bits_of, floats, integers, same
from harness import Engine


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
    """Round a value within the range of f32 to f32, in the given direction."""
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
    """A rounding mode would be ignored, or would also apply to later instructions."""
    a, b, c = (rng.normal(0, 100, LANES).astype(np.float32) for _ in range(3))
    inputs = [a, b, c] if op == "fma" else [a, b]
    result = apply(engine, f"{op}.{rounding}.f32", "f32", ["f32"] * len(inputs), inputs).view(np.float32)
    for i in range(0, LANES, 5):
        x, y, z = float(a[i]), float(b[i]), float(c[i])
        exact = _exact(x, 1.0, y) if op == "add" else _exact(x, y, 0.0) if op == "mul" else _exact(x, y, z)
        assert result[i] == _neighbour(exact, rounding)


@pytest.mark.parametrize("type_name", ["f32", "f64"])
def test_fused_multiply_add(engine: Engine, rng: np.random.Generator, type_name: str) -> None:
    """fma would round both the product and the sum."""
    dtype = np.float32 if type_name == "f32" else np.float64
    a, b = rng.normal(0, 1, LANES).astype(dtype), rng.normal(0, 1, LANES).astype(dtype)
    c = (-(a * b)).astype(dtype)  # so that the sum is the rounding error of the product
    result = apply(engine, f"fma.rn.{type_name}", type_name, [type_name] * 3, [a, b, c]).view(dtype)
    expected = [float(_exact(float(x), float(y), float(z))) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(result, np.array(expected, dtype))


def test_flush_and_saturate(engine: Engine, rng: np.random.Generator) -> None:
    """.ftz would keep subnormal numbers, or .sat would leave values outside of [0, 1]."""
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
    """min or max would choose wrongly between a NaN and a number, or not treat -0 as less than +0."""
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
    """f16 arithmetic would be rounded twice, or the halves of a pair would be swapped."""
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
    """Multiply-add in bf16, or conversions to bf16, would be rounded wrongly."""
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
    """An approximate function would exceed its documented error, or be wrong for a special value."""
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
    """testp would not recognise a class of numbers."""
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


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "f64"])
@pytest.mark.parametrize("comparison", [*COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])
def test_comparisons(engine: Engine, rng: np.random.Generator, comparison: str, type_name: str) -> None:
    """A comparison would be wrong, for example for NaNs or for numbers with different signs."""
    is_float = type_name[0] == "f"
    if not is_float and comparison not in COMPARISONS:
        return
    n = bits_of(type_name)
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
    """`set` would not return all ones or 1.0 for true, or `setp` would combine its predicates wrongly."""
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
