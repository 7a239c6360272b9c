# SPDX-License-Identifier: Apache-2.0
"""The kinds of a kernel's parameters.

PTX distinguishes floating point, integers and raw bytes, and in newer versions also pointers. A mangled name (Itanium
C++ ABI) distinguishes pointers from integers, and signed from unsigned ones. Neither source is complete. A kind is only
given if it is certain; otherwise it is unknown.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
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


class _Place(NamedTuple):
    offset: int
    size: int


class ParamInfo(_Place):
    """One parameter of a kernel: a tuple of its offset and size, with its kind.

    Parameters
    ----------
    offset, size : int
        Offset and size of the parameter in the kernel's argument block, in bytes.
    kind : ParamKind, optional
        The kind of values that the parameter accepts. Default unknown.
    pointee : str, optional
        NumPy's name of the type that the parameter points to, such as ``"float32"``. Default unknown.
    """

    kind: ParamKind = ParamKind.UNKNOWN
    """ParamKind: The kind of values that the parameter accepts, if known."""
    pointee: str = ""
    """str: The type of the elements that the parameter points to, by NumPy's name; empty if it can be any type.

    A launch refuses arrays of other types; see :func:`set_array_type_checks`.
    """

    def __new__(cls, offset: int, size: int, kind: ParamKind = ParamKind.UNKNOWN, pointee: str = "") -> ParamInfo:
        self = super().__new__(cls, offset, size)
        self.kind = kind
        self.pointee = pointee
        return self

    def __repr__(self) -> str:
        pointee = f", pointee={self.pointee!r}" if self.pointee else ""
        return f"ParamInfo(offset={self.offset}, size={self.size}, kind={str(self.kind)!r}{pointee})"


#: The kinds, in the order of their numbers in ``_native``.
KINDS = tuple(ParamKind(name) for name, _ in _native.PARAM_KINDS)


def kinds_that(takes: int) -> frozenset[ParamKind]:
    """Return the kinds that have one of the given flags of ``_native``, such as ``TAKES_BYTES``."""
    return frozenset(ParamKind(name) for name, what in _native.PARAM_KINDS if what & takes)


# A parameter in a layout: its offset, its size, the number of its kind, and the type of the elements that it points to.
_PARAM = struct.Struct("=2I2H")


def pack_layout(params: Iterable[ParamInfo]) -> bytes:
    """Return the layout of a kernel's parameters for the extension module."""
    return b"".join(_PARAM.pack(*each, KINDS.index(each.kind), element_of(each.pointee)) for each in params)


def unpack_layout(layout: bytes) -> list[ParamInfo]:
    """Return the parameters of a layout."""
    return [
        ParamInfo(offset, size, KINDS[kind], name_of_element(element))
        for offset, size, kind, element in _PARAM.iter_unpack(layout)
    ]


def count_parameters(layout: bytes) -> int:
    """Return the number of parameters in a layout."""
    return len(layout) // _PARAM.size


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


def parameters_of(symbol: str | None, signature: str | None, places: Sequence[tuple[int, int]]) -> list[ParamInfo]:
    """Combine the information about a kernel's parameters.

    Parameters
    ----------
    symbol : str or None
        The kernel's (mangled) name, if it is known.
    signature : str or None
        The kernel's signature from :func:`._ptx_signatures.ptx_signatures`.
    places : sequence of tuple
        The offsets and sizes of the kernel's parameters, from the driver or the code. Sources that contradict the sizes
        are ignored.
    """
    by_name = None
    if symbol is not None and symbol.startswith("_Z"):
        from cudacore_handles._code.mangled_names import name_parameters

        by_name = name_parameters(symbol)
    by_ptx = None if signature is None else [_of_word(word) for word in signature.split()]
    unknown = [Parameter(ParamKind.UNKNOWN, 0)] * len(places)
    sources = [source if source is not None and _agree(source, places) else unknown for source in (by_ptx, by_name)]
    return [
        ParamInfo(offset, size, _merge(ptx.kind, name.kind), _merge_pointees(ptx.pointee, name.pointee))
        for (offset, size), ptx, name in zip(places, *sources, strict=True)
    ]


def _of_word(word: str) -> Parameter:
    size, _, pointee = word[1:].partition("*")
    return Parameter(_LETTERS[word[0]], int(size), pointee if pointee in C_NAMES else "")


def _merge_pointees(ptx: str, name: str) -> str:
    return "" if ptx and name and ptx != name else ptx or name


def _agree(parameters: Sequence[Parameter], places: Sequence[tuple[int, int]]) -> bool:
    return len(parameters) == len(places) and all(
        parameter.size in (0, size) for parameter, (_, size) in zip(parameters, places, strict=True)
    )


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
