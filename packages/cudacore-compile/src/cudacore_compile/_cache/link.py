# SPDX-License-Identifier: Apache-2.0
"""Linking with a program cache."""

from __future__ import annotations

from collections.abc import Callable

from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache.compile import Lookup
from cudacore_compile._cache.digest import check_options, common_parts, environment
from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.libraries import loaded_identity
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._cache.states import hash_of
from cudacore_compile._compilers import nvjitlink
from cudacore_compile._compilers.nvjitlink import Linked, LinkFacts, NVJitLink
from cudacore_compile.typing import CompilerBackendType

# This must be changed whenever the meaning of keys, the contents of entries or the checks before linking change.
_SCHEMA = b"cudacore-link-4"


def link_cached(cache: ProgramCacheResource, facts: LinkFacts, link_now: Callable[[], Linked]) -> Linked:
    """Return the linked code from a cache, or link it and store it.

    If the cache fails, the code is linked, with a RuntimeWarning.
    """
    before = environment()
    lookup = Lookup(cache, facts.target.value, lambda: link_key(facts))
    entry = lookup.find()
    if entry is not None:
        return Linked(entry.code, entry.facts["error_log"], entry.log)
    linked = link_now()
    if environment() == before:  # another thread may have set a variable
        kept = {"code_type": facts.target.value, "error_log": linked.error_log, "log": linked.info_log}
        lookup.keep(Entry(linked.code, kept), lookup.key)
    return linked


def linker_of(facts: LinkFacts) -> NVJitLink:
    """Return the linker; raise UncacheableError for the driver's, because its build cannot be identified."""
    if facts.choice.backend is not CompilerBackendType.NVJITLINK:
        raise UncacheableError(f"the driver links, because {facts.choice.reason}")
    return nvjitlink.load()


def link_key(facts: LinkFacts) -> bytes:
    """Return the key of a link.

    Raises
    ------
    UncacheableError
        If the driver links, if the linker may read files, or if equal links can have different logs.
    """
    linker = linker_of(facts)
    check_options(facts.options)
    build = (linker.version_text, loaded_identity(linker.path))
    parts = [(part.code_type, hash_of(part.code), part.name) for part in facts.inputs]
    has_lines = bool(facts.options.debug or facts.options.lineinfo)
    return hash_of(_SCHEMA, build, parts, *common_parts(facts.target, facts.flags, has_directory=has_lines))
