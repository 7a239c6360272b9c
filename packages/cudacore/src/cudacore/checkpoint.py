# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the GPU state of processes: those of ``cudacore_handles.checkpoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_handles._sdk import make_getattr as _make_getattr
from cudacore_handles._sdk import public_names as _public_names
from cudacore_handles.checkpoint import Process

__all__ = ["Process"]


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    __getattr__ = _make_getattr(__name__, {}, globals())

    def __dir__() -> list[str]:
        return _public_names(globals())
