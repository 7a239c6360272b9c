# SPDX-License-Identifier: Apache-2.0
"""Compares the results of a driver with those of a GPU, and describes the differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corpus.catalogue import ELEMENTS, Kernel, Output, Row
from corpus.values import FORMATS, Array

_SHOWN = 5  # how many differences are shown for each row


def _numbers(bits: Array, kind: str) -> npt.NDArray[np.float64]:
    """Return the values that have the given bits."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).astype(np.float64)


def _steps(got: Array, expected: Array, kind: str) -> npt.NDArray[np.float64]:
    """Count the steps between representable numbers; infinity is one step above the largest finite number."""
    sign = 1 << (FORMATS[kind].bits - 1)

    def place(bits: Array) -> npt.NDArray[np.float64]:
        magnitude = (bits & bits.dtype.type(sign - 1)).astype(np.int64)
        return np.where(bits & bits.dtype.type(sign), -magnitude, magnitude)

    a, b = place(got), place(expected)
    same_side = (a < 0) == (b < 0)  # the difference of two 64-bit numbers of one sign cannot overflow
    exact = np.abs(np.where(same_side, a - b, 0)).astype(np.float64)
    return np.where(same_side, exact, np.abs(a.astype(np.float64)) + np.abs(b.astype(np.float64)))


def _several_nans(kernel: Kernel) -> npt.NDArray[np.bool_]:
    """Find the columns of a table that have more than one NaN of f64 among their inputs."""
    count = np.zeros(ELEMENTS, np.int64)
    for one, array in zip(kernel.inputs, kernel.make_inputs(), strict=True):
        if one.kind == "f64" and not one.by_value and one.count == ELEMENTS:
            count += np.isnan(_numbers(array, "f64"))
    return count > 1


def differs(
    got: Array, expected: Array, row: Row, kind: str, any_nan: npt.NDArray[np.bool_] | bool = False
) -> npt.NDArray[np.bool_]:
    """Find the results that differ by more than the row allows.

    If the row has bounds, all NaNs are equal, and zeros must have the same sign. If the row has no bounds, bits are
    compared, including the bits of NaNs. With `any_nan`, all NaNs of f64 are equal even if the row has no bounds: if
    several operands are NaNs, the result has the payload of one of them, and which one is undefined because the
    assembler may swap operands.

    Returns
    -------
    numpy.ndarray of bool
        True where a result differs.
    """
    unequal: npt.NDArray[np.bool_] = got != expected
    if not unequal.any():
        return unequal
    if not (row.ulp or row.absolute):
        if kind != "f64":
            return unequal
        return unequal & ~(any_nan & np.isnan(_numbers(got, kind)) & np.isnan(_numbers(expected, kind)))
    a, b = _numbers(got, kind), _numbers(expected, kind)
    with np.errstate(invalid="ignore", over="ignore"):
        near = _steps(got, expected, kind) <= row.ulp if row.ulp else np.abs(a - b) <= row.absolute
    nan = np.isnan(a) | np.isnan(b)
    zeros = (a == 0) & (b == 0)
    close = np.where(nan, np.isnan(a) & np.isnan(b), near & ~zeros)
    return unequal & ~close


def _hexadecimal(value: Any, kind: str) -> str:
    bits = FORMATS[kind].bits
    text = f"0x{int(value):0{bits // 4}x}"
    if not FORMATS[kind].exponent:
        return text
    return f"{text} ({float(_numbers(np.array([value], FORMATS[kind].word), kind)[0])!r})"


def _describe_row(kernel: Kernel, output: Output, row: Row, where: Array, got: Array, expected: Array) -> list[str]:
    bound = f", within {row.ulp:g} ULP" if row.ulp else f", within {row.absolute:g}" if row.absolute else ""
    lines = [f"  {row.text}{bound}: {len(where)} of {output.count} differ"]
    inputs = kernel.make_inputs()
    for column in where[:_SHOWN]:
        lines.append(
            f"    [{column}] got {_hexadecimal(got[column], output.kind)}, "
            f"expected {_hexadecimal(expected[column], output.kind)}"
        )
        if output.is_table:
            shown = [
                _hexadecimal(array[column], one.kind)
                for one, array in zip(kernel.inputs, inputs, strict=True)
                if len(array) > column and not one.by_value
            ]
            lines.append(f"      of {', '.join(shown)}")
    return lines


def compare(kernel: Kernel, got: list[Array], expected: list[Array]) -> str:
    """Compare all outputs of a kernel.

    Returns
    -------
    str
        A description of the differences: the expressions, and for the first differing columns the results and the
        inputs, in hexadecimal. Empty if there are no differences.
    """
    lines = []
    for place, output in enumerate(kernel.outputs):
        if got[place].shape != expected[place].shape:
            lines.append(f"  output {place}: {got[place].shape} results, {expected[place].shape} were recorded")
            continue
        for row, ours, theirs in zip(output.rows, got[place], expected[place], strict=True):
            any_nan = _several_nans(kernel) if output.is_table else False
            where = np.flatnonzero(differs(ours, theirs, row, output.kind, any_nan))
            if len(where):
                lines += _describe_row(kernel, output, row, where, ours, theirs)
    if kernel.print_order and got[-1].tobytes() != expected[-1].tobytes():
        ours, theirs = (bytes(text[-1]).decode(errors="replace").splitlines() for text in (got, expected))
        pairs = [*zip(ours + [""] * len(theirs), theirs + [""] * len(ours), strict=True)]
        line, (mine, recorded) = next((i, pair) for i, pair in enumerate(pairs, 1) if pair[0] != pair[1])
        lines.append(f"  printed: line {line} is {mine!r}, expected {recorded!r}")
    return f"{kernel.theme}.cu, {kernel.name}:\n" + "\n".join(lines) if lines else ""
