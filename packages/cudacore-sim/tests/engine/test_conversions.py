# SPDX-License-Identifier: Apache-2.0
"""Conversions between types, moves of parts of registers, and the math functions that NVRTC compiles."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from elements import BITS, LANES, apply, as_int, bits_of, floats, integers, same
from harness import CompileError, Engine


@pytest.mark.parametrize("rounding", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
def test_float_to_integer(engine: Engine, rng: np.random.Generator, source: str, to: str, rounding: str) -> None:
    """Rounding or clamping would be wrong, or NaN would be converted to a wrong integer."""
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[source]
    x = floats(rng, dtype)
    n = max(bits_of(to), 16)
    result = apply(engine, f"cvt.{rounding}.{to}.{source}", f"b{n}", [source], [x])
    bits, signed = bits_of(to), to[0] == "s"
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
    x = integers(rng, bits_of(source))
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[to]
    result = apply(engine, f"cvt.rn.{to}.{source}", to, [source], [x])
    values = [as_int(v, source) for v in x]
    with np.errstate(over="ignore"):
        if to == "f16":
            expected = np.array([float(max(-(10**6), min(10**6, v))) for v in values]).astype(np.float16)
        elif to == "f32":
            expected = x.view(f"{'i' if source[0] == 's' else 'u'}{bits_of(source) // 8}").astype(np.float32)
        else:
            expected = np.array([float(v) for v in values])
    same(result, expected, dtype)


def test_integer_to_integer(engine: Engine, rng: np.random.Generator) -> None:
    """Signed integers would not be sign-extended, or .sat would not clamp."""
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
    """Conversions between precisions would round wrongly, or conversions to integral values would keep fractions."""
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
    """Conversions to e4m3 or e5m2 would not saturate, or numbers would change if they are converted back and forth."""
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


@pytest.mark.parametrize("modifiers", ["rzi.rmi.s32.f32", "rmi.rzi.s32.f32", "rni.rni.s32.f32", "rzi.rn.f32.f32"])
def test_two_rounding_modifiers(engine: Engine, modifiers: str) -> None:
    """A conversion with two rounding modes would be executed with one of them."""
    with pytest.raises(CompileError) as caught:
        engine.body(f".reg .b32 %r<3>;\ncvt.{modifiers} %r1, %r2;")
    assert caught.value.failure == "unsupported_instruction"


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
    """An instruction would be so wrong that NVRTC's f32 math functions give quite different results."""
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
    """An instruction would be so wrong that NVRTC's f64 math functions give quite different results."""
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
