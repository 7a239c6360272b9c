# SPDX-License-Identifier: Apache-2.0
"""Sub-commands: the contents and statistics of the cache, and the compilers of this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from cudacore_compile._cache.files import FileStreamProgramCache, default_directory
from cudacore_compile._cache.resource import CacheStatistics
from cudacore_compile._command.arguments import Parser
from cudacore_compile._command.errors import FAILURE, SUCCESS, UsageError
from cudacore_compile._command.files import say
from cudacore_compile._command.report import say_error
from cudacore_compile._compilers.versions import versions
from cudacore_compile.typing import CompilerBackendType

_STATISTICS = b"cudacore-command-statistics-1"  # the key of the note in the cache


def run_cache(words: Sequence[str]) -> int:
    """Run the sub-command; return the exit status."""
    arguments = _parse(words)
    if arguments.cache_dir == "":
        raise UsageError("--cache-dir: path must not be empty")
    try:
        directory = Path(arguments.cache_dir) if arguments.cache_dir is not None else default_directory()
        if arguments.action == "path":
            say(f"{directory}\n")
            return SUCCESS
        statistics, entries, size = CacheStatistics(), 0, 0
        if directory.exists() or arguments.action == "show":  # if there is nothing to remove, it is not created
            cache = FileStreamProgramCache(directory)
            entries, size = len(cache), cache.size_bytes
            if arguments.action == "clear":
                cache.clear()
            statistics = _read_statistics(cache)
    except (OSError, ValueError) as error:
        say_error(str(error), "", as_json=arguments.format == "json")
        return FAILURE
    if arguments.format == "json":
        cleared = arguments.action == "clear"
        facts: dict[str, Any] = {"path": str(directory), "entries": entries, "bytes": size, "cleared": cleared}
        say(json.dumps(facts | {"statistics": asdict(statistics) | {"hit_rate": statistics.hit_rate}}) + "\n")
        return SUCCESS
    verb = "removed from" if arguments.action == "clear" else "in"
    noun = "entry" if entries == 1 else "entries"
    say(f"{entries} {noun}, {size / 1e6:.1f} MB, {verb} {directory}\n")
    if arguments.action == "show":
        say(
            f"{statistics.hits} hits, {statistics.misses} misses ({statistics.hit_rate:.0%} hits), "
            f"{statistics.uncacheable} uncacheable, {statistics.stores} stored, {statistics.evictions} evicted, "
            f"{statistics.corrupt + statistics.failures} failures\n"
        )
    return SUCCESS


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        "cudacore-compile cache",
        description="Look at the compiled code that is kept, or remove it.",
        epilog="`cudacore-compile cache explain` takes the arguments of another command. It explains for each "
        "compilation and link whether the code is in the cache, and if not, what has changed, or what keeps it from "
        "being cached.",
        allow_abbrev=False,
    )
    parser.add_argument("action", nargs="?", choices=("show", "clear", "path", "explain"), default="show")
    parser.add_argument("--cache-dir", metavar="DIR", help="the directory; default: in the user's cache directory")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how it is written")
    return parser.parse_args(words)


def note_statistics(cache: FileStreamProgramCache | None) -> None:
    """Add the cache statistics of this command to the totals of all commands. Failures are ignored.

    If several commands end at once, the statistics of only one of them may be added.
    """
    if cache is None:
        return
    total = _read_statistics(cache)
    for field in fields(CacheStatistics):
        setattr(total, field.name, getattr(total, field.name) + getattr(cache.statistics, field.name))
    cache._save_note(_STATISTICS, json.dumps(asdict(total)).encode())


def _read_statistics(cache: FileStreamProgramCache) -> CacheStatistics:
    """Return the statistics of all commands; zeros if there are none, or they are damaged."""
    try:
        found = json.loads(cache._load_note(_STATISTICS) or b"{}")
        return CacheStatistics(**{field.name: int(found.get(field.name, 0)) for field in fields(CacheStatistics)})
    except (ValueError, TypeError, AttributeError):
        return CacheStatistics()


_TITLES = {
    CompilerBackendType.NVRTC: ("NVRTC", "CUDA C++"),
    CompilerBackendType.NVVM: ("libNVVM", "NVVM IR"),
    CompilerBackendType.NVJITLINK: ("nvJitLink", "linking, PTX"),
    CompilerBackendType.DRIVER: ("driver", "linking, PTX"),
}


def run_compilers(words: Sequence[str]) -> int:
    """Run the sub-command; return the exit status."""
    parser = Parser(
        "cudacore-compile compilers",
        description="List the compilers and linkers that are found, with their versions and architectures.",
        allow_abbrev=False,
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how they are written")
    arguments = parser.parse_args(words)
    found = {CompilerBackendType(backend): one for backend, one in versions().items()}
    if arguments.format == "json":
        listing = {str(backend): None if (one := found.get(backend)) is None else one._asdict() for backend in _TITLES}
        say(json.dumps(listing, indent=2) + "\n")
        return SUCCESS
    for backend, (title, purpose) in _TITLES.items():
        one = found.get(backend)
        where = "not found" if one is None else f"{one.version}  {one.path}".rstrip()
        say(f"{title:10} {purpose:13} {where}\n")
        if one is not None and one.architectures:
            say(f"{'':24} architectures {', '.join(map(str, one.architectures))}\n")
    return SUCCESS
