# SPDX-License-Identifier: Apache-2.0
"""Options and environment variables that make a compiler read files that no source code names."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._compilers.options import ProgramOptions

if TYPE_CHECKING:
    from cudacore_compile._compilers.linker_options import LinkerOptions

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

_WITH_FILES = {
    "pch": "NVRTC does not notice when a header in a precompiled header changes",
    "use_pch": "NVRTC does not notice when a header in a precompiled header changes",
}
_VARIES = {"time": "the log has the times of this link"}
_KNOWN = frozenset(
    """
    name arch relocatable_device_code extensible_whole_program debug lineinfo device_code_optimize ptxas_options
    max_register_count ftz prec_sqrt prec_div fma use_fast_math extra_device_vectorization link_time_optimization
    gen_opt_lto define_macro undefine_macro include_path use_bundled_headers pre_include no_source_include std
    builtin_move_forward builtin_initializer_list disable_warnings restrict device_as_default_execution_space
    device_int128 optimization_info no_display_error_number diag_error diag_suppress diag_warn brief_diagnostics time
    split_compile fdevice_syntax_only minimal no_cache fdevice_time_trace device_float128 frandom_seed ofast_compile
    pch create_pch use_pch pch_dir pch_verbose pch_messages instantiate_templates_in_pch extra_sources use_libdevice
    numba_debug
    """.split()
)
_KNOWN_TO_LINKERS = frozenset(
    """
    name arch max_register_count verbose link_time_optimization ptx optimization_level debug lineinfo ftz prec_div
    prec_sqrt fma kernels_used variables_used optimize_unused_variables ptxas_options split_compile
    split_compile_extended no_cache numba_debug
    """.split()
)
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


def environment() -> list[tuple[str, str]]:
    """Return the environment variables that compilers look up."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith(_PREFIXES))


def processors(flags: Sequence[bytes]) -> bytes:
    """Return the numbers of all and of usable processors if the options allow several threads; else empty bytes."""
    if not any(b"split-compile" in flag for flag in flags):
        return b""
    return f"{os.cpu_count()} {len(os.sched_getaffinity(0))}".encode()


def check_options(options: ProgramOptions) -> None:
    """Raise UncacheableError if an option or a variable makes the compiler read files that are not in the key."""
    _check_fields(options, _WITH_FILES, _KNOWN, "compiler")


def check_link_options(options: LinkerOptions) -> None:
    """Raise UncacheableError if an option or a variable makes the linker read files or write a log that varies."""
    _check_fields(options, _VARIES, _KNOWN_TO_LINKERS, "linker")


def _check_fields(
    options: ProgramOptions | LinkerOptions,
    refused: Mapping[str, str],
    known: Collection[str],
    tool: str,
) -> None:
    check_environment()
    cls = type(options).__name__
    for field in fields(options):
        value = getattr(options, field.name)
        if value is None or value is False or value == []:
            continue
        if field.name in refused:
            raise UncacheableError(f"{cls}.{field.name}: {refused[field.name]}")
        if field.name not in known:
            raise UncacheableError(f"{cls}.{field.name}: it is not known whether the {tool} reads files for it")
    check_ptxas_options(cls, options.ptxas_options)


def check_environment() -> None:
    """Raise UncacheableError if an environment variable makes a compiler read files that are not in the key."""
    for name in _READS_FILES:
        if os.environ.get(name):
            raise UncacheableError(f"the environment variable {name} can have the compiler read other files")


def check_ptxas_options(options: str, given: str | Sequence[str] | None) -> None:
    """Raise UncacheableError for an option of ptxas that may name a file."""
    for option in (given,) if isinstance(given, str) else given or ():
        for word in option.replace(",", " ").split():
            if not re.fullmatch(_PTXAS, word):
                raise UncacheableError(f"{options}.ptxas_options: {word!r} may name a file")
