# SPDX-License-Identifier: Apache-2.0
"""Linking with a program cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache.compile import load_entry, save_entry
from cudacore_compile._cache.digest import check_options, common_parts, environment
from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.libraries import loaded_identity
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._cache.states import hash_of
from cudacore_compile._compilers.linker_options import LinkerOptions
from cudacore_compile._compilers.nvjitlink import Input, Linked, NVJitLink
from cudacore_compile.typing import ObjectCodeFormatType

# This must be changed whenever the meaning of keys, the contents of entries or the checks before linking change.
_SCHEMA = b"cudacore-link-4"


class LinkFacts(NamedTuple):
    """Everything that a link depends on."""

    linker: NVJitLink
    target: ObjectCodeFormatType
    options: LinkerOptions
    flags: Sequence[bytes]  # the options as they are passed to nvJitLink
    inputs: Sequence[Input]  # the input as it was read: later changes of files have no effect


def link_cached(cache: ProgramCacheResource, facts: LinkFacts, link_now: Callable[[], Linked]) -> Linked:
    """Return the linked code from a cache, or link it and store it.

    If the cache fails, the code is linked, with a RuntimeWarning.
    """
    before = environment()
    try:
        key = link_key(facts)
    except UncacheableError:
        cache.count("uncacheable")
        return link_now()
    entry = load_entry(cache, key)
    if entry is not None and entry.facts.get("code_type") == facts.target.value:
        return Linked(entry.code, entry.facts["error_log"], entry.facts["log"])
    linked = link_now()
    if environment() == before:  # another thread may have set a variable
        kept: dict[str, Any] = {
            "code_type": facts.target.value,
            "name": facts.options.name or "",
            "symbol_mapping": {},
            "error_log": linked.error_log,
            "log": linked.info_log,
        }
        save_entry(cache, key, Entry(linked.code, kept))
    return linked


def link_key(facts: LinkFacts) -> bytes:
    """Return the key of a link.

    Raises
    ------
    UncacheableError
        If the linker may read files, or if equal links can have different logs.
    """
    linker, target, options, flags, inputs = facts
    check_options(options)
    build = (linker.version_text, loaded_identity(linker.path))
    parts = [(part.code_type, hash_of(part.code), part.name) for part in inputs]
    has_lines = bool(options.debug or options.lineinfo)
    return hash_of(_SCHEMA, build, parts, *common_parts(target, flags, has_directory=has_lines))
