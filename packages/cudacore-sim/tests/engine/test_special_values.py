# SPDX-License-Identifier: Apache-2.0
"""Values that the PTX manual does not define: NaNs and their payloads, and approximations at the ends of their ranges.

All expected values are from an H200.
"""

from __future__ import annotations

import numpy as np
import pytest
from harness import Engine

BITS = {"16": np.uint16, "32": np.uint32, "64": np.uint64}
SUFFIX = {2: "16", 4: "32", 8: "64"}


def run(engine: Engine, instruction: str, result_bits: int, *columns: list[int], bits: int) -> list[int]:
    """Run an instruction once for each row of operands, which all have `bits` bits. Each column has one operand."""
    count = len(columns[0])
    names = [f"%s{k}" for k in range(len(columns))]
    loads = "\n".join(
        f"ld.param.u64 %a, [in{k}]; mad.lo.u64 %a, %i, {bits // 8}, %a; ld.global.b{bits} {name}, [%a];"
        for k, name in enumerate(names)
    )
    module = engine.body(
        f""".reg .b64 %a, %i; .reg .b32 %t; .reg .b{bits} {", ".join(names)}; .reg .b{result_bits} %d;
        mov.u32 %t, %tid.x; cvt.u64.u32 %i, %t;
        {loads}
        {instruction} %d, {", ".join(names)};
        ld.param.u64 %a, [out]; mad.lo.u64 %a, %i, {result_bits // 8}, %a; st.global.b{result_bits} [%a], %d;""",
        parameters=", ".join([".param .u64 out", *(f".param .u64 in{k}" for k in range(len(columns)))]),
        target="sm_90a",
        version="8.6",
    )
    out = module.buffer(np.zeros(count, BITS[str(result_bits)]))
    inputs = [module.buffer(np.array(column, BITS[str(bits)])) for column in columns]
    assert module.run("k", 1, count, out, *inputs).kind == "none"
    return [int(value) for value in out.array]


FIRST, SECOND, THIRD = 0x7FF0000000000001, 0xFFF8000000000005, 0x7FF8000000000007
ONE = 0x3FF0000000000000
QUIET = 0x0008000000000000


@pytest.mark.parametrize("op", ["add.f64", "sub.f64", "mul.f64", "add.rz.f64", "min.f64", "max.f64"])
def test_second_nan_of_f64_stays(engine: Engine, op: str) -> None:
    """A NaN of f64 would lose its payload or stay a signalling NaN, or the wrong one of two NaNs would be kept."""
    pairs = [FIRST, ONE, SECOND], [SECOND, FIRST, FIRST]
    expected = [SECOND, FIRST | QUIET, FIRST | QUIET]
    if op[:3] in {"min", "max"}:
        expected[1] = ONE
    assert run(engine, op, 64, *pairs, bits=64) == expected


@pytest.mark.parametrize("op", ["fma.rn.f64", "fma.rz.f64"])
def test_nans_of_fused_multiply_add(engine: Engine, op: str) -> None:
    """Of several NaNs, the wrong one would be kept: the second source comes first, then the third, then the first."""
    sources = [FIRST, FIRST, ONE, FIRST], [SECOND, ONE, SECOND, ONE], [THIRD, THIRD, THIRD, ONE]
    assert run(engine, op, 64, *sources, bits=64) == [SECOND, THIRD, SECOND, FIRST | QUIET]


def test_invalid_operations_of_f64(engine: Engine) -> None:
    """An invalid operation would return another NaN than the hardware."""
    infinity = 0x7FF0000000000000
    assert run(engine, "sub.f64", 64, [infinity], [infinity], bits=64) == [0xFFF8000000000000]
    assert run(engine, "div.rn.f64", 64, [SECOND, 0], [THIRD, 0], bits=64) == [SECOND, 0xFFF8000000000000]


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        ("neg.f16", [0x7C01, 0xFE00, 0x3C00], [0x7FFF, 0x7FFF, 0xBC00]),
        ("abs.bf16", [0xFF81, 0x7FC5, 0xBF80], [0x7FFF, 0x7FFF, 0x3F80]),
        ("neg.f16x2", [0xFE003C00], [0x7FFFBC00]),
        ("neg.f32", [0x7F800001, 0xFFC00000, 0x3F800000], [0x7FFFFFFF, 0x7FFFFFFF, 0xBF800000]),
        ("abs.ftz.f32", [0xFF800001, 0x80000001], [0x7FFFFFFF, 0]),
        ("neg.f64", [FIRST, SECOND, ONE], [FIRST | QUIET, SECOND, ONE | 1 << 63]),
        ("abs.f64", [SECOND, ONE | 1 << 63], [SECOND, ONE]),
    ],
)
def test_signs_of_nans(engine: Engine, op: str, given: list[int], expected: list[int]) -> None:
    """neg and abs would only change the sign of a NaN. A GPU makes the NaN quiet, or replaces it, instead."""
    bits = 16 if op.endswith(("f16",)) else 64 if op.endswith("f64") else 32
    assert run(engine, op, bits, given, bits=bits) == expected


@pytest.mark.parametrize(
    ("op", "bits", "given", "result_bits", "expected"),
    [
        ("cvt.rn.f32.f64", 64, [SECOND, FIRST, 2**63 - 1], 32, [0xFFC00000, 0x7FC00000, 0x7FFFFFFF]),
        ("cvt.rn.f16.f64", 64, [SECOND, 2**64 - 1], 16, [0xFE00, 0xFFFF]),
        ("cvt.rn.sat.f32.f64", 64, [FIRST], 32, [0]),
        ("cvt.f64.f32", 32, [0xFF800001], 64, [0xFFF8000020000000]),
        ("cvt.ftz.f64.f32", 32, [0xFF800001], 64, [0x7FFFFFFFE0000000]),
        ("cvt.f32.bf16", 16, [0xFF81, 0x7FC5], 32, [0xFF810000, 0x7FC50000]),
        ("cvt.f32.f16", 16, [0xFE05], 32, [0x7FFFFFFF]),
        ("cvt.rna.tf32.f32", 32, [0xFFFFFFFF, 0x7FC00005], 32, [0xFFFFE000, 0x7FC00000]),
        ("cvt.rpi.f64.f64", 64, [FIRST, SECOND], 64, [FIRST | QUIET, SECOND]),
        ("cvt.rmi.f64.f64", 64, [FIRST], 64, [FIRST | QUIET]),
    ],
)
def test_conversions_of_nans(
    engine: Engine, op: str, bits: int, given: list[int], result_bits: int, expected: list[int]
) -> None:
    """A conversion would keep more or fewer bits of a NaN than the hardware does."""
    assert run(engine, op, result_bits, given, bits=bits) == expected


def test_magnitudes_with_the_sign_of_the_product(engine: Engine) -> None:
    """.xorsign.abs would compare the operands with their signs, or return a wrong sign."""
    a, b = [0xC0000000, 0xBF800000, 0x7FC00000], [0x3F800000, 0xC0400000, 0xBF800000]  # -2 and 1, -1 and -3, NaN and -1
    assert run(engine, "min.xorsign.abs.f32", 32, a, b, bits=32) == [0xBF800000, 0x3F800000, 0xBF800000]
    assert run(engine, "max.NaN.xorsign.abs.f32", 32, a, b, bits=32) == [0xC0000000, 0x40400000, 0x7FFFFFFF]
    assert run(engine, "max.xorsign.abs.f16x2", 32, [0xC0003C00], [0x3C00C200], bits=32) == [0xC000C200]


def test_differences_of_bytes(engine: Engine) -> None:
    """vabsdiff4 would mix up bytes, treat signed bytes as unsigned ones, or not add the differences."""
    a, b, c = [0x01FF8000], [0x03018005], [1000]
    assert run(engine, "vabsdiff4.u32.u32.u32", 32, a, b, c, bits=32) == [0x02FE0005]
    assert run(engine, "vabsdiff4.u32.s32.s32", 32, a, b, c, bits=32) == [0x02020005]
    assert run(engine, "vabsdiff4.u32.u32.u32.add", 32, a, b, c, bits=32) == [1000 + 2 + 254 + 0 + 5]


def test_divisors_out_of_range(engine: Engine) -> None:
    """For divisors above 2^126, div.approx would return something other than zero, or div.full would return zero."""
    a, b = [0x3F800000, 0x3F800000, 0x7F800000], [0x7F000001, 0xFF000001, 0x7F000001]  # the divisors exceed 2^127
    assert run(engine, "div.approx.f32", 32, a, b, bits=32) == [0, 0x80000000, 0x7FFFFFFF]
    assert run(engine, "div.full.f32", 32, a[:1], b[:1], bits=32) == [0x00400000]


def test_seeds_ignore_low_words(engine: Engine) -> None:
    """rcp.approx and rsqrt.approx of f64 would use the low word, without which these NaNs are infinities."""
    assert run(engine, "rcp.approx.ftz.f64", 64, [FIRST, FIRST | 1 << 63], bits=64) == [0, 1 << 63]
    assert run(engine, "rsqrt.approx.ftz.f64", 64, [FIRST], bits=64) == [0]
