# SPDX-License-Identifier: Apache-2.0
"""The command ``cudacore-compile``."""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from cudacore_compile import __version__
from cudacore_compile._batch import CompileJob, compile_many
from cudacore_compile._batch_error import BatchError
from cudacore_compile._cache.files import FileStreamProgramCache, default_directory
from cudacore_compile._compilers.cuda_headers import cuda_include_path
from cudacore_compile._compilers.diagnostics import Diagnostic, parse_log, render
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import files_written
from cudacore_compile._fatbin import make_fatbin
from cudacore_compile._listing import list_kernels
from cudacore_handles import CUDAError, ObjectCode

_SUCCESS, _FAILURE, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_TARGETS = ("ptx", "cubin", "ltoir", "optixir", "fatbin")
_COMPILED = {".ptx": ObjectCode.from_ptx, ".cubin": ObjectCode.from_cubin}
_CACHE_BYTES = 1 << 30

_DESCRIPTION = """
Compile CUDA C++, on any machine: no GPU, no driver and no toolkit needed.

The format follows from the name of the output, or from --to. For several architectures it is a fat binary, or one file
for each, whose name has {arch}. Cubins and PTX files are taken as they are: they are listed, or go into the fat binary.
"""
_EPILOG = """
examples:
  cudacore-compile kernel.cu --arch sm_80,sm_90,sm_120 -o kernel.fatbin
  cudacore-compile kernel.cu --arch sm_90 --to ptx -I include -D TILE=16 -e 'scale<float>'
  cudacore-compile kernel.cu --arch sm_80,sm_90 -o 'build/{name}.{arch}.cubin'
  cudacore-compile kernel.cubin --list-kernels
  cudacore-compile cache

exit status: 0 when all is compiled, 1 when something is not, 2 when the command is wrong, 130 when it is interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments. Default: the process's.

    Returns
    -------
    int
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Python has None for a standard stream that was closed when it began.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        if words[:1] == ["cache"]:
            return _cache(words[1:])
        return _compile(words)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of the standard output has ended, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILURE
    except SystemExit as stop:  # argparse
        return stop.code if isinstance(stop.code, int) else _USAGE


class _WrongCommandError(Exception):
    """Say what is wrong with the arguments."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "cudacore-compile",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="CUDA C++, or .cubin and .ptx; - is C++ from the standard input")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="what to write, - to the standard output; {name} and {arch} stand for what they say",
    )
    add("--to", choices=_TARGETS, help="the format; default: by the output's name, or cubin")
    add(
        "--arch",
        action="append",
        default=[],
        metavar="LIST",
        help="architectures, such as sm_80,sm_90; compute_90 is PTX in a fat binary; default: the current device's",
    )
    add(
        "-e",
        "--name-expression",
        action="append",
        default=[],
        metavar="EXPR",
        help="a kernel or variable to ask for, such as 'scale<float>', which instantiates templates",
    )
    add("--names", metavar="FILE", help="write the lowered names of the expressions there, as JSON")
    add("-I", "--include-path", action="append", default=[], metavar="DIR", help="look for headers there")
    add("--cuda-headers", action="store_true", help="look for CUDA's own headers, too, of wheels or of a toolkit")
    add("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro")
    add("-U", "--undefine", action="append", default=[], metavar="NAME", help="undefine a macro")
    add("--include", action="append", default=[], metavar="FILE", help="include a file before the program")
    add("--std", help="the language, such as c++20")
    add("-G", "--debug", action="store_true", help="debug information, no optimization")
    add("--lineinfo", action="store_true", help="line numbers")
    add("--use-fast-math", action="store_true", help="fast, less exact mathematics")
    add("--maxrregcount", type=int, metavar="N", help="the most registers of a thread")
    add(
        "-X",
        "--option",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="any other field of ProgramOptions, such as -X ftz=true",
    )
    add("--list-kernels", action="store_true", help="say which kernels there are, and what they take and use")
    add(
        "--format",
        choices=("text", "json"),
        default="text",
        help="how diagnostics (on stderr) and kernels (on stdout) are written",
    )
    add("--color", choices=("auto", "always", "never"), default="auto", help="colours; default: on a terminal")
    add("-j", "--jobs", type=int, metavar="N", help="compilations at once; default: as many as there are cores")
    add("--cache-dir", metavar="DIR", help="where compiled code is kept; default: in the user's cache directory")
    add("--no-cache", action="store_true", help="compile anew, and keep nothing")
    add("--version", action="version", version=f"cudacore-compile {__version__}")
    return parser  # fmt: skip


def _compile(words: Sequence[str]) -> int:
    parser = _parser()
    arguments = parser.parse_args(words)
    reporter = _Reporter(arguments)
    try:
        work = _Work(arguments)
    except (_WrongCommandError, ValueError, TypeError) as error:
        parser.print_usage(sys.stderr)
        sys.stderr.write(f"cudacore-compile: error: {error}\n")
        return _USAGE
    except (OSError, CUDAError) as error:
        reporter.add_error(str(error))
        return reporter.finish()
    log = _Log()
    try:
        results = compile_many(work.jobs, cache=work.cache, max_workers=arguments.jobs, logs=log)
    except BatchError as error:
        reporter.add_log(log.text)
        for job, failure in error.errors.items():
            reporter.add_failure(failure, work.source(job))
        return reporter.finish()
    reporter.add_log(log.text)
    try:
        work.write(results)
        if arguments.list_kernels:
            _say(list_kernels(work.listed(results), as_json=arguments.format == "json"))
    except BrokenPipeError:  # nobody reads the standard output any more
        raise
    except (OSError, CUDAError, ValueError) as error:
        reporter.add_error(str(error))
    return reporter.finish()


class _Log:
    """What compilers write to."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text if text.endswith("\n") else text + "\n"


class _Work:
    """What the arguments ask for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._names_file = arguments.names
        self._output = arguments.output
        self._lists = arguments.list_kernels
        arches = [f"sm_{arch}" if arch[:1].isdigit() else arch for arch in ",".join(arguments.arch).split(",") if arch]
        if arguments.arch and not arches:
            raise _WrongCommandError("--arch names no architecture")
        sources = [file for file in arguments.files if Path(file).suffix not in _COMPILED]
        self._compiled = [(file, _read_compiled(file)) for file in arguments.files if Path(file).suffix in _COMPILED]
        self._target = arguments.to or _target_of(self._output) or ("cubin" if sources else None)
        if arguments.jobs is not None and arguments.jobs < 1:
            raise _WrongCommandError(f"-j {arguments.jobs}: at least one at a time")
        if len(set(arches)) != len(arches):
            raise _WrongCommandError("--arch has an architecture twice")
        self._check_output(sources, arches)
        options = _options(arguments)
        self.jobs: list[CompileJob] = []
        each_arch: Sequence[str | None] = arches or [None]
        self._places: list[tuple[str, str]] = []  # the source and the architecture of each job
        for file in sources:
            code = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            code = code.removeprefix(codecs.BOM_UTF8)  # which NVRTC does not take for none
            name = "stdin.cu" if file == "-" else file
            for arch in each_arch:
                target = self._target
                if target == "fatbin":
                    target = "ptx" if (arch or "").startswith("compute_") else "cubin"
                job_options = dataclasses.replace(options, arch=arch, name=name)
                self.jobs.append(CompileJob(code, job_options, target or "cubin", arguments.name_expression))
                self._places.append((file, arch or ""))
        self._outputs = self._all_outputs()
        self._check_files([*arguments.files, *arguments.include])
        self.cache = None
        if not arguments.no_cache and not files_written(options):
            try:
                self.cache = FileStreamProgramCache(arguments.cache_dir, max_size_bytes=_CACHE_BYTES)
            except OSError:
                if arguments.cache_dir is not None:
                    raise

    def _check_output(self, sources: Sequence[str], arches: Sequence[str]) -> None:
        output = self._output or ""
        if self._target == "fatbin":
            if len(sources) > 1 and "{name}" not in output and output:
                raise _WrongCommandError("a fat binary is of one source: write {name} in -o for several")
            return
        if sources and self._compiled:
            raise _WrongCommandError("cubins and PTX only go together with sources into a fat binary")
        if self._compiled and (self._output or self._target):
            raise _WrongCommandError("cubins and PTX can be listed, or combined: --to fatbin")
        if self._output and len(arches) > 1 and "{arch}" not in output:
            raise _WrongCommandError("-o is for one file: write {arch} in it, or combine all: --to fatbin")
        if self._output and len(sources) > 1 and "{name}" not in output:
            raise _WrongCommandError("-o is for one file: write {name} in it")

    def _all_outputs(self) -> list[str]:
        """Return the names of the files to write: of fat binaries one a source, of other code one a job."""
        if self._target == "fatbin":
            files = dict.fromkeys(file for file, _ in self._places) or {self._compiled[0][0]: None}
            return [self._path(file, "", "fatbin") for file in files]
        if self._compiled or (self._lists and not self._output):
            return []
        several = len({arch for _, arch in self._places}) > 1 or "{arch}" in (self._output or "")
        return [self._path(file, arch if several else "", str(self._target)) for file, arch in self._places]

    def _check_files(self, inputs: Sequence[str]) -> None:
        """Raise for files that would be written twice, or over what is read."""
        outputs = [*self._outputs, *([self._names_file] if self._names_file else [])]
        read = {os.path.realpath(file) for file in inputs if file != "-"}
        written: set[str] = set()
        for output in outputs:
            path = os.path.realpath(output)
            if path in read:
                raise _WrongCommandError(f"{output} is read, and cannot be written too: name another output")
            if path in written:
                raise _WrongCommandError(f"two outputs would have the name {output}: compile their sources one by one")
            written.add(path)

    def write(self, results: Sequence[ObjectCode]) -> None:
        """Write all files."""
        if self._target == "fatbin":
            groups: dict[str, list[ObjectCode]] = {}
            for (file, _), code in zip(self._places, results, strict=True):
                groups.setdefault(file, []).append(code)
            ready = [code for _, code in self._compiled]
            if not groups:
                groups[self._compiled[0][0]] = []
            results = [make_fatbin([*codes, *ready], name=file) for file, codes in groups.items()]
        for output, code in zip(self._outputs, results, strict=False):  # there are none if it only lists
            _write(output, code._read())
        if self._names_file:
            names = {expression: symbol for code in results for expression, symbol in code.symbol_mapping.items()}
            _write(self._names_file, json.dumps(names, indent=2).encode() + b"\n")

    def _path(self, file: str, arch: str, suffix: str) -> str:
        name = "stdin" if file == "-" else Path(file).stem
        if self._output:
            return str(self._output).replace("{name}", name).replace("{arch}", arch)
        return f"{name}.{arch}.{suffix}" if arch else f"{name}.{suffix}"

    def source(self, job: int) -> str:
        """Return the source of a job."""
        return self._places[job][0]

    def listed(self, results: Sequence[ObjectCode]) -> list[tuple[str, ObjectCode]]:
        """Return the code to list, with the files that it is of."""
        return [*((file, code) for (file, _), code in zip(self._places, results, strict=True)), *self._compiled]


class _Reporter:
    """Says what is wrong, and with what status the command ends."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._json = arguments.format == "json"
        self._stream: TextIO = sys.stderr
        wanted = self._stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._colour = {"auto": wanted, "always": True, "never": False}[arguments.color]
        self._found: dict[Diagnostic, None] = {}

    def add_log(self, log: str) -> None:
        self._found.update(dict.fromkeys(parse_log(log)))

    def add_error(self, message: str, hint: str = "") -> None:
        self._found[Diagnostic("error", message, notes=(hint,) if hint else ())] = None

    def add_failure(self, failure: Exception, file: str) -> None:
        """Say why a compilation failed, in the compiler's own words if it had any."""
        log = getattr(failure, "log", "")
        known = parse_log(log)
        if not any(one.severity == "error" for one in known):
            self.add_error(f"{file}: {failure}")
            return
        hint = getattr(failure, "hint", "")
        if hint:
            self._found[Diagnostic("remark", hint)] = None

    def finish(self) -> int:
        """Write it all; return the exit status."""
        if self._json:
            print(json.dumps([dataclasses.asdict(one) for one in self._found]), file=self._stream)
        else:
            texts: dict[str, str | None] = {}
            for one in self._found:
                if one.file not in texts:
                    texts[one.file] = _text_of(one.file)
                print(render(one, colour=self._colour, text=texts[one.file]), file=self._stream)
        return _FAILURE if any(one.severity == "error" for one in self._found) else _SUCCESS


def _options(arguments: argparse.Namespace) -> ProgramOptions:
    fields: dict[str, Any] = {
        "include_path": [*arguments.include_path, *(cuda_include_path() if arguments.cuda_headers else ())] or None,
        "define_macro": arguments.define or None,
        "undefine_macro": arguments.undefine or None,
        "pre_include": arguments.include or None,
        "std": arguments.std,
        "debug": arguments.debug or None,
        "lineinfo": arguments.lineinfo or None,
        "use_fast_math": arguments.use_fast_math or None,
        "max_register_count": arguments.maxrregcount,
    }
    known = {field.name: str(field.type) for field in dataclasses.fields(ProgramOptions)}
    for word in arguments.option:
        field, equals, value = word.partition("=")
        field = field.strip().replace("-", "_")
        if field not in known or field in ("name", "arch") or not equals:
            raise _WrongCommandError(f"-X {word}: write FIELD=VALUE, with a field of ProgramOptions")
        number = _value(value, known[field])
        if fields.get(field) is None or not {"list", "_Paths"} & set(re.findall(r"\w+", known[field])):
            fields[field] = number
        else:  # given again
            before = fields[field]
            fields[field] = [*(before if isinstance(before, list) else [before]), number]
    return ProgramOptions(**fields)


def _value(text: str, types: str) -> bool | int | str:
    if "bool" in types and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "int" in types:
        try:
            return int(text)
        except ValueError:
            pass
    return text


def _target_of(output: str | None) -> str | None:
    suffix = Path(output or "").suffix.lstrip(".")
    if not output or suffix in _TARGETS:
        return suffix or None
    raise _WrongCommandError(f"-o {output}: a name that ends in .{', .'.join(_TARGETS)}, or --to, says the format")


def _read_compiled(file: str) -> ObjectCode:
    return _COMPILED[Path(file).suffix](Path(file).read_bytes(), name=file)


def _text_of(file: str) -> str | None:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace") if file else None
    except OSError:
        return None


def _write(file: str, content: bytes) -> None:
    """Write a file whole, or not at all; into devices, pipes and links, as they are."""
    path = Path(file)
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _say(text: str) -> None:
    """Write to the standard output at once, because an error at the exit of Python could not be handled."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _cache(words: Sequence[str]) -> int:
    """Run ``cudacore-compile cache``."""
    parser = argparse.ArgumentParser(
        "cudacore-compile cache",
        description="Look at the compiled code that is kept, or remove it.",
        allow_abbrev=False,
    )
    parser.add_argument("action", nargs="?", choices=("show", "clear", "path"), default="show")
    parser.add_argument("--cache-dir", metavar="DIR", help="the directory; default: in the user's cache directory")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how it is written")
    arguments = parser.parse_args(words)
    if arguments.action == "path":
        _say(f"{arguments.cache_dir or default_directory()}\n")
        return _SUCCESS
    try:
        cache = FileStreamProgramCache(arguments.cache_dir)
        entries, size = len(cache), cache.size_bytes
        if arguments.action == "clear":
            cache.clear()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cudacore-compile: error: {error}\n")
        return _FAILURE
    if arguments.format == "json":
        cleared = arguments.action == "clear"
        facts = {"path": str(cache.directory), "entries": entries, "bytes": size, "cleared": cleared}
        _say(json.dumps(facts) + "\n")
        return _SUCCESS
    verb = "removed from" if arguments.action == "clear" else "in"
    noun = "entry" if entries == 1 else "entries"
    _say(f"{entries} {noun}, {size / 1e6:.1f} MB, {verb} {cache.directory}\n")
    return _SUCCESS
