# SPDX-License-Identifier: Apache-2.0
"""``cudacore-compile cache explain``: why a compilation is found in the cache, or not."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cudacore_compile import UncacheableError
from cudacore_compile._cache.compile import key_of
from cudacore_compile._cache.dependencies import included_files
from cudacore_compile._cache.files import FileStreamProgramCache
from cudacore_compile._command.arguments import make_parser, parse
from cudacore_compile._command.cache import RECORDS
from cudacore_compile._command.errors import SUCCESS, UsageError
from cudacore_compile._command.plan import Plan
from cudacore_compile._command.report import Report
from cudacore_compile._compilers import nvjitlink, nvrtc, nvvm
from cudacore_compile._compilers.request import BACKENDS, Request
from cudacore_compile._job import CompileJob
from cudacore_compile._program import Program
from cudacore_compile.typing import CompilerBackendType, SourceCodeType
from cudacore_handles import CUDAError

_MAX_FILES = 1000  # with CUB there are more than 10,000
_VERSIONS = {
    CompilerBackendType.NVRTC: lambda: nvrtc.load().version_text,
    CompilerBackendType.NVVM: lambda: nvvm.load().version_text,
    CompilerBackendType.NVJITLINK: lambda: nvjitlink.load().version_text,
}


class _Answer(NamedTuple):
    """What became, or would become, of one compilation."""

    file: str
    arch: str
    target: str
    state: str
    reasons: list[str]


def run_explain(words: Sequence[str]) -> int:
    """Run the sub-command; return the exit status."""
    arguments = parse(make_parser(), words)
    if arguments.no_cache:
        raise UsageError("--no-cache: then nothing is looked up, and there is nothing to explain")
    try:
        plan = Plan(arguments)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    except (OSError, CUDAError) as error:
        report = Report(arguments)
        report.add_error(str(error))
        return report.finish()
    answers = [_explain(plan.cache, file, job) for file, job in plan.jobs]
    if arguments.format == "json":
        sys.stdout.write(json.dumps([one._asdict() for one in answers], indent=2) + "\n")
    for one in answers if arguments.format == "text" else ():
        sys.stdout.write(f"{one.file}, {one.target} for {one.arch}: {one.state}\n")
        sys.stdout.writelines(f"  {reason}\n" for reason in one.reasons)
    sys.stdout.flush()
    return SUCCESS


def _explain(cache: FileStreamProgramCache | None, file: str, job: CompileJob) -> _Answer:
    program = Program(job.code, job.code_type, job.options)
    request = program._request(job.target_type, job.name_expressions)
    about = (file, str(request.options.arch), str(request.target))
    if cache is None:
        return _Answer(*about, "uncacheable", ["the options have the compiler write files, or there is no cache"])
    try:
        key = key_of(request)[0]
    except UncacheableError as error:
        return _Answer(*about, "uncacheable", [str(error)])
    if cache.get(key) is not None:
        return _Answer(*about, "hit", [])
    before, now = _read_record(cache, file, job), _facts(program, job)
    if before is None:
        return _Answer(*about, "miss", ["this command has not compiled it for this architecture and format yet"])
    reasons = list(_differences(before, now))
    return _Answer(
        *about, "miss", reasons or ["nothing has changed: the entry was removed to make room, or never kept"]
    )


def note_records(plan: Plan) -> None:
    """Keep what the compilations of a command depended on, for explanations; failures do not matter."""
    cache = plan.cache
    if cache is None or not cache.statistics.misses:
        return
    for file, job in plan.jobs:
        with contextlib.suppress(OSError, UncacheableError):
            facts = _facts(Program(job.code, job.code_type, job.options), job)
            path = _record(cache, file, job)
            path.parent.mkdir(exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(facts), encoding="utf-8")
            temporary.replace(path)


def _record(cache: FileStreamProgramCache, file: str, job: CompileJob) -> Path:
    options = job.options
    arch = getattr(options, "arch", None)
    about = repr((os.path.realpath(file), arch, str(job.target_type)))
    return cache.directory / RECORDS / f"{hashlib.sha256(about.encode('utf-8', 'surrogateescape')).hexdigest()}.json"


def _read_record(cache: FileStreamProgramCache, file: str, job: CompileJob) -> dict[str, Any] | None:
    try:
        found = json.loads(_record(cache, file, job).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _facts(program: Program, job: CompileJob) -> dict[str, Any]:
    """Return what decides on a compilation, as far as people can change it."""
    request = program._request(job.target_type, job.name_expressions)
    backend = BACKENDS[SourceCodeType(request.code_type)]
    return {
        "compiler": f"{backend} {_VERSIONS[backend]()}",
        "options": [flag.decode("utf-8", "replace") for flag in request.options.as_bytes(backend, request.target)],
        "names": sorted(request.names),
        "directory": os.getcwd(),
        "source": hashlib.sha256(request.code).hexdigest(),
        "files": _files(program, request),
    }


def _files(program: Program, request: Request) -> dict[str, str]:
    """Return hashes of the files that a program may include; by directory if there are many."""
    if program.backend is not CompilerBackendType.NVRTC:
        return {}
    files = included_files(request.code, request.options, request.headers)
    if len(files) <= _MAX_FILES:
        return {file: digest.hex() for file, digest in files.items()}
    directories: dict[str, Any] = {}
    for file, digest in sorted(files.items()):
        directories.setdefault(os.path.join(os.path.dirname(file), "*"), hashlib.sha256()).update(digest)
    return {directory: found.hexdigest() for directory, found in directories.items()}


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if before.get("compiler") != now["compiler"]:
        yield f"the compiler is {now['compiler']}, and was {before.get('compiler')}"
    if before.get("source") != now["source"]:
        yield "the source has changed"
    old, new = before.get("options", []), now["options"]
    added, removed = [word for word in new if word not in old], [word for word in old if word not in new]
    if added:
        yield f"options are new: {' '.join(added)}"
    if removed:
        yield f"options are gone: {' '.join(removed)}"
    if old != new and not added and not removed:
        yield "options have another order"
    if before.get("names") != now["names"]:
        yield "the name expressions have changed"
    known = before.get("files", {})
    for file, digest in now["files"].items():
        if file not in known:
            yield f"{file} is included now"
        elif known[file] != digest:
            yield f"{file} has changed"
    for file in known.keys() - now["files"].keys():
        yield f"{file} is included no more"
    if before.get("directory") != now["directory"]:
        yield f"the current directory was {before.get('directory')}"
