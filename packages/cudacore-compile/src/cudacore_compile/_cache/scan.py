# SPDX-License-Identifier: Apache-2.0
"""The names in a C++ file that may be those of files that the compiler reads.

This is no preprocessor. Every name behind ``include`` counts, whatever is around it: conditions, comments, strings. So
more names are found than the compiler looks for, and never fewer. A construct that could hide a name is refused.

Installed headers hide no names, and have many comments with examples. So only their directives are scanned, and every
name in these counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from typing import NamedTuple

from cudacore_compile._cache.notes import hash_of


class Scan(NamedTuple):
    """The relevant parts of a file."""

    digest: bytes
    names: frozenset[bytes]  # as written, without the last character: b'"name' or b"<name"
    expanded: frozenset[bytes]  # names among them in which the compiler may expand macros
    computed: frozenset[tuple[bytes, bytes]]  # operands of #include: a macro, and the text after it
    macros: Mapping[bytes, frozenset[bytes]]  # the bodies of macros, and of their parameters
    atoms: frozenset[bytes]  # tokens from which __TIME__ and similar words can be pasted
    error: str  # a construct that is refused, because it could hide a name
    time: str  # a word that stands for the time

    @property
    def include_key(self) -> bytes:
        """bytes: A hash of all that determines which files are read; not of the digest."""
        macros = [(name, sorted(bodies)) for name, bodies in self.macros.items()]
        names, computed = (sorted(self.names), sorted(self.expanded), sorted(self.atoms)), sorted(self.computed)
        return hash_of(names, computed, sorted(macros), self.error, self.time)


COMMENT = rb"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"
_GAP = rb"(?:[ \t\v\f\r]|" + COMMENT + rb")"
_NAME = rb'(?:(<[^>\n]*)>|("[^"\n]*)")'
_SPLICE = re.compile(rb"\\\r?\n")
_TRIGRAPH = re.compile(rb"\?\?([=/'()!<>-])")
_TRIGRAPHS = dict(zip(b"=/'()!<>-", b"#\\^[]|{}~", strict=True))
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
# Words that can be pasted, of two parts or, in the case of times, of up to three. Many programs could paste them of
# more parts, such as "has" or single letters. A pasted __has_include matters only if the name in it is computed, too.
_WORDS = {b"__TIME__": 3, b"__DATE__": 3, b"__TIMESTAMP__": 3, b"__has_include": 2, b"__has_include_next": 2}
_ATOMS = {
    word[start:end] for word in _WORDS for start in range(len(word)) for end in range(start + 1, len(word) + 1)
} - {*_WORDS}
_NO_TOKEN = bytes(char for char in range(256) if not (chr(char).isalnum() and char < 0x80) and char != ord("_"))
_BLANKS = bytes.maketrans(_NO_TOKEN, b" " * len(_NO_TOKEN))


def scan(data: bytes, *, is_installed: bool = False) -> Scan:
    """Scan a file: all of it, or the directives of an installed header."""
    names: set[bytes] = set()
    expanded: set[bytes] = set()
    computed: set[tuple[bytes, bytes]] = set()
    macros: dict[bytes, set[bytes]] = {}
    atoms: set[bytes] = set()
    error = "is encoded as UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
    time = ""
    for text in _readings(data):
        word = _TIME.search(text)
        if word is not None:
            time = time or f"has {word[0].decode()} in line {_line(text, word)}"
        if is_installed:
            text = b"\n".join(_DIRECTIVE.findall(text))
            names.update(_QUOTED.findall(text))
        else:
            error = error or _test_names(text, expanded)
            # The name of a directive is no operand of ##, and nearly each file has the token "include".
            atoms |= _ATOMS.intersection(text.replace(b"#include", b"").translate(_BLANKS).split())
        names.update(one or two for one, two in _INCLUDED.findall(text))
        computed.update((macro, _REMARKS.sub(b"", rest).strip()) for macro, rest in _COMPUTED.findall(text))
        _add_macros(text, macros, names)
    return Scan(
        hashlib.sha256(data).digest(),
        frozenset(name for name in names if len(name) > 1 and b"\0" not in name),
        frozenset(expanded),
        frozenset(computed),
        {macro: frozenset(bodies) for macro, bodies in macros.items()},
        frozenset(atoms),
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


def _readings(data: bytes) -> list[bytes]:
    """Return a file without continued lines. If it has trigraphs, which only old languages have, both readings."""
    texts = [data]
    if b"??" in data and _TRIGRAPH.search(data):
        texts.append(_TRIGRAPH.sub(lambda match: b"%c" % _TRIGRAPHS[match[1][0]], data))
    return [_SPLICE.sub(b"", text) if b"\\" in text else text for text in texts]


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


def scan_options(macros: Sequence[bytes]) -> Scan:
    """Scan the macros of the options: ``NAME`` or ``NAME=BODY``."""
    return scan(b"".join(b"#define %b\n" % macro.replace(b"=", b" ", 1) for macro in macros))


def pasted_word(atoms: Set[bytes]) -> bytes | None:
    """Return a word that the operator ``##`` can form from tokens, and that is refused; None if there is none."""
    for word, max_parts in _WORDS.items():
        for cuts in (cuts for count in range(1, max_parts) for cuts in combinations(range(1, len(word)), count)):
            if all(word[start:end] in atoms for start, end in zip((0, *cuts), (*cuts, len(word)), strict=True)):
                return word
    return None


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
