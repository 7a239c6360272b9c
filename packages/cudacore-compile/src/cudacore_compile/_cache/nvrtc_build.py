# SPDX-License-Identifier: Apache-2.0
"""The build of the NVRTC that this process would load, known from an earlier process.

Finding and loading NVRTC takes longer than the rest of a cache hit. So the identification of its build is kept beside
the entries of a cache, with the identities of all files and directories that decide which NVRTC is found. As long as
none of them has changed, and no library has loaded an NVRTC, a lookup does not load it.

This is used only for lookups. When code is stored, the build is that of the NVRTC that compiled it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import site
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.states import are_settled, fingerprint, group, paths_of
from cudacore_compile._version import __version__
from cudacore_handles._sdk.compile import file_states, library_loads

_VERSION = f"cudacore-nvrtc-2 {__version__}"
_LOADED = re.compile(rb"/libnvrtc\.so")
_TOOLKITS = ("CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH")
# Where the dynamic loader searches, apart from $LD_LIBRARY_PATH and the directories of Python.
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_LOADER_CACHE = "/etc/ld.so.cache"
_LIBRARIES = ("*", "*/lib*", "*/*/lib*")  # directories in a toolkit or a wheel that can contain libraries
_VARIANTS = ("*-linux-gnu", "glibc-hwcaps", "glibc-hwcaps/*", "*-linux-gnu/glibc-hwcaps", "*-linux-gnu/glibc-hwcaps/*")

Load = Callable[[], "tuple[bytes, list[str]]"]


class _Chosen(NamedTuple):
    build: bytes
    groups: bytes  # all files and directories that decide which NVRTC is found
    fingerprint: bytes


_chosen: tuple[bytes, int] | None = None  # the build, and how many libraries were loaded when it was certain


def chosen_build(notes: Notes, load: Load) -> bytes:
    """Return an identification of the build of the NVRTC that this process would load.

    The identification stays the same until another library loads an NVRTC, as if that NVRTC had been loaded.

    Parameters
    ----------
    notes : Notes
        Where the identification is kept for other processes.
    load : callable
        Loads NVRTC; returns the identification, and the files that it depends on. Without files, the identification
        is not kept.
    """
    global _chosen
    loads = library_loads()
    if _chosen is not None and _chosen[1] == loads:
        return _chosen[0]
    key = None if _is_loaded() else _search_key()
    if key is None:
        return load()[0]
    build = _recall(key, notes) if _chosen is None else _chosen[0]
    if build is None:
        return _load_and_keep(key, notes, load)
    _chosen = build, loads
    return build


def _recall(key: bytes, notes: Notes) -> bytes | None:
    """Return the build that was kept; None if there is none, or if something has changed."""
    data = notes.load(key)
    known = None if data is None else _unpack(data)
    return known.build if known is not None and fingerprint(file_states(known.groups)) == known.fingerprint else None


def _load_and_keep(key: bytes, notes: Notes, load: Load) -> bytes:
    """Load NVRTC and keep its build, unless something changes meanwhile."""
    start = time.time_ns()
    before = group(_places())
    states = file_states(before)
    build, files = load()
    if files and file_states(before) == states:
        groups = group({*(os.path.join(*path) for path in paths_of(before)), *files, *map(os.path.dirname, files)})
        states = file_states(groups)
        if are_settled(states, start):
            notes.save(key, _pack(_Chosen(build, groups, fingerprint(states))))
    return build


def _is_loaded() -> bool:
    """Return whether this process has loaded an NVRTC already, which may not be the one that a search would find."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return _LOADED.search(file.read()) is not None
    except OSError:
        return True


def _search_key() -> bytes | None:
    """Return a hash of everything that decides which NVRTC is found, apart from files; None if that is not known."""
    loader = sorted(item for item in os.environb.items() if item[0].startswith(b"LD_"))
    try:
        with open("/proc/self/environ", "rb") as file:
            at_start = sorted(tuple(item.split(b"=", 1)) for item in file.read().split(b"\0") if item[:3] == b"LD_")
        if loader != at_start:  # the dynamic loader uses the variables that the process was started with
            return None
        python = (sys.version, sys.executable, sys.prefix, sys.base_prefix, _directories(sys.path), _site_packages())
        parts = (_VERSION, python, loader, _toolkits(), _library_path())
    except OSError:  # the current directory or /proc does not exist
        return None
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).digest()


def _directories(paths: Iterable[str]) -> list[str]:
    return [os.path.abspath(path) for path in paths]


def _site_packages() -> list[str]:
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*site.getsitepackages(), *user]


def _toolkits() -> list[str]:
    return [os.path.abspath(os.environ[name]) if os.environ.get(name) else "" for name in _TOOLKITS]


def _library_path() -> list[str]:
    path = os.environ.get("LD_LIBRARY_PATH")
    return _directories(path.replace(";", ":").split(":")) if path else []


def _places() -> set[str]:
    """Return the files and directories that decide which NVRTC is found. Some of them do not exist."""
    from glob import escape, glob  # imported here, because it is not needed if the build is known

    python = _directories(sys.path)
    toolkits = [path for path in _toolkits() if path]
    toolkits += [os.path.join(path, "nvidia") for path in [*_site_packages(), *python]]
    libraries = [*_library_path(), *_SYSTEM]
    libraries += [os.path.join(top, name) for top in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64")]
    found = {*toolkits, *libraries, _LOADER_CACHE, os.path.realpath(sys.executable)}
    found.update(os.path.join(path, "cuda", "pathfinder", "__init__.py") for path in python)
    patterns = [os.path.join(escape(top), below) for top in toolkits for below in _LIBRARIES]
    patterns += [os.path.join(escape(path), below) for path in libraries for below in _VARIANTS]
    for pattern in patterns:
        found.update(filter(os.path.isdir, glob(pattern)))
    return found


def _pack(chosen: _Chosen) -> bytes:
    return json.dumps([chosen.build.hex(), os.fsdecode(chosen.groups), chosen.fingerprint.hex()]).encode()


def _unpack(data: bytes) -> _Chosen | None:
    """Return the value that :func:`_pack` has packed; None for other bytes."""
    try:
        build, groups, found = json.loads(data)
        return _Chosen(bytes.fromhex(build), os.fsencode(groups), bytes.fromhex(found))
    except (ValueError, TypeError, RecursionError):
        return None
