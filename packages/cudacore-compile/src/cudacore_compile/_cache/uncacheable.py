# SPDX-License-Identifier: Apache-2.0
"""The error for a compilation that cannot be cached."""

from __future__ import annotations

from collections.abc import Iterable


class UncacheableError(ValueError):
    """The inputs of a compilation or link cannot be determined, so it cannot be cached. The message has the reason."""

    __module__ = "cudacore_compile"  # the name shown in tracebacks
    files: tuple[str, ...] = ()
    """tuple of str: The files that :meth:`Program.dependencies` has found nevertheless. There may be others."""

    @classmethod
    def _with_files(cls, reason: str, files: Iterable[str]) -> UncacheableError:
        error = cls(reason)
        error.files = tuple(sorted(files))
        return error
