# SPDX-License-Identifier: Apache-2.0
"""The names that a macro in an ``#include`` directive can expand to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from cudacore_compile._cache.scan import Computed, Definition, Reference
from cudacore_compile._cache.uncacheable import UncacheableError

Macros = Mapping[bytes, Set["Definition | None"]]

_MAX_NAMES = 64
_TOKEN = re.compile(rb"\.?[0-9](?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*")
# Macros that NVRTC 12.0 to 13.5 predefine, or that a C++ compiler may predefine. __THRUST_* are not predefined.
_RESERVED = re.compile(
    rb"_[A-Z]\w*|__(?!THRUST_)\w*|linux|unix|i386|NULL|assert|va_\w+|NV_\w+|CU_\w+|CUDA\w+|cuda[A-Z]\w*|M_\w+|[A-Z]+_(?:MAX|MIN|BIT)"
)


def expand(computed: Computed, macros: Macros) -> list[Reference]:
    """Return all names that a computed ``#include`` can refer to.

    All definitions of a macro are considered, and the case that it is not defined.

    Raises
    ------
    UncacheableError
        If a name is formed in a way that is not supported here.
    """
    names: set[tuple[bytes, bool]] = set()
    _expand(computed.macro, computed.argument, macros, names, ())
    return [Reference(name, is_quoted, computed.is_next) for name, is_quoted in sorted(names)]


def _expand(
    macro: bytes, argument: bytes | None, macros: Macros, names: set[tuple[bytes, bool]], seen: tuple[bytes, ...]
) -> None:
    shown = macro.decode() + ("" if argument is None else f"({argument.decode()})")
    definitions = macros.get(macro)
    if not definitions:
        raise UncacheableError(f"#include {shown}, where no file that is read defines {macro.decode()}")
    _check(macro)
    for definition in definitions:
        if definition is None or (definition.parameter is None) != (argument is None):
            raise UncacheableError(f"#include {shown}, where {macro.decode()} is defined in a way that is not followed")
        if definition.is_quoted:
            names.add((definition.name, True))
        elif definition.name.startswith(b"<"):
            local: dict[bytes, Set[Definition | None]] = {}
            if definition.parameter is not None and argument is not None:
                local[definition.parameter] = frozenset([Definition(None, argument, False)])
            for name in _paths(definition.name[1:-1], macros, local, seen):
                names.add((name, False))
                if len(names) > _MAX_NAMES:
                    raise UncacheableError(f"#include {shown}, which can mean more than {_MAX_NAMES} files")
        elif definition.name in seen:
            raise UncacheableError(f"#include {shown}, which is defined by itself")
        else:
            _expand(definition.name, None, macros, names, (*seen, definition.name))


def _paths(path: bytes, macros: Macros, local: Macros, seen: tuple[bytes, ...]) -> set[bytes]:
    """Return the possible values of a part of a name, with and without expansion of macros."""
    found = {b""}
    at = 0
    for match in _TOKEN.finditer(path):
        token = match[0]
        alternatives = {token}
        if not token[:1].isdigit() and token[:1] != b"." and token not in seen:
            _check(token)
            if token in local:
                alternatives = set()
            for definition in local.get(token) or macros.get(token) or ():
                if definition is None or definition.is_quoted or definition.name.startswith(b"<"):
                    raise UncacheableError(f"a file name with {token.decode()}, which is a macro that is not followed")
                if definition.parameter is None:
                    alternatives |= _paths(definition.name, macros, {}, (*seen, token))
        found = {start + path[at : match.start()] + end for start in found for end in alternatives}
        at = match.end()
        if len(found) > _MAX_NAMES:
            raise UncacheableError(f"a file name that can mean more than {_MAX_NAMES} files")
    return {start + path[at:] for start in found}


def _check(token: bytes) -> None:
    if _RESERVED.fullmatch(token):
        raise UncacheableError(f"a file name with {token.decode()}, which the compiler may define")
