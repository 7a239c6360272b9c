# SPDX-License-Identifier: Apache-2.0
"""The kinds of a kernel's parameters.

PTX distinguishes floating point, integers and raw bytes, and in newer versions also pointers. A mangled name (Itanium
C++ ABI) distinguishes pointers from integers, and signed from unsigned ones. Neither source is complete. A kind is only
given if it is certain; otherwise it is unknown.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cudacore_handles import _native
from cudacore_handles._base.element_types import C_NAMES, element_of, name_of_element


class ParamKind(str, enum.Enum):
    """The kind of a kernel's parameter. Each member is a string."""

    UNKNOWN = "unknown"
    """Only the size of the parameter is known."""
    INT = "int"
    """A signed integer."""
    UINT = "uint"
    """An unsigned integer."""
    BITS = "bits"
    """An integer; whether it has a sign is not known."""
    BOOL = "bool"
    """A C++ ``bool``."""
    FLOAT = "float"
    """A floating-point number."""
    BFLOAT = "bfloat"
    """An ``__nv_bfloat16``."""
    POINTER = "pointer"
    """A pointer."""
    ADDRESS = "address"
    """Either a pointer or an integer of 8 bytes."""
    BYTES = "bytes"
    """A struct, union or array, by value."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]


#: The kinds, in the order of their numbers in ``_native``.
KINDS = tuple(ParamKind(name) for name, _ in _native.PARAM_KINDS)


def kinds_that(takes: int) -> frozenset[ParamKind]:
    """Return the kinds that have one of the given flags of ``_native``, such as ``TAKES_BYTES``."""
    return frozenset(ParamKind(name) for name, what in _native.PARAM_KINDS if what & takes)


# A parameter in a layout: its offset, its size, the number of its kind, and the type of the elements that it points to.
_PARAM = struct.Struct("=2I2H")


def pack_layout(params: Iterable[tuple[int, int, ParamKind, str]]) -> bytes:
    """Return the layout of a kernel's parameters for the extension module.

    Parameters
    ----------
    params : iterable of tuple
        The offset, the size, the kind and the pointee of each parameter.
    """
    return b"".join(_PARAM.pack(*place, KINDS.index(kind), element_of(pointee)) for *place, kind, pointee in params)


def unpack_layout(layout: bytes) -> Iterator[tuple[int, int, ParamKind, str]]:
    """Return the offset, size, kind and pointee of each parameter of a layout."""
    for offset, size, kind, element in _PARAM.iter_unpack(layout):
        yield offset, size, KINDS[kind], name_of_element(element)


class Parameter(NamedTuple):
    """A parameter as one source describes it; a size of 0 means unknown."""

    kind: ParamKind
    size: int
    pointee: str = ""  # the type of the elements that a pointer points to; empty if unknown


# The letters of signatures, which are stored and pickled with code: "f4 a8 b24". The type of the elements of a pointer
# can follow: "p8*float32".
_LETTERS = {
    "?": ParamKind.UNKNOWN,
    "f": ParamKind.FLOAT,
    "n": ParamKind.BITS,
    "p": ParamKind.POINTER,
    "a": ParamKind.ADDRESS,
    "b": ParamKind.BYTES,
}


def parameters_of(symbol: str | None, signature: str | None, sizes: Sequence[int]) -> list[Parameter]:
    """Combine the information about a kernel's parameters.

    Parameters
    ----------
    symbol : str or None
        The kernel's (mangled) name, if it is known.
    signature : str or None
        The kernel's signature from :func:`._ptx_signatures.ptx_signatures`.
    sizes : sequence of int
        The sizes of the kernel's parameters, from the driver. Sources that contradict them are ignored.
    """
    by_name = None
    if symbol is not None and symbol.startswith("_Z"):
        from cudacore_handles._code.mangled_names import name_parameters

        by_name = name_parameters(symbol)
    by_ptx = None if signature is None else [_of_word(word) for word in signature.split()]
    unknown = [Parameter(ParamKind.UNKNOWN, 0)] * len(sizes)
    sources = [s if s is not None and _agree(s, sizes) else unknown for s in (by_ptx, by_name)]
    return [
        Parameter(_merge(ptx.kind, name.kind), size, _merge_pointees(ptx.pointee, name.pointee))
        for ptx, name, size in zip(*sources, sizes, strict=True)
    ]


def _of_word(word: str) -> Parameter:
    size, _, pointee = word[1:].partition("*")
    return Parameter(_LETTERS[word[0]], int(size), pointee if pointee in C_NAMES else "")


def _merge_pointees(ptx: str, name: str) -> str:
    return "" if ptx and name and ptx != name else ptx or name


def _agree(parameters: Sequence[Parameter], sizes: Sequence[int]) -> bool:
    return len(parameters) == len(sizes) and all(p.size in (0, n) for p, n in zip(parameters, sizes, strict=True))


_INTEGERS = frozenset({ParamKind.INT, ParamKind.UINT, ParamKind.BOOL, ParamKind.BITS})

# For a kind from PTX, the more precise kinds that a mangled name can give.
_NARROWER = {
    ParamKind.BITS: _INTEGERS,
    ParamKind.ADDRESS: _INTEGERS | {ParamKind.POINTER},
    ParamKind.BYTES: frozenset({ParamKind.FLOAT, ParamKind.BFLOAT}),  # __half, __nv_bfloat16
}


def _merge(ptx: ParamKind, name: ParamKind) -> ParamKind:
    if name is ParamKind.UNKNOWN or ptx is name:
        return ptx
    if ptx is ParamKind.UNKNOWN or name in _NARROWER.get(ptx, ()):
        return name
    return ParamKind.UNKNOWN  # PTX and the mangled name contradict each other
