# SPDX-License-Identifier: Apache-2.0
"""The search for the files that a C++ program may read.

All branches of conditionals are considered. Places where a file is missing are included too, because it could be
created there. So the result can have more files than the compiler reads, but never fewer.

NVRTC 12.0 to 13.5 look for a quoted name in the directory of the including file and then in the include path. They look
for a name in angle brackets in the include path only. The first regular file is used. A name without a suffix is also
tried with the suffix ``.stdh``.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from cudacore_compile._cache.closure import Closure
from cudacore_compile._cache.identity import Identity, identity_of, read, settled
from cudacore_compile._cache.names import expand
from cudacore_compile._cache.scan import Definition, Reference, Scan, scan, scan_names, scan_options
from cudacore_compile._cache.token_pasting import atoms_in_macros, pasted_word
from cudacore_compile._cache.uncacheable import UncacheableError

_MAX_FILES = 20_000
_MAX_LOOKS = 50


class Files:
    """A cache of scanned files by path. A file is read again after it has changed.

    Two threads that need the same file at once both read it.
    """

    def __init__(self) -> None:
        self._scans: dict[str, tuple[Identity, Scan]] = {}

    def scan(self, path: str, identity: Identity) -> tuple[Identity, Scan]:
        """Return the scan of a file, and the identity that the file had when it was read."""
        known = self._scans.get(path)
        if known is not None and known[0] == identity:
            return known
        data, identity = read(path)
        found = identity, scan(data)
        if len(self._scans) >= _MAX_FILES:
            self._scans.clear()
        self._scans[path] = found
        return found


FILES = Files()  # shared by all searches of this process


def find_closure(
    source: bytes,
    macros: Sequence[bytes],
    *,
    names: Sequence[bytes],
    directory: str | None,
    include_path: Sequence[str],
    pre_include: Sequence[str],
    headers: Mapping[bytes, bytes],
    standard: str,
    files: Files,
) -> Closure:
    """Find all files that a program may read.

    Parameters
    ----------
    source : bytes
        The program.
    macros : sequence of bytes
        The macros of the options, as ``NAME`` or ``NAME=BODY``.
    names : sequence of bytes
        The name expressions.
    directory : str or None
        The directory of the program; None if the compiler does not look there.
    include_path : sequence of str
        The directories to look into.
    pre_include : sequence of str
        Names of files to include first.
    headers : mapping
        Files in memory: contents by name.
    standard : str
        The language, such as ``"c++20"``; empty for the compiler's default.
    files : Files
        Reads files.

    Raises
    ------
    UncacheableError
        If the files that the program reads cannot be determined.
    """
    search = _Search(include_path, directory is not None, standard, files)
    options = scan_options(macros)
    search.add(options, "a macro of the options", None, None)
    search.add(scan_names(names), "a name expression", None, None)
    search.add(scan(source), "the program", directory, None)
    for header, content in headers.items():  # all headers, even unused ones, because their contents are in the key
        text = os.fsdecode(header)
        search.add(scan(content), f"the header {text!r}", os.path.dirname(text), partial(bytes, content))
    for name in pre_include:
        search.add_reference(Reference(os.fsencode(name), True, False), "")
    search.follow()
    for header in headers:
        search.add_place(os.fsdecode(header))
    return search.closure


class _Search:
    """A search through files and the files that they include."""

    def __init__(self, include_path: Sequence[str], takes_first: bool, standard: str, files: Files) -> None:
        self.closure = Closure()
        self._include_path = list(dict.fromkeys(include_path))
        self._takes_first = takes_first
        self._has_raw = standard not in ("c++03", "c++98")
        self._has_separators = self._has_raw and standard not in ("c++11", "c++0x")
        self._files = files
        self._seen: set[tuple[Reference, str | None]] = set()
        self._todo: list[tuple[Scan, str | None]] = []
        self._macros: dict[bytes, set[Definition | None]] = {}
        self._computed: list[tuple[Scan, str | None, str]] = []
        self._texts: list[tuple[Scan, Callable[[], bytes] | None]] = []

    def add(self, scanned: Scan, shown: str, directory: str | None, load: Callable[[], bytes] | None) -> None:
        """Add the result of scanning a file.

        Parameters
        ----------
        scanned : Scan
            The result.
        shown : str
            The file's name, for messages.
        directory : str or None
            The directory that is searched first for quoted names.
        load : callable or None
            Returns the file's contents. None for the program itself: programs with different texts can share a closure,
            so its text must not be used.
        """
        if scanned.error:
            raise UncacheableError(f"{shown} {scanned.error}")
        if (scanned.has_raw and not self._has_raw) or (scanned.has_separators and not self._has_separators):
            raise UncacheableError(f"{shown} has raw strings or digit separators, which the language does not have")
        self._todo.append((scanned, directory))
        self._texts.append((scanned, load))
        for name, definitions in scanned.macros.items():
            self._macros.setdefault(name, set()).update(definitions)
        if scanned.computed:
            self._computed.append((scanned, directory, shown))

    def follow(self) -> None:
        """Add the included files, until there are no new ones."""
        while self._todo:
            while self._todo:
                scanned, directory = self._todo.pop()
                for reference in scanned.references:
                    self.add_reference(reference, directory)
            # repeated, because more definitions may have been found
            for scanned, directory, shown in list(self._computed):
                for computed in scanned.computed:
                    try:
                        names = expand(computed, self._macros)
                    except UncacheableError as error:
                        raise UncacheableError(f"{shown} has {error}") from None
                    for reference in names:
                        self.add_reference(reference, directory)
        self._check_tests()
        self._check_pastes()

    def _check_tests(self) -> None:
        """Raise if ``__has_include`` may be in a macro's arguments, where macros in its file name are expanded."""
        if any(scanned.openers for scanned, _ in self._texts):
            for scanned, _ in self._texts:
                if not scanned.before_tests.isdisjoint(self._macros):
                    raise UncacheableError("the program has __has_include behind a macro that may take its name")

    def _check_pastes(self) -> None:
        """Raise if ``##`` can make a word that makes the program uncacheable.

        This can happen even in a program without ``##``, because macros that NVRTC predefines paste their arguments.
        """
        has = [
            (scanned.atoms, scanned.tested_atoms, load)
            for scanned, load in self._texts
            if scanned.atoms or scanned.tested_atoms
        ]
        counts = Counter(atom for atoms, tested, _ in has for atom in atoms | tested)
        atoms = {atom for one, _, _ in has for atom in one}
        tested = {atom for _, one, _ in has for atom in one}
        unbalanced = {name for scanned, _ in self._texts for name in scanned.unbalanced}
        seen: dict[int, Set[bytes]] = {}
        # Most of these tokens occur only as names in ordinary code, outside of macros. The rarest tokens are looked at
        # first, and tokens in too many files not at all.
        for atom, count in sorted(counts.items(), key=lambda item: item[1]):
            word = pasted_word(atoms, tested)
            if word is None:
                return
            if count > _MAX_LOOKS:
                break
            if atom not in word:
                continue
            for index, (one, two, load) in enumerate(has):
                if atom in one or atom in two:
                    if index not in seen:
                        text = None if load is None else load()
                        seen[index] = (
                            one | two if text is None else atoms_in_macros(text, self._macros.keys(), unbalanced)
                        )
                    if atom in seen[index]:
                        break
            else:
                atoms.discard(atom)
                tested.discard(atom)
        word = pasted_word(atoms, tested)
        if word is not None:
            raise UncacheableError(f"the program has tokens of which {word.decode()} can be pasted")

    def add_reference(self, reference: Reference, directory: str | None) -> None:
        """Add the file that a name refers to; `directory` is the directory of the including file."""
        if not reference.is_quoted:
            directory = None
        if (reference, directory) in self._seen:
            return
        self._seen.add((reference, directory))
        name = os.fsdecode(reference.name)
        if name.endswith("/"):  # NVRTC opens the file without the trailing slash
            raise UncacheableError(f"the file name {name!r} ends with a slash")
        suffixes = ("",) if "." in os.path.basename(name) else ("", ".stdh")
        places = self._include_path if directory is None else [directory, *self._include_path]
        if os.path.isabs(name):
            places = [""]
        for place in places:
            for suffix in suffixes:
                is_found = self._add_file(os.path.join(place, name + suffix))
                if is_found and self._takes_first and not reference.is_next:
                    return

    def add_place(self, path: str) -> None:
        """Add the path that a header in memory would have as a file. Call this after all files are found.

        The contents of a file with that path do not matter. But NVRTC regards the header and this file as the same one:
        if the header has ``#pragma once``, and the program also includes the file by another path, NVRTC reads only one
        of the two.
        """
        if path not in self.closure.files and path not in self.closure.others:
            identity = self._look_up(path)
            if identity is not None:
                self.closure.others[path] = identity

    def _directory(self, path: str) -> tuple[str, set[str]]:
        """Return the nearest existing directory of a path, and the names that are missing in it.

        If a directory lacks the first of these names, the file cannot be created without a change of that directory.
        """
        directories = self.closure.directories
        directory = os.path.dirname(path)
        while True:
            shown = directory or "."
            known = directories.get(shown)
            if known is None:  # the identity must be from before the search, so that later changes are detected
                identity = settled(identity_of(shown))
                above = os.path.dirname(directory)
                if identity is None and directory != above and not os.path.lexists(shown):
                    directory = above
                    continue
                known = directories[shown] = (identity, set())
            return shown, known[1]

    def _look_up(self, path: str) -> Identity | None:
        """Return the identity of a file or directory. If it does not exist, add its place."""
        directory, names = self._directory(path)
        identity = identity_of(path)
        if identity is None:
            if os.path.lexists(path):
                self.closure.others[path] = None
            else:
                names.add(path if directory == "." else path[len(directory) :].lstrip("/"))
        return identity

    def _add_file(self, path: str) -> bool:
        """Add a file and return True. If it does not exist, add its place and return False."""
        closure = self.closure
        if path in closure.files:
            return True
        if path in closure.others:
            return False
        identity = self._look_up(path)
        if identity is None:
            return False
        if stat.S_ISDIR(identity.mode):
            closure.others[path] = identity
            return False
        identity, scanned = self._files.scan(path, identity)
        closure.files[path] = (scanned.digest, identity)
        self.add(scanned, path, os.path.dirname(path), lambda: read(path)[0])
        return True
