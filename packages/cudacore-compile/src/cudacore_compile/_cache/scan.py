# SPDX-License-Identifier: Apache-2.0
"""The parts of one C++ file that determine which other files are read.

This recognizes a small grammar, which docs/compile-cache.rst describes. All other forms are refused. All branches of
conditionals are considered, because their conditions are not evaluated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cudacore_compile._cache.lexer import Lexed, lex
from cudacore_compile._cache.uncacheable import UncacheableError


class Reference(NamedTuple):
    """A name in ``#include`` or ``__has_include``."""

    name: bytes
    is_quoted: bool
    is_next: bool  # #include_next: the search continues after the directory of the including file


class Computed(NamedTuple):
    """An ``#include`` whose operand is a macro."""

    macro: bytes
    argument: bytes | None
    is_next: bool


class Definition(NamedTuple):
    """A ``#define`` of a macro that can form the name of a file, or a part of the name."""

    parameter: bytes | None  # the macro's parameter; None for a macro without parameters
    name: bytes  # the macro's value: a part of a file name, or another macro
    is_quoted: bool


class Scan(NamedTuple):
    """The relevant parts of a file."""

    digest: bytes
    references: tuple[Reference, ...]
    computed: tuple[Computed, ...]
    macros: Mapping[bytes, frozenset[Definition | None]]  # None: a definition that cannot be part of a name
    atoms: frozenset[bytes]  # tokens from which __TIME__ and similar words can be pasted
    tested_atoms: frozenset[bytes]  # tokens from which __has_include can be pasted, in definitions and conditions
    unbalanced: frozenset[bytes]  # macros whose parentheses are not balanced
    openers: frozenset[bytes]  # macros that begin a call, whose arguments are the text after the macro
    before_tests: frozenset[bytes]  # names, perhaps of macros, before __has_include in a condition
    has_raw: bool
    has_separators: bool
    error: str  # the construct that is not supported; all other fields are empty then

    @property
    def include_key(self) -> tuple[object, ...]:
        """tuple: All fields but the digest. Files with equal tuples include the same files."""
        return (
            self.references,
            self.computed,
            sorted((name, sorted(map(repr, bodies))) for name, bodies in self.macros.items()),
            sorted(self.atoms),
            sorted(self.tested_atoms),
            sorted(self.unbalanced),
            sorted(self.openers),
            sorted(self.before_tests),
            *self[9:],
        )


DIRECTIVE = re.compile(rb"^[ \t]*(?:#|%:)[ \t]*([A-Za-z_]\w*)?([^\n]*)$", re.MULTILINE)
_PLAIN = frozenset((b"if", b"ifdef", b"ifndef", b"elif", b"elifdef", b"elifndef", b"else", b"endif"))
_IGNORED = frozenset((b"error", b"warning"))
_NAME = rb"(?:<(?P<angle>[^<>\s\x01\x02]+)>|\x01(?P<string>\d+)\x01)"
_INCLUDED = re.compile(
    rb"[ \t]*(?:" + _NAME + rb"|(?P<macro>[A-Za-z_]\w*)(?:\([ \t]*(?P<argument>[\w./-]+)[ \t]*\))?)[ \t]*"
)
_TESTED = re.compile(rb"[ \t]*\([ \t]*" + _NAME + rb"[ \t]*\)")
_DEFINED = re.compile(rb"defined[ \t]*\(?[ \t]*\Z")
_ANY_DEFINED = re.compile(rb"\bdefined[ \t]*(?:\([ \t]*\w+[ \t]*\)|\w+)")
_BEFORE_CALL = re.compile(rb"[\w$)\x80-\xff][ \t]*\Z")
_IDENTIFIER = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*")
_DEFINE = re.compile(
    rb"[ \t]+(?P<macro>[A-Za-z_$][\w$]*)(?:(?P<parameters>\([^()]*\))|(?![^ \t]))[ \t]*(?P<body>.*?)[ \t]*"
)
_PART = re.compile(rb"<(?P<angle>[\w./-]+)>|\x01(?P<string>\d+)\x01|(?P<part>[\w./-]+)")
_PARAMETER = re.compile(rb"\([ \t]*([A-Za-z_]\w*)[ \t]*\)")
_MODULES = re.compile(rb"^[ \t]*(?:export\s+)?(?:import|module)\b[ \t]*[^ \t=(.,>\-+)]", re.MULTILINE)

# Words that make the compiled code depend on more than the text of the files.
FILE_TESTS = (b"__has_include", b"__has_include_next", b"__has_embed")
TIMES = (b"__TIME__", b"__DATE__", b"__TIMESTAMP__")
WORDS = (*FILE_TESTS, *TIMES)
_WORD = re.compile(rb"\b(?:" + b"|".join(sorted(WORDS, reverse=True)) + rb")\b")
# Directives in which no macro with arguments is expanded.
_WITHOUT_ATOMS = re.compile(
    rb"^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|undef|error|warning|line)\b[^\n]*$", re.MULTILINE
)
_NO_TOKEN = bytes(char for char in range(256) if not (chr(char).isalnum() and char < 0x80) and char != ord("_"))
_BLANKS = bytes.maketrans(_NO_TOKEN, b" " * len(_NO_TOKEN))


def _parts(words: Sequence[bytes]) -> frozenset[bytes]:
    """Return all substrings of the words, but not the words themselves."""
    parts = {word[start:end] for word in words for start in range(len(word)) for end in range(start + 1, len(word) + 1)}
    return frozenset(parts.difference(WORDS))


_TIME_ATOMS = _parts(TIMES)
_TEST_ATOMS = _parts(FILE_TESTS)
_ATOMS = _TIME_ATOMS | _TEST_ATOMS


def atoms_of(text: bytes) -> frozenset[bytes]:
    """Return the tokens that are substrings of the relevant words."""
    return _ATOMS.intersection(text.translate(_BLANKS).split())


def _refused(error: str, digest: bytes = b"") -> Scan:
    nothing: frozenset[bytes] = frozenset()
    return Scan(digest, (), (), {}, nothing, nothing, nothing, nothing, nothing, False, False, error)


def scan(data: bytes) -> Scan:
    """Scan a file."""
    digest = hashlib.sha256(data).digest()
    try:
        return _scan(digest, lex(data))
    except UncacheableError as error:
        return _refused(str(error), digest)


def scan_options(definitions: Iterable[bytes]) -> Scan:
    """Scan the macros of the options: ``NAME`` or ``NAME=BODY``."""
    lines = []
    for definition in definitions:
        if b"\n" in definition or b"//" in definition or b"/*" in definition or definition.endswith(b"\\"):
            error = f"define {definition.decode('utf-8', 'replace')!r}, which may be read in two ways"
            return _refused(error)
        name, equals, body = definition.partition(b"=")
        lines.append(b"#define " + name + b" " + (body if equals else b"1") + b"\n")
    return scan(b"".join(lines))


_ODD = re.compile(rb'[\n\r\\#"]|/[/*]|%:')


def scan_names(names: Sequence[bytes]) -> Scan:
    """Scan name expressions, in which NVRTC expands macros."""
    for name in names:
        if _ODD.search(name):
            error = f"{name.decode('utf-8', 'replace')!r}, which may be read in two ways"
            return _refused(error)
    return scan(b"\n".join(names))


def _scan(digest: bytes, lexed: Lexed) -> Scan:
    text = lexed.text
    reader = _Directives(lexed)
    for match in DIRECTIVE.finditer(text):
        reader.read(match[1] or b"", match[2])
    allowed = reader.words
    for word in _WORD.findall(text):
        if word in TIMES:
            raise UncacheableError(f"has {word.decode()}")
        allowed -= 1
    quoted = b" ".join(lexed.contents)
    for word in _WORD.findall(quoted):
        if word in TIMES:
            raise UncacheableError(f"has {word.decode()} in a string, which may be that of a pragma")
    if allowed != 0:
        raise UncacheableError("has __has_include other than as #if __has_include(<name>)")
    if (b"import" in text or b"module" in text) and _MODULES.search(text):
        raise UncacheableError("imports or declares a module")
    return Scan(
        digest,
        tuple(dict.fromkeys(reader.references)),
        tuple(dict.fromkeys(reader.computed)),
        {name: frozenset(bodies) for name, bodies in reader.macros.items()},
        (atoms_of(_WITHOUT_ATOMS.sub(b"", text)) | atoms_of(quoted)) & _TIME_ATOMS,
        frozenset(reader.atoms & _TEST_ATOMS),
        frozenset(reader.unbalanced),
        frozenset(reader.openers),
        frozenset(reader.before_tests),
        lexed.has_raw,
        lexed.has_separators,
        "",
    )


class _Directives:
    """The results of scanning the directives of a file, which are passed to :meth:`read` one after the other."""

    def __init__(self, lexed: Lexed) -> None:
        self.references: list[Reference] = []
        self.computed: list[Computed] = []
        self.macros: dict[bytes, set[Definition | None]] = {}
        self.atoms: set[bytes] = set()
        self.unbalanced: set[bytes] = set()
        self.openers: set[bytes] = set()
        self.before_tests: set[bytes] = set()
        self.words = 0  # how often __has_include occurs in a supported form
        self._strings = lexed.strings

    def read(self, name: bytes, rest: bytes) -> None:
        """Process one directive: add what it includes, defines or tests to the results."""
        if name in _PLAIN or name == b"define":
            self.atoms |= atoms_of(rest)
        if name in _PLAIN:
            if b"__has_" in rest:
                self._condition(name, rest)
        elif name == b"define":
            self._define(rest)
        elif name in (b"include", b"include_next"):
            self._include(rest, name == b"include_next")
        elif name == b"undef":
            if b"__has_" in rest:
                raise UncacheableError("undefines __has_include")
        elif name == b"pragma":
            if b"include" in rest or b"import" in rest:
                raise UncacheableError(f"has #pragma{_show(rest)}")
        elif name == b"line":
            if not rest.strip(b" \t").isdigit():
                raise UncacheableError("has #line with a name")
        elif name not in _IGNORED and (name or rest.strip(b" \t")):
            raise UncacheableError(f"has the directive #{_show(name + rest)}")

    def _reference(self, match: re.Match[bytes], is_next: bool) -> None:
        name = match["angle"]
        is_quoted = name is None
        if is_quoted:
            name = self._string(match["string"])
        elif any(mark in name for mark in (b"\\", b"'", b"//")):
            raise UncacheableError(f"has the file name <{_show(name)}>")
        self.references.append(Reference(name, is_quoted, is_next))

    def _string(self, index: bytes) -> bytes:
        name = self._strings[int(index)]
        if not name or b"\\" in name or b"\n" in name:
            raise UncacheableError(f'has the file name "{_show(name)}"')
        return name

    def _condition(self, name: bytes, rest: bytes) -> None:
        if name not in (b"if", b"elif"):
            self.words += len(_WORD.findall(rest))  # for example, "#ifdef __has_include"
            return
        for word in _WORD.finditer(rest):
            tested = _TESTED.match(rest, word.end())
            if _DEFINED.search(rest, 0, word.start()):
                self.words += 1
            elif tested is not None and word[0] != b"__has_embed":
                self._before(rest[: word.start()])
                self._reference(tested, word[0] == b"__has_include_next")
                self.words += 1

    def _before(self, text: bytes) -> None:
        """Record the names before ``__has_include``.

        If ``__has_include`` is in the arguments of a macro, macros in the name of its file are expanded.
        """
        text = _TESTED.sub(b"", _ANY_DEFINED.sub(b"0", text))
        self.before_tests.update(name for name in _IDENTIFIER.findall(text) if name not in WORDS)
        if _opens_call(text):
            raise UncacheableError("has __has_include in the arguments of a macro")

    def _include(self, rest: bytes, is_next: bool) -> None:
        match = _INCLUDED.fullmatch(rest)
        if match is None:
            raise UncacheableError(f"has #include{_show(rest)}")
        if match["macro"] is None:
            self._reference(match, is_next)
        else:
            self.computed.append(Computed(match["macro"], match["argument"], is_next))

    def _define(self, rest: bytes) -> None:
        match = _DEFINE.fullmatch(rest)
        if match is None:
            raise UncacheableError(f"has #define{_show(rest)}")
        name = match["macro"]
        if name in FILE_TESTS:  # as in "#ifndef __has_include" and "#define __has_include(x) 0"
            self.words += 1
        if (b"(" in match["body"] or b")" in match["body"]) and _are_unbalanced(match["body"]):
            self.unbalanced.add(name)
            if _opens_call(match["body"]):
                self.openers.add(name)
        self.macros.setdefault(name, set()).add(self._definition(match["parameters"], match["body"]))

    def _definition(self, parameters: bytes | None, body: bytes) -> Definition | None:
        part = _PART.fullmatch(body)
        parameter = None
        if parameters is not None:
            single = _PARAMETER.fullmatch(parameters)
            parameter = None if single is None else single[1]
        if part is None or (parameters is not None and (parameter is None or part["angle"] is None)):
            return None
        if part["string"] is not None:
            try:
                return Definition(parameter, self._string(part["string"]), True)
            except UncacheableError:
                return None  # such a string matters only if an #include uses the macro
        return Definition(parameter, part["part"] or part[0], False)


def _show(text: bytes) -> str:
    """Return part of a directive for a message."""
    return re.sub(rb"\x01\d+\x01", b'"..."', text.replace(b"\x02", b"'...'")).decode("utf-8", "replace")


def _are_unbalanced(body: bytes) -> bool:
    depth = 0
    for char in body:
        if char == 0x28:
            depth += 1
        elif char == 0x29:
            depth -= 1
            if depth < 0:
                return True
    return depth != 0


def _opens_call(text: bytes) -> bool:
    """Return whether an unclosed parenthesis may begin the arguments of a macro."""
    calls: list[bool] = []
    for match in re.finditer(rb"[()]", text):
        if match[0] == b"(":
            calls.append(_BEFORE_CALL.search(text, 0, match.start()) is not None)
        elif calls:
            calls.pop()
    return any(calls)
