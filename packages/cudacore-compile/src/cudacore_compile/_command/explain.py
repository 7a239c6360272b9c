# SPDX-License-Identifier: Apache-2.0
"""``cudacore-compile cache explain``: why a compilation or link is or is not in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cudacore_compile import UncacheableError
from cudacore_compile._cache.digest import included_files, key_of
from cudacore_compile._cache.files import FileStreamProgramCache
from cudacore_compile._cache.link import LinkFacts, link_key
from cudacore_compile._command.arguments import make_parser, parse
from cudacore_compile._command.errors import SUCCESS, UsageError
from cudacore_compile._command.files import say
from cudacore_compile._command.plan import Plan, make_plan
from cudacore_compile._command.report import Report
from cudacore_compile._compilers.libraries import load
from cudacore_compile._compilers.request import BACKENDS, Request
from cudacore_compile._job import CompileJob
from cudacore_compile._linker import Linker
from cudacore_compile._program import Program
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType
from cudacore_handles import CUDAError, ObjectCode


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


def _explain_all(plan: Plan) -> list[_Answer]:
    cache = plan.cache
    found = [_explain(cache, file, job) for file, job in plan.jobs]
    answers = [answer for answer, _ in found]
    codes = [code for _, code in found if code is not None]
    if not plan.links:
        return answers
    if len(codes) == len(found):
        linkers = plan.make_linkers(codes)
        return answers + [_explain_link(cache, plan, arch, linker) for arch, linker in linkers.items()]
    files = dict.fromkeys(answer.file for answer, code in found if code is None)
    reason = f"it is looked up by its parts, and these must be compiled first: {', '.join(files)}"
    return answers + [_Answer(plan.link_name, str(arch), plan.link_target, "unknown", [reason]) for arch in plan.arches]


def _explain(cache: FileStreamProgramCache | None, file: str, job: CompileJob) -> tuple[_Answer, ObjectCode | None]:
    """Return the explanation of a compilation, and the code if it is in the cache."""
    program = Program(job.code, job.code_type, job.options)
    request = program._request(job.target_type, job.name_expressions)
    options, target = request.options, request.target.value
    about = (file, str(options.arch), target)
    if cache is None:
        return _Answer(*about, "uncacheable", [_NO_CACHE]), None
    try:
        entry = cache._load(key_of(request).value)
    except UncacheableError as error:
        return _Answer(*about, "uncacheable", [str(error)]), None
    code = None if entry is None else entry.object_code(target, options.name or "default_program")
    if code is not None:
        return _Answer(*about, "hit", []), code
    before = _read_record(cache, file, options.arch, target)
    return _Answer(*about, "miss", _reasons(before, _facts(program, job), "compiled")), None


def _explain_link(cache: FileStreamProgramCache | None, plan: Plan, arch: str | None, linker: Linker) -> _Answer:
    target = ObjectCodeFormatType(plan.link_target)
    about = (plan.link_name, str(arch), target.value)
    if cache is None:
        return _Answer(*about, "uncacheable", [_NO_CACHE])
    try:
        facts = linker._facts(target)
        if cache._load(link_key(facts)) is not None:
            return _Answer(*about, "hit", [])
    except UncacheableError as error:
        return _Answer(*about, "uncacheable", [str(error)])
    before = _read_record(cache, plan.link_name, arch, _LINKED + target.value)
    return _Answer(*about, "miss", _reasons(before, _link_facts(facts), "linked"))


_NO_CACHE = "the options have the compiler write files, or there is no cache"
_RECORD = "cudacore-record-1"
_LINKED = "linked "  # the prefix of records of links, because a compilation can have the name and format of a link


def _reasons(before: dict[str, Any] | None, now: dict[str, Any], done: str) -> list[str]:
    """Return why code that may have been compiled or linked before is not in the cache."""
    if before is None:
        return [f"this command has not {done} it for this architecture and format yet"]
    reasons = list(_differences(before, now))
    return reasons or ["nothing has changed: the entry was removed to make room, or never kept"]


def note_records(plan: Plan) -> None:
    """Store the inputs of the compilations of a command, for later explanations. Failures are ignored."""
    cache = plan.cache
    if cache is None or not cache.statistics.misses:
        return
    for file, job in plan.jobs:
        program = Program(job.code, job.code_type, job.options)
        request = program._request(job.target_type, job.name_expressions)
        with contextlib.suppress(OSError, UncacheableError):
            _write_record(cache, (file, request.options.arch, request.target.value), _facts(program, job))
    for arch, linker in plan.linkers.items():
        target = ObjectCodeFormatType(plan.link_target)
        with contextlib.suppress(OSError, UncacheableError):
            facts = _link_facts(linker._facts(target))
            _write_record(cache, (plan.link_name, arch, _LINKED + target.value), facts)


def _record_key(file: str, arch: object, target: str) -> bytes:
    about = repr((_RECORD, os.path.realpath(file), arch, target))
    return hashlib.sha256(about.encode("utf-8", "surrogateescape")).digest()


def _read_record(cache: FileStreamProgramCache, file: str, arch: object, target: str) -> dict[str, Any] | None:
    try:
        found = json.loads(cache._load_note(_record_key(file, arch, target)) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _write_record(cache: FileStreamProgramCache, about: tuple[str, object, str], facts: dict[str, Any]) -> None:
    """Store a record beside the entries, so that it counts as a part of the cache, and can be evicted."""
    cache._save_note(_record_key(*about), json.dumps(facts).encode())


def _facts(program: Program, job: CompileJob) -> dict[str, Any]:
    """Return the inputs of a compilation that users can change."""
    request = program._request(job.target_type, job.name_expressions)
    backend = BACKENDS[SourceCodeType(request.code_type)]
    return {
        "compiler": f"{backend} {load(backend).version_text}",
        "options": [flag.decode("utf-8", "replace") for flag in request.options.as_bytes(backend, request.target)],
        "names": sorted(request.names),
        "directory": os.getcwd(),
        "source": hashlib.sha256(request.code).hexdigest(),
        "files": _files(program, request),
    }


def _link_facts(facts: LinkFacts) -> dict[str, Any]:
    """Return the inputs of a link; the files are its parts."""
    return {
        "compiler": f"{CompilerBackendType.NVJITLINK} {facts.linker.version_text}",
        "options": [flag.decode("utf-8", "replace") for flag in facts.flags],
        "directory": os.getcwd() if facts.options.debug or facts.options.lineinfo else "",
        "parts": {part.name: hashlib.sha256(part.code).hexdigest() for part in facts.inputs},
    }


def _files(program: Program, request: Request) -> dict[str, str]:
    """Return hashes of the files that a program may include."""
    if program.backend is not CompilerBackendType.NVRTC:
        return {}
    files = included_files(request.code, request.options, request.headers)
    return {file: digest.hex() for file, digest in files.items()}


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
