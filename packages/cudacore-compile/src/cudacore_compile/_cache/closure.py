# SPDX-License-Identifier: Apache-2.0
"""The search for the files that a C++ program may read.

NVRTC 12.0 to 13.5 look for a quoted name in the directory of the including file and then in the include path. They look
for a name in angle brackets in the include path only. The first regular file is used. A name without a suffix is also
tried with the suffix ``.stdh``. Here, a name counts in all these places, whichever comes first.

Constructs that could hide the name of a file are refused in the program and in files that anybody may have written.
Headers of installed packages and toolkits may have such constructs. If one of them includes a name that is not known,
all files in the directories with the first part of its own name count: ``thrust`` for ``<thrust/scan.h>``.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache.scan import Scan, macros_in, may_be_name, meaning, scan
from cudacore_compile._cache.states import (
    DEVICE,
    INODE,
    MTIME,
    SIZE,
    Known,
    are_settled,
    field,
    fingerprint,
    group,
    hash_of,
    keep,
    modes,
    read_regular,
    recall,
)
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.wheel_headers import wheel_headers
from cudacore_compile._version import __version__
from cudacore_handles._sdk.compile import file_states

if TYPE_CHECKING:
    from cudacore_compile._cache.resource import ProgramCacheResource

_VERSION = f"cudacore-closure-7 {__version__}"  # the format may differ between releases
_SYSTEM = re.compile(r"/usr/(?:include|lib\w*|local/include)(?:/.*)?")
# Entries of a directory above which show that a package manager or an installer has made it.
_MARKS = re.compile(r".*\.dist-info|conda-meta|nvvm")


@functools.cache
def is_installed(directory: str) -> bool:
    """Return whether a directory belongs to an installed package, to a toolkit or to the system."""
    real = os.path.realpath(directory)
    if _SYSTEM.fullmatch(real):
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
    """The search for the files that a C++ program may read. `flags` are the options in NVRTC's form.

    If the code has times of files, that of a file with the name of the program matters, too.
    """

    def __init__(
        self,
        source: bytes,
        flags: Sequence[bytes],
        options: ProgramOptions,
        *,
        names: Sequence[bytes] = (),
        headers: Mapping[bytes, bytes],
        has_times: bool = False,
    ) -> None:
        bundled = _values(flags, b"--use-bundled-headers=")  # NVRTC has unpacked headers there
        self._bundled = bundled + [os.path.join(top, "cccl") for top in bundled]
        self._include_path = _values(flags, b"--include-path=") + self._bundled + wheel_headers(source, flags, headers)
        self._pre_include = _values(flags, b"--pre-include=")
        macros = [os.fsencode(macro) for macro in _values(flags, b"--define-macro=")]
        defines = b"".join(b"#define %b\n" % macro.replace(b"=", b" ", 1) for macro in macros)
        directory = None if options.no_source_include else os.path.dirname(options.name or "")
        # NVRTC compiles name expressions as a file in the current directory. All headers in memory count, even unused
        # ones, because their contents are in the key.
        texts = [
            ("a macro of the options", None, defines),
            ("a name expression", "", b"\n".join(names)),
            ("the program", directory, source),
        ]
        for header, content in headers.items():
            shown = os.fsdecode(header)
            texts.append((f"the header {shown!r}", os.path.dirname(shown), content))
        self._texts = [(shown, directory, *_scan_text(text)) for shown, directory, text in texts]
        self._own = [options.name or "default_program", *map(os.fsdecode, headers)]
        self._has_times = has_times
        self.files: dict[str, bytes] = {}
        self.time = ""  # why the code depends on the time
        self.error = ""  # why the program may read other files, too

    def find(self, cache: ProgramCacheResource | None) -> Known:
        """Return a hash of all that the files determine, and the files; check that the known ones are unchanged.

        Raises
        ------
        UncacheableError
            If the files that the program reads cannot be determined.
        """
        try:
            here = os.getcwd()
        except OSError as error:
            raise UncacheableError(f"there is no current directory: {error.strerror}") from None
        places = (here, self._include_path, self._pre_include, self._own, self._has_times)
        key = hash_of(_VERSION, places, *((directory, text) for _, directory, _, text in self._texts))
        found = recall(key, cache)
        if found is None:
            self.run()
            if self.error or self.time:
                raise UncacheableError(self.error or self.time)
            found = self._known()
            keep(key, found, cache)
        return found

    def run(self) -> None:
        """Follow all names."""
        self._start = time.time_ns()
        installed = [place for place in self._include_path if place in self._bundled or is_installed(place)]
        # One place can be in another one.
        self._installed = sorted((place.rstrip("/") + "/" for place in installed), key=len, reverse=True)
        self._looked: set[str] = set()  # directories without a file that was looked for, and paths that are not files
        self._listings: dict[str, frozenset[str]] = {}
        self._seen: set[object] = set()
        self._macros: dict[bytes, set[bytes]] = {}
        self._computed: set[tuple[bytes, bytes, str | None]] = set()  # #include MACRO REST, and the text's directory
        self._expanded: set[tuple[bytes, str | None]] = set()  # names in which there may be a macro
        self._todo: list[Callable[[], None]] = []
        for shown, directory, scanned, _ in self._texts:
            self._add_text(shown, directory, scanned)
        self._add_names([b'"' + os.fsencode(pre) for pre in self._pre_include], "")
        while self._todo:
            while self._todo:
                self._todo.pop()()
            self._follow_macros()

    def _top(self, directory: str | None) -> str | None:
        """Return the first part of a directory below an installed place; None for other directories."""
        for place in self._installed if directory is not None else ():
            if f"{directory}/".startswith(place):
                return f"{directory}/"[len(place) :].lstrip("/").partition("/")[0]
        return None

    def _add_text(self, shown: str, directory: str | None, scanned: Scan) -> None:
        self.time = self.time or (scanned.time and f"{shown} {scanned.time}")
        if scanned.error and self._top(directory) is None:
            self.error = self.error or f"{shown} {scanned.error}"
        self._expanded |= {(name, directory) for name in scanned.expanded}
        self._computed |= {(macro, rest, directory) for macro, rest in scanned.computed}
        for macro, bodies in scanned.macros:
            self._macros.setdefault(macro, set()).update(bodies)
        self._todo.append(lambda: self._add_names(scanned.names, directory))

    def _follow_macros(self) -> None:
        """Follow each ``#include MACRO``. All definitions count. A macro without one is an error of the compiler."""
        todo = list(self._computed)
        for macro, rest, directory in todo:  # it grows
            if may_be_name(macro):
                self._add_unknown("the program computes a file name with a macro of the compiler", directory)
            for body in tuple(self._macros.get(macro, ())):  # added files can have more
                name, other = meaning(body, rest)
                if name:
                    self._add_names({name}, directory)
                    self._expanded |= {(name, directory)} if name.startswith(b"<") else set()
                elif not other:
                    shown = (macro + rest).decode(errors="replace")
                    reason = f"the program has #include {shown}, which is not defined as the name of a file"
                    self._add_unknown(reason, directory)
                elif (other, b"", directory) not in self._computed:
                    self._computed.add((other, b"", directory))
                    todo.append((other, b"", directory))
        for name, directory in self._expanded:
            reason = macros_in(name, self._macros.keys())
            if reason:
                shown = name.decode(errors="replace")
                self._add_unknown(f"the program computes the file name {shown}> {reason}", directory)

    def _add_unknown(self, reason: str, directory: str | None) -> None:
        """Add the files of which the name of one is not known: all files in the directories of an installed header."""
        top = self._top(directory)
        if not top or not any(os.path.isdir(os.path.join(place, top)) for place in self._include_path):
            self.error = self.error or reason
        elif ("all", top) not in self._seen:
            self._seen.add(("all", top))
            self._todo.append(lambda: self._add_directories(top))

    def _add_directories(self, top: str) -> None:
        for place in self._include_path:
            for directory, _, names in os.walk(os.path.join(place, top)):
                self._looked.add(directory)
                for name in names:
                    self._add_file(os.path.join(directory, name))

    def _add_names(self, names: Iterable[bytes], directory: str | None) -> None:
        """Add names, in all places where the compiler may look for them."""
        for name in names:
            text = re.sub(r"^(?:\./+)+", "", os.fsdecode(name[1:]))
            stem = text.rstrip("/")  # NVRTC 13.5 opens a file without the slashes
            places = [directory] if directory is not None and name.startswith(b'"') else []
            for spelling in {text, stem} if "." in os.path.basename(text) else {text, stem, text + ".stdh"}:
                for place in (*places, *self._include_path):
                    self._look(place, spelling)

    def _look(self, directory: str, name: str) -> None:
        """Look for a name in a directory."""
        if (directory, name) in self._seen:
            return
        self._seen.add((directory, name))
        parts, place = name.split("/"), directory
        if not {"", ".", ".."}.intersection(parts):
            for part in parts:
                if part not in self._listing(place):
                    self._looked.add(place or ".")
                    return
                place = os.path.join(place, part)
        self._add_file(os.path.join(directory, name))

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

    def _add_file(self, path: str) -> None:
        if path in self._seen or "\0" in path:
            return
        self._seen.add(path)
        groups = group([path])
        if not stat.S_ISREG(modes(file_states(groups), groups)[0]):
            self._looked.add(path)
            return
        directory = os.path.dirname(path)
        scanned = scan(_read(path), is_installed=self._top(directory) is not None)
        self.files[path] = scanned.digest
        self._add_text(path, directory, scanned)

    def _known(self) -> Known:
        """Return a hash of all files, and of their times if the code has these.

        The names of the program and of headers in memory can also be those of files.
        """
        names = self._own if self.files or self._has_times or len(self._own) > 1 else ()
        own = sorted({*self.files, *names})
        groups = group(own)
        states = file_states(groups)
        modes(states, groups)
        inodes = zip(field(states, DEVICE), field(states, INODE), strict=True)
        # The compiler reads a file with "#pragma once" a single time, by whatever path it is included. So the hash also
        # covers which paths lead to the same file. A place that does not exist has the inode 0.
        first: dict[tuple[int, int], int] = {}
        same = [first.setdefault(inode, index) if inode[1] else -1 for index, inode in enumerate(inodes)]
        times = field(states, MTIME) + field(states, SIZE)
        value = hash_of(sorted(self.files.items()), same, times if self._has_times else None)
        looked = group(self._looked.difference(own))
        looked_states = file_states(looked)
        modes(looked_states, looked)
        is_settled = are_settled(states + looked_states, self._start)
        return Known(value, groups + looked, fingerprint(states + looked_states), is_settled)


@functools.lru_cache(maxsize=1_000)
def _scan_text(text: bytes) -> tuple[Scan, bytes]:
    """Return the scan of a text in memory, and a hash that texts have in common if they lead to the same files."""
    scanned = scan(text)
    return scanned, hash_of(*scanned[1:])


def _read(path: str) -> bytes:
    try:
        data = read_regular(path)
    except OSError as error:
        raise UncacheableError(f"{path} cannot be read: {error.strerror}") from None
    if data is None:
        raise UncacheableError(f"{path} is not a regular file")
    return data


def _values(flags: Sequence[bytes], flag: bytes) -> list[str]:
    return [os.fsdecode(option[len(flag) :]) for option in flags if option.startswith(flag)]
