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
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cudacore_compile._cache.scan import (
    IDENTIFIER,
    LEADS_OUT,
    MOST_FILES,
    Files,
    Identity,
    Reference,
    Scan,
    UncacheableError,
    identity_of,
    is_settled,
    scan,
)


class Inputs(NamedTuple):
    """All that a program may read."""

    digest: bytes
    can_change: bool
    """bool: Whether it depends on files, be they there or not, or on the day."""


class _Seen(NamedTuple):
    """What was found the last time, and when that is still so."""

    looked: dict[str, Identity | None]
    digest: bytes
    has_date: bool


_files = Files()
_seen: dict[bytes, _Seen] = {}
_MOST_SEEN = 200  # programs


def inputs_of(
    source: bytes,
    *,
    directory: str,
    include_path: Sequence[str],
    pre_include: Sequence[str],
    headers: Mapping[bytes, bytes],
    macros: Mapping[bytes, bytes],
) -> Inputs:
    """Return a hash of all that a program may read, the program itself included.

    Parameters
    ----------
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

    Raises
    ------
    UncacheableError
        When it cannot be known what the program reads, or what it reads changes all the time.
    """
    arguments = (source, directory, include_path, pre_include, sorted(headers.items()), sorted(macros.items()))
    question = hashlib.sha256(repr((os.getcwd(), *arguments)).encode("utf-8", "surrogateescape")).digest()
    seen = _seen.get(question)
    if seen is None or any(identity_of(path) != identity for path, identity in seen.looked.items()):
        closure = close_over(source, directory, include_path, pre_include, headers, macros)
        digest = hashlib.sha256()
        for name, one in sorted(closure.digests.items()):
            digest.update(hashlib.sha256(name).digest())
            digest.update(one)
        seen = _Seen(closure.looked, digest.digest(), closure.has_date)
        if closure.looked and all(map(is_settled, closure.looked.values())):
            if len(_seen) >= _MOST_SEEN:
                _seen.clear()
            _seen[question] = seen
    today = time.strftime("%Y-%m-%d").encode() if seen.has_date else b""
    return Inputs(seen.digest + today, bool(seen.looked) or seen.has_date)


def close_over(
    source: bytes,
    directory: str,
    include_path: Sequence[str],
    pre_include: Sequence[str],
    headers: Mapping[bytes, bytes],
    macros: Mapping[bytes, bytes],
) -> _Closure:
    """Find all that a program may read; see :func:`inputs_of`."""
    closure = _Closure(directory, include_path, headers)
    closure.add_text(b"\0source", scan(source), [directory])
    for name in pre_include:
        closure.add_reference((True, os.fsencode(name)), [directory])
    closure.follow(macros)
    return closure


def digest_of_file(path: str) -> bytes | None:
    """Return the hash of a file; None if there is none."""
    said, _ = _files.scan(path)
    return None if said is None else said.digest


class _Closure:
    """Files, and the files that these may include."""

    def __init__(self, directory: str, include_path: Sequence[str], headers: Mapping[bytes, bytes]) -> None:
        self.digests: dict[bytes, bytes] = {}
        self.has_date = False
        self.looked: dict[str, Identity | None] = {}  # what was where it was looked for
        self._directories = list(dict.fromkeys([*include_path, directory, ""]))
        self._headers = headers
        self._seen: set[tuple[bytes, str]] = set()
        self._scans: list[tuple[bytes, Scan, Sequence[str]]] = []
        self._at = 0  # those before it were followed
        self._include_path = list(include_path)
        self._unclear: dict[str, bytes] = {}  # what is not followed, and where that is
        self._has_trees = False

    def add_text(self, name: bytes, said: Scan, directories: Sequence[str]) -> None:
        """Add what was read, and where it looks for what it quotes."""
        if name in self.digests:
            return
        self.digests[name] = said.digest
        if said.error:
            raise UncacheableError(f"{_display(name)} {said.error}")
        if said.unclear:
            self._unclear.setdefault(said.unclear, name)
        self.has_date = self.has_date or said.has_date
        self._scans.append((name, said, directories))

    def add_reference(self, reference: Reference, directories: Iterable[str]) -> None:
        """Add all files that an ``#include`` may mean; `directories` are those of the file that it is in."""
        _, name = reference
        for directory in (*directories, *self._directories):
            if (name, directory) in self._seen:
                continue
            self._seen.add((name, directory))
            self._add_file(os.path.join(directory, os.fsdecode(name)))
        content = self._headers.get(name)
        if content is not None:
            where = os.path.dirname(os.fsdecode(name))
            self.add_text(
                b"\0header " + name,
                scan(content),
                [os.path.join(d, where) for d in dict.fromkeys((*directories, *self._directories))],
            )

    def _add_file(self, path: str) -> None:
        """Add a file, if there is one."""
        if path in self.looked:
            return
        said, self.looked[path] = _files.scan(path)
        if said is not None:
            self.add_text(os.fsencode(path), said, [os.path.dirname(path)])

    def follow(self, macros: Mapping[bytes, bytes]) -> None:
        """Add what everything includes, until there is nothing new."""
        while self._at < len(self._scans):
            while self._at < len(self._scans):
                _, said, directories = self._scans[self._at]
                self._at += 1
                for reference in said.references:
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
            self.looked[top] = identity_of(top)  # it may not be there yet
            for directory, _, names in os.walk(top, followlinks=True):
                count += 1 + len(names)  # a circle of links ends here, too
                if count > MOST_FILES:
                    what, where = next(iter(self._unclear.items()))
                    raise UncacheableError(
                        f"{_display(where)} has {what}, which is not followed, and there are more than {MOST_FILES} "
                        "files that it may mean"
                    )
                self.looked[directory] = identity_of(directory)  # a new file changes its times
                for file in names:
                    self._add_file(os.path.join(directory, file))

    def _check_trees(self, options: Mapping[bytes, bytes]) -> None:
        """Raise where a computed name may be that of a file which is not below the include path."""
        tops = [os.path.join(os.path.abspath(top), "") for top in self._include_path]
        what = ""
        for what, where in self._unclear.items():
            path = os.path.abspath(os.fsdecode(where)) if where[:1] != b"\0" else ""
            if not any(path.startswith(top) for top in tops):
                raise UncacheableError(f"{_display(where)} has {what}, which is not followed")
        bodies = b"".join(b"define %s %s\n" % item for item in options.items())
        if LEADS_OUT.search(bodies) or any(said.leads_out for _, said, _ in self._scans):
            raise UncacheableError(f"{what} may lead out of the include path, as far as can be seen")

    def _follow_macros(self, options: Mapping[bytes, bytes]) -> None:
        """Add what is included by a macro's name, or is asked for by a macro around ``__has_include``."""
        computed = {macro: name for name, said, _ in self._scans for macro in said.computed}
        tests = {macro: name for name, said, _ in self._scans for macro in said.tested}
        if not computed and not tests:
            return
        macros: dict[bytes, set[bytes]] = {name: {body} for name, body in options.items()}
        for _, said, _ in self._scans:
            for name, values in said.macros.items():
                macros.setdefault(name, set()).update(values)
        wanted: dict[Reference, None] = {}
        if tests:  # of a parameter, perhaps: of all that stands in parentheses, or can by its macro
            for _, said, _ in self._scans:
                wanted.update(dict.fromkeys(said.perhaps))
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


def _expand(macro: bytes, macros: Mapping[bytes, set[bytes]], seen: set[bytes]) -> list[Reference] | None:
    """Return the names that a macro can stand for; None when that is not known."""
    names: list[Reference] = []
    seen.add(macro)
    for body in macros.get(macro, ()) or (b"",):
        if body.startswith(b'"') and body.endswith(b'"'):
            names.append((True, body[1:-1]))
        elif body.startswith(b"<") and body.endswith(b">"):
            if any(word in macros for word in IDENTIFIER.findall(body)):
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
