# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the GPU state of processes: those of ``cudacore_handles.checkpoint``."""

from __future__ import annotations

from cudacore_handles.checkpoint import Process

__all__ = ["Process"]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
