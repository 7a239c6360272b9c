# SPDX-License-Identifier: Apache-2.0
"""What a compilation leaves behind in NVRTC, for all later ones of the process: defects that caches must know of."""

from __future__ import annotations

import threading
import time
import warnings

from cudacore_compile._compilers.nvrtc import load
from cudacore_compile._compilers.option_values import architecture
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile.typing import SourceCodeType

# See ProgramOptions. What is compiled later without the option is not what another process would make. It can be found
# out whether NVRTC has kept one of these, apart from what raw options do.
_STAYS = ("optimization_info", "raw_options", "restrict", "use_fast_math")
_FAST_MATH_STAYS = 100  # from this architecture on

_left: set[str] = set()


def note(options: ProgramOptions) -> None:
    """Remember that a program is compiled with these options now."""
    for field in _STAYS:
        if getattr(options, field):
            _left.add(field)


def is_clean_for(options: ProgramOptions, code_type: SourceCodeType) -> bool:
    """Return whether what was just compiled is what a process of its own would have made.

    NVRTC never forgets the options that it keeps. So a check after the compilation tells what was so during it.
    """
    if "raw_options" in _left:
        return False
    return code_type is not SourceCodeType.CXX or all(getattr(options, field) for field in _kept(options))


_checking = threading.Lock()
_checked_at: dict[bool, float] = {}
_found: set[str] = set()
_has_warned = False


def _kept(options: ProgramOptions) -> frozenset[str]:
    """Return the options that NVRTC has kept, of those that matter; threads that ask at one time share the answer."""
    global _has_warned
    # Without an architecture it is that of a device, which may be any.
    number = 0 if options.arch is None else int(architecture("arch", options.arch)[1].rstrip("af"))
    fast_math_stays = options.arch is None or number >= _FAST_MATH_STAYS
    asked = time.monotonic()
    with _checking:
        if _checked_at.get(fast_math_stays, -1.0) <= asked:
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
