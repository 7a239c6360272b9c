# SPDX-License-Identifier: Apache-2.0
"""What a compilation leaves behind in NVRTC, for all later ones of the process: defects that caches must know of."""

from __future__ import annotations

import threading
import time
import warnings

from cudacore_compile._compilers.nvrtc import load
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile.typing import SourceCodeType

# See ProgramOptions. What is compiled later without the option is not what another process would make.
_STAYS = ("optimization_info", "raw_options", "restrict", "use_fast_math")

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
    if not all(getattr(options, field) for field in _left):
        return False
    return code_type is not SourceCodeType.CXX or bool(_left) or not _is_spoiled()


_checking = threading.Lock()
_checked_at = 0.0
_is_dirty = False


def _is_spoiled() -> bool:
    """Return whether another library has left options in NVRTC; threads that ask at one time share the answer."""
    global _checked_at, _is_dirty
    asked = time.monotonic()
    with _checking:
        if not _is_dirty and _checked_at <= asked:
            began = time.monotonic()
            _is_dirty = load().keeps_options()
            _checked_at = began
            if _is_dirty:
                warnings.warn(_SPOILED, RuntimeWarning, stacklevel=6)
        return _is_dirty


_SPOILED = (
    "another library has compiled with --restrict or --optimization-info in this process, and NVRTC keeps these "
    "options for all later programs: program caches store nothing of this process from now on"
)
