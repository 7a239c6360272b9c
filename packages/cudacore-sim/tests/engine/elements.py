# SPDX-License-Identifier: Apache-2.0
"""Runs one instruction on many elements, and makes random and special values for them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from harness import Engine

LANES = 1024
COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
BITS = {"16": np.uint16, "32": np.uint32, "64": np.uint64}


def bits_of(type_name: str) -> int:
    """Return the number of bits of a type of PTX."""
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
    """Run `instruction d, a, b, ...` once for each element of the inputs; return the bits of each d."""
    width = {"pred": 32}.get(result, bits_of(result))
    n = len(inputs[0])
    lines = [".reg .b64 %addr, %i; .reg .b32 %tid, %cta; .reg .pred %p;"]
    lines.append(f".reg .b{width} %d;")
    parameters = [".param .u64 out", *(f".param .u64 in{k}" for k in range(len(inputs)))]
    lines.append(
        "mov.u32 %tid, %tid.x; mov.u32 %cta, %ctaid.x; mad.lo.u32 %tid, %cta, 256, %tid; cvt.u64.u32 %i, %tid;"
    )
    names = []
    for k, type_name in enumerate(types):
        bits = max(bits_of(type_name), 16)
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
    """Return the number that the bits `value` represent in an integer type of PTX."""
    bits = bits_of(type_name)
    number = int(value) & ((1 << bits) - 1)
    return number - (1 << bits) if type_name[0] == "s" and number >> (bits - 1) else number


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
    """Check the bits of results, except for those of NaNs. With `canonical`, NaNs of f32 must be 0x7fffffff."""
    got = result.view(dtype)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(result[~nan], expected.astype(dtype).view(result.dtype)[~nan])
    if canonical and dtype is np.float32:
        assert (result[nan] == 0x7FFFFFFF).all()
