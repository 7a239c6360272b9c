# SPDX-License-Identifier: Apache-2.0
"""Headers of installed packages and toolkits: CUB, libcu++, CUTLASS, the CUDA runtime.

Such headers are not searched for the files that they include. A program that includes one of them depends on the whole
directory ``cub``, and on the directories that headers in it name. A directory is read once. Later, the states of its
files need to be the same.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.scan import TIME
from cudacore_compile._cache.states import are_settled, fingerprint, group, modes, paths_of, read, times
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._version import __version__
from cudacore_handles._sdk.compile import file_states

_TOOLKITS = ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")
_SYSTEM = re.compile(r"/usr/(?:include|lib\w*|local/(?:include|cuda[^/]*))(?:/.*)?")
# Entries of a directory above which show that a package manager or an installer has made it.
_MARKS = re.compile(r".*\.dist-info|conda-meta|nvvm")
_VERSION = f"cudacore-tree-1 {__version__}"
_DIRECTIVE = re.compile(rb'^[ \t]*#[^\n]*[<"][^\n]*', re.MULTILINE)
_NAME = re.compile(rb'([<"][^<>"\n\0]+)[>"]')
_COMPUTED = re.compile(rb"#[ \t]*include(?:_next)?[ \t]+[A-Za-z_]")


class Tree(NamedTuple):
    """A directory of headers with all directories in it, or only the files of a directory (`top` is "DIRECTORY/.")."""

    top: str
    groups: bytes  # all files and directories, for file_states()
    fingerprint: bytes
    digest: bytes  # of the names and contents of all files
    times: bytes
    names: frozenset[bytes]  # the names that headers include, b'"name' or b"<name"; relative ones begin with b'"../'
    is_computed: bool  # whether a header includes a macro
    error: str

    def paths(self) -> Iterator[str]:
        """Return the paths of all files and directories."""
        return (os.path.join(*path) for path in paths_of(self.groups))


@functools.cache
def is_installed(directory: str) -> bool:
    """Return whether a directory belongs to an installed package, to a toolkit or to the system."""
    real = os.path.realpath(directory)
    tops = [os.path.realpath(os.environ[name]) for name in _TOOLKITS if os.environ.get(name)]
    if _SYSTEM.fullmatch(real) or any(real == top or real.startswith(top + "/") for top in tops):
        return True
    while real != "/":
        real = os.path.dirname(real)
        try:
            if any(_MARKS.fullmatch(name) for name in os.listdir(real)):
                return True
        except OSError:
            pass
    return False


_trees: dict[str, Tree] = {}


def top_of(directory: str, entry: str) -> str:
    """Return the top of the tree with an entry of a directory: ``cub``, or all files of the directory for a file."""
    path = os.path.join(directory, entry)
    return path if os.path.isdir(path) else os.path.join(directory, ".")


def tree_of(top: str, notes: Notes | None) -> Tree:
    """Return a tree by its top.

    Raises
    ------
    UncacheableError
        If a file cannot be read.
    """
    key = hashlib.sha256(f"{_VERSION}\0{os.path.abspath(top)}".encode("utf-8", "surrogateescape")).digest()
    known = _trees.get(top)
    if known is None and notes is not None:
        data = notes.load(key)
        known = None if data is None else _unpack(top, data)
    if known is not None and fingerprint(file_states(known.groups)) == known.fingerprint:
        _trees[top] = known
        return known
    start = time.time_ns()
    tree, is_settled = _read(top, start)
    if is_settled:
        _trees[top] = tree
        if notes is not None:
            notes.save(key, _pack(tree))
    return tree


def _read(top: str, start: int) -> tuple[Tree, bool]:
    groups = group(_walk(top))
    states = file_states(groups)
    digest = hashlib.sha256()
    names: set[bytes] = set()
    is_computed, error = False, ""
    for (directory, name), mode in zip(paths_of(groups), modes(states, groups), strict=True):
        if not stat.S_ISREG(mode):
            continue
        path = os.path.join(directory, name)
        data = read(path)
        digest.update(hashlib.sha256(os.fsencode(os.path.relpath(path, top))).digest() + hashlib.sha256(data).digest())
        text = data.replace(b"\\\n", b"")
        for found in _NAME.findall(b"\n".join(_DIRECTIVE.findall(text))):
            beside = os.path.join(directory, os.fsdecode(found[1:]))
            if b".." in found and found.startswith(b'"'):
                names.add(b'"' + os.fsencode(os.path.relpath(beside, os.path.dirname(top))))
            if b".." not in found or not os.path.exists(beside):
                names.add(found)
        is_computed = is_computed or _COMPUTED.search(text) is not None
        word = None if error else TIME.search(text)
        if word is not None:
            error = f"{path} has {word[0].decode()}"
    print_of = fingerprint(states)
    tree = Tree(top, groups, print_of, digest.digest(), times(states), frozenset(names), is_computed, error)
    return tree, are_settled(states, start) and file_states(groups) == states


def _walk(top: str) -> Iterator[str]:
    """Return all files and directories of a tree. A link to a directory is followed, but not into a circle."""
    todo = [(top, frozenset[tuple[int, int]]())]
    while todo:
        directory, above = todo.pop()
        yield os.path.join(directory, ".")
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    path = os.path.join(directory, entry.name)
                    if not entry.is_dir():
                        yield path
                    elif not top.endswith("/."):
                        status = os.stat(path)
                        inode = status.st_dev, status.st_ino
                        if inode not in above:
                            todo.append((path, above | {inode}))
        except OSError as error:
            raise UncacheableError(f"{directory} cannot be read: {error.strerror}") from None


def _pack(tree: Tree) -> bytes:
    names = sorted(map(os.fsdecode, tree.names))
    facts = [os.fsdecode(tree.groups), *(item.hex() for item in tree[2:5]), names, tree.is_computed, tree.error]
    return json.dumps(facts).encode()


def _unpack(top: str, data: bytes) -> Tree | None:
    """Return the tree that :func:`_pack` has packed; None for other bytes."""
    try:
        groups, print_of, digest, times_of, names, is_computed, error = json.loads(data)
        hashes = (bytes.fromhex(print_of), bytes.fromhex(digest), bytes.fromhex(times_of))
        found = frozenset(map(os.fsencode, names))
        return Tree(top, os.fsencode(groups), *hashes, found, bool(is_computed), str(error))
    except (ValueError, TypeError, RecursionError):
        return None
