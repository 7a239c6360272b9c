# SPDX-License-Identifier: Apache-2.0
"""The names in a C++ file that may be those of files that the compiler reads.

This is no preprocessor. Every name behind ``include`` counts, whatever is around it: conditions, comments, strings. So
more names are found than the compiler looks for, and never fewer. A construct that could hide a name is refused.

Installed headers hide no names, and have many comments with examples. So only their directives are scanned, and every
name in these counts.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence, Set
from typing import NamedTuple


class Scan(NamedTuple):
    """The relevant parts of a file, sorted."""

    digest: bytes
    names: Sequence[bytes]  # as written, without the last character: b'"name' or b"<name"
    expanded: Sequence[bytes]  # names among them in which the compiler may expand macros
    computed: Sequence[tuple[bytes, bytes]]  # operands of #include: a macro, and the text after it
    macros: Sequence[tuple[bytes, Sequence[bytes]]]  # the bodies of macros, and of their parameters
    error: str  # a construct that is refused, because it could hide a name
    time: str  # a word that stands for the time


COMMENT = rb"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"
_GAP = rb"(?:[ \t\v\f\r]|" + COMMENT + rb")"
_NAME = rb'(?:(<[^>\n]*)>|("[^"\n]*)")'
_SPLICE = re.compile(rb"\\\r?\n")
_TRIGRAPH = re.compile(rb"\?\?[=/]")  # "#" and a backslash in languages before C++17
_INCLUDED = re.compile(rb"include(?:_next)?%b*\(?%b*%b" % (_GAP, _GAP, _NAME))
_IDENTIFIER = rb"[A-Za-z_$\\\x80-\xff][\w$\\\x80-\xff]*"
_COMPUTED = re.compile(rb"(?:#|%%:)%b*include(?:_next)?(?![\w$])%b*(%b)([^\n]*)" % (_GAP, _GAP, _IDENTIFIER))
_DEFINED = re.compile(rb"define%b+(%b)(\([^()\n]*\))?([^\n]*)" % (_GAP, _IDENTIFIER))
_OTHER = b"?"  # the body of a macro that is not a name
_CALLED = b"\0"  # marks the body of a macro with parameters
_WITH_PARAMETER = re.compile(rb"\0\([ \t]*([A-Za-z_]\w*)[ \t]*\)(<[^>]*>)")
_ARGUMENT = re.compile(rb"\([ \t]*([\w./+-]+)[ \t]*\)")
_LITERAL = re.compile(rb'(<[^>]*)>|("[^"]*)"')
_TEST = re.compile(rb"__has_include(?:_next)?(?![\w$])")
_TESTED = re.compile(rb"%b*\(%b*%b%b*\)" % (_GAP, _GAP, _NAME, _GAP))
# A test whether __has_include exists, or a definition of it
_MENTIONED = re.compile(rb"(?:\bdefined%b*\(?|\b(?:ifn?def|elifn?def|define|undef))%b*\Z" % (_GAP, _GAP))
# A condition in which nothing before __has_include can be a macro, which could take it as an argument
_PLAIN_CONDITION = re.compile(
    rb"[^\n]*#[ \t]*(?:el)?if\b(?:[ \t!&|()]|\b[0-9]+\b|\bdefined[ \t]*(?:\([ \t]*\w+[ \t]*\)|\w+)"
    rb"|__has_include[ \t]*\([ \t]*(?:<[^>\n]*>|\"[^\"\n]*\")[ \t]*\))*"
)
_REMARKS = re.compile(COMMENT + rb"|//.*")

_DIRECTIVE = re.compile(rb"^(?![ \t]*(?://|\*(?!/)))[^\n]*?(?:#|%:)[^\n]*", re.MULTILINE)  # not in a comment
_QUOTED = re.compile(rb'([<"][^<>"\n\0]+)[>"]')

_TIME = re.compile(rb"__(?:TIME|DATE|TIMESTAMP)__")
# Longer parts of words that the operator ## can form. Many programs have the shorter ones, and the token "include".
_WORDS = {b"__TIME__": 4, b"__DATE__": 4, b"__TIMESTAMP__": 4, b"__has_include": 8, b"__has_include_next": 14}
_PARTS = {word[:size] for word in _WORDS for size in range(4, len(word))}
_PARTS |= {word[-size:] for word, shortest in _WORDS.items() for size in range(shortest, len(word))}
_PARTS -= {*_WORDS}
_NO_TOKEN = bytes(char for char in range(256) if re.fullmatch(rb"\W", bytes([char])))
_BLANKS = bytes.maketrans(_NO_TOKEN, b" " * len(_NO_TOKEN))


@functools.lru_cache(maxsize=4_000)
def scan(data: bytes, *, is_installed: bool = False) -> Scan:
    """Scan a file: all of it, or the directives of an installed header."""
    names: set[bytes] = set()
    expanded: set[bytes] = set()
    macros: dict[bytes, set[bytes]] = {}
    error = ""
    text = _SPLICE.sub(b"", data) if b"\\" in data else data
    word = _TIME.search(text)
    time = "" if word is None else f"has {word[0].decode()} in line {_line(text, word)}"
    if is_installed:
        text = b"\n".join(_DIRECTIVE.findall(text))
        names.update(_QUOTED.findall(text))
    else:
        error = _error_of(text) or _test_names(text, expanded)
    names.update(one or two for one, two in _INCLUDED.findall(text))
    computed = {(macro, _REMARKS.sub(b"", rest).strip()) for macro, rest in _COMPUTED.findall(text)}
    _add_macros(text, macros, names)
    return Scan(
        hashlib.sha256(data).digest(),
        sorted(name for name in names if len(name) > 1 and b"\0" not in name),
        sorted(expanded),
        sorted(computed),
        sorted((macro, sorted(bodies)) for macro, bodies in macros.items()),
        error,
        time,
    )


def _add_macros(text: bytes, macros: dict[bytes, set[bytes]], names: set[bytes]) -> None:
    """Add the macros that a text defines, and the names of files that are their bodies."""
    has_tests = _TEST.search(text) is not None
    for macro, parameters, body in _DEFINED.findall(text):
        body = _REMARKS.sub(b"", body).strip()
        body = _CALLED + parameters + body if parameters else body
        name, other = meaning(body, b"")
        # Other bodies are all the same, so that programs with other constants have the same files.
        macros.setdefault(macro, set()).add(body if name or other or _WITH_PARAMETER.fullmatch(body) else _OTHER)
        names.add(name)
        for parameter in re.findall(rb"[A-Za-z_$]\w*", parameters) if has_tests else ():
            macros.setdefault(parameter, set()).add(b"")


def _error_of(text: bytes) -> str:
    """Return why names may be hidden, apart from macros; empty if they are not."""
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is encoded as UTF-16"
    if trigraph := _TRIGRAPH.search(text):
        return f"has a trigraph in line {_line(text, trigraph)}"
    part = min(_PARTS.intersection(text.translate(_BLANKS).split()), default=b"")
    return f"has {part.decode()}, of which a word that is refused can be pasted" if part else ""


def _test_names(text: bytes, expanded: set[bytes]) -> str:
    """Add the names of ``__has_include`` in angle brackets; return an error if one cannot be read."""
    for test in _TEST.finditer(text):
        name = _TESTED.match(text, test.end())
        if name is not None and name[1]:
            if not _PLAIN_CONDITION.fullmatch(text, text.rfind(b"\n", 0, test.start()) + 1, test.start()):
                expanded.add(name[1])
        elif name is None and not _MENTIONED.search(text, max(0, test.start() - 1000), test.start()):
            return f"has __has_include without the name of a file in line {_line(text, test)}"
    return ""


def _line(text: bytes, match: re.Match[bytes]) -> int:
    return text.count(b"\n", 0, match.start()) + 1


# Macros that NVRTC 12.0 to 13.5 predefine, or that a C++ compiler may predefine.
_PREDEFINED = re.compile(
    rb"_[A-Z]\w*|__\w*|linux|unix|i386|NULL|assert|va_\w+|NV_\w+|CU_\w+|CUDA\w+|cuda[A-Z]\w*|M_\w+|[A-Z]+_(?:MAX|MIN|BIT)"
)
_PLAIN_NAME = re.compile(rb"<(?:[\w.+-]|/(?!/))+")


def macros_in(name: bytes, macros: Set[bytes]) -> str:
    """Return why a name in angle brackets may be another one after macros are expanded; empty if it stays the same."""
    if not _PLAIN_NAME.fullmatch(name):
        return "with characters that a macro does not keep"
    for token in re.findall(rb"[A-Za-z_]\w*", name):
        if token in macros or _PREDEFINED.fullmatch(token):
            return f"with {token.decode()}, which may be a macro"
    return ""


def meaning(body: bytes, rest: bytes) -> tuple[bytes, bytes]:
    """Return the name of a file, or the macro, that a macro in ``#include`` is; the other, or both, are empty.

    Parameters
    ----------
    body : bytes
        The body of the macro.
    rest : bytes
        The text after the macro: nothing, or the argument of a macro such as ``#define HEADER(name) <part/name>``.
    """
    call, argument = _WITH_PARAMETER.fullmatch(body), _ARGUMENT.fullmatch(rest)
    if call is not None and argument is not None:
        given = argument[1]
        return re.sub(rb"\b%b\b" % call[1], lambda _: given, call[2])[:-1], b""
    if rest or body.startswith(_CALLED):
        return b"", b""
    literal = _LITERAL.fullmatch(body)
    if literal is not None:
        return literal[1] or literal[2], b""
    return b"", body if re.fullmatch(_IDENTIFIER, body) else b""


def may_be_name(macro: bytes) -> bool:
    """Return whether a macro in ``#include`` may be a name that the compiler defines, or have another spelling."""
    return re.fullmatch(rb"__\w*__|_[A-Z]\w*", macro) is not None or not macro.isascii() or b"\\" in macro
