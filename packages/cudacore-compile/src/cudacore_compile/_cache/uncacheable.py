# SPDX-License-Identifier: Apache-2.0
"""The error for a compilation that cannot be cached."""

from __future__ import annotations


class UncacheableError(ValueError):
    """The inputs of a compilation or link cannot be determined, so it cannot be cached. The message has the reason."""

    __module__ = "cudacore_compile"  # the name shown in tracebacks
