# SPDX-License-Identifier: Apache-2.0
"""Compilation with a program cache."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from cudacore_compile._cache.digest import program_key
from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._cache.scan import UncacheableError
from cudacore_compile._compilers import process_state as _process_state
from cudacore_compile._compilers.request import Request
from cudacore_handles import ObjectCode


def key_of(compilation: Request) -> tuple[bytes, bool]:
    """Return a compilation's key, and whether that can change: see :func:`program_key`."""
    return program_key(
        compilation.code,
        compilation.code_type,
        compilation.options,
        compilation.target,
        compilation.names,
        headers=compilation.headers,
    )


def check_cache(cache: object) -> None:
    """Raise for what is no program cache."""
    if not isinstance(cache, ProgramCacheResource):
        raise TypeError(f"cache must be a ProgramCacheResource or None, not {type(cache).__name__}")


def compile_cached(
    cache: ProgramCacheResource, compilation: Request, compile_now: Callable[[Any], ObjectCode], logs: Any
) -> ObjectCode:
    """Return the code from a cache, or compile it and keep it there.

    Parameters
    ----------
    cache : ProgramCacheResource
        The cache. Whatever is wrong with it costs a compilation, and a RuntimeWarning.
    compilation : Request
        What is compiled.
    compile_now : callable
        Compiles; takes the object to write the log to.
    logs : object with a ``write`` method, or None
        Receives the compiler's log, also when that was kept.
    """
    cached = CachedCompilation(cache, compilation)
    found = cached.find()
    if found is not None:
        code, log = found
        if logs is not None and log:
            logs.write(log)
        return code
    heard = io.StringIO()
    try:
        result = compile_now(heard)
    finally:
        if logs is not None and heard.getvalue():
            logs.write(heard.getvalue())
    cached.keep(result, heard.getvalue(), is_clean=_process_state.is_clean_for(compilation.options))
    return result


class CachedCompilation:
    """One compilation, between the lookup and the store."""

    def __init__(self, cache: ProgramCacheResource, compilation: Request) -> None:
        self._cache = cache
        self._compilation = compilation
        self._key = b""
        self._can_change = False
        try:
            self._key, self._can_change = key_of(compilation)
        except UncacheableError:
            cache.count("uncacheable")

    def find(self) -> tuple[ObjectCode, str] | None:
        """Return the code and the log, if they are kept."""
        if not self._key:
            return None
        try:
            entry = self._cache._load(self._key)
        except Exception as error:  # a user's cache can fail in ways of its own
            self._warn("read", error)
            return None
        if entry is None:
            return None
        code = entry.object_code(self._compilation.target.value, self._compilation.options.name or "default_program")
        return None if code is None else (code, entry.log)

    def keep(self, code: ObjectCode, log: str, *, is_clean: bool) -> None:
        """Keep what was compiled, if another process would make the same of the same files."""
        # A file that changed while the compiler was running may have been read before or after.
        if not self._key or not is_clean or (self._can_change and self._has_changed()):
            return
        try:
            self._cache._save(self._key, Entry.of(code, log))
        except Exception as error:
            self._warn("written", error)

    def _has_changed(self) -> bool:
        try:
            return key_of(self._compilation)[0] != self._key
        except UncacheableError:
            return True

    def _warn(self, what: str, error: Exception) -> None:
        self._cache.count("failures")
        warnings.warn(f"{self._cache!r} could not be {what}: {error!r}", RuntimeWarning, stacklevel=5)
