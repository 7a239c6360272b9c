# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the GPU state of processes: those of ``cudacore_handles.checkpoint``."""

from __future__ import annotations

from cudacore_handles._sdk import finish_module as _finish_module
from cudacore_handles.checkpoint import Process

__all__ = ["Process"]

_finish_module(globals())
