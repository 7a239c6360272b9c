# SPDX-License-Identifier: Apache-2.0
"""Views of arrays, and how functions take them; see ``cudacore_handles``."""

from __future__ import annotations

from cudacore import _later
from cudacore_handles import StridedMemoryView, args_viewable_as_strided_memory

__all__ = ["StridedMemoryView", "args_viewable_as_strided_memory"]


def __getattr__(name: str) -> object:
    raise AttributeError(_later.message(__name__, name), name=name)
