# SPDX-License-Identifier: Apache-2.0
"""Layouts of views, where programs of ``cuda.core`` import them from."""

from cudacore_handles._sdk import _StridedLayout

__all__ = ["_StridedLayout"]
