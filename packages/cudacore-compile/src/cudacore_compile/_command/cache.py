# SPDX-License-Identifier: Apache-2.0
"""``cudacore-compile cache``: the contents and statistics of the cache."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from cudacore_compile._cache.files import FileStreamProgramCache, default_directory
from cudacore_compile._cache.resource import CacheStatistics
from cudacore_compile._cache.states import read_regular
from cudacore_compile._command.arguments import Parser
from cudacore_compile._command.errors import FAILURE, SUCCESS, UsageError
from cudacore_compile._command.files import say
from cudacore_compile._command.report import say_error

_STATISTICS = "command-statistics.json"


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
        # there is nothing to remove, so the directory is not created
        if not directory.exists() and arguments.action == "clear":
            entries = size = 0
        else:
            cache = FileStreamProgramCache(directory)
            entries, size = len(cache), cache.size_bytes
            if arguments.action == "clear":
                cache.clear()
                (directory / _STATISTICS).unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        say_error(str(error), "", as_json=arguments.format == "json")
        return FAILURE
    statistics = _read(directory)
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
    """Add the cache statistics of this command to the totals of all commands. Failures are ignored."""
    if cache is None:
        return
    with contextlib.suppress(OSError, ValueError), _locked(cache.directory) as file:
        total = _parse_statistics(file.read())
        for field in fields(CacheStatistics):
            setattr(total, field.name, getattr(total, field.name) + getattr(cache.statistics, field.name))
        file.seek(0)
        file.truncate()
        file.write(json.dumps(asdict(total)).encode())


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[Any]:
    with open(directory / _STATISTICS, "a+b") as file:
        # If several commands end at once, the statistics of only one of them are added.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.seek(0)
        yield file


def _read(directory: Path) -> CacheStatistics:
    try:
        return _parse_statistics(read_regular(directory / _STATISTICS) or b"")
    except OSError:
        return CacheStatistics()


def _parse_statistics(data: bytes) -> CacheStatistics:
    """Return the statistics in a file; zeros if it is empty or damaged."""
    try:
        found = json.loads(data or b"{}")
        return CacheStatistics(**{field.name: int(found.get(field.name, 0)) for field in fields(CacheStatistics)})
    except (ValueError, TypeError, AttributeError):
        return CacheStatistics()
