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
    cached = CachedCompilation(cache, request)
    found = cached.find()
    if found is not None:
        code, log = found
        if logs is not None and log:
            logs.write(log)
        return code
    if not cached.key:
        return compile_now(logs)
    watch = Watch(request, cache)
    log_file = io.StringIO()
    try:
        result = compile_now(log_file)
    finally:
        if logs is not None and log_file.getvalue():
            logs.write(log_file.getvalue())
    cached.keep(result, log_file.getvalue(), watch.end())
    return result


_has_warned = False


def _warn_of(error: UncacheableError) -> None:
    """Warn that a program is compiled each time. There is one warning in a process."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(f"a program is not cached, and compiled each time: {error}", RuntimeWarning, stacklevel=5)


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


class CachedCompilation:
    """A compilation whose code is looked up in a cache, and stored there."""

    def __init__(self, cache: ProgramCacheResource, request: Request) -> None:
        self._cache = cache
        self._request = request
        self.key = b""  # stays empty if the code cannot be stored
        try:
            self.key = key_of(request, cache=cache).value
        except UncacheableError as error:
            cache.count("uncacheable")
            _warn_of(error)

    def find(self) -> tuple[ObjectCode, str] | None:
        """Return the code and the log; None if they are not stored."""
        entry = load_entry(self._cache, self.key) if self.key else None
        if entry is None:
            return None
        code = entry.object_code(self._request.target.value, self._request.options.name or "default_program")
        return None if code is None else (code, entry.facts.get("log", ""))

    def keep(self, code: ObjectCode, log: str, key: bytes) -> None:
        """Store the code if its key equals the key that was looked up.

        The keys differ if a file was changed meanwhile, or if the process that compiled has another compiler, other
        files or another environment.
        """
        if self.key and key == self.key:
            save_entry(self._cache, key, Entry.of(code, log))


def load_entry(cache: ProgramCacheResource, key: bytes) -> Entry | None:
    """Return an entry; None if it is not stored, or if the cache fails, which is a RuntimeWarning."""
    try:
        return cache._load(key)
    except Exception as error:  # a user's cache can raise any exception
        _warn_of_failure(cache, "read", error)
        return None


def save_entry(cache: ProgramCacheResource, key: bytes, entry: Entry) -> None:
    """Store an entry. If the cache fails, there is a RuntimeWarning."""
    try:
        cache._save(key, entry)
    except Exception as error:
        _warn_of_failure(cache, "written", error)


def _warn_of_failure(cache: ProgramCacheResource, what: str, error: Exception) -> None:
    cache.count("failures")
    warnings.warn(f"{cache!r} could not be {what}: {error!r}", RuntimeWarning, stacklevel=6)
