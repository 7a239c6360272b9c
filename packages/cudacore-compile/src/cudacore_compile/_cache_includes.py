# SPDX-License-Identifier: Apache-2.0
"""The files that a C++ program may read, for cache keys.

NVRTC does not list what it has read. So the preprocessor's work is done here without its conditions: every
``#include`` counts, also one in a branch that is not taken or in a comment, and so does every file that stands where
the compiler may look for it, first or not. What comes out is more than what is read, never less: a change of what does
not matter costs a compilation, a change of what does is never overlooked. Where a name is computed by macros in a way
that is not followed (Thrust does so), all files below the include path count; and what even that would not cover makes
the program uncacheable.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


class UncacheableError(ValueError):
    """Say why what a program compiles to cannot be known before it is compiled."""


_Reference = tuple[bool, bytes]  # whether it is quoted, and the name


@dataclass(frozen=True)
class _Scan:
    """What a file says that matters here."""

    digest: bytes
    references: tuple[_Reference, ...]
    computed: frozenset[bytes]  # macros that stand for names in #include
    tested: frozenset[bytes]  # macros, or parameters of macros, that stand for names in __has_include
    perhaps: frozenset[_Reference]  # names that such a macro may be called with
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
_IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]*")
_LEADS_OUT = re.compile(rb'define[ \t](?:[^\n/]|/(?!/))*?(?:\.\.[ \t]*/|[ \t<"(]/[\w.])')
_TRAILING_BLANK = re.compile(rb"\\[ \t]+\r?\n")


def _scan(data: bytes) -> _Scan:
    digest = hashlib.sha256(data).digest()
    if b"??" in data:  # trigraphs, which C++ has up to C++14
        data = data.replace(b"??=", b"#").replace(b"??/", b"\\")
    if b"\\" in data:
        data = data.replace(b"\\\n", b"").replace(b"\\\r\n", b"")
    references: dict[_Reference, None] = {}
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
    return _Scan(
        digest,
        tuple(references),
        frozenset(computed),
        frozenset(tested),
        frozenset((not match[1], match[1] or match[2]) for match in _CALLED.finditer(data)),
        {name: frozenset(bodies) for name, bodies in macros.items()},
        b"__DATE__" in data,
        unclear,
        bool(_LEADS_OUT.search(data)),
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


@dataclass
class _Known:
    """Scans of files, by path, with what tells whether a file is still the same."""

    scans: dict[str, tuple[tuple[int, ...], _Scan]] = field(default_factory=dict)

    def scan(self, path: str) -> _Scan | None:
        """Return the scan of a file; None if there is no such file."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        known = self.scans.get(path)
        if known is not None and known[0] == _identity(status):
            return known[1]
        try:
            with open(path, "rb") as file:
                before = os.fstat(file.fileno())
                data = file.read()
                after = os.fstat(file.fileno())
        except OSError as error:
            raise UncacheableError(f"{path} cannot be read: {error.strerror}") from None
        scan = _scan(data)
        # A file that was written just now can be written again without its times telling.
        settled = time.time_ns() - max(after.st_mtime_ns, after.st_ctime_ns) > _SETTLED_NS
        if settled and _identity(before) == _identity(after):
            if len(self.scans) >= _MOST_FILES:
                self.scans.clear()
            self.scans[path] = (_identity(after), scan)
        return scan


_SETTLED_NS = 2_000_000_000  # the coarsest times that file systems keep
_MOST_FILES = 20_000


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


_known = _Known()  # of this process; what two threads do at once they do twice


def digest_of_inputs(
    update: Callable[[bytes], object],
    source: bytes,
    *,
    directory: str,
    include_path: Sequence[str],
    pre_include: Sequence[str],
    headers: Mapping[bytes, bytes],
    macros: Mapping[bytes, bytes],
) -> bool:
    """Add all that a program may read to a hash, the program itself included.

    Parameters
    ----------
    update : callable
        Takes the bytes to add.
    source : bytes
        The program.
    directory : str
        The directory that the program is in; empty for the current one.
    include_path : sequence of str
        The directories to look into.
    pre_include : sequence of str
        What is included before the program.
    headers : mapping
        Files in memory: contents by name.
    macros : mapping
        Macros that the options define.

    Returns
    -------
    bool
        Whether it depends on files, be they there or not, or on the day: it can change between two calls.

    Raises
    ------
    UncacheableError
        When it cannot be known what the program reads, or what it reads changes all the time.
    """
    closure = _Closure(directory, include_path, headers)
    closure.add_text(b"\0source", _scan(source), [directory])
    for name in pre_include:
        closure.add_reference((True, os.fsencode(name)), [directory])
    closure.follow(macros)
    for label, digest in sorted(closure.digests.items()):
        update(label)
        update(digest)
    if closure.has_date:
        update(b"\0date " + time.strftime("%Y-%m-%d").encode())
    return closure.has_looked or closure.has_date


def digest_of_file(path: str) -> bytes | None:
    """Return the hash of a file; None if there is none."""
    scan = _known.scan(path)
    return None if scan is None else scan.digest


class _Closure:
    """Files, and the files that these may include."""

    def __init__(self, directory: str, include_path: Sequence[str], headers: Mapping[bytes, bytes]) -> None:
        self.digests: dict[bytes, bytes] = {}
        self.has_date = False
        self.has_looked = False
        self._directories = list(dict.fromkeys([*include_path, directory, ""]))
        self._headers = headers
        self._seen: set[tuple[bytes, str]] = set()
        self._scans: list[tuple[bytes, _Scan, Sequence[str]]] = []
        self._at = 0  # those before it were followed
        self._include_path = list(include_path)
        self._unclear: dict[str, bytes] = {}  # what is not followed, and where that is
        self._has_trees = False

    def add_text(self, name: bytes, scan: _Scan, directories: Sequence[str]) -> None:
        """Add what was read, and where it looks for what it quotes."""
        if name in self.digests:
            return
        self.digests[name] = scan.digest
        if scan.error:
            raise UncacheableError(f"{_display(name)} {scan.error}")
        if scan.unclear:
            self._unclear.setdefault(scan.unclear, name)
        self.has_date = self.has_date or scan.has_date
        self._scans.append((name, scan, directories))

    def add_reference(self, reference: _Reference, directories: Iterable[str]) -> None:
        """Add all files that an ``#include`` may mean; `directories` are those of the file that it is in."""
        _, name = reference
        self.has_looked = True
        for directory in (*directories, *self._directories):
            if (name, directory) in self._seen:
                continue
            self._seen.add((name, directory))
            path = os.path.join(directory, os.fsdecode(name))
            scan = _known.scan(path)
            if scan is not None:
                self.add_text(os.fsencode(path), scan, [os.path.dirname(path)])
        content = self._headers.get(name)
        if content is not None:
            where = os.path.dirname(os.fsdecode(name))
            self.add_text(
                b"\0header " + name,
                _scan(content),
                [os.path.join(d, where) for d in dict.fromkeys((*directories, *self._directories))],
            )

    def follow(self, macros: Mapping[bytes, bytes]) -> None:
        """Add what everything includes, until there is nothing new."""
        while self._at < len(self._scans):
            while self._at < len(self._scans):
                _, scan, directories = self._scans[self._at]
                self._at += 1
                for reference in scan.references:
                    self.add_reference(reference, directories)
            self._follow_macros(macros)
            if self._unclear and not self._has_trees:
                self._has_trees = True
                self._add_trees()
        if self._unclear:
            self._check_trees(macros)

    def _add_trees(self) -> None:
        """Add all files below the include path."""
        count = 0
        for top in self._include_path:
            for directory, _, names in os.walk(top, followlinks=False):
                count += len(names)
                if count > _MOST_FILES:
                    what, where = next(iter(self._unclear.items()))
                    raise UncacheableError(
                        f"{_display(where)} has {what}, which is not followed, and there are more than {_MOST_FILES} "
                        "files that it may mean"
                    )
                for file in names:
                    self.add_reference((False, os.fsencode(os.path.join(directory, file))), [""])

    def _check_trees(self, options: Mapping[bytes, bytes]) -> None:
        """Raise where a computed name may be that of a file which is not below the include path."""
        tops = [os.path.join(os.path.abspath(top), "") for top in self._include_path]
        what = ""
        for what, where in self._unclear.items():
            path = os.path.abspath(os.fsdecode(where)) if where[:1] != b"\0" else ""
            if not any(path.startswith(top) for top in tops):
                raise UncacheableError(f"{_display(where)} has {what}, which is not followed")
        bodies = b"".join(b"define %s %s\n" % item for item in options.items())
        if _LEADS_OUT.search(bodies) or any(scan.leads_out for _, scan, _ in self._scans):
            raise UncacheableError(f"{what} may lead out of the include path, as far as can be seen")

    def _follow_macros(self, options: Mapping[bytes, bytes]) -> None:
        """Add what is included by a macro's name, or is asked for by a macro around ``__has_include``."""
        computed = {macro: name for name, scan, _ in self._scans for macro in scan.computed}
        tests = {macro: name for name, scan, _ in self._scans for macro in scan.tested}
        if not computed and not tests:
            return
        macros: dict[bytes, set[bytes]] = {name: {body} for name, body in options.items()}
        for _, scan, _ in self._scans:
            for name, values in scan.macros.items():
                macros.setdefault(name, set()).update(values)
        wanted: dict[_Reference, None] = {}
        if tests:  # of a parameter, perhaps: of all that stands in parentheses, or can by its macro
            for _, scan, _ in self._scans:
                wanted.update(dict.fromkeys(scan.perhaps))
            where = next(iter(tests.values()))
            for name, bodies in macros.items():
                if any(body[:1] in (b"<", b'"') for body in bodies):
                    computed.setdefault(name, where)
        for macro, where in computed.items():
            names = _expand(macro, macros, set())
            if names is None:
                self._unclear.setdefault(f"#include {macro.decode('utf-8', 'replace')}", where)
            else:
                wanted.update(dict.fromkeys(names))
        places = list(dict.fromkeys(d for _, _, directories in self._scans for d in directories))
        for reference in wanted:
            self.add_reference(reference, places if reference[0] else ())


def _display(name: bytes) -> str:
    """Return the name of a file for a message."""
    if name.startswith(b"\0header "):
        return f"the header {os.fsdecode(name[8:])!r}"
    return "the program" if name[:1] == b"\0" else os.fsdecode(name)


def _expand(macro: bytes, macros: Mapping[bytes, set[bytes]], seen: set[bytes]) -> list[_Reference] | None:
    """Return the names that a macro can stand for; None when that is not known."""
    names: list[_Reference] = []
    seen.add(macro)
    for body in macros.get(macro, ()) or (b"",):
        if body.startswith(b'"') and body.endswith(b'"'):
            names.append((True, body[1:-1]))
        elif body.startswith(b"<") and body.endswith(b">"):
            if any(word in macros for word in _IDENTIFIER.findall(body)):
                return None
            names.append((False, body[1:-1]))
        elif not body:
            return None
        elif body not in seen:
            more = _expand(body, macros, seen)
            if more is None:
                return None
            names += more
    return names
