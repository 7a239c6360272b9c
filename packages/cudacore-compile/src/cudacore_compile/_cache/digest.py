# SPDX-License-Identifier: Apache-2.0
"""One hash of everything that a compilation depends on, and what may be in none: files that no source code names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache.closure import Search
from cudacore_compile._cache.libraries import compiler_identity
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._cache.states import Known, hash_of
from cudacore_compile._compilers.libraries import load
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import Request, files_written
from cudacore_compile._compilers.targets import BACKENDS
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType
from cudacore_handles._sdk.compile import carries_ptx

if TYPE_CHECKING:
    from cudacore_compile._compilers.linker_options import LinkerOptions

# This must be changed whenever the meaning of keys or the contents of entries change, so that old entries are not used.
_SCHEMA = b"cudacore-program-7"
# Code of these formats contains the current directory, whatever the options are.
_WITH_DIRECTORY = (ObjectCodeFormatType.LTOIR, ObjectCodeFormatType.OPTIXIR)
_ANY_ARCH = "sm_90"  # for the files of a program, any architecture will do, because all branches are considered

# Prefixes of the environment variables that NVRTC 12.0 to 13.5 look up. They are not documented.
_PREFIXES = (
    "AS_",
    "CAN_FINALIZE",
    "DUMP_KNOBS",
    "EDG_",
    "FINALIZER_",
    "LIBNVVM_",
    "LLVM_",
    "NVRTC",
    "NVVM_",
    "NV_NVVM",
)
_READS_FILES = ("EDG_BASE", "EDG_MODULES_PATH", "NVRTCWIZ", "NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS")

_REFUSED = {
    "pch": "NVRTC does not notice when a header in a precompiled header changes",
    "use_pch": "NVRTC does not notice when a header in a precompiled header changes",
    "raw_options": "it is not known whether the compiler reads files for it",
    "time": "the log has the times of this link",
}
# Options of ptxas 12.9 and 13.5 that do not name files. Other options may: "--apply-controls=all" reads a file.
_PTXAS_NAMES = "|".join(
    """
    Ofast-compile Ofc allow-expensive-optimizations annotate astoolspatch c compile-as-tools-patch compile-only
    compiler-annotations def-load-cache def-store-cache device-debug device-function-maxrregcount device-stack-protector
    disable-optimizer-constants disable-optimizer-consts disable-warnings dlcm dont-merge-basicblocks dscm e elf
    enable-func-clone-sc entry ewp extensible-whole-program flcm fmad force-load-cache force-store-cache fscm
    func-maxrregcount g g-tensor-memory-access-check g-tmem-access-check generate-line-info
    legacy-bar-warp-wide-behavior lineinfo m machine make-errors-visible-at-exit maxntid maxrregcount minnctapersm
    no-bb-merge opt-fp-atomics opt-level optimize-float-atomics override-directive-values pic position-independent-code
    preserve-relocs regUsageLevel register-usage-level ret-end return-at-end sanitize sp-bounds-check split-compile
    suppress-[a-z-]+ v verbose v2 verbose2 w warn-[a-z-]+ warning-as-error Werror O[0-9]?
    """.split()
)
_PTXAS = rf"--?(?:{_PTXAS_NAMES})(?:=(?:true|false|yes|no|on|off|all|max|mid|min|[0-9]+|c[agsv]|lu|wb|wt)?)?"


def common_parts(target: ObjectCodeFormatType, flags: Sequence[bytes], *, has_directory: bool) -> list[object]:
    """Return what all keys have. The code contains the current directory if `has_directory` is true."""
    carries_ptx_too = target is ObjectCodeFormatType.CUBIN and carries_ptx()
    directory = (os.getcwd(), os.environ.get("PWD")) if has_directory else ()
    is_split = any(b"split-compile" in flag for flag in flags)  # for the number of processors
    processors = (os.cpu_count(), len(os.sched_getaffinity(0))) if is_split else ()
    return [environment(), target.value, carries_ptx_too, flags, processors, directory]


def key_of(request: Request, *, extra_digest: bytes | None = None, cache: ProgramCacheResource | None = None) -> Known:
    """Return the key of a compilation, and the files that it covers.

    Raises
    ------
    UncacheableError
        If the inputs of the compilation cannot be determined.
    ValueError
        If the options make the compiler write files.
    """
    code, code_type, options, target, names, headers = request
    for field in files_written(options):
        raise ValueError(
            f"ProgramOptions.{field} has the compiler write a file, which a program cache would leave out: compile "
            "without cache=, or leave the option out"
        )
    flags = options.as_bytes(BACKENDS[code_type], target)
    is_cxx = code_type is SourceCodeType.CXX
    has_lines = bool(options.debug or options.lineinfo)
    expressions = sorted(name.encode() for name in names)
    in_memory = hash_of(*(item for pair in sorted(headers.items()) for item in pair))
    parts: list[object] = [_SCHEMA, code, code_type.value, options.name, expressions, in_memory, extra_digest]
    parts += common_parts(target, flags, has_directory=has_lines or (is_cxx and target in _WITH_DIRECTORY))
    try:
        parts.append(compiler_identity(code_type, code, cache))
        check_options(options)
        if not is_cxx:
            return Known(hash_of(*parts, *_modules(options)))
        # NVRTC 12.0 to 13.2 put the times and the sizes of files beside the lines.
        search = Search(code, flags, options, names=expressions, headers=headers, has_times=has_lines)
        files = search.find(cache)
        return files._replace(value=hash_of(*parts, files.value))
    except UncacheableError as error:
        if extra_digest is not None:
            return Known(hash_of(*parts))
        raise UncacheableError(
            f"the files that the program is compiled from cannot be determined, so it has no key: {error}"
        ) from None


def _modules(options: ProgramOptions) -> list[object]:
    """Return the libraries that an NVVM program is linked with."""
    modules = [(name, text if isinstance(text, str) else bytes(text)) for name, text in options.extra_sources or ()]
    return [modules, load(CompilerBackendType.NVVM).libdevice() if options.use_libdevice else b""]


def environment() -> list[tuple[str, str]]:
    """Return the environment variables that compilers look up."""
    found = [name for name in os.environ if name.startswith(_PREFIXES)]  # Python decodes each value that is read
    return [(name, os.environ[name]) for name in sorted(found)]


def check_options(options: ProgramOptions | LinkerOptions) -> None:
    """Raise UncacheableError if an option or a variable makes the compiler read files that are not in the key.

    Options for which equal compilations have different logs are refused, too.
    """
    for name in _READS_FILES:
        if os.environ.get(name):
            raise UncacheableError(f"the environment variable {name} can have the compiler read other files")
    cls = type(options).__name__
    for field, reason in _REFUSED.items():
        if getattr(options, field, None) not in (None, False, []):
            raise UncacheableError(f"{cls}.{field}: {reason}")
    given = options.ptxas_options
    for option in (given,) if isinstance(given, str) else given or ():
        for word in option.replace(",", " ").split():
            if not re.fullmatch(_PTXAS, word):
                raise UncacheableError(f"{cls}.ptxas_options: {word!r} may name a file")


def included_files(code: bytes, options: ProgramOptions, headers: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """Return the files that a C++ program may include, with hashes of their contents. The time does not matter."""
    precompiled = [] if options.use_pch is None else [os.fspath(options.use_pch)]
    # Compilations with precompiled headers are not cached, but the files that they include can be determined.
    options = replace(options, arch=options.arch or _ANY_ARCH, pch=None, use_pch=None, time=None)
    search = Search(code, options.as_bytes("nvrtc"), options, headers=headers)
    search.run()
    files = dict.fromkeys(precompiled, b"") | search.files
    try:
        check_options(options)
        reason = search.error
    except UncacheableError as error:
        reason = str(error)
    if reason:
        raise UncacheableError(reason, files)
    return files
