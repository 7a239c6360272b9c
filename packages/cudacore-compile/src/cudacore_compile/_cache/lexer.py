# SPDX-License-Identifier: Apache-2.0
"""The first phases of translating a C++ file: continued lines, comments and literals.

The result has one directive per line, no comments, and no text of literals. If a file has two possible readings, it is
refused, because NVRTC's reading could only be guessed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cudacore_compile._cache.uncacheable import UncacheableError

_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
# NVRTC treats the byte 0xff as the end of the file
_ALLOWED = bytes([*b"\t\n\r", *range(0x20, 0x7F), *range(0x80, 0xFF)])
_TRIGRAPH = re.compile(rb"\?\?[=/'()!<>-]")
_TRAILING_BLANK = re.compile(rb"\\[ \t]+\n")
# Each alternative begins with a different character, which makes the search many times as fast.
_COMMENT = rb"/(?:/[^\n]*|\*[^*]*\*+(?:[^/*][^*]*\*+)*/|\*)"
_LITERAL = rb""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'|"(?P<string>[^\n]*)|'(?P<character>[^\n]*)"""
_COMMON = re.compile(_COMMENT + b"|" + _LITERAL)
_ENDS_RAW = re.compile(rb"(?<!\w)(?:u8|[uUL])?R\Z")
# Raw strings and digit separators are rare. _ALL recognises them, but is slower than _COMMON, so it only reads files
# that may have them.
_BETWEEN = re.compile(rb"'(?<=[\w.]')\w")
_IN_NUMBERS = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.")
_ALL = re.compile(
    rb'(?P<raw>(?<!\w)(?:u8|[uUL])?R"(?P<delimiter>[^ ()\\\t\n"]{0,16})\([\s\S]*?\)(?P=delimiter)")'
    rb"|(?P<number>(?<![\w.])\.?[0-9](?:[eEpP][+-]|[\w.])*(?:'(?:[eEpP][+-]|[\w.])+)+)"
    rb"|" + _COMMENT + b"|" + _LITERAL
)


# After these characters, what looks like the start of a raw string may continue a number, as in 1e+R, or be the suffix
# of a literal.
_GOES_ON = frozenset(b"$.+-'\"")
_LITERAL_MARK = b"\x02"
_DIRECTIVE_FOLLOWS = re.compile(rb"(?:[ \t]|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*(?:#|%:)")


class Lexed(NamedTuple):
    """A file without comments and literals."""

    text: bytes
    """bytes: The file. Each string is replaced by its index in `strings`, between ``\\x01`` bytes.

    Each character literal, and each number with digit separators, is a ``\\x02`` byte.
    """
    strings: tuple[bytes, ...]
    contents: tuple[bytes, ...]
    """tuple: The contents of the strings, including raw ones, because ``_Pragma`` expands macros in its string."""
    has_raw: bool
    """bool: Whether there are raw strings, which C++03 does not have."""
    has_separators: bool
    """bool: Whether there are digit separators, which C++11 does not have."""


def lex(data: bytes) -> Lexed:
    """Return a file without comments, continued lines and literals.

    Raises
    ------
    UncacheableError
        When the file can be read in two ways.
    """
    if data.startswith(_MARKS):
        raise UncacheableError("begins with a byte order mark")
    odd = data.translate(None, _ALLOWED)
    if b"??" in data and _TRIGRAPH.search(data):  # C++14 and earlier have trigraphs
        raise UncacheableError("has trigraphs")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        odd += b"\r" * (b"\r" in data)
    if odd:
        raise UncacheableError(f"has the byte {odd[:1]!r}")
    is_continued = False
    if b"\\" in data:
        if _TRAILING_BLANK.search(data):  # some compilers ignore the blanks, and treat the line as continued
            raise UncacheableError("has blanks behind a backslash at the end of a line")
        is_continued = b"\\\n" in data
        data = data.replace(b"\\\n", b"")
    literals = _Literals(is_continued)
    has_rare = b'R"' in data or _has_separator(data)
    text = (_ALL if has_rare else _COMMON).sub(literals.replace, data)
    if b"\\" in text:
        raise UncacheableError("has a backslash outside of comments and literals")
    return Lexed(text, tuple(literals.strings), tuple(literals.contents), literals.has_raw, literals.has_separators)


def _has_separator(data: bytes) -> bool:
    """Return whether there may be a digit separator, and not only apostrophes as in "don't"."""
    for match in _BETWEEN.finditer(data):
        start = match.start()
        while start > 0 and data[start - 1] in _IN_NUMBERS:
            start -= 1
        if data[start : match.start()].lstrip(b".")[:1].isdigit():
            return True
    return False


class _Literals:
    """The literals of a file."""

    def __init__(self, is_continued: bool) -> None:
        self.strings: list[bytes] = []
        self.contents: list[bytes] = []
        self.has_raw = self.has_separators = False
        self._is_continued = is_continued

    def replace(self, match: re.Match[bytes]) -> bytes:
        """Return the text that replaces a token of the file."""
        token = match[0]
        first = token[:1]
        if first == b"/":
            if token == b"/*":
                raise UncacheableError("has a comment without an end")
            if b"\n" in token:
                _check_comment(match)
            return b" "
        if match.lastgroup == "number":
            self.has_separators = True
            if _continues_a_word(match):
                raise UncacheableError("has an apostrophe that can be read in two ways")
            return _LITERAL_MARK
        if match.lastgroup in ("string", "character"):
            return self._open(match)
        if match.lastgroup is not None:
            return self._raw(match)
        if first == b"'":
            if b"/*" in token:  # skipped code can contain a single apostrophe, as in "don't"
                raise UncacheableError("has a comment between two apostrophes")
            return _LITERAL_MARK
        if _ENDS_RAW.search(match.string, max(0, match.start() - 4), match.start()):
            raise UncacheableError("has a raw string that is not one")
        self.strings.append(token[1:-1])
        self.contents.append(token[1:-1])
        return b"\x01%d\x01" % (len(self.strings) - 1)

    def _raw(self, match: re.Match[bytes]) -> bytes:
        self.has_raw = True
        if _continues_a_word(match):
            raise UncacheableError("has a raw string that can be read in two ways")
        if self._is_continued:  # raw strings have no continued lines
            raise UncacheableError("has a raw string and continued lines")
        if b"\n" in match[0] and _begins_directive(match.string, match.start()):
            raise UncacheableError("has a raw string of several lines in a directive")
        self.strings.append(b"\n")  # refused if used as the name of a file
        self.contents.append(match[0])
        return b"\x01%d\x01" % (len(self.strings) - 1)

    def _open(self, match: re.Match[bytes]) -> bytes:
        """Skip an unterminated literal, as in ``#error don't``. Compilers may read the rest of the line in any way."""
        before = match.string[max(0, match.start() - 1) : match.start()]
        if before == b"R" or any(mark in match[0][1:] for mark in (b"/*", b"*/", b"'", b'"')):
            raise UncacheableError("has a literal without an end")
        return b""


def _continues_a_word(match: re.Match[bytes]) -> bool:
    """Return whether a token can continue the text before it, such as a number, or a literal with a suffix."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    return before >= b"\x80" or (before != b"" and before[0] in _GOES_ON)


def _check_comment(match: re.Match[bytes]) -> None:
    """Raise if a directive follows a comment of several lines, unless the comment begins its line.

    NVRTC treats the text after the comment as a directive, but the C++ standard does not.
    """
    data = match.string
    if _DIRECTIVE_FOLLOWS.match(data, match.end()):
        start = match.start()
        if data[data.rfind(b"\n", 0, start) + 1 : start].strip(b" \t"):
            raise UncacheableError("has a directive behind a comment of several lines that does not begin its line")


def _begins_directive(data: bytes, at: int) -> bool:
    line = data[data.rfind(b"\n", 0, at) + 1 : at]
    return b"#" in line or b"%:" in line or b"*/" in line
