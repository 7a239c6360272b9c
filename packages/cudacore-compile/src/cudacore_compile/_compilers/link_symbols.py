# SPDX-License-Identifier: Apache-2.0
"""Checks that the symbols of linked code are compatible.

If the symbols are not compatible, nvJitLink (12.9, 13.5) only prints a message to stderr, and links the code. On a
thread that has linked LTO-IR before, nvJitLink ends the process instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cudacore_compile._compilers.errors import NVJitLinkError
from cudacore_handles._sdk import shorten
from cudacore_handles._sdk.compile import Symbol, demangle

_DUPLICATE, _MISMATCH = "LINK_DUPLICATE_SYMBOL", "LINK_SYMBOL_MISMATCH"
_LETTERS = {"b": "b8", "h": "b16", "i": "b32", "l": "b64", "x": "b128", "f": "f32", "d": "f64", "v": "void"}


class Conflict(NamedTuple):
    """Two incompatible symbols of one name."""

    name: str
    code_name: str
    text: str


def conflicts(parts: Iterable[tuple[str, Mapping[str, Symbol]]]) -> Iterator[Conflict]:
    """Yield the incompatible symbols, each name once.

    Parameters
    ----------
    parts : iterable of (str, mapping)
        Name and symbols of each part.
    """
    seen: dict[str, dict[Symbol, str]] = {}
    reported = set()
    for part, symbols in parts:
        for name, symbol in symbols.items():
            before = seen.setdefault(name, {})
            if name not in reported:
                for other, where in before.items():
                    found = _compare(name, (where, other), (part, symbol))
                    if found is not None:
                        reported.add(name)
                        yield found
                        break
            before.setdefault(symbol, part)


def check_symbols(parts: Iterable[tuple[str, Mapping[str, Symbol]]]) -> None:
    """Raise NVJitLinkError if the symbols of some parts are incompatible."""
    found = list(conflicts(parts))
    if found:
        first, log = found[0], "\n".join(conflict.text for conflict in found[1:])
        hint = (
            "Keep one of them, or make all of them static, inline or weak"
            if first.code_name == _DUPLICATE
            else "Declare it as it is defined, in a header that all programs include"
        )
        raise NVJitLinkError("link", -1, first.code_name, first.text, hint=hint, log=log)


def _compare(name: str, first: tuple[str, Symbol], second: tuple[str, Symbol]) -> Conflict | None:
    """Compare two symbols of one name. Each is given with the name of its part."""
    (part, a), (other_part, b) = first, second

    def mismatch(one: str, other: str) -> Conflict:
        return Conflict(name, _MISMATCH, f"{_title(name)} is {one} in {part}, and {other} in {other_part}")

    if a.kind != b.kind:
        return mismatch(f"a {a.kind}", f"a {b.kind}")
    if a.space and b.space and a.space != b.space:
        return mismatch(f"a variable in {a.space} memory", f"one in {b.space} memory")
    if a.is_managed != b.is_managed:
        words = {True: "managed", False: "not managed"}
        return mismatch(words[a.is_managed], words[b.is_managed])
    if a.binding == b.binding == "strong":
        return Conflict(name, _DUPLICATE, f"{_title(name)} is defined by {part} and by {other_part}")
    if a.size and b.size and a.size != b.size and not a.binding == b.binding == "common":
        return mismatch(f"a variable of {a.size} bytes", f"one of {b.size} bytes")
    if a.prototype and b.prototype and a.prototype != b.prototype:
        return mismatch(f"the function {_signature(a.prototype)}", _signature(b.prototype))
    return None


def _title(name: str) -> str:
    readable = demangle(name)
    return repr(name) if readable == name else f"{shorten(readable)!r} ({shorten(name)})"


def _signature(prototype: str) -> str:
    """Return a prototype such as ``"#ifb16"`` as ``b32(f32, b8[16])``."""
    types: list[str] = []
    for letter in prototype[1:]:
        if letter.isdigit():
            types[-1] += letter if "[" in types[-1] else f"[{letter}"
        else:
            types.append(_LETTERS.get(letter, letter))
    types = [f"{text}]" if "[" in text else text for text in types]
    return f"{types[0]}({', '.join(types[1:])})" if types else prototype
