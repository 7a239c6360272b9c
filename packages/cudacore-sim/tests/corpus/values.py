# SPDX-License-Identifier: Apache-2.0
"""The inputs of the kernels: numbers that are the same on every machine and with every version of NumPy.

The numbers are made from the raw output of a bit generator, which NumPy guarantees never to change. The raw output is
converted to integers, or to floating-point numbers by operations whose results IEEE 754 defines exactly.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Format:
    """A type of numbers: the number of its bits and, for a floating-point type, of the exponent's bits."""

    bits: int
    exponent: int = 0

    @property
    def mantissa(self) -> int:
        """int: The number of bits of the fraction."""
        return self.bits - 1 - self.exponent

    @property
    def word(self) -> np.dtype[Any]:
        """numpy.dtype: The type of unsigned integers that hold the bits of such numbers."""
        return np.dtype(f"u{self.bits // 8}")


FORMATS = {
    **{f"{sign}{bits}": Format(bits) for sign in "iu" for bits in (8, 16, 32, 64)},
    "f16": Format(16, 5),
    "bf16": Format(16, 8),
    "f32": Format(32, 8),
    "f64": Format(64, 11),
}


class _Stream:
    """A source of random words for one input of one kernel."""

    def __init__(self, name: str) -> None:
        self._generator = np.random.PCG64(zlib.crc32(name.encode()))

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        return np.asarray(self._generator.random_raw(count), np.uint64)

    def below(self, bound: int, count: int) -> npt.NDArray[np.uint64]:
        return (self.words(count) >> np.uint64(11)) % np.uint64(bound)


def _integer_mix(stream: _Stream, form: Format, count: int) -> Array:
    """Make integers of all sizes, the ends of the signed and of the unsigned range, and their neighbours."""
    top = 1 << (form.bits - 1)
    mask = 2 * top - 1
    special = np.array([0, 1, 2, 3, mask, mask - 1, top, top - 1, top + 1, 0x55555555555555555 & mask], np.uint64)
    raw = stream.words(count)
    kind = stream.below(8, count)
    shifted = (raw & np.uint64(mask)) >> stream.below(form.bits, count)
    small = raw % np.uint64(20) - np.uint64(10)
    chosen = special[stream.below(len(special), count)]
    mixed = np.select([kind < 3, kind < 4, kind < 6], [raw, small, chosen], shifted)
    return (mixed & np.uint64(mask)).astype(form.word)


def _float_mix(stream: _Stream, form: Format, count: int) -> Array:
    """Make random bits, numbers around one, zeros, subnormals, infinities, NaNs, and the ends of the range."""
    sign = 1 << (form.bits - 1)
    one = ((1 << (form.exponent - 1)) - 1) << form.mantissa
    infinity = ((1 << form.exponent) - 1) << form.mantissa
    smallest = 1 << form.mantissa
    quiet = infinity | smallest >> 1
    positive = [0, 1, 2, smallest - 1, smallest, smallest + 1, smallest >> 1, one - 1, one, one + 1, one + smallest]
    positive += [one - smallest, one + smallest + (smallest >> 1), infinity - 1, infinity, quiet, quiet | 5]
    positive += [infinity | 1, infinity | (smallest - 1)]
    special = np.array([bits | negative for bits in positive for negative in (0, sign)], np.uint64)
    raw = stream.words(count) & np.uint64(2 * sign - 1)
    kind = stream.below(8, count)
    exponent = np.uint64(one) + (stream.below(16, count) << np.uint64(form.mantissa)) - np.uint64(8 * smallest)
    near = (raw & np.uint64(sign | (smallest - 1))) | exponent
    mixed = np.select([kind < 2, kind < 4], [raw, special[stream.below(len(special), count)]], near)
    return mixed.astype(form.word)


def _between(stream: _Stream, kind: str, low: float, high: float, count: int) -> Array:
    """Make integers or floating-point numbers in the half-open interval from `low` to `high`."""
    form = FORMATS[kind]
    if not form.exponent:
        offset = stream.below(int(high) - int(low), count) + np.uint64(int(low) % (1 << 64))
        return (offset & np.uint64((1 << form.bits) - 1)).astype(form.word)
    fraction = (stream.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = low + (high - low) * fraction
    if kind == "bf16":  # truncated f32, because NumPy has no type bf16
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).view(form.word)


def make(name: str, kind: str, count: int, interval: tuple[float, float] | None = None) -> Array:
    """Make an input.

    Parameters
    ----------
    name : str
        The seed of the numbers.
    kind : str
        A key of `FORMATS`.
    count : int
        The number of values.
    interval : tuple of float, optional
        The range of the values. Default: values of all magnitudes, including special ones such as NaN.

    Returns
    -------
    numpy.ndarray
        The bits, as unsigned integers.
    """
    stream = _Stream(name)
    if interval is not None:
        return _between(stream, kind, *interval, count)
    return (_float_mix if FORMATS[kind].exponent else _integer_mix)(stream, FORMATS[kind], count)
