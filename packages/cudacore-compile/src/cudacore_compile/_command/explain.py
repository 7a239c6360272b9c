# SPDX-License-Identifier: Apache-2.0
"""``cudacore-compile cache explain``: why a compilation or link is or is not in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from cudacore_compile import UncacheableError
from cudacore_compile._cache.digest import included_files, key_of
from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.files import FileStreamProgramCache
from cudacore_compile._cache.link import link_key, linker_of
from cudacore_compile._command.arguments import make_parser, parse
from cudacore_compile._command.errors import SUCCESS, UsageError
from cudacore_compile._command.files import say
from cudacore_compile._command.plan import Plan, make_plan
from cudacore_compile._command.report import Report
from cudacore_compile._compilers.libraries import load
from cudacore_compile._compilers.nvjitlink import LinkFacts
from cudacore_compile._compilers.request import Request
from cudacore_compile._compilers.targets import BACKENDS
from cudacore_compile._linker import Linker
from cudacore_compile._program import Program
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType
from cudacore_handles import CUDAError

_RECORD = "cudacore-record-2"


class _Answer(NamedTuple):
    """The explanation of one compilation or link."""

    file: str
    arch: str
    target: str
    state: str
    reasons: list[str]


def run_explain(words: Sequence[str]) -> int:
    """Run the sub-command; return the exit status."""
    arguments = parse(make_parser(), words)
    if arguments.no_cache:
        raise UsageError("--no-cache: without a cache, there is nothing to explain")
    try:
        answers = _explain_all(make_plan(arguments))
    except (OSError, CUDAError, ValueError) as error:
        report = Report(arguments)
        report.add_error(str(error))
        return report.finish()
    if arguments.format == "json":
        say(json.dumps([one._asdict() for one in answers], indent=2) + "\n")
        return SUCCESS
    for one in answers:
        say(f"{one.file}, {one.target} for {one.arch}: {one.state}\n" + "".join(f"  {why}\n" for why in one.reasons))
    return SUCCESS


class _Item(NamedTuple):
    """A compilation or a link."""

    file: str
    arch: str | None
    target: str
    name: str | None  # of the code
    done: str  # "compiled" or "linked": a compilation can have the file and the format of a link
    key: Callable[[], bytes]
    facts: Callable[[], dict[str, Any]]


def _compilations(plan: Plan) -> list[_Item]:
    items = []
    for file, job in plan.jobs:
        request = Program(job.code, job.code_type, job.options)._request(job.target_type, job.name_expressions)
        options, key, facts = request.options, partial(_key_of, request), partial(_facts, request)
        arch = None if options.arch is None else str(options.arch)
        items.append(_Item(file, arch, request.target.value, options.name, "compiled", key, facts))
    return items


def _links(plan: Plan, linkers: Sequence[Linker]) -> list[_Item]:
    items = []
    for one, linker in zip(plan.links, linkers, strict=False):  # there are no linkers if nothing was compiled
        facts = linker._facts(ObjectCodeFormatType(plan.link_target))
        functions = partial(link_key, facts), partial(_link_facts, facts)
        items.append(_Item(one.name, one.arch, facts.target.value, None, "linked", *functions))
    return items


def _explain_all(plan: Plan) -> list[_Answer]:
    items = _compilations(plan)
    found = [_explain(plan.cache, item) for item in items]
    answers = [answer for answer, _ in found]
    missing = dict.fromkeys(answer.file for answer, entry in found if entry is None)
    if missing:
        reason = f"it is looked up by its parts, and these must be compiled first: {', '.join(missing)}"
        return answers + [_Answer(one.name, str(one.arch), plan.link_target, "unknown", [reason]) for one in plan.links]
    codes = [entry.object_code(item.name) for item, (_, entry) in zip(items, found, strict=True) if entry is not None]
    return answers + [_explain(plan.cache, item)[0] for item in _links(plan, plan.make_linkers(codes))]


def _explain(cache: FileStreamProgramCache | None, item: _Item) -> tuple[_Answer, Entry | None]:
    """Return the explanation of a compilation or a link, and the entry in the cache if there is one."""
    about = item.file, str(item.arch), item.target
    if cache is None:
        reason = "the options have the compiler write files, or there is no cache"
        return _Answer(*about, "uncacheable", [reason]), None
    try:
        entry = cache._load(item.key())
    except UncacheableError as error:
        return _Answer(*about, "uncacheable", [str(error)]), None
    if entry is not None and entry.facts.get("code_type") == item.target:
        return _Answer(*about, "hit", []), entry
    before = _read_record(cache, item)
    if before is None:
        reasons = [f"this command has not {item.done} it for this architecture and format yet"]
    else:
        reasons = list(_differences(before, item.facts()))
    nothing = "nothing has changed: the entry was removed to make room, or never kept"
    return _Answer(*about, "miss", reasons or [nothing]), None


def note_records(plan: Plan) -> None:
    """Store the inputs of the compilations and links of a command, for later explanations. Failures are ignored."""
    cache = plan.cache
    if cache is None or not cache.statistics.misses:
        return
    for item in _compilations(plan) + _links(plan, plan.linkers):
        # beside the entries, so that records count as a part of the cache, and can be evicted
        with contextlib.suppress(OSError, UncacheableError):
            cache._save_note(_record_key(item), json.dumps(item.facts()).encode())


def _record_key(item: _Item) -> bytes:
    about = repr((_RECORD, os.path.realpath(item.file), item.arch, item.target, item.done))
    return hashlib.sha256(about.encode("utf-8", "surrogateescape")).digest()


def _read_record(cache: FileStreamProgramCache, item: _Item) -> dict[str, Any] | None:
    try:
        found = json.loads(cache._load_note(_record_key(item)) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _key_of(request: Request) -> bytes:
    return key_of(request).value


def _facts(request: Request) -> dict[str, Any]:
    """Return the inputs of a compilation that users can change."""
    backend = BACKENDS[request.code_type]
    files = {}
    if request.code_type is SourceCodeType.CXX:
        files = included_files(request.code, request.options, request.headers)
    return {
        "compiler": f"{backend} {load(backend).version_text}",
        "options": [flag.decode("utf-8", "replace") for flag in request.options.as_bytes(backend, request.target)],
        "names": sorted(request.names),
        "directory": os.getcwd(),
        "source": hashlib.sha256(request.code).hexdigest(),
        "files": {file: digest.hex() for file, digest in files.items()},
    }


def _link_facts(facts: LinkFacts) -> dict[str, Any]:
    """Return the inputs of a link; the files are its parts."""
    return {
        "compiler": f"{CompilerBackendType.NVJITLINK} {linker_of(facts).version_text}",
        "options": [flag.decode("utf-8", "replace") for flag in facts.flags],
        "directory": os.getcwd() if facts.options.debug or facts.options.lineinfo else "",
        "parts": {part.name: hashlib.sha256(part.code).hexdigest() for part in facts.inputs},
    }


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if before.get("compiler") != now["compiler"]:
        yield f"the compiler is {now['compiler']}, and was {before.get('compiler')}"
    if before.get("source") != now.get("source"):
        yield "the source has changed"
    old, new = before.get("options", []), now["options"]
    added, removed = [word for word in new if word not in old], [word for word in old if word not in new]
    if added:
        yield f"options are new: {' '.join(added)}"
    if removed:
        yield f"options are gone: {' '.join(removed)}"
    if old != new and not added and not removed:
        yield "options have another order"
    if before.get("names") != now.get("names"):
        yield "the name expressions have changed"
    yield from _changed_files(before.get("files", {}), now.get("files", {}), "{}", "included")
    old_parts, parts = before.get("parts", {}), now.get("parts", {})
    yield from _changed_files(old_parts, parts, "the code of {}", "linked")
    if old_parts == parts and [*old_parts] != [*parts]:
        yield "files are linked in another order"
    if before.get("directory") != now["directory"]:
        yield f"the current directory was {before.get('directory')}"


def _changed_files(before: dict[str, str], now: dict[str, str], what: str, done: str) -> Iterator[str]:
    for file, digest in now.items():
        if file not in before:
            yield f"{file} is {done} now"
        elif before[file] != digest:
            yield f"{what.format(file)} has changed"
    for file in before.keys() - now.keys():
        yield f"{file} is {done} no more"
