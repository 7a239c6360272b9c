# SPDX-License-Identifier: Apache-2.0
"""The files that a C++ program may read, and the places where a file is missing. find_includes.py finds them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property

from cudacore_compile._cache.identity import Identity, Look, identity_of, is_settled, read, settled
from cudacore_compile._cache.uncacheable import UncacheableError


@dataclass
class Closure:
    """Files that a program may read, and the places where a file is missing."""

    files: dict[str, tuple[bytes, Identity]] = field(default_factory=dict)
    """dict: The SHA-256 and the identity of each file, by path."""
    directories: dict[str, tuple[Identity | None, set[str]]] = field(default_factory=dict)
    """dict: For each directory, its identity, and the names of missing files and directories in it."""
    others: dict[str, Identity | None] = field(default_factory=dict)
    """dict: The identities of paths that are not read: directories and dangling links where a file was looked for, and
    files with the name of a header in memory."""

    @cached_property
    def digest(self) -> bytes:
        """bytes: A hash of all files, with their paths. The search must be complete.

        The compiler reads a file with ``#pragma once`` a single time, by whatever path it is included. So the hash also
        covers which paths lead to the same file.
        """
        found = hashlib.sha256()
        first: dict[tuple[int, int], int] = {}
        others = {path: (bytes(32), identity) for path, identity in self.others.items() if identity is not None}
        for index, (path, (digest, identity)) in enumerate(sorted((self.files | others).items())):
            same = first.setdefault((identity.device, identity.inode), index)
            found.update(hashlib.sha256(os.fsencode(path)).digest())
            found.update(digest)
            found.update(b"" if same == index else b"%d" % same)
        return found.digest()

    @property
    def paths(self) -> list[str]:
        """list: All paths that the compiler looks at."""
        return [*self.files, *self.others, *self.directories]

    @cached_property
    def _identities(self) -> list[tuple[str, Identity | None]]:
        """list: Paths and identities of all files and directories. The search must be complete."""
        return [
            *((path, identity) for path, (_, identity) in self.files.items()),
            *self.others.items(),
            *((path, identity) for path, (identity, _) in self.directories.items()),
        ]

    def is_same(self, look: Look) -> bool:
        """Return whether no file was changed, created or removed since the identities were read."""
        return look.are(self._identities)

    def refreshed(self) -> Closure | None:
        """Return the closure with the current identities; None if files were changed, created or removed."""
        try:
            return self._refreshed()
        except UncacheableError:
            return None

    def _refreshed(self) -> Closure | None:
        for path, identity in self.others.items():
            if identity_of(path) != identity:
                return None
        directories = {}
        for directory, (identity, names) in self.directories.items():
            now = settled(identity_of(directory))
            if now != identity and any(os.path.lexists(os.path.join(directory, _first(name))) for name in names):
                return None
            directories[directory] = (now, names)
        files = {}
        for path, (digest, identity) in self.files.items():
            now = identity_of(path)
            if now is None:
                return None
            if now != identity:
                data, now = read(path)
                if hashlib.sha256(data).digest() != digest:
                    return None
            files[path] = (digest, now)
        return Closure(files, directories, self.others)

    def is_settled(self) -> bool:
        """Return whether every later change of the files and directories will be detected."""
        return all(is_settled(identity) for _, identity in self.files.values()) and all(
            is_settled(identity) for identity, _ in self.directories.values()
        )


def _first(name: str) -> str:
    """Return the first component of a missing path, which is relative to an existing directory.

    Once this component exists as a directory, the rest of the path can be created without a change of the existing
    directory.
    """
    return next((part for part in name.split("/") if part not in ("", ".")), "")
