# SPDX-License-Identifier: Apache-2.0
"""How many handles are alive."""

from __future__ import annotations

from cudacore_handles._cffi import lib

_KINDS = (
    "context",
    "stream",
    "event",
    "pool",
    "deviceptr",
    "library",
    "kernel",
    "nvrtc_program",
    "nvvm_program",
    "bundle",
)


def live_counts() -> dict[str, int]:
    """Return the number of live handles by kind, in this process: what a leak check compares."""
    return {kind: int(lib.cch_live_count(getattr(lib, f"CCH_KIND_{kind.upper()}"))) for kind in _KINDS}
