# SPDX-License-Identifier: Apache-2.0
"""The plan of a command: the code to compile, to link and to write."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from cudacore_compile import UncacheableError
from cudacore_compile._batch import compile_many
from cudacore_compile._batch_error import BatchError
from cudacore_compile._cache.files import FileStreamProgramCache
from cudacore_compile._command.architectures import resolve
from cudacore_compile._command.arguments import TARGETS, program_options
from cudacore_compile._command.depfile import make_rule, quote
from cudacore_compile._command.embed import SUFFIXES, symbol_of, write_embedded
from cudacore_compile._command.errors import UsageError
from cudacore_compile._command.files import write
from cudacore_compile._command.inputs import Input, read
from cudacore_compile._command.link import link, make_linker, no_cache
from cudacore_compile._command.report import Report
from cudacore_compile._compilers.options import ProgramOptions, options_of
from cudacore_compile._compilers.request import files_written
from cudacore_compile._fatbin import make_fatbin
from cudacore_compile._job import CompileJob
from cudacore_compile._linker import Linker
from cudacore_compile._program import Program
from cudacore_compile.typing import ObjectCodeFormatType, SourceCodeType
from cudacore_handles import ObjectCode

_CACHE_BYTES = 1 << 30
_LINKS = ("ltoir", "object", "library")  # types of input that can only be linked
# Options for the assembler or the linker, which process the output of libNVVM.
_BEHIND_NVVM = {"ptxas_options", "max_register_count", "lineinfo"}
_COMBINES = ("cubin", "ptx", "ltoir")  # types that can also go into a fat binary


class _Unit(NamedTuple):
    """A source to compile for an architecture."""

    source: Input
    arch: str | None
    target: str
    options_arch: str | None  # the architecture in the options of its compilation
    is_assembled: bool  # whether it is compiled to PTX first, because the compiler cannot make the cubin


class Link(NamedTuple):
    """Code to link: its name, its architecture, and the positions of the units that are its parts."""

    name: str
    arch: str | None
    units: list[int]


class _Output(NamedTuple):
    """A file to write."""

    path: str
    inputs: list[Input]
    arches: list[str | None]


class Plan:
    """The work of one command.

    Parameters
    ----------
    arguments : argparse.Namespace
        The arguments.

    Raises
    ------
    UsageError
        For arguments that contradict each other or the files.
    OSError
        For files that cannot be read.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._output: str = arguments.output or ""
        self._inputs = [read(file, arguments.language) for file in arguments.files]
        only_lists = arguments.list_kernels and not (arguments.output or arguments.to or arguments.embed)
        if arguments.compile and not (arguments.to or arguments.embed or _suffix(self._output) in TARGETS):
            raise UsageError(
                "-c, -dc and -dw stand for objects of the host with nvcc: write -cubin, -ptx or -fatbin for code of "
                "the device, or --embed obj for an object that contains it"
            )
        only_embeds = arguments.embed and not (arguments.to or arguments.link) and len(self._inputs) == 1
        self._as_it_is = bool(only_embeds and self._inputs[0].kind in (*_COMBINES, "fatbin"))
        default = self._inputs[0].kind if self._as_it_is else "fatbin" if arguments.embed else None
        self._target = arguments.to or default or _target_of(self._output)
        combines = self._target == "fatbin"
        kinds = {one.kind for one in self._inputs}
        links_lto = arguments.lto and self._target not in (None, "ltoir")
        self._links = arguments.link or links_lto or (not combines and bool(kinds & set(_LINKS)))
        as_they_are = {"ptx"} if combines or only_lists or self._links or self._as_it_is else set()
        self._sources = [one for one in self._inputs if one.is_source and one.kind not in as_they_are]
        self._ready = [one for one in self._inputs if one not in self._sources]
        if self._target is None and (self._sources or self._links):
            self._target = "ltoir" if arguments.lto and not self._links else "cubin"
        is_needed = (bool(self._sources) or self._links) and not arguments.only_rule
        numbers = resolve(arguments, self._target, combines=combines and not self._links, needed=is_needed)
        self._arches = list(numbers)
        self._check()
        self._options = program_options(arguments)
        self._units = [self._unit(source, arch, number) for source in self._sources for arch, number in numbers.items()]
        self._jobs = [self._job(unit) for unit in self._units]
        self._outputs = [] if only_lists and not self._links else self._all_outputs()
        self.links = self._all_links()
        self.linkers: list[Linker] = []  # empty until everything is compiled
        self._linked: dict[str | None, ObjectCode] = {}
        self._check_files()
        for output in self._outputs if arguments.embed else ():
            self._symbol(output)
        self.cache: FileStreamProgramCache | None = None
        if not arguments.no_cache and not files_written(self._options):
            try:
                self.cache = FileStreamProgramCache(arguments.cache_dir, max_size_bytes=_CACHE_BYTES)
            except OSError:
                if arguments.cache_dir is not None:
                    raise

    def _check(self) -> None:
        """Raise if the arguments do not determine the outputs."""
        if self._as_it_is:
            return
        if self._target == "fatbin":
            wrong = [one.file for one in self._ready if not self._links and one.kind not in _COMBINES]
            if wrong:
                raise UsageError(f"{wrong[0]} cannot go into a fat binary: cubins, PTX and LTO-IR can")
            if not self._links and len(self._sources) > 1 and "{name}" not in self._output and self._output:
                raise UsageError("a fat binary is made of one source: write {name} in -o for several, or --link them")
            return
        if not self._links:
            if self._sources and self._ready:
                raise UsageError(
                    f"{self._ready[0].file} is compiled: --link it with the sources, or combine all: --to fatbin"
                )
            if self._ready and (self._output or self._target):
                raise UsageError("compiled code can be listed, linked (--link) or combined (--to fatbin)")
        if self._output and len(self._arches) > 1 and "{arch}" not in self._output:
            raise UsageError("-o is for one file: write {arch} in it, or combine all: --to fatbin")
        if self._output and len(self._sources) > 1 and "{name}" not in self._output and not self._links:
            raise UsageError("-o is for one file: write {name} in it, or --link the sources")

    def _unit(self, source: Input, arch: str | None, number: str | None) -> _Unit:
        """Return the compilation of a source for an architecture.

        The source is compiled for the architecture with this number, which differs with ``-gencode
        arch=compute_80,code=sm_90``.
        """
        kind, _, code_number = (arch or "").rpartition("_")
        is_other = code_number != (number or "") and source.kind != "ptx"
        options_arch = f"compute_{number}" if is_other else f"sm_{number}" if kind == "lto" else arch
        if self._links and (self._arguments.lto or self._target in ("ltoir", "ptx")):
            target = "ltoir"
        elif self._links:
            target = "ptx" if is_other or source.kind == "nvvm" else "cubin"
        elif self._target == "fatbin":
            target = {"compute": "ptx", "lto": "ltoir"}.get(kind, "cubin")
        else:
            target = str(self._target)
        is_assembled = target == "cubin" and (is_other or source.kind == "nvvm")
        if is_assembled and is_other and self._options.relocatable_device_code:
            raise UsageError(f"-gencode: relocatable code of compute_{number} for {arch} can only be linked (--link)")
        return _Unit(source, arch, target, options_arch, is_assembled)

    def _job(self, unit: _Unit) -> CompileJob:
        options = dataclasses.replace(self._options, arch=unit.options_arch, name=unit.source.program_name)
        if options.no_cache is None:
            options = dataclasses.replace(options, no_cache=no_cache(unit.source.kind))
        if unit.source.kind != "c++":
            options = self._options_of(unit, options)
        elif unit.is_assembled:
            options = dataclasses.replace(options, ptxas_options=None)
        elif self._links and unit.target != "ltoir" and options.relocatable_device_code is None:
            options = dataclasses.replace(options, relocatable_device_code=True)
        names = [name for name in self._arguments.name_expression if self._is_asked(unit.source, name)]
        target = "ptx" if unit.is_assembled else unit.target
        kind = SourceCodeType(unit.source.kind)
        return CompileJob(unit.source.content, options, ObjectCodeFormatType(target), names, kind)

    def _is_asked(self, source: Input, expression: str) -> bool:
        """Return whether a source is to be compiled with a name expression.

        If there are several C++ sources, only those that contain the last word of the name are, or else all of them.
        """
        sources = [one for one in self._sources if one.kind == "c++"]
        words = re.findall(r"\w+", expression.partition("<")[0])
        if len(sources) > 1 and words:
            word = re.compile(rb"\b%s\b" % words[-1].encode())
            sources = [one for one in sources if word.search(one.content)] or sources
        return source in sources

    def _options_of(self, unit: _Unit, options: ProgramOptions) -> ProgramOptions:
        """Return the options for compiling this source, without those for the assembler or linker after libNVVM."""
        others = {one.kind for one in self._sources} - {unit.source.kind}
        dropped = _BEHIND_NVVM if unit.source.kind == "nvvm" and unit.target != "ptx" else set()
        if others:
            dropped = {field.name for field in dataclasses.fields(options)} - options_of(unit.source.kind)
        return dataclasses.replace(options, **dict.fromkeys(dropped))

    def _all_outputs(self) -> list[_Output]:
        """Return the files to write: a fat binary for each source, or linked code for each architecture."""
        target, arches = str(self._target), self._arches
        if self._as_it_is:
            return [_Output(self._path(self._inputs[0].stem, "", target), self._inputs, [])]
        if self._links:
            if target == "fatbin":
                return [_Output(self._path("linked", "", target), self._inputs, arches)]
            several = len(arches) > 1
            return [_Output(self._path("linked", arch or "", target, several), self._inputs, [arch]) for arch in arches]
        if target == "fatbin":
            return [
                _Output(self._path(source.stem, "", target), [source, *self._ready], arches)
                for source in self._sources or self._ready[:1]
            ]
        several = len(arches) > 1
        return [
            _Output(self._path(unit.source.stem, unit.arch or "", target, several), [unit.source], [unit.arch])
            for unit in self._units
        ]

    def _path(self, name: str, arch: str, suffix: str, several: bool = False) -> str:
        if self._output:
            return self._output.replace("{name}", name).replace("{arch}", arch)
        suffix = SUFFIXES.get(self._arguments.embed, suffix)
        file = f"{name}.{arch}.{suffix}" if several else f"{name}.{suffix}"
        return os.path.join(self._arguments.output_directory or "", file)

    def _check_files(self) -> None:
        """Raise if a file would be written twice, or an input would be overwritten."""
        outputs = [one.path for one in self._outputs]
        if self._arguments.names:
            outputs.append(self._arguments.names)
        if self._writes_rules:
            outputs += [path for path, _ in self._rules()]
        read_files = {
            os.path.realpath(file) for file in (*self._arguments.files, *self._arguments.include) if file != "-"
        }
        written: set[str] = set()
        for output in outputs:
            path = os.path.realpath(output)
            if output == "-":
                continue
            if path in read_files:
                raise UsageError(f"{output} is read, and cannot be written too: name another output")
            if path in written:
                raise UsageError(f"two outputs would have the name {output}: compile their sources one by one")
            written.add(path)

    @property
    def jobs(self) -> list[tuple[str, CompileJob]]:
        """list of (str, CompileJob): The jobs that compile the sources, each with the name of its source."""
        return [(unit.source.file, job) for unit, job in zip(self._units, self._jobs, strict=True)]

    def _all_links(self) -> list[Link]:
        """Return what is linked: all code for an architecture, or PTX because its compiler cannot make the cubin."""
        units = list(enumerate(self._units))
        if not self._links:
            return [Link(unit.source.file, unit.arch, [at]) for at, unit in units if unit.is_assembled]
        name = self._outputs[0].path
        return [Link(name, arch, [at for at, unit in units if unit.arch == arch]) for arch in self._arches]

    def compile(self, report: Report) -> list[ObjectCode]:
        """Compile and link. Failures are added to the report."""
        lines: list[str] = []
        try:
            log = SimpleNamespace(write=lines.append)
            jobs = self._arguments.jobs or None
            results = compile_many(self._jobs, cache=self.cache, max_workers=jobs, logs=log)
        except BatchError as error:
            for job, failure in error.errors.items():
                report.add_failure(failure, self._units[job].source.file)
            return []
        finally:
            report.add_log("\n".join(lines))
        if not self.links or report.status:
            return results
        self.linkers = self.make_linkers(results)
        names = [one.name for one in self.links]
        linked = link(list(zip(names, self.linkers, strict=True)), self.link_target, cache=self.cache, report=report)
        if self._links:
            self._linked = dict(zip(self._arches, linked, strict=False))
        else:
            for one, code in zip(self.links, linked, strict=False):
                results[one.units[0]] = code
        return results

    def make_linkers(self, results: Sequence[ObjectCode]) -> list[Linker]:
        """Return the linkers of the compiled code, one for each of `links`."""
        ready = [_object_code(one) for one in self._ready] if self._links else []
        options = self._options
        if options.fma is False and not self._links:  # the assembler fuses operations, too
            options = dataclasses.replace(options, ptxas_options=[*(options.ptxas_options or ()), "-fmad=false"])
        return [
            make_linker(
                [*(results[at] for at in one.units), *ready],
                options,
                name=one.name,
                arch=one.arch,
                lto=bool(self._links and self._arguments.lto),
            )
            for one in self.links
        ]

    @property
    def link_target(self) -> str:
        """str: The format to link to."""
        return "cubin" if self._target == "fatbin" else str(self._target)

    def write(self, results: Sequence[ObjectCode], report: Report) -> None:
        """Write all files."""
        codes = [self._code_of(output, results) for output in self._outputs]
        # The code is written last: if the command is killed before that, a build system makes all outputs again.
        if self._writes_rules:
            self.write_rules(report)
        if self._arguments.names:
            found = {expression: symbol for code in results for expression, symbol in code.symbol_mapping.items()}
            write(self._arguments.names, json.dumps(found, indent=2).encode() + b"\n")
        form = self._arguments.embed
        for output, code in zip(self._outputs, codes, strict=True):
            if form:
                write_embedded(form, self._symbol(output), output.path, code._read(), str(self._target))
            else:
                write(output.path, code._read())

    def _symbol(self, output: _Output) -> str:
        """Return the name of the variable that contains embedded code."""
        if self._arguments.symbol and len(self._outputs) > 1:
            raise UsageError("--symbol is for one file: without it, the variables have the names of the files")
        return symbol_of(self._arguments.symbol, output.path)

    def _code_of(self, output: _Output, results: Sequence[ObjectCode]) -> ObjectCode:
        if self._as_it_is:
            return _object_code(output.inputs[0])
        if self._links:
            linked = [self._linked[arch] for arch in output.arches]
            return make_fatbin(linked, name=output.path) if self._target == "fatbin" else linked[0]
        codes = [
            code
            for unit, code in zip(self._units, results, strict=True)
            if unit.source in output.inputs and unit.arch in output.arches
        ]
        if self._target != "fatbin":
            return codes[0]
        return make_fatbin([*codes, *map(_object_code, self._ready)], name=output.inputs[0].file)

    def listed(self, results: Sequence[ObjectCode]) -> list[tuple[str, ObjectCode]]:
        """Return the code to list, each with the name of its file."""
        if self._links:
            return [(output.path, self._linked[arch]) for output in self._outputs for arch in output.arches]
        compiled = [(unit.source.file, code) for unit, code in zip(self._units, results, strict=True)]
        return [*compiled, *((one.file, _object_code(one)) for one in self._ready)]

    @property
    def _writes_rules(self) -> bool:
        arguments = self._arguments
        return bool(arguments.write_rule or arguments.rule_file or arguments.only_rule)

    def _rules(self) -> list[tuple[str, list[_Output]]]:
        """Return the dependency files, each with its outputs."""
        if self._arguments.rule_file or self._arguments.only_rule:
            return [(self._arguments.rule_file or "-", self._outputs)]
        if "-" in (output.path for output in self._outputs):
            raise UsageError("-MD names the rule's file after the output, which has no name: use -MF FILE")
        return [(str(Path(output.path).with_suffix(".d")), [output]) for output in self._outputs]

    def write_rules(self, report: Report) -> None:
        """Write the dependency files."""
        arguments = self._arguments
        closures = {one.file: self._dependencies(one, report) for one in self._inputs if one.file != "-"}
        for path, outputs in self._rules():
            targets = [*arguments.rule_targets, *map(quote, arguments.quoted_targets)]
            targets = targets or [quote(output.path) for output in outputs]
            files = dict.fromkeys(one.file for output in outputs for one in output.inputs if one.file != "-")
            known = [closures[file] for file in files]
            names = [*files, *(name for names, _ in known for name in names)]
            is_complete = all(complete for _, complete in known)
            text = make_rule(targets, names, phony=arguments.phony_rules, is_complete=is_complete)
            write(path, text.encode("utf-8", "surrogateescape"))

    def _dependencies(self, one: Input, report: Report) -> tuple[Sequence[str], bool]:
        """Return the files that a source may include, and whether these are all."""
        if one.kind != "c++":
            return (), True
        options = dataclasses.replace(self._options, name=one.program_name)
        try:
            return Program(one.content, "c++", options).dependencies(), True
        except UncacheableError as error:
            report.add_warning(f"{one.file}: {error}; the rule therefore has it built each time")
            return error.files, False


def make_plan(arguments: argparse.Namespace) -> Plan:
    """Make a plan; for options with invalid values, raise a UsageError, too."""
    try:
        return Plan(arguments)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def _object_code(one: Input) -> ObjectCode:
    return ObjectCode._init(one.content, one.kind, name=one.file)


def _suffix(output: str) -> str:
    return Path(output).suffix.lstrip(".")


def _target_of(output: str) -> str | None:
    suffix = _suffix(output)
    if not output or suffix in TARGETS:
        return suffix or None
    raise UsageError(f"-o {output}: the output format is unknown: end the name in .{', .'.join(TARGETS)}, or use --to")
