# SPDX-License-Identifier: Apache-2.0
"""Options and environment variables that make a compiler read files that no source code names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
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
    "raw_options": "it is not known whether the compiler reads files for it",
}
_VARIES = {"time": "the log has the times of this link"}
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
    _check_fields(options, _WITH_FILES)


def check_link_options(options: LinkerOptions) -> None:
    """Raise UncacheableError if an option or a variable makes the linker read files or write a log that varies."""
    _check_fields(options, _VARIES)


def _check_fields(options: ProgramOptions | LinkerOptions, refused: Mapping[str, str]) -> None:
    check_environment()
    cls = type(options).__name__
    for field, reason in refused.items():
        if getattr(options, field) not in (None, False, []):
            raise UncacheableError(f"{cls}.{field}: {reason}")
    given = options.ptxas_options
    for option in (given,) if isinstance(given, str) else given or ():
        for word in option.replace(",", " ").split():
            if not re.fullmatch(_PTXAS, word):
                raise UncacheableError(f"{cls}.ptxas_options: {word!r} may name a file")


def check_environment() -> None:
    """Raise UncacheableError if an environment variable makes a compiler read files that are not in the key."""
    for name in _READS_FILES:
        if os.environ.get(name):
            raise UncacheableError(f"the environment variable {name} can have the compiler read other files")
