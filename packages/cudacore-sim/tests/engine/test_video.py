# SPDX-License-Identifier: Apache-2.0
"""The scalar video instructions, compared with the description in the PTX manual."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from elements import COMPARISONS
from harness import CompileError, Engine

PARTS = {"": (32, 0), ".b0": (8, 0), ".b1": (8, 8), ".b2": (8, 16), ".b3": (8, 24), ".h0": (16, 0), ".h1": (16, 16)}
TYPES = ("u32", "s32")
EDGES = np.array([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 33], np.uint32)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _extract(word: int, part: str, type_name: str) -> int:
    bits, shift = PARTS[part]
    value = word >> shift & ((1 << bits) - 1)
    return _signed(value, bits) if type_name == "s32" else value


def _saturate(value: int, bits: int, type_name: str) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_name == "s32" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def _finish(value: int, c: int, d_type: str, part: str, second: str) -> int:
    """Return a result: apply the second operation to `value` and `c`, or insert `value` into a part of `c`."""
    value &= 0xFFFFFFFF
    if second:
        if second == "add":
            return (value + c) & 0xFFFFFFFF
        key = (lambda x: _signed(x, 32)) if d_type == "s32" else int
        return (min if second == "min" else max)(value, c, key=key)
    if not part:
        return value
    bits, shift = PARTS[part]
    mask = ((1 << bits) - 1) << shift
    return (value << shift & mask) | (c & ~mask & 0xFFFFFFFF)


def _run(engine: Engine, rng: np.random.Generator, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Run instructions that compute %d from %a, %b and %c. Return the inputs, and a row of results per instruction."""
    inputs = rng.integers(0, 2**32, (64, 3), dtype=np.uint32)
    inputs[: len(EDGES), 0] = EDGES
    inputs[: len(EDGES), 1] = rng.permutation(EDGES)
    inputs[len(EDGES) : 2 * len(EDGES), 1] = EDGES
    body = """.reg .b64 %p, %q, %o; .reg .b32 %a, %b, %c, %d, %t;
      ld.param.u64 %p, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %q, %t, 12;
      add.u64 %p, %p, %q; ld.global.u32 %a, [%p]; ld.global.u32 %b, [%p+4]; ld.global.u32 %c, [%p+8];
      mul.wide.u32 %q, %t, 4; add.u64 %o, %o, %q;"""
    for i, line in enumerate(lines):
        body += f"\n{line} st.global.u32 [%o+{256 * i}], %d;"
    module = engine.body(body, parameters=".param .u64 in, .param .u64 out")
    out = module.buffer(np.zeros((len(lines), 64), np.uint32))
    assert module.run("k", 1, 64, module.buffer(inputs), out).kind == "none"
    return inputs, out.array


@pytest.mark.parametrize("op", ["vadd", "vsub", "vabsdiff", "vmin", "vmax"])
def test_arithmetic(engine: Engine, rng: np.random.Generator, op: str) -> None:
    """A wrong byte or half-word would be selected, or with a wrong sign, or the second operation would be wrong."""
    parts = list(PARTS)
    cases = []
    for d, a, b in itertools.product(TYPES, repeat=3):
        for sat in ("", ".sat"):
            for end in ("", "add", "min", "max", "part"):
                pa, pb = (parts[int(i)] for i in rng.integers(0, len(parts), 2))
                cases.append((d, a, b, sat, end, pa, pb, parts[int(rng.integers(1, len(parts)))]))
    lines = []
    for d, a, b, sat, end, pa, pb, pd in cases:
        second = f".{end}" if end in {"add", "min", "max"} else ""
        to, c = ("%d" + pd if end == "part" else "%d"), (", %c" if end else "")
        lines.append(f"{op}.{d}.{a}.{b}{sat}{second} {to}, %a{pa}, %b{pb}{c};")
    inputs, out = _run(engine, rng, lines)
    operations = {
        "vadd": lambda x, y: x + y,
        "vsub": lambda x, y: x - y,
        "vabsdiff": lambda x, y: abs(x - y),
        "vmin": min,
        "vmax": max,
    }
    for (d, a, b, sat, end, pa, pb, pd), line, row in zip(cases, lines, out, strict=True):
        part = pd if end == "part" else ""
        for (x, y, c), got in zip(inputs.tolist(), row.tolist(), strict=True):
            value = operations[op](_extract(x, pa, a), _extract(y, pb, b))
            if sat:
                value = _saturate(value, PARTS[part][0], d)
            expected = _finish(value, c, d, part, end if end not in {"", "part"} else "")
            assert got == expected, (line, hex(x), hex(y), hex(c))


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
@pytest.mark.parametrize("op", ["vshl", "vshr"])
def test_shifts(engine: Engine, rng: np.random.Generator, op: str, mode: str) -> None:
    """A shift by more than 31 would not be clamped or wrapped as its mode says."""
    cases = list(itertools.product(TYPES, TYPES, ("", ".sat"), ("", ".b1", ".h1"), ("", ".b0"), ("", "add", "part")))
    lines = []
    for d, a, sat, pa, pb, end in cases:
        to, c, second = ("%d.h0" if end == "part" else "%d"), (", %c" if end else ""), ".add" if end == "add" else ""
        lines.append(f"{op}.{d}.{a}.u32{sat}.{mode}{second} {to}, %a{pa}, %b{pb}{c};")
    inputs, out = _run(engine, rng, lines)
    for (d, a, sat, pa, pb, end), line, row in zip(cases, lines, out, strict=True):
        for (x, y, c), got in zip(inputs.tolist(), row.tolist(), strict=True):
            count = _extract(y, pb, "u32")
            count = count & 31 if mode == "wrap" else min(count, 32)
            value = _extract(x, pa, a)
            value = value << count if op == "vshl" else value >> count
            part = ".h0" if end == "part" else ""
            if sat:
                value = _saturate(value, PARTS[part][0], d)
            assert got == _finish(value, c, d, part, "add" if end == "add" else ""), (line, hex(x), hex(y), hex(c))


def test_multiply_add(engine: Engine, rng: np.random.Generator) -> None:
    """vmad would ignore a sign, the scale or the saturation."""
    signs = [("", "", ""), ("-", "", ""), ("", "-", ""), ("-", "-", ""), ("", "", "-")]
    cases = [
        (a, b, sat, scale, po, pa, pb, sign)
        for a, b, sat, scale in itertools.product(TYPES, TYPES, ("", ".sat"), ("", ".shr7", ".shr15"))
        for (pa, pb) in (("", ""), (".h0", ".b1"))
        for po, sign in [(".po", signs[0]), *(("", one) for one in signs)]
    ]
    lines = [
        f"vmad.s32.{a}.{b}{po}{sat}{scale} %d, {sign[0]}%a{pa}, {sign[1]}%b{pb}, {sign[2]}%c;"
        for a, b, sat, scale, po, pa, pb, sign in cases
    ]
    inputs, out = _run(engine, rng, lines)
    for (a, b, sat, scale, po, pa, pb, sign), line, row in zip(cases, lines, out, strict=True):
        minus = (sign[0] == "-") != (sign[1] == "-")
        is_signed = "s32" in (a, b) or minus or sign[2] == "-"
        for (x, y, c), got in zip(inputs.tolist(), row.tolist(), strict=True):
            product = _extract(x, pa, a) * _extract(y, pb, b)
            added = ~c & 0xFFFFFFFF if sign[2] == "-" and not minus else c
            added = _signed(added, 32) if is_signed else added
            total = (~product if minus else product) + added + int(bool(po) or minus or sign[2] == "-")
            total >>= int(scale[4:] or 0)
            if sat:
                total = _saturate(total, 32, "s32" if is_signed else "u32")
            assert got == total & 0xFFFFFFFF, (line, hex(x), hex(y), hex(c))


def test_comparisons(engine: Engine, rng: np.random.Generator) -> None:
    """vset would treat signed numbers as unsigned ones, or return a wrong result."""
    cases = list(itertools.product(COMPARISONS, TYPES, TYPES, ("", ".b3", ".h0"), ("", "add", "min", "max", ".b1")))
    lines = []
    for name, a, b, part, end in cases:
        to, c = ("%d" + end if end.startswith(".") else "%d"), (", %c" if end else "")
        second = f".{end}" if end in {"add", "min", "max"} else ""
        lines.append(f"vset.{a}.{b}.{name}{second} {to}, %a{part}, %b{part}{c};")
    inputs, out = _run(engine, rng, lines)
    for (name, a, b, part, end), line, row in zip(cases, lines, out, strict=True):
        for (x, y, c), got in zip(inputs.tolist(), row.tolist(), strict=True):
            value = int(COMPARISONS[name](_extract(x, part, a), _extract(y, part, b)))
            to, second = (end, "") if end.startswith(".") else ("", end)
            assert got == _finish(value, c, "u32", to, second), (line, hex(x), hex(y), hex(c))


SIMD = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("op", [*SIMD, "vset"])
def test_parts_of_words(engine: Engine, rng: np.random.Generator, op: str, count: int) -> None:
    """A part would be computed from other parts than those that are selected, or overwrite a part that is not."""
    bits, letter = 32 // count, "h" if count == 2 else "b"
    defaults = "".join(map(str, range(count)))[::-1], "".join(map(str, range(count, 2 * count)))[::-1]
    cases = []
    for d, a, b, end in itertools.product(TYPES, TYPES, TYPES, ("", ".sat", ".add")):
        if op == "vset" and (d == "s32" or end == ".sat"):
            continue
        masks = [i for i in range(count) if rng.random() < 0.6] or [0]
        chosen = ["".join(map(str, rng.integers(0, 2 * count, count))) for _ in range(2)]
        name = ".".join([f"{op}{count}", *([] if op == "vset" else [d]), a, b])
        comparison = rng.choice(list(COMPARISONS)) if op == "vset" else ""
        selected = rng.random() < 0.7
        mask = "".join(map(str, reversed(masks)))
        operands = (
            f"%d.{letter}{mask}, %a.{letter}{chosen[0]}, %b.{letter}{chosen[1]}" if selected else "%d, %a, %b"
        ) + ", %c"
        line = f"{name}{f'.{comparison}' if comparison else ''}{end} {operands};"
        cases.append(
            (line, d, a, b, end, comparison, masks if selected else range(count), chosen if selected else defaults)
        )
    inputs, out = _run(engine, rng, [case[0] for case in cases])
    for (line, d, a_type, b_type, end, comparison, masks, chosen), row in zip(cases, out, strict=True):
        compute = COMPARISONS[comparison] if comparison else SIMD[op]
        for (a, b, c), got in zip(inputs.tolist(), row.tolist(), strict=True):
            parts = [word >> bits * i & ((1 << bits) - 1) for word in (a, b) for i in range(count)]
            expected = c
            for i in masks:
                x, y = (parts[int(selector[count - 1 - i])] for selector in chosen)
                x = _signed(x, bits) if a_type == "s32" else x
                y = _signed(y, bits) if b_type == "s32" else y
                value = int(compute(x, y))
                if end == ".sat":
                    value = _saturate(value, bits, d)
                if end == ".add":
                    expected = (expected + value) & 0xFFFFFFFF
                else:
                    mask = ((1 << bits) - 1) << bits * i
                    expected = expected & ~mask & 0xFFFFFFFF | value << bits * i & mask
            assert got == expected, (line, hex(a), hex(b), hex(c))


@pytest.mark.parametrize(
    "line",
    [
        "vadd2.u32.u32.u32 %r1, %r1, %r1;",
        "vadd2.u32.u32.u32.sat.add %r1, %r1, %r1, %r1;",
        "vadd2.u32.u32.u32 %r1.h01, %r1, %r1, %r1;",
        "vadd2.u32.u32.u32 %r1.h2, %r1, %r1, %r1;",
        "vadd2.u32.u32.u32 %r1, %r1.h4, %r1, %r1;",
        "vadd2.u32.u32.u32 %r1, %r1.h14, %r1, %r1;",
        "vadd4.u32.u32.u32 %r1, %r1.h10, %r1, %r1;",
        "vset4.u32.u32.lt.sat %r1, %r1, %r1, %r1;",
        "vadd.u32.u32.u32.add %r1, %r1, %r1;",
        "vadd.u32.u32.u32.add %r1.b0, %r1, %r1, %r1;",
        "vadd.u32.u32.u32 %r1, %r1.b4, %r1;",
        "vadd.u32.u32.u16 %r1, %r1, %r1;",
        "vadd.u32.u32.u32 %r1, -%r1, %r1;",
        "vadd.u32.u32.u32;",
        "vshl.u32.u32.s32.clamp %r1, %r1, %r1;",
        "vshl.u32.u32.u32 %r1, %r1, %r1;",
        "vmad.s32.s32.s32.po %r1, -%r1, %r1, %r1;",
        "vmad.s32.s32.s32 %r1, -%r1, %r1, -%r1;",
        "vmad.s32.s32.s32 %r1.b0, %r1, %r1, %r1;",
        "vset.u32.u32.lt.sat %r1, %r1, %r1;",
        "vset.u32.u32.nan %r1, %r1, %r1;",
    ],
)
def test_what_there_is_not(engine: Engine, line: str) -> None:
    """An unsupported form of an instruction would be executed as another form."""
    with pytest.raises(CompileError, match="line 7"):
        engine.body(f".reg .b32 %r<3>;\n{line}")
