# SPDX-License-Identifier: Apache-2.0
"""What a compilation leaves behind in NVRTC, for all later ones of the process: defects that caches must know of."""

from __future__ import annotations

from cudacore_compile._compilers.options import ProgramOptions

# See ProgramOptions. What is compiled later without the option is not what another process would make.
_STAYS = ("optimization_info", "raw_options", "restrict", "use_fast_math")

_left: set[str] = set()


def note(options: ProgramOptions) -> None:
    """Remember that a program is compiled with these options now."""
    for field in _STAYS:
        if getattr(options, field):
            _left.add(field)


def is_clean_for(options: ProgramOptions) -> bool:
    """Return whether a program is compiled as it would be in a process of its own."""
    return all(getattr(options, field) for field in _left)
