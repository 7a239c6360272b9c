# SPDX-License-Identifier: Apache-2.0
"""Program caches: the inputs of a compilation, keys, and storage of entries."""

from __future__ import annotations

from collections.abc import Iterable

from cudacore_handles._sdk import public


@public
class UncacheableError(ValueError):
    """The inputs of a compilation or link cannot be determined, so it cannot be cached. The message has the reason."""

    def __init__(self, reason: str, files: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.files: tuple[str, ...] = tuple(sorted(files))
        """tuple of str: The files that :meth:`Program.dependencies` has found nevertheless. There may be others."""
