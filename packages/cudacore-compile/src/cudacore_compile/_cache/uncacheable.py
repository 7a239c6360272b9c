# SPDX-License-Identifier: Apache-2.0
"""The error for a compilation that cannot be cached."""

from __future__ import annotations


class UncacheableError(ValueError):
    """A compilation whose inputs cannot be determined before it runs; the message has the reason."""

    __module__ = "cudacore_compile"  # the name shown in tracebacks
