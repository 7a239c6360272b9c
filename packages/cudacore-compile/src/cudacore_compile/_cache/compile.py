# SPDX-License-Identifier: Apache-2.0
"""Compilation with a program cache."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable
from typing import Any

from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache.digest import key_of
from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.libraries import has_other_builtins
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._cache.states import FINE_NS, Known, paths_of, way_to
from cudacore_compile._compilers.request import Request
from cudacore_compile.typing import SourceCodeType
from cudacore_handles import ObjectCode

_MAX_TRIES = 3  # how often to determine the included files if another process keeps changing them


def check_cache(cache: object) -> None:
    """Raise an error if an object is not a program cache."""
    if not isinstance(cache, ProgramCacheResource):
        raise TypeError(f"cache must be a ProgramCacheResource or None, not {type(cache).__name__}")


def compile_cached(
    cache: ProgramCacheResource, request: Request, compile_now: Callable[[Any], ObjectCode], logs: Any
) -> ObjectCode:
    """Return the code from a cache, or compile it with a function that takes the object for the log, and store it.

    The compiler's log is written to `logs`, even if it is from the cache. If the cache fails, the program is compiled,
    with a RuntimeWarning.
    """
    lookup = look_up(cache, request)
    entry = lookup.find()
    if entry is not None:
        if logs is not None and entry.log:
            logs.write(entry.log)
        return entry.object_code(request.options.name)
    if not lookup.key:
        return compile_now(logs)
    watch = Watch(request, cache)
    log_file = io.StringIO()
    try:
        result = compile_now(log_file)
    finally:
        if logs is not None and log_file.getvalue():
            logs.write(log_file.getvalue())
    lookup.keep(Entry.of(result, log_file.getvalue()), watch.end())
    return result


class Watch:
    """The inputs of one compilation, compared before and after the compilation in the process that compiles.

    If a file was written just now, it waits for a few milliseconds, until every later change will be detected.
    """

    def __init__(self, request: Request, cache: ProgramCacheResource | None = None) -> None:
        self._request = request
        self._before: Known | None = None
        for _ in range(_MAX_TRIES):
            try:
                key = key_of(request, cache=cache)
            except UncacheableError:
                return
            if key.is_settled:
                self._before = key
                self._way = way_to(paths_of(key.groups))
                return
            time.sleep(FINE_NS / 1e9)  # from then on, a change is detectable, if the file system has a fine clock

    def end(self) -> bytes:
        """Return the key of the compiled code; an empty key if the inputs may have changed.

        Another thread may have set a variable or changed the directory, and libdevice may have been replaced.
        """
        if self._before is None:
            return b""
        try:
            is_same = key_of(self._request) == self._before
        except UncacheableError:
            return b""
        is_same = is_same and self._way == way_to(paths_of(self._before.groups))
        if not is_same or (self._request.code_type is SourceCodeType.CXX and has_other_builtins()):
            return b""
        from cudacore_compile._compilers import process_state  # imported here, so that cache hits do not import it

        is_clean = process_state.is_clean_for(self._request.options, self._request.code_type)
        return self._before.value if is_clean else b""


class Lookup:
    """A compilation or a link whose code is looked up in a cache, and stored there."""

    def __init__(self, cache: ProgramCacheResource, code_type: str, find_key: Callable[[], bytes]) -> None:
        self._cache = cache
        self._code_type = code_type
        self.key = b""  # stays empty if the code cannot be stored
        self.reason = ""  # why it cannot
        try:
            self.key = find_key()
        except UncacheableError as error:
            cache.count("uncacheable")
            self.reason = str(error)

    def find(self) -> Entry | None:
        """Return the entry; None if it is not stored, or if the cache fails, which is a RuntimeWarning."""
        try:
            entry = self._cache._load(self.key) if self.key else None
        except Exception as error:  # a user's cache can raise any exception
            self._warn_of_failure("read", error)
            return None
        return entry if entry is not None and entry.facts.get("code_type") == self._code_type else None

    def keep(self, entry: Entry, key: bytes) -> None:
        """Store an entry if its key equals the key that was looked up. If the cache fails, there is a RuntimeWarning.

        The keys differ if a file was changed meanwhile, or if the process that compiled has another compiler, other
        files or another environment.
        """
        if not self.key or key != self.key:
            return
        try:
            self._cache._save(key, entry)
        except Exception as error:
            self._warn_of_failure("written", error)

    def _warn_of_failure(self, what: str, error: Exception) -> None:
        self._cache.count("failures")
        warnings.warn(f"{self._cache!r} could not be {what}: {error!r}", RuntimeWarning, stacklevel=5)


_has_warned = False


def look_up(cache: ProgramCacheResource, request: Request) -> Lookup:
    """Find the key of a compilation. The first time in a process that there is none, there is a RuntimeWarning."""
    global _has_warned
    lookup = Lookup(cache, request.target.value, lambda: key_of(request, cache=cache).value)
    if lookup.reason and not _has_warned:
        _has_warned = True
        warnings.warn(f"a program is not cached, and compiled each time: {lookup.reason}", RuntimeWarning, stacklevel=4)
    return lookup
