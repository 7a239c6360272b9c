# SPDX-License-Identifier: Apache-2.0
"""The files that a compilation reads, cached in the process, and beside the entries of a cache for other processes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from cudacore_compile._cache import notes as _notes
from cudacore_compile._cache.closure import Closure
from cudacore_compile._cache.identity import Look, Way, is_same_way, way_to
from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._version import __version__

_MAX_CLOSURES = 200
_MAX_INCLUDE_KEYS = 10_000
_VERSION = f"cudacore-closure-5 {__version__}"  # the format may differ between releases
_FRESH_SECONDS = 0.02
_NO_FILES = b""  # stored instead of a key if the program reads no files
_closures: dict[bytes, Closure] = {}
_include_keys: dict[bytes, bytes] = {}


class Inputs:
    """The files that one compilation may read.

    Parameters
    ----------
    text : bytes
        A hash of the text of the program, and of everything else that determines which files it may read.
    make_include_key : callable
        Scans the program; returns a hash of only those parts that determine which files it may read. Programs with
        different texts can have the same hash.
    find : callable
        Finds the files.
    notes : Notes, optional
        Where these keys and closures are kept for other processes.
    """

    def __init__(
        self, text: bytes, make_include_key: Callable[[], bytes], find: Callable[[], Closure], notes: Notes | None
    ) -> None:
        self._text = text
        self._make_include_key = make_include_key
        self._find = find
        self._notes = notes
        self._is_scanned = False
        self.closure = Closure()
        self._way: Way = {}

    def look(self, look: Look) -> bytes:
        """Find the files, or check that the known ones are unchanged; return a hash of them."""
        closure = self._known()
        if closure is None or not closure.is_same(look):
            look.clear()
            refreshed = None if closure is None else closure.refreshed()
            self._keep(self._find() if refreshed is None else refreshed)
        else:
            self._remember(closure)
            self._keep_include_key()
        return self.closure.digest

    def prepare(self) -> bool:
        """Prepare for the compiler to read the files: wait until every later change will be detected.

        If a file was written just now, this takes a few milliseconds.

        Returns
        -------
        bool
            Whether the files are still the same.
        """
        if not self.closure.is_settled():
            time.sleep(_FRESH_SECONDS)
            refreshed = self.closure.refreshed()
            if refreshed is None:
                return False
            self._keep(refreshed)
        self._way = way_to(self.closure.paths)
        return True

    def are_same(self) -> bool:
        """Return whether the files that the compiler has read since :meth:`prepare` are those of the key."""
        closure = self.closure
        return closure.is_settled() and closure.is_same(Look()) and is_same_way(self._way, way_to(closure.paths))

    @cached_property
    def _include_key(self) -> bytes:
        """bytes: The key of the closure; `_NO_FILES` if it is known that there are no files."""
        key = _include_keys.get(self._text)
        if key is None and self._notes is not None:
            key = self._notes.load(self._text)
        if key is None:
            key = self._make_include_key()
            self._is_scanned = True
        return key

    def _known(self) -> Closure | None:
        """Return the closure that this process or another one has found; None if there is none."""
        if self._include_key == _NO_FILES:
            return Closure()
        closure = _closures.get(self._include_key)
        if closure is None and self._notes is not None:
            data = self._notes.load(self._include_key)
            closure = None if data is None else _unpack(data)
        return closure

    def _keep(self, closure: Closure) -> None:
        self._remember(closure)
        if self._notes is not None and closure.files and closure.is_settled():
            self._notes.save(self._include_key, _pack(closure))
        self._keep_include_key()

    def _keep_include_key(self) -> None:
        """Keep the key for other processes, so that they need not scan the program."""
        closure = self.closure
        if (
            self._notes is not None
            and self._is_scanned
            and closure.is_settled()
            and (closure.files or not closure.paths)
        ):
            self._is_scanned = False
            self._notes.save(self._text, _include_keys[self._text])

    def _remember(self, closure: Closure) -> None:
        self.closure = closure
        if len(_include_keys) >= _MAX_INCLUDE_KEYS:
            _include_keys.clear()
        if not closure.paths:
            _include_keys[self._text] = _NO_FILES
            return
        _include_keys[self._text] = self._include_key
        if len(_closures) >= _MAX_CLOSURES:
            _closures.clear()
        _closures[self._include_key] = closure


def inputs_of(
    source: bytes,
    flags: Sequence[bytes],
    options: ProgramOptions,
    *,
    names: Sequence[bytes],
    headers: Mapping[bytes, bytes],
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
    notes : Notes, optional
        Where closures are kept for other processes.
    """
    include_path = _values(flags, b"--include-path=")
    if options.use_bundled_headers:
        bundled = _values(flags, b"--use-bundled-headers=")
        include_path += [*bundled, *(os.path.join(top, "cccl") for top in bundled)]
    pre_include = _values(flags, b"--pre-include=")
    macros = [flag[len(_DEFINE) :] for flag in flags if flag.startswith(_DEFINE)]
    directory = None if options.no_source_include else os.path.dirname(options.name or "")
    standard = options.std or ""
    common = hashlib.sha256()
    for part in (_VERSION, _current_directory(), standard, directory, include_path, pre_include, macros):
        common.update(repr(part).encode("utf-8", "surrogateescape"))
    for name, content in sorted(headers.items()):
        common.update(hashlib.sha256(name).digest() + hashlib.sha256(content).digest())
    text = common.copy()
    text.update(b"text %d" % len(names))
    for item in (source, *names):
        text.update(hashlib.sha256(item).digest())

    # The modules are imported only when the functions are called, because importing them, and scanning a program, take
    # longer than the rest of a cache hit.

    def make_include_key() -> bytes:
        from cudacore_compile._cache.scan import scan, scan_names

        key = common.copy()
        key.update(repr((scan(source).include_key, scan_names(names).include_key)).encode("utf-8", "surrogateescape"))
        return key.digest()

    def find() -> Closure:
        from cudacore_compile._cache import find_includes

        return find_includes.find_closure(
            source,
            macros,
            names=names,
            directory=directory,
            include_path=include_path,
            pre_include=pre_include,
            headers=headers,
            standard=standard,
            files=find_includes.FILES,
        )

    return Inputs(text.digest(), make_include_key, find, notes)


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
    facts = {
        "files": [[path, digest.hex(), identity] for path, (digest, identity) in closure.files.items()],
        "directories": [[path, identity, sorted(names)] for path, (identity, names) in closure.directories.items()],
        "others": [[path, identity] for path, identity in closure.others.items()],
    }
    return json.dumps(facts).encode()


def _unpack(data: bytes) -> Closure | None:
    """Return the closure that bytes contain; None if they contain none."""
    try:
        facts = json.loads(data)
        return Closure(
            {
                _notes.text(path): (bytes.fromhex(digest), _notes.identity(identity))
                for path, digest, identity in facts["files"]
            },
            {
                _notes.text(path): (_notes.identity_or_none(identity), {_notes.text(name) for name in names})
                for path, identity, names in facts["directories"]
            },
            {_notes.text(path): _notes.identity_or_none(identity) for path, identity in facts["others"]},
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
