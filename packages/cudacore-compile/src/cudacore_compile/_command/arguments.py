# SPDX-License-Identifier: Apache-2.0
"""The command line: its options, including nvcc's spellings, and the program options for them."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from cudacore_compile import __version__
from cudacore_compile._command.errors import UsageError
from cudacore_compile._command.inputs import LANGUAGES
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
# The values of these options can begin with a minus sign.
_TAKES_ANY = ("-Xptxas", "--ptxas-options", "--raw", "-Xnvrtc")
_LANGUAGES = {"cu": "c++", "cuda": "c++"}  # the names that nvcc and clang have for CUDA C++
# gcc accepts the values of these options without a space.
_JOINED = ("-MF", "-MT", "-MQ")
# nvcc's switches that set or clear a field of ProgramOptions.
_TRUE_OR_FALSE = {
    "ftz": ("-ftz", "--ftz"),
    "prec_div": ("-prec-div", "--prec-div"),
    "prec_sqrt": ("-prec-sqrt", "--prec-sqrt"),
    "fma": ("-fmad", "--fmad"),
    "relocatable_device_code": ("-rdc", "--relocatable-device-code"),
}
_SWITCHES = {
    "debug": ("-G", "--debug", "--device-debug"),
    "lineinfo": ("--lineinfo", "-lineinfo", "--generate-line-info"),
    "use_fast_math": ("--use-fast-math", "-use_fast_math", "--use_fast_math"),
    "disable_warnings": ("-w", "--disable-warnings"),
    "extra_device_vectorization": ("-extra-device-vectorization", "--extra-device-vectorization"),
    "restrict": ("-restrict", "--restrict"),
}
_LISTS = {
    "diag_suppress": ("-diag-suppress", "--diag-suppress"),
    "diag_error": ("-diag-error", "--diag-error"),
    "diag_warn": ("-diag-warn", "--diag-warn"),
}


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
        epilog=_EPILOG,
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
        "--output",
        "--output-file",
        metavar="FILE",
        help="what to write, - to the standard output; {name} and {arch} are replaced by the source's name and the "
        "architecture",
    )
    add("--to", choices=TARGETS, help="the format; default: by the output's name, or cubin")
    for target in TARGETS:
        name = {"optixir": "optix-ir"}.get(target, target)
        add(f"-{name}", f"--{name}", dest="to", action="store_const", const=target, help=argparse.SUPPRESS)
    many(
        "--arch",
        "-arch",
        "--gpu-architecture",
        metavar="LIST",
        help="architectures, such as sm_80,sm_90; compute_90 is PTX in a fat binary; all and all-major are what the "
        "compiler has, with PTX for the newest in a fat binary; native is this machine's; default: the current device",
    )
    many("-gencode", "--generate-code", dest="gencode", metavar="SPEC", help=argparse.SUPPRESS)


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
    many("-I", "-isystem", "--include-path", "--system-include", metavar="DIR", help="look for headers there")
    add("--cuda-headers", action="store_true", help="look for CUDA's own headers, too, of wheels or of a toolkit")
    many("-D", "--define", "--define-macro", metavar="NAME[=VALUE]", help="define a macro")
    many("-U", "--undefine", "--undefine-macro", metavar="NAME", help="undefine a macro")
    many("-include", "--include", "--pre-include", metavar="FILE", help="include a file before the program")
    add("--std", "-std", help="the language, such as c++20")
    add("-dc", "--device-c", dest="relocatable_device_code", action="store_const", const="true", help=argparse.SUPPRESS)
    add("--maxrregcount", "-maxrregcount", type=int, metavar="N", help="maximum number of registers per thread")
    for field, names in _SWITCHES.items():
        add(*names, dest=field, action="store_true", help=f"{field.replace('_', ' ')}, as in ProgramOptions")
    for field, names in _TRUE_OR_FALSE.items():
        add(*names, dest=field, metavar="BOOL", help=f"{field.replace('_', ' ')}, as in ProgramOptions")
    for field, names in _LISTS.items():
        many(*names, dest=field, metavar="N", help=argparse.SUPPRESS)
    many("-Xptxas", "--ptxas-options", metavar="OPTION", help="an option of the assembler")
    add(
        "--warnings-as-errors",
        "-Werror",
        "--warning-as-error",
        action="store_true",
        help="fail, and write nothing, if there is a warning",
    )
    many("-X", "--option", metavar="FIELD=VALUE", help="any other field of ProgramOptions, such as -X minimal=true")
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
        "-dlink",
        "--device-link",
        action="store_true",
        help="link all files to one for each architecture; implied by LTO-IR, objects and libraries",
    )
    add(
        "-dlto",
        "--lto",
        "--dlink-time-opt",
        dest="lto",
        action="store_true",
        help="compile to LTO-IR, and optimize when it is linked",
    )


def _add_dependencies(group: argparse._ArgumentGroup) -> None:
    add, many = group.add_argument, _adder_of_lists(group)
    add("-M", "-MM", dest="only_rule", action="store_true", help="write the rule only, and compile nothing")
    add("-MD", "-MMD", dest="write_rule", action="store_true", help="write a rule with all files that are read")
    add("-MF", dest="rule_file", metavar="FILE", help="where to; default: the output's name with .d")
    many("-MT", dest="rule_targets", metavar="TARGET", help="the target, as it is written")
    many("-MQ", dest="quoted_targets", metavar="TARGET", help="likewise, quoted for Make")
    add("-MP", dest="phony_rules", action="store_true", help="add an empty rule for each header, which may be removed")


def _add_reports(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--list-kernels", action="store_true", help="list the kernels with their parameters and resources")
    add(
        "-v",
        "--resource-usage",
        "-res-usage",
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
        "-t",
        "--jobs",
        "--threads",
        type=int,
        metavar="N",
        help="compilations at once; default: as many as there are cores",
    )
    add("--cache-dir", metavar="DIR", help="where compiled code is kept; default: in the user's cache directory")
    add("--no-cache", action="store_true", help="compile anew, and keep nothing")


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of the main command."""
    arguments = parser.parse_args(_as_argparse_takes_it(words, parser))
    if arguments.jobs is not None and arguments.jobs < 1:
        raise UsageError(f"-j {arguments.jobs}: must be at least 1")
    for word in arguments.gencode:
        arguments.arch += _generated(word)
    return arguments


def _as_argparse_takes_it(words: Sequence[str], parser: Parser) -> list[str]:
    """Join an option and its value if the value looks like an option; rewrite options that nvcc spells in two ways.

    Raises
    ------
    UsageError
        For an unknown option with one dash. argparse would treat it as an abbreviation of another one.
    """
    options = parser._option_string_actions
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*found, word, *rest]
        if word in _TAKES_ANY:
            value = next(rest, None)
            found.append(word if value is None else f"{word}={value}")
        elif word in ("-Werror=all-warnings", "--warning-as-error=all-warnings"):
            found.append("-Werror")
        elif word == "all-warnings" and found and found[-1] in ("-Werror", "--warning-as-error"):
            pass
        elif word[:3] in _JOINED and word[3:4] not in ("", "="):
            found += [word[:3], word[3:]]
        elif word[:1] == "-" and word[1:2] not in ("", "-") and word.partition("=")[0] not in options:
            short = options.get(word[:2])
            if short is None or short.nargs == 0:
                raise UsageError(f"unrecognized arguments: {word}", parser.format_usage())
            found.append(word)
        else:
            found.append(word)
    return found


def _generated(spec: str) -> list[str]:
    """Return the architectures for nvcc's ``-gencode arch=compute_90,code=[sm_90,compute_90]``."""
    match = re.fullmatch(r"arch=\w+,code=(?:\[([\w,]+)\]|([\w,]+))", spec.replace('"', "").replace(" ", ""))
    if match is None:
        raise UsageError(f"-gencode {spec}: write arch=compute_90,code=sm_90")
    return (match[1] or match[2]).split(",")


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
    fields: dict[str, Any] = {
        "include_path": [*arguments.include_path, *(cuda_include_path() if arguments.cuda_headers else ())] or None,
        "define_macro": arguments.define or None,
        "undefine_macro": arguments.undefine or None,
        "pre_include": arguments.include or None,
        "std": arguments.std,
        "max_register_count": arguments.maxrregcount,
        "raw_options": arguments.raw or None,
    }
    ptxas = [option for word in arguments.ptxas_options for option in word.split(",") if option]
    if arguments.resources:
        ptxas.append("-v")
    fields["ptxas_options"] = list(dict.fromkeys(ptxas)) or None
    for field in _SWITCHES:
        fields[field] = getattr(arguments, field) or None
    for field, (name, *_) in _TRUE_OR_FALSE.items():
        given = getattr(arguments, field)
        fields[field] = None if given is None else _switch(name, given)
    for field, (name, *_) in _LISTS.items():
        numbers = [number for word in getattr(arguments, field) for number in word.split(",")]
        if not all(number.isdigit() for number in numbers):
            raise UsageError(f"{name}: write numbers of diagnostics, such as {name} 177")
        fields[field] = [int(number) for number in numbers] or None
    known = {field.name: str(field.type) for field in dataclasses.fields(ProgramOptions)}
    for word in arguments.option:
        field, equals, value = word.partition("=")
        field = field.strip().replace("-", "_")
        if field not in known or field in ("name", "arch") or not equals:
            raise UsageError(f"-X {word}: write FIELD=VALUE, with a field of ProgramOptions")
        number = _value(value, known[field])
        if fields.get(field) is None or not {"list", "Sequence"} & set(re.findall(r"\w+", known[field])):
            fields[field] = number
        else:  # the option is given repeatedly, and its values form a list
            before = fields[field]
            fields[field] = [*(before if isinstance(before, list) else [before]), number]
    return ProgramOptions(**fields)


_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _switch(name: str, text: str) -> bool:
    try:
        return _BOOLS[text.lower()]
    except KeyError:
        raise UsageError(f"{name}={text}: write true or false") from None


def _value(text: str, types: str) -> bool | int | str:
    names = set(re.findall(r"\w+", types))
    if "bool" in names and text.lower() in _BOOLS and not ("int" in names and text.isdigit()):
        return _BOOLS[text.lower()]
    if "int" in names:
        try:
            return int(text)
        except ValueError:
            pass
    return text
