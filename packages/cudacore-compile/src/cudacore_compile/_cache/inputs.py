# SPDX-License-Identifier: Apache-2.0
"""The files that a compilation reads, cached in the process, and beside the entries of a cache for other processes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence

from cudacore_compile._cache.closure import Closure, Places, Search
from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.scan import Scan, scan, scan_options
from cudacore_compile._cache.states import Look, Way, is_same_way, wait_until_settled, way_to
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._version import __version__

_MAX_CLOSURES = 200
_MAX_SCANS = 10_000
_VERSION = f"cudacore-closure-6 {__version__}"  # the format may differ between releases
_closures: dict[bytes, Closure] = {}
_scans: dict[bytes, tuple[list[Scan], bytes]] = {}  # programs, by hash, and hashes of what determines their files


class Inputs:
    """The files that one compilation may read.

    Parameters
    ----------
    key : bytes
        A hash of everything that determines which files these are, apart from the files.
    search : callable
        Searches for the files.
    notes : Notes, optional
        Where closures are kept for other processes.
    """

    def __init__(self, key: bytes, search: Callable[[], Search], notes: Notes | None) -> None:
        self._key = key
        self.search = search
        self._notes = notes
        self._way: Way = {}
        self.closure = Closure(b"", b"", (), is_settled=True)

    def look(self, look: Look) -> Closure:
        """Find the files, or check that the known ones are unchanged."""
        closure = _closures.get(self._key)
        if closure is None and self._notes is not None:
            data = self._notes.load(self._key)
            closure = None if data is None else _unpack(data)
        if closure is not None and _are_same(closure, look):
            self._remember(closure)
        else:
            look.clear()
            self._find()
        return self.closure

    def prepare(self) -> bool:
        """Prepare for the compiler to read the files: wait until every later change will be detected.

        If a file was written just now, this takes a few milliseconds.

        Returns
        -------
        bool
            Whether the files are still the same.
        """
        before = self.closure
        if not before.is_settled:
            wait_until_settled()
            self._find()
        self._way = way_to(self.closure.paths)
        return (self.closure.digest, self.closure.times) == (before.digest, before.times)

    def are_same(self) -> bool:
        """Return whether the files that the compiler has read since :meth:`prepare` are those of the key."""
        closure = self.closure
        return closure.is_settled and _are_same(closure, Look()) and is_same_way(self._way, way_to(closure.paths))

    def _find(self) -> None:
        self.closure = closure = self.search().closure
        if closure.is_settled:
            self._remember(closure)
            if self._notes is not None and closure.parts:
                self._notes.save(self._key, _pack(closure))

    def _remember(self, closure: Closure) -> None:
        self.closure = closure
        if len(_closures) >= _MAX_CLOSURES:
            _closures.clear()
        _closures[self._key] = closure


def _are_same(closure: Closure, look: Look) -> bool:
    return all(look[groups] == fingerprint for groups, fingerprint in closure.parts)


def inputs_of(
    source: bytes,
    flags: Sequence[bytes],
    options: ProgramOptions,
    *,
    names: Sequence[bytes],
    headers: Mapping[bytes, bytes],
    has_times: bool = False,
    notes: Notes | None = None,
) -> Inputs:
    """Return an object that finds the files that a C++ program reads.

    Parameters
    ----------
    source : bytes
        The program.
    flags : sequence of bytes
        The options in NVRTC's form.
    options : ProgramOptions
        The same options.
    names : sequence of bytes
        The name expressions.
    headers : mapping
        Files in memory: contents by name.
    has_times : bool, optional
        Whether times of files matter, even that of a file with the name of the program. Default False.
    notes : Notes, optional
        Where closures are kept for other processes.
    """
    texts = [source, b"\n".join(names)]
    hashed = hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).digest()
    known = _scans.get(hashed)
    if known is None:
        scans = [scan(text) for text in texts]
        if len(_scans) >= _MAX_SCANS:
            _scans.clear()
        known = _scans[hashed] = scans, b"".join(one.include_key for one in scans)
    scans, include_key = known
    includes = _values(flags, b"--include-path=")
    bundled = _values(flags, b"--use-bundled-headers=")
    bundled += [os.path.join(top, "cccl") for top in bundled]
    includes += bundled
    pre_include = _values(flags, b"--pre-include=")
    macros = [flag[len(_DEFINE) :] for flag in flags if flag.startswith(_DEFINE)]
    directory = None if options.no_source_include else os.path.dirname(options.name or "")
    others = [options.name or "default_program", *map(os.fsdecode, headers)]
    key = hashlib.sha256(include_key)
    for part in (_VERSION, _current_directory(), directory, includes, pre_include, macros, others, has_times):
        key.update(repr(part).encode("utf-8", "surrogateescape"))
    for name, content in sorted(headers.items()):
        key.update(hashlib.sha256(name).digest() + hashlib.sha256(content).digest())

    def search() -> Search:
        search = Search(Places(includes, others, bundled, has_times=has_times), notes)
        search.add_text("a macro of the options", None, scan_options(macros))
        search.add_text("a name expression", "", scans[1])  # NVRTC compiles them as a file in the current directory
        search.add_text("the program", directory, scans[0])
        for header, content in headers.items():  # all headers, even unused ones, because their contents are in the key
            shown = os.fsdecode(header)
            search.add_text(f"the header {shown!r}", os.path.dirname(shown), scan(content))
        for pre in pre_include:
            search.add_name(b'"' + os.fsencode(pre), "")
        search.finish()
        return search

    return Inputs(key.digest(), search, notes)


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise UncacheableError(f"there is no current directory: {error.strerror}") from None


_DEFINE = b"--define-macro="


def _values(flags: Sequence[bytes], flag: bytes) -> list[str]:
    return [os.fsdecode(option[len(flag) :]) for option in flags if option.startswith(flag)]


def _pack(closure: Closure) -> bytes:
    """Return a closure as bytes."""
    parts = [[os.fsdecode(groups), fingerprint.hex()] for groups, fingerprint in closure.parts]
    return json.dumps([closure.digest.hex(), closure.times.hex(), parts]).encode()


def _unpack(data: bytes) -> Closure | None:
    """Return the closure that bytes contain; None if they contain none."""
    try:
        digest, times, parts = json.loads(data)
        pairs = tuple((os.fsencode(groups), bytes.fromhex(found)) for groups, found in parts)
        return Closure(bytes.fromhex(digest), bytes.fromhex(times), pairs, is_settled=True)
    except (ValueError, TypeError, RecursionError):
        return None
