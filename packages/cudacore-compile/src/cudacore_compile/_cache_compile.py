# SPDX-License-Identifier: Apache-2.0
"""Compilation with a program cache."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from cudacore_compile import _process_state
from cudacore_compile._cache_digest import program_key
from cudacore_compile._cache_entry import Entry
from cudacore_compile._cache_includes import UncacheableError
from cudacore_compile._cache_resource import ProgramCacheResource
from cudacore_compile._options import ProgramOptions
from cudacore_compile.typing import ObjectCodeFormatType, SourceCodeType
from cudacore_handles import ObjectCode


def check_cache(cache: object) -> None:
    """Raise for what is no program cache."""
    if not isinstance(cache, ProgramCacheResource):
        raise TypeError(f"cache must be a ProgramCacheResource or None, not {type(cache).__name__}")


def compile_cached(
    cache: ProgramCacheResource,
    compile_now: Callable[[Any], ObjectCode],
    *,
    code: bytes,
    code_type: SourceCodeType,
    options: ProgramOptions,
    target: ObjectCodeFormatType,
    names: list[str],
    headers: Mapping[bytes, bytes],
    logs: Any,
) -> ObjectCode:
    """Return the code from a cache, or compile it and keep it there.

    Parameters
    ----------
    cache : ProgramCacheResource
        The cache. Whatever is wrong with it costs a compilation, and a RuntimeWarning.
    compile_now : callable
        Compiles; takes the object to write the log to.
    code, code_type, options, target, names, headers
        What is compiled.
    logs
        Receives the compiler's log, also when that was kept.
    """

    def key() -> tuple[bytes, bool]:
        return program_key(code, code_type, options, target, names, headers=headers)

    try:
        before, changes = key()
    except UncacheableError:
        cache.count("uncacheable")
        return compile_now(logs)
    try:
        entry = cache._load(before)
    except OSError as error:
        _warn(cache, "read", error)
        entry = None
    if entry is not None:
        found = entry.object_code(target.value, options.name or "default_program")
        if found is not None:
            if logs is not None and entry.log:
                logs.write(entry.log)
            return found
    heard = io.StringIO()
    try:
        result = compile_now(heard)
    finally:
        if logs is not None and heard.getvalue():
            logs.write(heard.getvalue())
    # A file that changed while the compiler was running may have been read before or after.
    if _process_state.is_clean_for(options) and (not changes or _unchanged(key, before)):
        try:
            cache._save(before, Entry.of(result, heard.getvalue()))
        except OSError as error:
            _warn(cache, "written", error)
    return result


def _unchanged(key: Callable[[], tuple[bytes, bool]], before: bytes) -> bool:
    try:
        return key()[0] == before
    except UncacheableError:
        return False


def _warn(cache: ProgramCacheResource, what: str, error: OSError) -> None:
    cache.count("failures")
    warnings.warn(f"{cache!r} could not be {what}: {error}", RuntimeWarning, stacklevel=4)
