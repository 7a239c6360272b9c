# SPDX-License-Identifier: Apache-2.0
"""The search for the files that a C++ program may read.

NVRTC 12.0 to 13.5 look for a quoted name in the directory of the including file and then in the include path. They look
for a name in angle brackets in the include path only. The first regular file is used. A name without a suffix is also
tried with the suffix ``.stdh``. Here, a name counts in all these places, whichever comes first.

Each text has a `top`. It is None for the program and for files that anybody may have written: constructs that could
hide the name of a file are refused in them. Headers of installed packages and toolkits may have such constructs, and
their `top` is the first part of their names: ``thrust`` for ``<thrust/scan.h>``. If an installed header includes a name
that is not known, all files in the directories ``thrust`` count.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cudacore_compile._cache.notes import Known, Notes, hash_of, keep, recall
from cudacore_compile._cache.scan import Scan, macros_in, may_be_name, meaning, pasted_word, scan, scan_options
from cudacore_compile._cache.settings import check_options
from cudacore_compile._cache.states import (
    Look,
    are_settled,
    fingerprint,
    group,
    inodes,
    modes,
    read_regular,
    times,
)
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.wheel_headers import wheel_headers
from cudacore_compile._version import __version__
from cudacore_handles._sdk.compile import file_states

_VERSION = f"cudacore-closure-7 {__version__}"  # the format may differ between releases
_MAX_SCANS = 20_000
_ANY_ARCH = "sm_90"  # for the files of a program, any architecture will do, because all branches are considered
_TOOLKITS = ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")
_SYSTEM = re.compile(r"/usr/(?:include|lib\w*|local/(?:include|cuda[^/]*))(?:/.*)?")
# Entries of a directory above which show that a package manager or an installer has made it.
_MARKS = re.compile(r".*\.dist-info|conda-meta|nvvm")

_scans: dict[tuple[str, bool], tuple[bytes, Scan]] = {}  # the state and the scan of files
_programs: dict[bytes, tuple[Scan, bytes]] = {}  # scans of programs by hash, with their include_key


@functools.cache
def is_installed(directory: str) -> bool:
    """Return whether a directory belongs to an installed package, to a toolkit or to the system."""
    real = os.path.realpath(directory)
    tops = [os.path.realpath(os.environ[name]) for name in _TOOLKITS if os.environ.get(name)]
    if _SYSTEM.fullmatch(real) or any(real == top or real.startswith(top + "/") for top in tops):
        return True
    while real != "/":
        real = os.path.dirname(real)
        try:
            if any(_MARKS.fullmatch(name) for name in os.listdir(real)):
                return True
        except OSError:
            pass
    return False


class Search:
    """Finds the files of a program. Some places of the include path are `bundled`: NVRTC has unpacked headers there.

    Raises
    ------
    UncacheableError
        If the files that the program reads cannot be determined.
    """

    def __init__(self, include_path: Iterable[str], bundled: Sequence[str]) -> None:
        self._start = time.time_ns()
        self._include_path = {place: place in bundled or is_installed(place) for place in include_path}
        self.files: dict[str, bytes] = {}
        self.time = ""  # why the code depends on the time
        self.error = ""  # why the program may read other files, too
        self._looked: set[str] = set()  # directories without a file that was looked for, and paths that are not files
        self._listings: dict[str, frozenset[str]] = {}
        self._seen: set[tuple[str, ...]] = set()
        self._macros: dict[bytes, set[bytes]] = {}
        # #include MACRO REST, with the directory and the top of the text
        self._computed: set[tuple[bytes, bytes, str | None, str | None]] = set()
        self._expanded: set[tuple[bytes, str | None]] = set()  # names in which there may be a macro
        self._atoms: set[bytes] = set()
        self._todo: list[Callable[[], None]] = []

    def add_text(self, shown: str, directory: str | None, scanned: Scan, top: str | None = None) -> None:
        """Add a text: the program, a header in memory, a file. Quoted names are searched for in the directory first."""
        self.time = self.time or (scanned.time and f"{shown} {scanned.time}")
        if scanned.error and top is None:
            self.error = self.error or f"{shown} {scanned.error}"
        self._atoms |= scanned.atoms
        self._expanded |= {(name, top) for name in scanned.expanded}
        self._computed |= {(macro, rest, directory, top) for macro, rest in scanned.computed}
        for macro, bodies in scanned.macros.items():
            self._macros.setdefault(macro, set()).update(bodies)
        self._todo.append(lambda: self.add_names(scanned.names, directory, top))

    def finish(self) -> None:
        """Follow all names."""
        while self._todo:
            while self._todo:
                self._todo.pop()()
            self._follow_macros()
        word = pasted_word(self._atoms)
        if word is not None:
            self.error = self.error or f"the program has tokens of which {word.decode()} can be pasted"

    def _follow_macros(self) -> None:
        """Follow each ``#include MACRO``. All definitions count, and a macro without one is an error."""
        todo = list(self._computed)
        for macro, rest, directory, top in todo:  # it grows
            if may_be_name(macro):
                self._add_unknown("the program computes a file name with a macro of the compiler", top)
            for body in tuple(self._macros.get(macro, ())):  # added files can have more
                name, other = meaning(body, rest)
                if name:
                    self.add_names({name}, directory, top)
                    self._expanded |= {(name, top)} if name.startswith(b"<") else set()
                elif not other:
                    shown = _shown(macro + rest)
                    reason = f"the program has #include {shown}, which is not defined as the name of a file"
                    self._add_unknown(reason, top)
                elif (other, b"", directory, top) not in self._computed:
                    self._computed.add((other, b"", directory, top))
                    todo.append((other, b"", directory, top))
        for name, top in self._expanded:
            reason = macros_in(name, self._macros.keys())
            if reason:
                self._add_unknown(f"the program computes the file name {_shown(name)}> {reason}", top)

    def _add_unknown(self, reason: str, top: str | None) -> None:
        """Add the files of which the name of one is not known: all files in the directories of an installed header."""
        if top is None or not any(os.path.isdir(os.path.join(place, top)) for place in self._include_path):
            self.error = self.error or reason
        elif ("all", top) not in self._seen:
            self._seen.add(("all", top))
            self._todo.append(lambda: self._add_directories(top))

    def _add_directories(self, top: str) -> None:
        for place in self._include_path:
            for directory, _, names in os.walk(os.path.join(place, top)):
                self._looked.add(directory)
                for name in names:
                    self._add_file(os.path.join(directory, name), self._top(place, top))

    def add_names(self, names: Iterable[bytes], directory: str | None, top: str | None = None) -> None:
        """Add names, in all places where the compiler may look for them."""
        for name in names:
            text = re.sub(r"^(?:\./+)+", "", os.fsdecode(name[1:]))
            stem = text.rstrip("/")  # NVRTC 13.5 opens a file without the slashes
            for spelling in {text, stem} if "." in os.path.basename(text) else {text, stem, text + ".stdh"}:
                if directory is not None and name.startswith(b'"'):
                    self._look(directory, spelling, top)
                for place in self._include_path:
                    self._look(place, spelling, self._top(place, spelling))

    def _top(self, place: str, name: str) -> str | None:
        return name.partition("/")[0] if self._include_path[place] else None

    def _look(self, directory: str, name: str, top: str | None) -> None:
        """Look for a name in a directory."""
        if (directory, name, top or "") in self._seen:
            return
        self._seen.add((directory, name, top or ""))
        parts, place = name.split("/"), directory
        if not {"", ".", ".."}.intersection(parts):
            for part in parts:
                if part not in self._listing(place):
                    self._looked.add(place or ".")
                    return
                place = os.path.join(place, part)
        self._add_file(os.path.join(directory, name), top)

    def _listing(self, directory: str) -> frozenset[str]:
        """Return the names in a directory. Other names are looked for in it only after it has changed."""
        found = self._listings.get(directory)
        if found is None:
            try:
                found = frozenset(os.listdir(directory or "."))
            except (FileNotFoundError, NotADirectoryError):
                found = frozenset()
            except (OSError, ValueError) as error:
                raise UncacheableError(f"{directory} cannot be read: {error}") from None
            self._listings[directory] = found
        return found

    def _add_file(self, path: str, top: str | None) -> None:
        key = path, top is not None
        if (path, str(key[1])) in self._seen or "\0" in path:
            return
        self._seen.add((path, str(key[1])))
        groups = group([path])
        state = file_states(groups)
        if not stat.S_ISREG(modes(state, groups)[0]):
            self._looked.add(path)
            return
        known = _scans.get(key)
        scanned = known[1] if known is not None and known[0] == state else scan(_read(path), is_installed=key[1])
        if len(_scans) >= _MAX_SCANS:
            _scans.clear()
        if are_settled(state, self._start):
            _scans[key] = state, scanned
        self.files[path] = scanned.digest
        self.add_text(path, os.path.dirname(path), scanned, top)

    def known(self, names: Sequence[str], *, has_times: bool) -> Known:
        """Return a hash of all files, and of their times if the code has these.

        The names of the program and of headers in memory can also be those of files.
        """
        names = names if self.files or has_times or len(names) > 1 else ()
        own = sorted({*self.files, *names})
        groups = group(own)
        states = file_states(groups)
        modes(states, groups)
        # The compiler reads a file with "#pragma once" a single time, by whatever path it is included. So the hash also
        # covers which paths lead to the same file. A place that does not exist has the inode 0.
        first: dict[tuple[int, int], int] = {}
        same = [first.setdefault(inode, index) if inode[1] else -1 for index, inode in enumerate(inodes(states))]
        value = hash_of(sorted(self.files.items()), same, times(states) if has_times else None)
        looked = group(self._looked.difference(own))
        looked_states = file_states(looked)
        modes(looked_states, looked)
        is_settled = are_settled(states + looked_states, self._start)
        return Known(value, groups + looked, fingerprint(states + looked_states), is_settled)


class Inputs(NamedTuple):
    """The files that one compilation may read."""

    key: bytes
    """bytes: A hash of everything that determines which files these are, apart from the files."""
    search: Callable[[], Search]
    """callable: Searches for the files."""
    names: Sequence[str]
    has_times: bool

    def known(self, look: Look, notes: Notes | None) -> Known:
        """Find the files, or check that the known ones are unchanged."""
        found = recall(self.key, notes, look)
        if found is None:
            look.clear()
            search = self.search()
            if search.error or search.time:
                raise UncacheableError(search.error or search.time)
            found = search.known(self.names, has_times=self.has_times)
            keep(self.key, found, notes)
        return found


def inputs_of(
    source: bytes,
    flags: Sequence[bytes],
    options: ProgramOptions,
    *,
    names: Sequence[bytes],
    headers: Mapping[bytes, bytes],
    has_times: bool = False,
) -> Inputs:
    """Return an object that finds the files that a C++ program reads. `flags` are the options in NVRTC's form.

    If the code has times of files, that of a file with the name of the program matters, too.
    """
    program, program_key = _scan_program(source)
    expressions, expressions_key = _scan_program(b"\n".join(names))
    bundled = _values(flags, b"--use-bundled-headers=")
    bundled += [os.path.join(top, "cccl") for top in bundled]
    includes = _values(flags, b"--include-path=") + bundled + wheel_headers(source, flags, headers)
    pre_include = _values(flags, b"--pre-include=")
    macros = _values(flags, b"--define-macro=")
    directory = None if options.no_source_include else os.path.dirname(options.name or "")
    others = [options.name or "default_program", *map(os.fsdecode, headers)]
    scans = [program_key, expressions_key, *(item for pair in sorted(headers.items()) for item in pair)]
    places = (_current_directory(), directory, includes, pre_include, macros, others)
    key = hash_of(_VERSION, hash_of(*scans), places, has_times)

    def search() -> Search:
        search = Search(includes, bundled)
        search.add_text("a macro of the options", None, scan_options(list(map(os.fsencode, macros))))
        search.add_text("a name expression", "", expressions)  # NVRTC compiles them as a file in the current directory
        search.add_text("the program", directory, program)
        for header, content in headers.items():  # all headers, even unused ones, because their contents are in the key
            shown = os.fsdecode(header)
            search.add_text(f"the header {shown!r}", os.path.dirname(shown), scan(content))
        search.add_names([b'"' + os.fsencode(pre) for pre in pre_include], "")
        search.finish()
        return search

    return Inputs(key, search, others, has_times)


def included_files(code: bytes, options: ProgramOptions, headers: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """Return the files that a C++ program may include, with hashes of their contents. The time does not matter."""
    precompiled = [] if options.use_pch is None else [os.fspath(options.use_pch)]
    # Compilations with precompiled headers are not cached, but the files that they include can be determined.
    options = replace(options, arch=options.arch or _ANY_ARCH, pch=None, use_pch=None)
    search = inputs_of(code, options.as_bytes("nvrtc"), options, names=(), headers=headers).search()
    files = dict.fromkeys(precompiled, b"") | search.files
    try:
        check_options(options)
        reason = search.error
    except UncacheableError as error:
        reason = str(error)
    if reason:
        raise UncacheableError._with_files(reason, files)
    return files


def _scan_program(text: bytes) -> tuple[Scan, bytes]:
    hashed = hashlib.sha256(text).digest()
    known = _programs.get(hashed)
    if known is None:
        if len(_programs) >= _MAX_SCANS:
            _programs.clear()
        scanned = scan(text)
        known = _programs[hashed] = scanned, scanned.include_key
    return known


def _read(path: str) -> bytes:
    try:
        data = read_regular(path)
    except OSError as error:
        raise UncacheableError(f"{path} cannot be read: {error.strerror}") from None
    if data is None:
        raise UncacheableError(f"{path} is not a regular file")
    return data


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise UncacheableError(f"there is no current directory: {error.strerror}") from None


def _values(flags: Sequence[bytes], flag: bytes) -> list[str]:
    return [os.fsdecode(option[len(flag) :]) for option in flags if option.startswith(flag)]


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")
