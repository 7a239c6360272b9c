# SPDX-License-Identifier: Apache-2.0
"""Counts live handles."""

from __future__ import annotations

from cudacore_handles._cffi import ffi, lib

_KINDS = {
    name.removeprefix("CCH_KIND_").lower(): number
    for name, number in ffi.typeof("cch_kind").relements.items()
    if name != "CCH_KIND_COUNT"
}


def live_counts() -> dict[str, int]:
    """Return the number of live handles of this process by kind, for leak checks.

    Examples
    --------
    >>> import cudacore_handles
    >>> cudacore_handles.live_counts()["stream"] > 0
    True
    """
    return {kind: int(lib.cch_live_count(number)) for kind, number in _KINDS.items()}
