# SPDX-License-Identifier: Apache-2.0
"""Options that NVRTC, by a defect, keeps for later compilations of the process. Caches must take this into account."""

from __future__ import annotations

import threading
import time
import warnings

from cudacore_compile._compilers.nvrtc import load
from cudacore_compile._compilers.option_values import architecture
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile.typing import SourceCodeType

# NVRTC can keep these options for later compilations (see ProgramOptions). Programs that are then compiled without the
# option get other code than in a new process. A test compilation detects this, except for raw options.
_STAYS = ("optimization_info", "raw_options", "restrict", "use_fast_math")
_FAST_MATH_STAYS = 100  # the first architecture for which NVRTC keeps use_fast_math

# It is a defect of NVRTC 12.9, 13.0 and 13.5 that --restrict stays set. No other option turns it off again.
_RESTRICT_STAYS = (
    "a program was compiled with ProgramOptions(restrict=True) in this process, and NVRTC keeps to that option: "
    "pointer parameters of kernels are taken for restrict pointers in this program too. Write __restrict__ in the "
    "source instead, or compile such programs in a process of their own"
)

_left: set[str] = set()


def note(options: ProgramOptions, *, stacklevel: int) -> None:
    """Record that a program is now compiled with these options. Warn if NVRTC has kept `restrict`."""
    if "restrict" in _left and not options.restrict:
        warnings.warn(_RESTRICT_STAYS, RuntimeWarning, stacklevel=stacklevel + 1)
    for field in _STAYS:
        if getattr(options, field):
            _left.add(field)


def is_clean_for(options: ProgramOptions, code_type: SourceCodeType) -> bool:
    """Return whether the code that was just compiled is the same as from a new process.

    NVRTC never drops an option that it has kept. So a check after the compilation covers the compilation too.
    """
    if "raw_options" in _left:
        return False
    return code_type is not SourceCodeType.CXX or all(getattr(options, field) for field in _kept(options))


_checking = threading.Lock()
_checked_at: dict[bool, float] = {}
_found: set[str] = set()
_has_warned = False


def _kept(options: ProgramOptions) -> frozenset[str]:
    """Return the relevant options that NVRTC has kept. Threads that call this at the same time share the result."""
    global _has_warned
    # Without an architecture, the program is compiled for the current device, which can have any architecture.
    number = 0 if options.arch is None else int(architecture("arch", options.arch)[1].rstrip("af"))
    fast_math_stays = options.arch is None or number >= _FAST_MATH_STAYS
    called_at = time.monotonic()
    with _checking:
        if _checked_at.get(fast_math_stays, -1.0) <= called_at:
            began = time.monotonic()
            _found.update(load().kept_options(fast_math_stays))
            _checked_at[fast_math_stays] = began
        if not _has_warned and not _found <= _left:
            _has_warned = True
            warnings.warn(_SPOILED, RuntimeWarning, stacklevel=6)
        return frozenset(_found if fast_math_stays else _found - {"use_fast_math"})


_SPOILED = (
    "another library has compiled with --restrict, --optimization-info or --use_fast_math in this process, and NVRTC "
    "keeps these options for all later programs: program caches do not store programs without the option from now on"
)
