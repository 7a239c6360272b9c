# SPDX-License-Identifier: Apache-2.0
"""The command line: its options, including nvcc's spellings, and the program options for them."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
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
# The options by groups: their names, the value (with "..." if there can be several), and the help.
_OPTIONS = """
inputs and outputs:
files FILE  source or compiled code; - is source from the standard input
-x --language  what all files contain; default: by their suffixes and contents
-o --output-file --output FILE  what to write, - to the standard output; {name} and {arch} are replaced by the \
source's name and the architecture
--output-directory -odir DIR  where to write it, if -o does not name the file
--to  the format; default: by the output's name, or cubin
--embed  write the code as a C array, as an assembly source that includes its file, or as an object; default \
format: a fat binary, or what a file already contains
--symbol NAME  the C variable of embedded code; NAME_size is its size
--compile
--arch LIST...  architectures, such as sm_80,sm_90; compute_90 is PTX in a fat binary; all and all-major are what the \
compiler has, with PTX for the newest in a fat binary; native is this machine's; default: the current device
-arch --gpu-architecture ARCH  as nvcc: sm_90 also stands for PTX in a fat binary
--gpu-code CODE...
--generate-code SPEC...

compilation:
-e --name-expression EXPR...  a kernel or variable whose lowered name is requested, such as 'scale<float>', which \
instantiates templates
--names FILE  write the lowered names of the expressions there, as JSON
-I --include-path DIR...  look for headers there
-isystem --system-include DIR...  look there later, and without warnings about its headers
--cuda-headers  look for CUDA's own headers, too, of wheels or of a toolkit
-D --define-macro --define NAME[=VALUE]...  define a macro
-U --undefine-macro --undefine NAME...  undefine a macro
-include --pre-include --include FILE...  include a file before the program
--warnings-as-errors  fail, and write nothing, if there is a warning
-X --option FIELD=VALUE...  any field of ProgramOptions, such as -X minimal=true
--raw -Xnvrtc OPTION...  an option of the compiler that ProgramOptions has no field for, such as --raw --fmax-errors=3

linking:
--link  link all files to one for each architecture; implied by LTO-IR, objects and libraries
-dlto --dlink-time-opt  compile to LTO-IR, and optimize when it is linked

dependency files, for Make and Ninja:
-M --generate-dependencies  compile nothing, and write the rule only, to -MF or -o or the standard output
-MD --generate-dependencies-with-compile  write a rule with all files that are read
-MF --dependency-output FILE  where to; default: the output's name with .d
-MT --dependency-target-name TARGET...  the target, as it is written
-MQ TARGET...  likewise, quoted for Make
-MP --generate-dependency-targets  add an empty rule for each header, which may be removed

reports:
--list-kernels  list the kernels with their parameters and resources
-v --resource-usage  have the assembler report the registers and memory of each kernel, and what it spills
--format  how diagnostics (on stderr) and kernels (on stdout) are written
--color  colours; default: on a terminal

execution:
-j --jobs N  compilations at once; default, and 0: as many as there are cores
--cache-dir DIR  where compiled code is kept; default: in the user's cache directory
--no-cache  compile anew, and keep nothing
"""
_LANGUAGES = {"cu": "c++", "cuda": "c++"}  # the names that nvcc and clang have for CUDA C++
# What else the options have, by their last names.
_DETAILS: dict[str, dict[str, Any]] = {
    "files": {"nargs": "+"},
    "--language": {"type": lambda name: _LANGUAGES.get(name, name), "choices": LANGUAGES},
    "--output": {"dest": "output"},
    "--to": {"choices": TARGETS},
    "--embed": {"choices": tuple(SUFFIXES)},
    "--define": {"dest": "macros", "type": "-D{}".format},
    "--undefine": {"dest": "macros", "type": "-U{}".format},
    "--include": {"dest": "include"},
    "--dlink-time-opt": {"dest": "lto"},
    "--generate-dependencies": {"dest": "only_rule"},
    "--generate-dependencies-with-compile": {"dest": "write_rule"},
    "--dependency-output": {"dest": "rule_file"},
    "--dependency-target-name": {"dest": "rule_targets"},
    "-MQ": {"dest": "quoted_targets"},
    "--generate-dependency-targets": {"dest": "phony_rules"},
    "--resource-usage": {"dest": "resources"},
    "--format": {"choices": ("text", "json"), "default": "text"},
    "--color": {"choices": ("auto", "always", "never"), "default": "auto"},
    "--jobs": {"type": int, "default": 0},
}


class Parser(argparse.ArgumentParser):
    """A parser that raises :class:`UsageError`."""

    def error(self, message: str) -> NoReturn:
        """Raise for arguments that cannot be parsed."""
        raise UsageError(message, self.format_usage())


class _PrintCompletion(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, _: argparse.Namespace, shell: Any, __: str | None = None
    ) -> None:
        try:
            import shtab
        except ImportError:
            raise UsageError(
                '--print-completion needs the package shtab: python -m pip install "cudacore-compile[completion]"'
            ) from None
        for action in parser._actions:
            if action.metavar in ("FILE", "DIR"):
                action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, shell) + "\n")
        parser.exit(0)


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
    _add_options(parser)
    parser.add_argument("--version", action="version", version=f"cudacore-compile {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=("bash", "zsh", "tcsh"),
        help="print a completion script for a shell, which sources it; needs the package shtab",
    )
    return parser


def _names_of_nvcc() -> str:
    names = sorted({name for name, row in ROWS.items() if row.action in ("same", "option") and name[:2] != "--"})
    return textwrap.fill(" ".join(names), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _add_options(parser: Parser) -> None:
    """Add the options of the table. An option without a value is true or false."""
    group = parser.add_argument_group()
    for row in filter(None, _OPTIONS.replace("\\\n", "").splitlines()):
        if row.endswith(":"):
            group = parser.add_argument_group(row[:-1])
            continue
        head, _, text = row.partition("  ")
        names = head.split()
        value = "" if names[-1][0] == "-" else names.pop()
        own = _DETAILS.get(names[-1], {})
        details: dict[str, Any] = {"help": text or argparse.SUPPRESS}
        if value:
            details["metavar"] = value.removesuffix("...")
        elif "choices" not in own:
            details["action"] = "store_true"
        if value.endswith("..."):
            details |= {"action": "append", "default": []}
        group.add_argument(*names, **details | own)
    for target in TARGETS:
        name = {"optixir": "optix-ir"}.get(target, target)
        group.add_argument(f"--{name}", dest="to", action="store_const", const=target, help=argparse.SUPPRESS)


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
