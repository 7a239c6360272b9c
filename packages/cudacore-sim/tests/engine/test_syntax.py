# SPDX-License-Identifier: Apache-2.0
"""Notations that PTX allows. The expected values are those of ptxas 13.0."""

from __future__ import annotations

import numpy as np
import pytest
from harness import CompileError, Engine

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1|2", 3),
        ("6 & 3 | 8", 10),
        ("1 ^ 3", 2),
        ("(3 > 2) ? 5 : 6", 5),
        ("0 ? 2 : 0 ? 4 : 5", 5),
        ("1 ? 2 : 3 ? 4 : 5", 2),
        ("-1 ? 2 : 3U", 2),
        ("(1 ? -4 : 3U) / 2", -2),
        ("-7 % 3", 0),
        ("7 % -3", 7),
        ("-7 / 3", -2),
        ("7 / -3", -2),
        ("~0 >> 1", 2**63 - 1),
        ("-1 >> 1", -1),
        ("0xFFFFFFFFFFFFFFFF >> 1", 2**63 - 1),
        ("0xFFFFFFFFFFFFFFFF / 2", 2**63 - 1),
        ("~0 / 2", 2**63 - 1),
        ("(1|-2) / 2", 0),
        ("-1U / 2", 2**63 - 1),
        ("-1 < 0U", 0),
        ("(.u64) -1 / 2", 2**63 - 1),
        ("(.s64) 0xFFFFFFFFFFFFFFFF / 2", 0),
        ("1 << 64", 1),
        ("-8 >> 70", -1),
        ("1.5 < 2.5", 1),
        ("-9223372036854775808 / -1", 0),
    ],
)
def test_constant_expressions(engine: Engine, text: str, value: int) -> None:
    """A constant expression would be refused, or have a different value than with the driver's compiler."""
    module = engine.ptx(f"{HEADER}.global .align 8 .u64 v = {text};\n.visible .entry k() {{ ret; }}\n")
    assert module.variables["v"].array.view(np.int64)[0] == value
    module = engine.body(f".reg .b64 %a, %v; ld.param.u64 %a, [out]; mov.b64 %v, {text}; st.global.b64 [%a], %v;")
    out = module.buffer(np.zeros(1, np.int64))
    assert module.run("k", 1, 1, out).kind == "none"
    assert out.array[0] == value


@pytest.mark.parametrize(
    "text", ["1 ? 2", "1 ? 2 : ", "1 ? 2 : 3.0", "1.0 ? 2 : 3", "1 + 2.0", "1.0 | 2.0", "(.u64) 1.0", "?" * 500]
)
def test_constant_expressions_that_mean_nothing(engine: Engine, text: str) -> None:
    """An incomplete expression, or a mixture of types, would be accepted."""
    with pytest.raises(CompileError, match="line 4"):
        engine.ptx(f"{HEADER}.global .align 8 .u64 v = {text};\n")


def test_floating_constant_expressions(engine: Engine) -> None:
    """Arithmetic with floating-point constants would be refused."""
    module = engine.ptx(f"{HEADER}.global .f64 d = 1.0+2.5*2.0;\n.global .f32 f = 3.0/2.0;\n")
    assert module.variables["d"].array.view(np.float64)[0] == 6
    assert module.variables["f"].array.view(np.float32)[0] == 1.5


def test_elements_of_variables(engine: Engine) -> None:
    """name[2] as an operand would be refused, or would count bytes instead of elements."""
    module = engine.ptx(
        HEADER
        + """.global .align 4 .u32 words[8] = {10, 11, 12, 13, 14};
    .global .align 16 .v4 .f32 quads[4];
    .visible .entry k(.param .u64 out) {
      .reg .b64 %a, %b, %d; .reg .b32 %r<4>; .shared .align 2 .u16 halves[8]; .local .align 8 .u64 wide[4];
      ld.param.u64 %a, [out];
      mov.u64 %b, words; mov.u64 %d, words[3]; sub.u64 %d, %d, %b; st.global.u64 [%a], %d;
      mov.u64 %b, quads; mov.u64 %d, quads[2]; sub.u64 %d, %d, %b; st.global.u64 [%a+8], %d;
      mov.u32 %r1, halves; mov.u32 %r2, halves[5]; sub.u32 %r2, %r2, %r1; st.global.u32 [%a+16], %r2;
      mov.u64 %b, wide; mov.u64 %d, wide[3]; sub.u64 %d, %d, %b; st.global.u64 [%a+24], %d;
      ld.global.u32 %r3, words[2]; st.global.u32 [%a+32], %r3;
      st.global.u32 words[7], 99; ld.global.u32 %r3, [words+28]; st.global.u32 [%a+40], %r3;
      st.local.u64 wide[1], 7; ld.local.u64 %d, [wide+8]; st.global.u64 [%a+48], %d;
      ret; }"""
    )
    out = module.buffer(np.zeros(7, np.uint64))
    assert module.run("k", 1, 1, out).kind == "none"
    assert out.array.tolist() == [12, 32, 10, 24, 12, 99, 7]


@pytest.mark.parametrize("line", ["mov.u32 %r1, %r1[2];", "mov.u64 %a, nowhere[2];", "ld.local.u64 %a, wide[4];"])
def test_elements_of_what_has_none(engine: Engine, line: str) -> None:
    """An element of a register, or an element beyond the end of a variable, would be accepted."""
    with pytest.raises(CompileError, match="line 7"):
        engine.body(f".reg .b64 %a; .reg .b32 %r<4>; .local .align 8 .u64 wide[4];\n{line}")


def test_vector_registers(engine: Engine) -> None:
    """Vector registers would be refused, or their components would be mixed up."""
    module = engine.body(
        """.reg .b64 %a, %d<3>; .reg .v4 .f32 %v; .reg .v2 .u32 %w<4>; .reg .f32 %f<5>; .reg .b32 %r<3>;
      ld.param.u64 %a, [out];
      ld.global.v4.f32 %v, [%a];
      mov.f32 %f1, %v.x; mov.f32 %f2, %v.a;
      mov.f32 %v.x, %f2; mov.f32 %v.w, %f1;
      mov.v4.f32 {%f1, %f2, %f3, %f4}, %v;
      add.f32 %v.g, %f2, %f3;
      st.global.v4.f32 [%a], %v;
      mov.v2.u32 %w1, {5, 6};
      mov.v2.u32 %w2, {%w1.y, %w1.x};
      mov.v2.u32 {%w2.x, %w2.y}, {%w2.y, %w2.x};
      mov.b64 %d1, %w2; st.global.u64 [%a+16], %d1;
      mov.b64 %w3, 0x900000008; { .reg .b32 %w3; mov.b32 %w3, 1; st.global.u32 [%a+32], %w3; }
      st.global.u32 [%a+24], %w3.x; st.global.u32 [%a+28], %w3.y;""".replace(
            "mov.b64 %w3, 0x900000008;", "mov.b64 %d2, 0x900000008; mov.b64 %w3, %d2;"
        )
    )
    values = np.zeros(9, np.uint32)
    values[:4] = np.array([1, 2, 3, 4], np.float32).view(np.uint32)
    out = module.buffer(values)
    assert module.run("k", 1, 1, out).kind == "none"
    assert out.array[:4].view(np.float32).tolist() == [4, 5, 3, 1]
    assert out.array[4:].tolist() == [5, 6, 8, 9, 1]


@pytest.mark.parametrize(
    "line",
    [
        "mov.f32 %f1, %v;",
        "mov.f32 %f1, %w.z;",
        "mov.f32 %f1, %f1.x;",
        "mov.f32 %f1, -%f1;",
        "add.f32 %f1.b0, %f1, %f1;",
        "mov.v4.f32 %v, {%f1, %f1};",
        "mov.v2.f32 %v, %v;",
        ".reg .v2 .pred %p;",
        ".reg .f32 %v;",
    ],
)
def test_misused_vector_registers(engine: Engine, line: str) -> None:
    """A vector in place of a scalar, or a component that does not exist, would be accepted."""
    with pytest.raises(CompileError, match="line 7"):
        engine.body(f".reg .v4 .f32 %v; .reg .v2 .f32 %w; .reg .f32 %f<3>;\n{line}")


def test_predicates_that_are_special_registers(engine: Engine) -> None:
    """%is_explicit_cluster, a special register that is a predicate, could not be read."""
    module = engine.body(
        """.reg .b64 %a; .reg .b32 %r<3>; .reg .pred %p<3>; ld.param.u64 %a, [out];
      mov.pred %p1, %is_explicit_cluster; selp.u32 %r1, 1, 0, %p1;
      not.pred %p2, %p1; selp.u32 %r2, 1, 0, %p2; st.global.v2.u32 [%a], {%r1, %r2};"""
    )
    for cluster, expected in ((1, [0, 1]), (2, [1, 0])):
        out = module.buffer(np.full(2, 7, np.uint32))
        assert module.run("k", 2, 1, out, cluster=cluster).kind == "none"
        assert out.array.tolist() == expected


def test_discard(engine: Engine) -> None:
    """The instruction `discard` would not be supported, or would accept invalid sizes."""
    engine.body(".reg .b64 %a; ld.param.u64 %a, [out]; discard.global.L2 [%a], 128; discard.L2 [%a+128], 128;")
    with pytest.raises(CompileError, match="128"):
        engine.body(".reg .b64 %a; ld.param.u64 %a, [out]; discard.global.L2 [%a], 64;")
