# SPDX-License-Identifier: Apache-2.0
"""Layouts of views, in the module from which programs of ``cuda.core`` import them."""

from cudacore_handles._sdk import _StridedLayout

__all__ = ["_StridedLayout"]
