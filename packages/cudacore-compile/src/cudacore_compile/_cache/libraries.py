# SPDX-License-Identifier: Apache-2.0
"""The builds of the compilers that this process has loaded or would load."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import site
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache.states import (
    Known,
    are_settled,
    fingerprint,
    group,
    hash_of,
    keep,
    paths_of,
    recall,
)
from cudacore_compile._compilers.errors import NVJitLinkError
from cudacore_compile._compilers.libraries import load
from cudacore_compile._compilers.targets import BACKENDS
from cudacore_compile._version import __version__
from cudacore_compile.typing import CompilerBackendType, SourceCodeType
from cudacore_handles._sdk.compile import file_states, library_loads

if TYPE_CHECKING:
    from cudacore_compile._cache.resource import ProgramCacheResource

_VERSION = f"cudacore-nvrtc-3 {__version__}"
_LOADED = re.compile(rb"/libnvrtc\.so")
_TOOLKITS = ("CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH")
# Where the dynamic loader searches, apart from $LD_LIBRARY_PATH and the directories of Python.
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_LIBRARIES = ("*", "*/lib*", "*/*/lib*")  # directories in a toolkit or a wheel that can contain libraries
_VARIANTS = ("*-linux-gnu", "glibc-hwcaps", "glibc-hwcaps/*", "*-linux-gnu/glibc-hwcaps", "*-linux-gnu/glibc-hwcaps/*")
_PART = 65_536  # the build ID is near the start of a file or, after patchelf, near its end
_BUILD_ID = re.compile(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", re.DOTALL)  # a note of 20 bytes


def compiler_identity(code_type: SourceCodeType, code: bytes, cache: ProgramCacheResource | None) -> bytes:
    """Return an identification of the build of the compiler for a program."""
    backend = BACKENDS[code_type]
    if backend is CompilerBackendType.NVRTC:
        return nvrtc_identity() if cache is None or _builds.cache_info().currsize else _chosen_nvrtc(cache)
    path = load(backend).path if backend is CompilerBackendType.NVVM else _linker_of(code)
    return backend.encode() + b"\0" + loaded_identity(path)


def _linker_of(ptx: bytes) -> str:
    """Return the path of nvJitLink. Raise if the driver links, because the build of its linker cannot be determined."""
    from cudacore_compile._compilers.choose_linker import choose_linker, ptx_version

    try:
        linker = load(CompilerBackendType.NVJITLINK)
    except NVJitLinkError as error:
        raise UncacheableError(f"there is no nvJitLink: {error.meaning}") from None
    choice = choose_linker(linker.version, lambda: None, inputs=["ptx"], ptx=ptx_version(ptx))
    if choice.backend is not CompilerBackendType.NVJITLINK:
        raise UncacheableError(f"the driver would link it: {choice.reason}")
    return str(linker.path)


_chosen: tuple[bytes, int] | None = None  # the build, and how many libraries were loaded when it was certain


def _chosen_nvrtc(cache: ProgramCacheResource) -> bytes:
    """Return an identification of the build of the NVRTC that this process would load.

    Finding and loading NVRTC takes longer than the rest of a cache hit. So the identification is kept beside the
    entries of a cache, with all files and directories that decide which NVRTC is found. In a process, it stays the same
    until another library loads an NVRTC. This is used only for lookups. When code is stored, the build is that of the
    NVRTC that compiled it.
    """
    global _chosen
    loads = library_loads()
    if _chosen is not None and _chosen[1] == loads:
        return _chosen[0]
    key = _search_key()
    if key is None:
        return nvrtc_identity()
    known = recall(key, cache) if _chosen is None else Known(_chosen[0])
    if known is not None:
        _chosen = known.value, loads
        return known.value
    start = time.time_ns()
    before = group(_places())
    states = file_states(before)
    build, files = nvrtc_identity(), [path for path in _builds() if path]
    if files and file_states(before) == states:  # nothing has changed while NVRTC was loaded
        groups = group({*paths_of(before), *files, *map(os.path.dirname, files)})
        states = file_states(groups)
        keep(key, Known(build, groups, fingerprint(states), are_settled(states, start)), cache)
    return build


def _search_key() -> bytes | None:
    """Return a hash of everything that decides which NVRTC is found, apart from files; None if that is not known."""
    loader = sorted(item for item in os.environb.items() if item[0].startswith(b"LD_"))
    try:
        at_start = Path("/proc/self/environ").read_bytes().split(b"\0")
        is_loaded = _LOADED.search(Path("/proc/self/maps").read_bytes())
        parts = (_VERSION, sys.version, sys.executable, sys.prefix, sys.base_prefix, loader, _roots())
    except OSError:  # the current directory or /proc does not exist
        return None
    # The dynamic loader uses the variables that the process was started with. If an NVRTC is loaded already, perhaps by
    # another library, it may not be the one that a search would find.
    is_known = loader == sorted(tuple(item.split(b"=", 1)) for item in at_start if item[:3] == b"LD_")
    return hash_of(*parts) if is_known and not is_loaded else None


def _roots() -> tuple[list[str], list[str], list[str]]:
    """Return directories in which NVRTC is searched for: those of Python, of toolkits, and of the dynamic loader."""
    python = [os.path.abspath(path) for path in sys.path] + site.getsitepackages()
    python += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    toolkits = [os.path.abspath(os.environ[name]) if os.environ.get(name) else "" for name in _TOOLKITS]
    libraries = re.split("[:;]", os.environ.get("LD_LIBRARY_PATH", ""))
    return python, toolkits, [os.path.abspath(path) for path in libraries if path]


def _places() -> set[str]:
    """Return the files and directories that decide which NVRTC is found. Some of them do not exist."""
    from glob import escape, glob  # imported here, because it is not needed if the build is known

    python, toolkits, libraries = _roots()
    toolkits = [*filter(None, toolkits), *(os.path.join(path, "nvidia") for path in python)]
    libraries += _SYSTEM
    libraries += [os.path.join(top, name) for top in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64")]
    found = {*toolkits, *libraries, "/etc/ld.so.cache", os.path.realpath(sys.executable)}
    found.update(os.path.join(path, "cuda", "pathfinder", "__init__.py") for path in python)
    patterns = [os.path.join(escape(top), below) for top in toolkits for below in _LIBRARIES]
    patterns += [os.path.join(escape(path), below) for path in libraries for below in _VARIANTS]
    for pattern in patterns:
        found.update(filter(os.path.isdir, glob(pattern)))
    return found


def nvrtc_identity() -> bytes:
    """Return an identification of the build of NVRTC and its built-in functions."""
    return b"\0".join(_builds().values())


_BUILTINS = re.compile(rb"/[^\n]*/libnvrtc-builtins\.so[^\n]*")


def has_other_builtins() -> bool:
    """Return whether NVRTC has loaded built-in functions other than those of :func:`nvrtc_identity`.

    NVRTC loads them for the first compilation. Before that, the file can be replaced, or another library can load a
    file with the same name.
    """
    try:
        mappings = Path("/proc/self/maps").read_bytes()
        found = _find_builds()
    except OSError:
        return True
    loaded = {os.fsdecode(path) for path in _BUILTINS.findall(mappings)}
    return len(found) > 1 and (found != _builds() or not loaded <= found.keys())


def _find_builds() -> dict[str, bytes]:
    """Return the builds of NVRTC and of each library of built-in functions that it may load, by path.

    The version of NVRTC has an empty path. If its library is not a file, nothing else is known.
    """
    compiler = load(CompilerBackendType.NVRTC)
    found = {"": compiler.version_text.encode()}
    if compiler.path:
        found[compiler.path] = loaded_identity(compiler.path)
        # The loader searches LD_LIBRARY_PATH before the directory of NVRTC 12.
        places = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), os.path.dirname(os.path.realpath(compiler.path))]
        for file in (file for place in places if place for file in sorted(Path(place).glob("libnvrtc-builtins.so*"))):
            found[str(file.resolve())] = build_identity(file)
    return found


_builds = functools.cache(_find_builds)


@functools.cache
def loaded_identity(path: str) -> bytes:
    """Return the build of a library that this process has loaded.

    Raises
    ------
    UncacheableError
        If its file was replaced meanwhile, for example by an upgrade.
    """
    library = Path(path).resolve()
    try:
        found = build_identity(library)
        mappings = Path("/proc/self/maps").read_bytes()
    except OSError as error:
        raise UncacheableError(f"it is not known which build {path!r} is: {error}") from None
    # Compare the name only, because pip renames directories before it removes them.
    if b"/" + os.fsencode(library.name) + b" (deleted)\n" in mappings:
        raise UncacheableError(f"{library} was replaced after this process has loaded it")
    return found


def build_identity(library: Path) -> bytes:
    """Return the build ID of a shared library, a hash that its linker has stored; without one, a hash of the file."""
    with open(library, "rb") as file:
        start = file.read(_PART)
        file.seek(max(0, os.fstat(file.fileno()).st_size - _PART))
        found = _BUILD_ID.search(start) or _BUILD_ID.search(file.read())
    return found[1] if found is not None else hashlib.sha256(library.read_bytes()).digest()
