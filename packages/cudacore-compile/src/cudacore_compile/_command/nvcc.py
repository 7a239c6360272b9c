# SPDX-License-Identifier: Apache-2.0
"""nvcc's options: one table that says what each of them does here, and the translation that follows it."""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from cudacore_compile._command.errors import UsageError

# The names of an option, what follows it, and what it does here.
#
# What follows: nothing (-), one value (value), or values that commas separate (list). "joined" means that nvcc also
# takes the value without a space or an equals sign, as in -DNAME.
#
# What it does: "same" has the same meaning, and "option FIELD" sets that field of ProgramOptions, to true if the option
# takes no value. "words ..." stands for other options. "raw" is given to the compiler. "ignored" concerns the host, or
# only messages. "no ..." is refused, with the sentence that follows.
_TABLE = """
--cubin -cubin                       -             same
--fatbin -fatbin                     -             same
--ptx -ptx                           -             same
--optix-ir -optix-ir                 -             same
--ltoir -ltoir                       -             same
--cuda -cuda                         -             no host code is not compiled here
--preprocess -E                      -             no NVRTC does not write preprocessed source
--generate-dependencies -M           -             same
--generate-nonsystem-dependencies -MM -            words -M
--generate-dependencies-with-compile -MD -         same
--generate-nonsystem-dependencies-with-compile -MMD - words -MD
--dependency-output -MF              value         same
--dependency-target-name -MT         value         same
--generate-dependency-targets -MP    -             same
--compile -c                         -             same
--device-c -dc                       -             words --compile --option=relocatable_device_code=true
--device-w -dw                       -             words --compile --option=relocatable_device_code=false
--device-link -dlink                 -             words --link
-link                                -             no no programs of the host are linked; --link links device code
--lib -lib                           -             no libraries of the host are not made here
--run -run                           -             no programs are not run here
--output-file -o                     value         same
--output-directory -odir             value         same
--pre-include -include               list          same
--define-macro -D                    list joined   same
--undefine-macro -U                  list joined   same
--include-path -I                    list joined   same
--system-include -isystem            list          same
--objdir-as-tempdir -objtemp         -             ignored
--library -l                         list joined   ignored
--library-path -L                    list joined   ignored
--compiler-bindir -ccbin             value         ignored
--allow-unsupported-compiler -allow-unsupported-compiler - ignored
--archiver-binary -arbin             value         ignored
--cudart -cudart                     value         ignored
--cudadevrt -cudadevrt               value         ignored
--libdevice-directory -ldir          value         no NVRTC contains libdevice
--target-directory -target-dir       value         ignored
--use-local-env -use-local-env       -             ignored
--force-cl-env-setup -force-cl-env-setup -         ignored
--profile -pg                        -             ignored
--debug -g                           -             ignored
--device-debug -G                    -             option debug
--generate-line-info -lineinfo --lineinfo -        option lineinfo
--optimization-info -opt-info        value         option optimization_info
--optimize -O                        value joined  ignored
--Ofast-compile -Ofc                 value         option ofast_compile
--dopt -dopt                         value         words --option=device_code_optimize=true
--dlink-time-opt -dlto               -             same
--lto -lto                           -             words --dlink-time-opt
--gen-opt-lto -gen-opt-lto           -             option gen_opt_lto
--ftemplate-backtrace-limit -ftemplate-backtrace-limit value ignored
--ftemplate-depth -ftemplate-depth   value         no NVRTC has no option for the depth of templates
--no-exceptions -noeh                -             ignored
--shared -shared                     -             ignored
--x -x                               value         words --language={}
--std -std                           value         option std
--no-host-device-initializer-list -nohdinitlist -  words --option=builtin_initializer_list=false
--no-host-device-move-forward -nohdmoveforward -   words --option=builtin_move_forward=false
--expt-relaxed-constexpr -expt-relaxed-constexpr - words --option=device_as_default_execution_space=true \
--define-macro=__CUDACC_RELAXED_CONSTEXPR__
--extended-lambda -extended-lambda   -             ignored
--expt-extended-lambda -expt-extended-lambda -     ignored
--machine -m                         value joined  ignored
--m64 -m64                           -             ignored
--compiler-options -Xcompiler        list          host
--linker-options -Xlinker            list          ignored
--archive-options -Xarchive          list          ignored
--ptxas-options -Xptxas              list          option ptxas_options
--nvlink-options -Xnvlink            list          no nvJitLink links, and has other options
-Xcudafe -Xcudafe                    list          frontend
-Xcicc -Xcicc                        list          no the options of cicc are not those of NVRTC
-Xfatbin -Xfatbin                    list          ignored
--static-global-template-stub -static-global-template-stub value ignored
--device-entity-has-hidden-visibility -device-entity-has-hidden-visibility value ignored
--forward-unknown-to-host-compiler -forward-unknown-to-host-compiler - forward
--forward-unknown-to-host-linker -forward-unknown-to-host-linker - forward
--forward-unknown-opts -forward-unknown-opts -     forward
--dont-use-profile -noprof           -             ignored
--dryrun -dryrun                     -             no there are no steps to list; see cache explain
--threads -t                         value joined  words --jobs={}
--split-compile -split-compile       value         option split_compile
--split-compile-extended -split-compile-extended value ignored
--fdevice-syntax-only -fdevice-syntax-only -       option fdevice_syntax_only
--fdevice-time-trace -fdevice-time-trace value     option fdevice_time_trace
--keep -keep                         -             no there are no intermediate files: compile to PTX
--save-temps -save-temps             -             no there are no intermediate files: compile to PTX
--keep-dir -keep-dir                 value         ignored
--clean-targets -clean               -             no files are not removed here
--time -time                         value         option time
--run-args -run-args                 list          ignored
--input-drive-prefix -idp            value         ignored
--dependency-drive-prefix -ddp       value         ignored
--drive-prefix -dp                   value         ignored
--no-align-double                    -             ignored
--no-device-link -nodlink            -             ignored
--gpu-architecture -arch             value         same
--gpu-code -code                     list          same
--generate-code -gencode             value         same
--relocatable-device-code -rdc       value         option relocatable_device_code
--entries                            list          no all kernels are compiled; -e requests lowered names
--maxrregcount -maxrregcount         value         option max_register_count
--use_fast_math -use_fast_math --use-fast-math -   option use_fast_math
--ftz -ftz                           value         option ftz
--prec-div -prec-div                 value         option prec_div
--prec-sqrt -prec-sqrt               value         option prec_sqrt
--fmad -fmad                         value         option fma
--extra-device-vectorization -extra-device-vectorization - option extra_device_vectorization
--default-stream -default-stream     value         ignored
--disable-warnings -w                -             option disable_warnings
--keep-device-functions -keep-device-functions -   no compile with -rdc=true, which keeps all functions
--source-in-ptx -src-in-ptx          -             ignored
--restrict -restrict                 -             option restrict
--Wreorder -Wreorder                 -             words -diag-warn=1719
--Wdefault-stream-launch -Wdefault-stream-launch - ignored
--Wmissing-launch-bounds -Wmissing-launch-bounds - ignored
--Wext-lambda-captures-this -Wext-lambda-captures-this - ignored
--Wno-deprecated-declarations -Wno-deprecated-declarations - words -diag-suppress=1215,1444
--Wno-deprecated-gpu-targets -Wno-deprecated-gpu-targets - ignored
--Werror -Werror --warning-as-error  list          werror
--resource-usage -res-usage          -             same
--extensible-whole-program -ewp      -             option extensible_whole_program
--no-compress -no-compress           -             ignored
--qpp-config -qpp-config             value         ignored
--compile-as-tools-patch -astoolspatch -           no code for tools is not made here
--list-gpu-code -code-ls             -             no see cudacore-compile compilers
--list-gpu-arch -arch-ls             -             no see cudacore-compile compilers
--display-error-number -err-no       -             ignored
--no-display-error-number -no-err-no -             option no_display_error_number
--diag-error -diag-error             list          option diag_error
--diag-suppress -diag-suppress       list          option diag_suppress
--diag-warn -diag-warn               list          option diag_warn
--host-linker-script -hls            value         ignored
--augment-host-linker-script -aug-hls -            ignored
--relocatable-link -r                -             no partial links are not made here
--brief-diagnostics -brief-diag      value         option brief_diagnostics
--jump-table-density -jtd            value         raw
--relocatable-ptx -reloc-ptx         -             ignored
--device-stack-protector -device-stack-protector value raw
--compress-mode -compress-mode       value         ignored
--frandom-seed -frandom-seed         value         option frandom_seed
--sanitize -sanitize                 value         no NVRTC does not instrument code
--jobserver -jobserver               -             ignored
-V                                   -             words --version

"""  # the end of the table


class _Row(NamedTuple):
    name: str
    follows: str  # "-", "value" or "list"
    is_joined: bool
    action: str
    details: str


def _rows() -> dict[str, _Row]:
    """Return the rows of the table by all names of their options."""
    rows: dict[str, _Row] = {}
    for line in _TABLE.replace("\\\n", "").strip().splitlines():
        words = line.split()
        names = list(takewhile(lambda word: word != "-" and word[0] == "-", words))
        follows, *rest = words[len(names) :]
        is_joined = rest[0] == "joined"
        action, *details = rest[is_joined:]
        rows |= dict.fromkeys(names, _Row(names[0], follows, is_joined, action, " ".join(details)))
    return rows


ROWS = _rows()
# Options of the host's compiler with which nvcc also preprocesses device code.
_PREPROCESSES = re.compile(r"-(?:[DUI]|(?:include|isystem|iquote|idirafter|imacros|iprefix)\b|std=|nostdinc|undef)")
_NUMBERED_JOBS = re.compile(r"-j\d+")
_DEPTH = 20  # of response files
_WERROR: dict[str, list[str]] = {
    "all-warnings": ["--warnings-as-errors"],
    "reorder": ["-diag-error=1719"],
    "deprecated-declarations": ["-diag-error=1215,1444"],
    # always an error of NVRTC, or about host code
    "cross-execution-space-call": [],
    "default-stream-launch": [],
    "ext-lambda-captures-this": [],
}


def expand(words: Iterable[str], depth: int = 0) -> Iterator[str]:
    """Replace ``@FILE`` and ``--options-file FILE`` by the words in the file.

    Like gcc, a word ``@FILE`` is kept if there is no such file.
    """
    rest = deque(words)
    while rest:
        word = rest.popleft()
        name, equals, value = word.partition("=")
        if name in ("--options-file", "-optf"):
            files = _split(value if equals else _next(rest, word))
        elif word[:1] == "@" and os.path.isfile(word[1:]):
            files = [word[1:]]
        else:
            yield word
            continue
        if depth == _DEPTH:
            raise UsageError(f"{word}: files of options are nested too deeply")
        for file in files:
            try:
                yield from expand(shlex.split(Path(file).read_text(errors="surrogateescape")), depth + 1)
            except (OSError, ValueError) as error:
                raise UsageError(f"{word}: {error}") from None


def translate(words: Iterable[str], own: Mapping[str, bool]) -> list[str]:
    """Write a command line as the parser has it: options by one name, with values joined by ``=``, then the files.

    Parameters
    ----------
    words : iterable of str
        The command line, without files of options.
    own : mapping of str to bool
        The other options of the command, and whether they take a value.

    Raises
    ------
    UsageError
        For options that are unknown, that lack a value, or that have no meaning here.
    """
    words = list(words)
    end = words.index("--") if "--" in words else len(words)
    files: list[str] = []
    found = _options(words[:end], own, files)
    return [*found, "--", *files, *words[end + 1 :]]


def _options(words: list[str], own: Mapping[str, bool], files: list[str]) -> list[str]:
    """Return the translated options; add the other words to the files."""
    forwards = any(word in ROWS and ROWS[word].action == "forward" for word in words)
    found: list[str] = []
    rest = deque(words)
    while rest:
        word = rest.popleft()
        name, equals, value = word.partition("=")
        row = ROWS.get(name)
        if word[:1] != "-" or word == "-":
            files.append(word)
        elif row is None and name in own:
            found.append(f"{word}={_next(rest, word)}" if own[name] and not equals else word)
        elif row is None and _NUMBERED_JOBS.fullmatch(word):
            found.append(f"--jobs={word[2:]}")
        elif row is None and (joined := ROWS.get(word[:2])) is not None and joined.is_joined:
            found += _act(joined, word[:2], word[2:], own)
        elif row is None and forwards:
            _check_host(word, "")
        elif row is None:
            raise UsageError(f"unrecognized arguments: {word}")
        elif row.follows == "-":
            if equals:
                raise UsageError(f"{word}: {name} takes no value")
            found += _act(row, name, "", own)
        elif row.action == "werror" and not equals and not (rest and set(_split(rest[0])) <= _WERROR.keys()):
            found.append("--warnings-as-errors")  # as gcc writes it; nvcc refuses that
        else:
            found += _act(row, name, value if equals else _next(rest, word), own)
    return found


def _act(row: _Row, name: str, text: str, own: Mapping[str, bool]) -> Iterator[str]:
    """Return what an option stands for."""
    if row.action == "no":
        raise UsageError(f"{name} is not supported: {row.details}")
    if row.name == "--machine" and text != "64":
        raise UsageError(f"{name}{text}: device code has 64 bits")
    for value in _split(text) if row.follows == "list" else [text]:
        given = "" if row.follows == "-" else f"={value}"
        if row.action == "same":
            yield row.name + given
        elif row.action == "option":
            yield f"--option={row.details}{given or '=true'}"
        elif row.action == "raw":
            yield f"--raw={row.name}{given}"
        elif row.action == "words":
            yield from _options(row.details.format(value).split(" "), own, [])
        elif row.action == "host":
            _check_host(value, f"{name} ")
        elif row.action == "frontend":
            yield from _options(_frontend(name, value), own, [])
        elif row.action == "werror":
            if value not in _WERROR:
                raise UsageError(f"{name} {value}: write {name} all-warnings, or one of {', '.join(_WERROR)}")
            yield from _options(_WERROR[value], own, [])


def _frontend(name: str, word: str) -> list[str]:
    """Return the option for an option of cudafe++. It has names for diagnostics; here they have numbers only."""
    match = re.fullmatch(r"--(?:diag_(?P<what>suppress|error|warn)(?:ing)?=(?P<which>\w+)|display_error_number)", word)
    if match is None or (match["what"] in ("error", "warn") and not match["which"].isdigit()):
        raise UsageError(f"{name} {word}: of the options of cudafe++, only those for numbers of diagnostics exist here")
    return [f"-diag-{match['what']}={match['which']}"] if (match["which"] or "").isdigit() else []


def _check_host(word: str, prefix: str) -> None:
    if _PREPROCESSES.match(word):
        raise UsageError(
            f"{prefix}{word}: nvcc applies this to device code, too, and only its own options for that exist here: "
            "write -D, -U, -I, -isystem, -include or -std without -Xcompiler"
        )


def _next(rest: deque[str], option: str) -> str:
    if not rest:
        raise UsageError(f"{option}: a value is expected after it")
    return rest.popleft()


def _split(text: str) -> list[str]:
    r"""Split a list at its commas, except in double quotes and behind a backslash."""
    parts = re.findall(r'(?:\\.|"[^"]*"|[^,\\])+', text, re.DOTALL)
    return [re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts]
