# SPDX-License-Identifier: Apache-2.0
"""The command line: its options, including nvcc's spellings, and the program options for them."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from cudacore_compile import __version__
from cudacore_compile._command.embed import SUFFIXES
from cudacore_compile._command.errors import UsageError
from cudacore_compile._command.inputs import LANGUAGES
from cudacore_compile._command.nvcc import ROWS, expand, translate
from cudacore_compile._compilers.cuda_headers import cuda_include_path
from cudacore_compile._compilers.options import ProgramOptions

TARGETS = ("ptx", "cubin", "ltoir", "optixir", "fatbin")

_DESCRIPTION = """
Compile and link code for GPUs, on any machine: no GPU, no driver and no toolkit needed.

The format follows from the name of the output, or from --to. For several architectures the output is a fat binary, or
one file for each, whose name contains {arch}. What a file contains follows from its suffix and its content: CUDA C++,
PTX, NVVM IR, cubins, LTO-IR, fat binaries, and objects and libraries of the host that contain device code.
"""
_EPILOG = """
examples:
  cudacore-compile kernel.cu --arch sm_80,sm_90,sm_120 -o kernel.fatbin
  cudacore-compile kernel.cu --arch sm_90 --to ptx -I include -D TILE=16 -e 'scale<float>'
  cudacore-compile kernel.cu -arch=sm_90 -std=c++20 -MD -o build/kernel.cubin
  cudacore-compile a.cu b.cu c.ltoir --link --arch sm_90 -o all.cubin
  cudacore-compile kernel.cu --arch all-major -o 'build/{name}.{arch}.cubin'
  cudacore-compile kernel.cubin --list-kernels

exit status: 0 when all is compiled, 1 when something is not, 2 when the command is wrong, 130 when it is interrupted
"""
_LANGUAGES = {"cu": "c++", "cuda": "c++"}  # the names that nvcc and clang have for CUDA C++


class Parser(argparse.ArgumentParser):
    """A parser that raises :class:`UsageError`."""

    def error(self, message: str) -> NoReturn:
        """Raise for arguments that cannot be parsed."""
        raise UsageError(message, self.format_usage())


def make_parser() -> Parser:
    """Return the parser of the main command."""
    parser = Parser(
        "cudacore-compile",
        usage="%(prog)s [OPTION ...] FILE ...\n       %(prog)s cache --help\n       %(prog)s compilers --help",
        description=_DESCRIPTION,
        epilog=_EPILOG + "\noptions of nvcc that mean the same here; the documentation lists all:\n" + _names_of_nvcc(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_inputs_and_outputs(parser.add_argument_group("inputs and outputs"))
    _add_compilation(parser.add_argument_group("compilation"))
    _add_linking(parser.add_argument_group("linking"))
    _add_dependencies(parser.add_argument_group("dependency files, for Make and Ninja"))
    _add_reports(parser.add_argument_group("reports"))
    _add_execution(parser.add_argument_group("execution"))
    parser.add_argument("--version", action="version", version=f"cudacore-compile {__version__}")
    return parser


def _names_of_nvcc() -> str:
    names = sorted({name for name, row in ROWS.items() if row.action in ("same", "option") and name[:2] != "--"})
    return textwrap.fill(" ".join(names), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _adder_of_lists(group: argparse._ArgumentGroup) -> Callable[..., argparse.Action]:
    """Return a function that adds an option that can be given several times."""

    def add(*names: str, **details: Any) -> argparse.Action:
        return group.add_argument(*names, action="append", default=[], **details)

    return add


def _add_inputs_and_outputs(group: argparse._ArgumentGroup) -> None:
    add, many = group.add_argument, _adder_of_lists(group)
    add("files", nargs="+", metavar="FILE", help="source or compiled code; - is source from the standard input")
    add(
        "-x",
        "--language",
        type=lambda name: _LANGUAGES.get(name, name),
        choices=LANGUAGES,
        help="what all files contain; default: by their suffixes and contents",
    )
    add(
        "-o",
        "--output-file",
        "--output",
        dest="output",
        metavar="FILE",
        help="what to write, - to the standard output; {name} and {arch} are replaced by the source's name and the "
        "architecture",
    )
    add("--output-directory", "-odir", metavar="DIR", help="where to write it, if -o does not name the file")
    add("--to", choices=TARGETS, help="the format; default: by the output's name, or cubin")
    for target in TARGETS:
        name = {"optixir": "optix-ir"}.get(target, target)
        add(f"--{name}", dest="to", action="store_const", const=target, help=argparse.SUPPRESS)
    add(
        "--embed",
        choices=tuple(SUFFIXES),
        help="write the code as a C array, as an assembly source that includes its file, or as an object; default "
        "format: a fat binary, or what a file already contains",
    )
    add("--symbol", metavar="NAME", help="the C variable of embedded code; NAME_size is its size")
    add("--compile", action="store_true", help=argparse.SUPPRESS)
    many(
        "--arch",
        metavar="LIST",
        help="architectures, such as sm_80,sm_90; compute_90 is PTX in a fat binary; all and all-major are what the "
        "compiler has, with PTX for the newest in a fat binary; native is this machine's; default: the current device",
    )
    add("-arch", "--gpu-architecture", metavar="ARCH", help="as nvcc: sm_90 also stands for PTX in a fat binary")
    many("--gpu-code", metavar="CODE", help=argparse.SUPPRESS)
    many("--generate-code", metavar="SPEC", help=argparse.SUPPRESS)


def _add_compilation(group: argparse._ArgumentGroup) -> None:
    add, many = group.add_argument, _adder_of_lists(group)
    many(
        "-e",
        "--name-expression",
        metavar="EXPR",
        help="a kernel or variable whose lowered name is requested, such as 'scale<float>', which instantiates "
        "templates",
    )
    add("--names", metavar="FILE", help="write the lowered names of the expressions there, as JSON")
    many("-I", "--include-path", metavar="DIR", help="look for headers there")
    many("-isystem", "--system-include", metavar="DIR", help="look there later, and without warnings about its headers")
    add("--cuda-headers", action="store_true", help="look for CUDA's own headers, too, of wheels or of a toolkit")
    for letter, verb in ("D", "define"), ("U", "undefine"):
        many(
            f"-{letter}",
            f"--{verb}-macro",
            f"--{verb}",
            dest="macros",
            type=f"-{letter}{{}}".format,
            metavar="NAME[=VALUE]" if letter == "D" else "NAME",
            help=f"{verb} a macro",
        )
    many(
        "-include",
        "--pre-include",
        "--include",
        dest="include",
        metavar="FILE",
        help="include a file before the program",
    )
    add(
        "--warnings-as-errors",
        action="store_true",
        help="fail, and write nothing, if there is a warning",
    )
    many("-X", "--option", metavar="FIELD=VALUE", help="any field of ProgramOptions, such as -X minimal=true")
    many(
        "--raw",
        "-Xnvrtc",
        metavar="OPTION",
        help="an option of the compiler that ProgramOptions has no field for, such as --raw --fmax-errors=3",
    )


def _add_linking(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--link",
        action="store_true",
        help="link all files to one for each architecture; implied by LTO-IR, objects and libraries",
    )
    add(
        "-dlto",
        "--dlink-time-opt",
        dest="lto",
        action="store_true",
        help="compile to LTO-IR, and optimize when it is linked",
    )


def _add_dependencies(group: argparse._ArgumentGroup) -> None:
    add, many = group.add_argument, _adder_of_lists(group)
    add(
        "-M",
        "--generate-dependencies",
        dest="only_rule",
        action="store_true",
        help="compile nothing, and write the rule only, to -MF or -o or the standard output",
    )
    add(
        "-MD",
        "--generate-dependencies-with-compile",
        dest="write_rule",
        action="store_true",
        help="write a rule with all files that are read",
    )
    add(
        "-MF",
        "--dependency-output",
        dest="rule_file",
        metavar="FILE",
        help="where to; default: the output's name with .d",
    )
    many(
        "-MT",
        "--dependency-target-name",
        dest="rule_targets",
        metavar="TARGET",
        help="the target, as it is written",
    )
    many("-MQ", dest="quoted_targets", metavar="TARGET", help="likewise, quoted for Make")
    add(
        "-MP",
        "--generate-dependency-targets",
        dest="phony_rules",
        action="store_true",
        help="add an empty rule for each header, which may be removed",
    )


def _add_reports(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--list-kernels", action="store_true", help="list the kernels with their parameters and resources")
    add(
        "-v",
        "--resource-usage",
        dest="resources",
        action="store_true",
        help="have the assembler report the registers and memory of each kernel, and what it spills",
    )
    add(
        "--format",
        choices=("text", "json"),
        default="text",
        help="how diagnostics (on stderr) and kernels (on stdout) are written",
    )
    add("--color", choices=("auto", "always", "never"), default="auto", help="colours; default: on a terminal")


def _add_execution(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-j",
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="compilations at once; default, and 0: as many as there are cores",
    )
    add("--cache-dir", metavar="DIR", help="where compiled code is kept; default: in the user's cache directory")
    add("--no-cache", action="store_true", help="compile anew, and keep nothing")


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of the main command."""
    own = {name: action.nargs != 0 for name, action in parser._option_string_actions.items()}
    arguments = parser.parse_args(translate(expand(words), own))
    if arguments.jobs < 0:
        raise UsageError(f"-j {arguments.jobs}: must not be negative")
    if arguments.only_rule and not arguments.rule_file:  # as with nvcc, -o names the rule's file then
        arguments.rule_file, arguments.output = arguments.output or "-", None
    return arguments


def wants_json(words: Iterable[str]) -> bool:
    """Return whether messages are to be JSON, even if the arguments are invalid."""
    previous = ""
    for word in words:
        if word == "--format=json" or (previous, word) == ("--format", "json"):
            return True
        previous = word
    return False


def program_options(arguments: argparse.Namespace) -> ProgramOptions:
    """Return the options of the compilations, without a name and an architecture."""
    system = arguments.system_include
    places = {os.path.realpath(directory) for directory in system}
    includes = [directory for directory in arguments.include_path if os.path.realpath(directory) not in places]
    defined, undefined = _macros(arguments.macros)
    fields: dict[str, Any] = {
        "include_path": [*includes, *(cuda_include_path() if arguments.cuda_headers else ()), *system] or None,
        "define_macro": defined or None,
        "undefine_macro": undefined or None,
        "pre_include": arguments.include or None,
        "raw_options": arguments.raw or None,
    }
    types = {field.name: set(re.findall(r"\w+", str(field.type))) for field in dataclasses.fields(ProgramOptions)}
    if arguments.resources and "ptxas_options=-v" not in arguments.option:
        arguments.option.append("ptxas_options=-v")
    for word in arguments.option:
        field, equals, text = word.partition("=")
        field = field.strip().replace("-", "_")
        if field not in types or field in ("name", "arch") or not equals:
            raise UsageError(f"-X {word}: write FIELD=VALUE, with a field of ProgramOptions")
        value = _value(field, text, types[field])
        is_list = bool({"list", "Sequence"} & types[field])
        fields[field] = [*(fields.get(field) or []), value] if is_list else value
    return ProgramOptions(**fields)


def _macros(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the macros to define and those to undefine. Of the options for one macro, the last one decides."""
    last = {_name(word): word for word in given}
    undefined = [word[2:] for word in last.values() if word[1] == "U"]
    return [word[2:] for word in given if word[1] == "D" and _name(word) not in undefined], undefined


def _name(word: str) -> str:
    """Return the name of the macro in ``-DNAME=VALUE``, ``-DNAME(X)=VALUE`` or ``-UNAME``."""
    return re.split(r"[=(]", word[2:])[0].strip()


_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _value(field: str, text: str, types: set[str]) -> bool | int | str:
    if "bool" in types and text.lower() in _BOOLS and not ("int" in types and text.isdigit()):
        return _BOOLS[text.lower()]
    if "int" in types:
        try:
            return int(text)
        except ValueError:
            pass
    if types <= {"bool", "None"}:
        raise UsageError(f"{field}={text}: write true or false")
    return text
