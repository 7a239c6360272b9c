# SPDX-License-Identifier: Apache-2.0
"""What a file of source says of other files, for cache keys."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass


class UncacheableError(ValueError):
    """Say why what a program compiles to cannot be known before it is compiled."""


Reference = tuple[bool, bytes]  # whether it is quoted, and the name


@dataclass(frozen=True)
class Scan:
    """What a file says that matters here."""

    digest: bytes
    references: tuple[Reference, ...]
    computed: frozenset[bytes]  # macros that stand for names in #include
    tested: frozenset[bytes]  # macros, or parameters of macros, that stand for names in __has_include
    perhaps: frozenset[Reference]  # names that such a macro may be called with
    macros: Mapping[bytes, frozenset[bytes]]  # definitions by macro: those that can be names, the others are empty
    has_date: bool
    unclear: str  # a computed name that is not followed
    leads_out: bool  # whether a macro may lead out of the directories that are looked into
    error: str  # what makes it useless to look on


_BLANK = rb"(?:[ \t\v\f]|/\*.*?\*/)"
_WORD = re.compile(rb"include(_next)?(?![\w])")
_INCLUDED = re.compile(rb'%b*(?:<([^>\n]+)>|"([^"\n]+)"|([A-Za-z_$][\w$]*)|)([^\n]*)' % _BLANK, re.DOTALL)
_TESTED = re.compile(rb'%b*\(%b*(?:<([^>\n]+)>|"([^"\n]+)"|([A-Za-z_$][\w$]*))?' % (_BLANK, _BLANK), re.DOTALL)
_DEFINED = re.compile(
    rb'define%b+([A-Za-z_$][\w$]*)(?:%b+(<[^\n]*?>|"[^"\n]*"|[A-Za-z_$][\w$]*)%b*(?://[^\n]*)?\r?(?:\n|\Z)|)'
    % (_BLANK, _BLANK, _BLANK),
    re.DOTALL,
)
_CALLED = re.compile(rb'\([ \t]*(?:<([^<>\n()]+)>|"([^"\n]+)")[ \t]*\)')
IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]*")
# A quote behind a backslash begins no name: it is inside of a string.
LEADS_OUT = re.compile(rb'define[ \t](?:[^\n/]|/(?!/))*?(?:\.\.[ \t]*/|(?:[ \t<(]|(?<!\\)")/[\w.])')
_TRAILING_BLANK = re.compile(rb"\\[ \t]+\r?\n")


def scan(data: bytes) -> Scan:
    digest = hashlib.sha256(data).digest()
    if b"??" in data:  # trigraphs, which C++ has up to C++14
        data = data.replace(b"??=", b"#").replace(b"??/", b"\\")
    if b"\\" in data:
        data = data.replace(b"\\\n", b"").replace(b"\\\r\n", b"")
    references: dict[Reference, None] = {}
    computed: set[bytes] = set()
    tested: set[bytes] = set()
    unclear = error = ""
    if _TRAILING_BLANK.search(data):  # some compilers take it for a continued line
        error = "has blanks behind a backslash at the end of a line"
    elif b"__TIME__" in data or b"__TIMESTAMP__" in data:
        error = "asks for the time"
    for match in _WORD.finditer(data):
        if data.endswith(b"__has_", 0, match.start()):
            found = _TESTED.match(data, match.end())
            if found is None:
                continue  # "#ifdef __has_include"
            names = tested
            rest = b""
        elif _is_directive(data, match.start()):
            found = _INCLUDED.match(data, match.end())
            assert found is not None
            names = computed
            rest = found[4]
        else:
            continue
        if found[1] or found[2]:
            references[not found[1], found[1] or found[2]] = None
        elif found[3] and not rest.strip().startswith((b"(", b"#")):
            names.add(found[3])
        elif names is computed and (found[3] or rest.strip()):
            unclear = f"#include {((found[3] or b'') + rest).strip().decode('utf-8', 'replace')}"
        elif names is tested:
            unclear = "__has_include of what is no name"
    macros: dict[bytes, set[bytes]] = {}
    if b"define" in data:
        for match in _DEFINED.finditer(data):
            macros.setdefault(match[1], set()).add(match[2] or b"")
    return Scan(
        digest,
        tuple(references),
        frozenset(computed),
        frozenset(tested),
        frozenset((not match[1], match[1] or match[2]) for match in _CALLED.finditer(data)),
        {name: frozenset(bodies) for name, bodies in macros.items()},
        b"__DATE__" in data,
        unclear,
        bool(LEADS_OUT.search(data)),
        error,
    )


def _is_directive(data: bytes, at: int) -> bool:
    """Return whether there is a ``#`` before, with nothing but blanks and comments between."""
    before = data[max(0, at - 1000) : at]
    while True:
        before = before.rstrip(b" \t\v\f")
        if not before.endswith(b"*/"):
            return before.endswith((b"#", b"%:"))
        start = before.rfind(b"/*")
        if start < 0:
            return True  # a comment so long that it may stand behind one
        before = before[:start]


SETTLED_NS = 2_000_000_000  # the coarsest times that file systems keep
MOST_FILES = 20_000

Identity = tuple[int, ...]


def identity_of(path: str) -> Identity | None:
    """Return what tells whether a file or directory is still the same; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return _identity(status)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_settled(identity: Identity | None) -> bool:
    """Return whether a change would show: what was written just now can be written again without its times telling."""
    return identity is None or time.time_ns() - max(identity[-2:]) > SETTLED_NS


class Files:
    """What files say, by path: of this process, and each file is read again when it has changed.

    What two threads do at once they do twice.
    """

    def __init__(self) -> None:
        self._scans: dict[str, tuple[Identity, Scan]] = {}

    def scan(self, path: str) -> tuple[Scan | None, Identity | None]:
        """Return what a file says, and what it was then; None and what is there instead, if that is no file.

        Raises
        ------
        UncacheableError
            When it is there and cannot be read.
        """
        there = identity_of(path)
        if there is None or not stat.S_ISREG(there[2]):
            return None, there
        known = self._scans.get(path)
        if known is not None and known[0] == there:
            return known[1], there
        try:
            with open(path, "rb") as file:
                before = _identity(os.fstat(file.fileno()))
                data = file.read()
                after = _identity(os.fstat(file.fileno()))
        except OSError as error:
            raise UncacheableError(f"{path} cannot be read: {error.strerror}") from None
        found = scan(data)
        if before == after and is_settled(after):
            if len(self._scans) >= MOST_FILES:
                self._scans.clear()
            self._scans[path] = (after, found)
            return found, after
        return found, (*after[:-1], time.time_ns())  # what is never the same again
