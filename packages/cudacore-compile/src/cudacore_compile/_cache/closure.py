# SPDX-License-Identifier: Apache-2.0
"""The search for the files that a C++ program may read.

NVRTC 12.0 to 13.5 look for a quoted name in the directory of the including file and then in the include path. They look
for a name in angle brackets in the include path only. The first regular file is used. A name without a suffix is also
tried with the suffix ``.stdh``. Here, a name counts in all these places, whichever comes first.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.scan import Scan, macros_in, may_be_name, meaning, pasted_word, scan
from cudacore_compile._cache.states import (
    are_settled,
    fingerprint,
    group,
    inodes,
    mode_of,
    modes,
    paths_of,
    read,
    times,
)
from cudacore_compile._cache.trees import Tree, is_installed, top_of, tree_of
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_handles._sdk.compile import file_states

_MAX_FILES = 20_000


class Closure(NamedTuple):
    """All files and directories that a program depends on."""

    digest: bytes  # of all files, with their paths
    times: bytes  # of the times and sizes of files
    parts: tuple[tuple[bytes, bytes], ...]  # groups of paths for file_states(), and the fingerprints of their states
    is_settled: bool  # whether every later change will be detected

    @property
    def paths(self) -> list[str]:
        """list: All files of the program, and all directories of trees."""
        own = [os.path.join(*path) for groups, _ in self.parts[:2] for path in paths_of(groups)]
        return own + list({directory for groups, _ in self.parts[2:] for directory, _ in paths_of(groups)})


class Places(NamedTuple):
    """Where a program's files are looked for."""

    include_path: Sequence[str]
    others: Sequence[str]  # names of the program and of headers in memory, which can also be files
    bundled: Sequence[str]  # directories in it of headers that NVRTC has unpacked
    has_times: bool  # whether the code has the times of files


_scans: dict[str, tuple[bytes, Scan]] = {}  # the state and the scan of files, by path


class Search:
    """Finds the files of a program.

    Parameters
    ----------
    places : Places
        Where to look.
    notes : Notes, optional
        Where trees are kept for other processes.

    Raises
    ------
    UncacheableError
        If the files that the program reads cannot be determined.
    """

    def __init__(self, places: Places, notes: Notes | None) -> None:
        self._start = time.time_ns()
        self._places = places
        self._include_path = list(dict.fromkeys(places.include_path))
        self._notes = notes
        self.files: dict[str, bytes] = {}
        self.trees: dict[str, Tree] = {}
        self._missing: set[str] = set()  # paths that are not files, but could become ones
        self._listings: dict[str, frozenset[str]] = {}
        self._seen: set[tuple[str, ...]] = set()  # places and names, and places and entries of them
        self._macros: dict[bytes, set[bytes]] = {}
        self._included: dict[bytes, set[tuple[bytes, str | None]]] = {}  # #include MACRO REST in texts of directories
        self._expanded: set[bytes] = set()
        self._atoms: set[bytes] = set()
        self._todo: list[Callable[[], None]] = []
        self.closure = Closure(b"", b"", (), is_settled=True)

    def add_text(self, shown: str, directory: str | None, scanned: Scan) -> None:
        """Add a text: the program, a header in memory, a file.

        Parameters
        ----------
        shown : str
            The name of the text, for messages.
        directory : str or None
            The directory that is searched first for quoted names.
        scanned : Scan
            The result of scanning it.
        """
        if scanned.error:
            raise UncacheableError(f"{shown} {scanned.error}")
        self._atoms |= scanned.atoms
        self._expanded |= scanned.expanded
        for macro, bodies in scanned.macros.items():
            known = self._macros.setdefault(macro, set())
            for body in bodies - known:
                known.add(body)
                for rest, place in self._included.get(macro, ()):
                    self._use(macro, body, rest, place)
        self._todo.append(lambda: self._add_names(scanned.names, directory))
        for macro, rest in scanned.computed:
            self._include(macro, rest, directory)

    def add_name(self, name: bytes, directory: str | None = None) -> None:
        """Add a name, in all places where the compiler may look for it."""
        self._add_names({name}, directory)

    def finish(self) -> None:
        """Follow all names; set `closure`."""
        while self._todo:
            self._todo.pop()()
        word = pasted_word(self._atoms)
        if word is not None:
            raise UncacheableError(f"the program has tokens of which {word.decode()} can be pasted")
        for tree in self.trees.values():
            if tree.error:
                raise UncacheableError(tree.error)
        for name in self._expanded:
            reason = macros_in(name, self._macros.keys())
            if reason:
                raise UncacheableError(f"the program computes the file name {_shown(name)}> {reason}")
        tokens = {*self._included, *re.findall(rb"[A-Za-z_]\w*", b" ".join(self._expanded))}
        if any(map(may_be_name, self._included)) or (tokens and self._are_macros_of_trees(tokens)):
            raise UncacheableError(
                "the program computes a file name with a macro of the compiler or of an installed header"
            )
        self.closure = self._closure()

    def _include(self, macro: bytes, rest: bytes, directory: str | None) -> None:
        """Follow ``#include MACRO`` in a text. All definitions count, and a macro without one is an error."""
        places = self._included.setdefault(macro, set())
        if (rest, directory) not in places:
            places.add((rest, directory))
            for body in self._macros.get(macro, ()):
                self._use(macro, body, rest, directory)

    def _use(self, macro: bytes, body: bytes, rest: bytes, directory: str | None) -> None:
        name, other = meaning(body, rest)
        if name:
            self._expanded |= {name} if name.startswith(b"<") else set()
            self._todo.append(lambda: self._add_names({name}, directory))
        elif other:
            self._todo.append(lambda: self._include(other, b"", directory))
        else:
            shown = _shown(macro + rest)
            raise UncacheableError(f"the program has #include {shown}, which is not defined as the name of a file")

    def _are_macros_of_trees(self, names: set[bytes]) -> bool:
        """Return whether headers in trees define one of some macros."""
        pattern = re.compile(rb"#[ \t]*define[ \t]+(?:" + b"|".join(map(re.escape, sorted(names))) + rb")\b")
        return any(
            stat.S_ISREG(mode_of(path)) and pattern.search(read(path))
            for tree in self.trees.values()
            for path in tree.paths()
        )

    def _add_names(self, names: set[bytes] | frozenset[bytes], directory: str | None) -> None:
        for name in names:
            text = os.fsdecode(name[1:])
            places = [directory] if directory is not None and name.startswith(b'"') else []
            stem = text.rstrip("/")  # NVRTC 13.5 opens a file without the slashes
            spellings = {text, stem} if "." in os.path.basename(text) else {text, stem, text + ".stdh"}
            for spelling in spellings:
                for place in places + self._include_path:
                    self._look(place, re.sub(r"^(?:\./+)+", "", spelling), is_own=place is directory)

    def _look(self, place: str, name: str, *, is_own: bool = False) -> None:
        """Look for a name in a directory."""
        if (place, name) in self._seen:
            return
        self._seen.add((place, name))
        first = name.partition("/")[0]
        if first in ("", ".."):  # an absolute path, or another directory
            self._add_file(os.path.join(place, name))
        elif first in self._listing(place):
            if is_own or not self._is_installed(place):
                self._add_file(os.path.join(place, name))
            else:
                self._add_tree(place, first)

    def _is_installed(self, place: str) -> bool:
        return place in self._places.bundled or is_installed(place)

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

    def _add_tree(self, place: str, entry: str) -> None:
        if (place, "", entry) in self._seen:
            return
        self._seen.add((place, "", entry))
        top = top_of(place, entry)
        if top not in self.trees:
            tree = self.trees[top] = tree_of(top, self._notes)
            self._todo.append(lambda: self._add_names_of(tree, place))

    def _add_names_of(self, tree: Tree, place: str) -> None:
        """Add the names that headers of a tree include."""
        texts = [os.fsdecode(name[1:]) for name in tree.names]
        by_first: dict[str, list[str]] = {}
        for text in (*texts, *(text + ".stdh" for text in texts if "." not in os.path.basename(text))):
            by_first.setdefault(text.partition("/")[0], []).append(text)
        for where in dict.fromkeys((place, *self._include_path)):
            for first in by_first.keys() & {*self._listing(where), "", ".", ".."}:
                for text in (
                    by_first[first]
                    if first in ("", ".", "..") or not self._is_installed(where)
                    else by_first[first][:1]
                ):
                    self._look(where, text)
        if tree.is_computed:  # the names that it computes are those of installed headers, perhaps in a copy
            installed = {
                first for where in self._include_path if self._is_installed(where) for first in self._listing(where)
            }
            for where in self._include_path:
                if not self._is_installed(where):
                    for first in installed & self._listing(where):
                        self._add_tree(where, first)

    def _add_file(self, path: str) -> None:
        if path in self.files or path in self._missing or "\0" in path:
            return
        groups = group([path])
        state = file_states(groups)
        if not stat.S_ISREG(modes(state, groups)[0]):
            self._missing.add(path)
            return
        known = _scans.get(path)
        scanned = known[1] if known is not None and known[0] == state else scan(read(path))
        if len(_scans) >= _MAX_FILES:
            _scans.clear()
        if are_settled(state, self._start):
            _scans[path] = state, scanned
        self.files[path] = scanned.digest
        self.add_text(path, os.path.dirname(path), scanned)

    def _closure(self) -> Closure:
        others = self._places.others
        places = {*others} if self.files or self.trees or self._places.has_times or len(others) > 1 else set()
        if not places and not self._missing and not self._listings:
            return Closure(b"", b"", (), is_settled=True)
        own = group({*self.files, *places})
        looked = group({*self._missing - places, *(path or "." for path in self._listings)})
        trees = [self.trees[top] for top in sorted(self.trees)]
        states = [file_states(groups) for groups in (own, looked, *(tree.groups for tree in trees))]
        digest = hashlib.sha256()
        for path in sorted(self.files):
            digest.update(hashlib.sha256(os.fsencode(path)).digest() + self.files[path])
        for tree in trees:
            digest.update(hashlib.sha256(os.fsencode(tree.top)).digest() + tree.digest)
        # The compiler reads a file with "#pragma once" a single time, by whatever path it is included. So the hash also
        # covers which paths lead to the same file. A place that does not exist has the inode 0.
        first: dict[tuple[int, int], int] = {}
        for index, inode in enumerate(one for state in (states[0], *states[2:]) for one in inodes(state)):
            same = first.setdefault(inode, index)
            if same != index and inode[1]:
                digest.update(b"%d=%d " % (index, same))
        digest.update(b"".join(b"%d" % bool(inode) for _, inode in inodes(states[0])))
        stats = hashlib.sha256(b"".join(times(state) for state in (states[0], *states[2:]))).digest()
        parts = tuple((groups, fingerprint(state)) for groups, state in zip((own, looked), states, strict=False))
        parts += tuple((tree.groups, tree.fingerprint) for tree in trees)
        is_same = all(fingerprint(state) == tree.fingerprint for state, tree in zip(states[2:], trees, strict=True))
        modes(states[0], own), modes(states[1], looked)
        is_settled = is_same and all(are_settled(state, self._start) for state in states[:2])
        return Closure(digest.digest(), stats, parts, is_settled)


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")
