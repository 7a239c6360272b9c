# SPDX-License-Identifier: Apache-2.0
"""One hash of everything that a compilation depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cudacore_compile._cache.inputs import Inputs, inputs_of
from cudacore_compile._cache.notes import Notes
from cudacore_compile._cache.nvrtc_build import chosen_build
from cudacore_compile._cache.settings import check_options, environment, processors
from cudacore_compile._cache.states import Look
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._compilers.errors import NVJitLinkError
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import BACKENDS, files_written
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType
from cudacore_handles._sdk.compile import carries_ptx

# This must be changed whenever the meaning of keys or the contents of entries change, so that old entries are not used.
_SCHEMA = b"cudacore-program-6"
# Code of these formats contains the current directory, whatever the options are.
_WITH_DIRECTORY = (ObjectCodeFormatType.LTOIR, ObjectCodeFormatType.OPTIXIR)


class Key(NamedTuple):
    """The key of a compilation, and the files that it covers."""

    key: bytes
    inputs: Inputs | None
    """Inputs or None: The files; None for programs that read none."""


def program_key(
    code: bytes,
    code_type: SourceCodeType,
    options: ProgramOptions,
    target: ObjectCodeFormatType,
    names: Iterable[str],
    *,
    headers: Mapping[bytes, bytes],
    extra_digest: bytes | None = None,
    look: Look | None = None,
    notes: Notes | None = None,
) -> Key:
    """Return the key of a compilation.

    Raises
    ------
    UncacheableError
        If the inputs of the compilation cannot be determined.
    ValueError
        If the options make the compiler write files.
    """
    for field in files_written(options):
        raise ValueError(
            f"ProgramOptions.{field} has the compiler write a file, which a program cache would leave out: compile "
            "without cache=, or leave the option out"
        )
    backend = BACKENDS[code_type]
    flags = options.as_bytes(backend, target)
    digest = Digest()
    digest.add(b"schema", _SCHEMA)
    digest.add(b"environment", repr(environment()).encode("utf-8", "surrogateescape"))
    digest.add(b"code type", code_type.value.encode())
    digest.add(b"target", target.value.encode())
    if target is ObjectCodeFormatType.CUBIN and carries_ptx():
        digest.add(b"carries", b"PTX")
    digest.add(b"name", (options.name or "").encode("utf-8", "surrogateescape"))
    digest.add_all(b"options", flags)
    digest.add(b"processors", processors(flags))
    expressions = sorted(name.encode() for name in names)
    digest.add_all(b"name expressions", expressions)
    digest.add_all(b"headers", [item for pair in sorted(headers.items()) for item in pair])
    digest.add(b"extra", b"" if extra_digest is None else b"+" + extra_digest)
    digest.add(b"code", code)
    has_lines = bool(options.debug or options.lineinfo)
    if has_lines or (code_type is SourceCodeType.CXX and target in _WITH_DIRECTORY):
        digest.add(b"directory", os.fsencode(os.getcwd()))
        digest.add(b"directory by its link", os.fsencode(os.environ.get("PWD", "")))
    inputs = None
    try:
        digest.add(b"compiler", compiler_identity(code_type, code, notes))
        check_options(options)
        if code_type is SourceCodeType.CXX:
            inputs = inputs_of(
                code, flags, options, names=expressions, headers=headers, has_times=has_lines, notes=notes
            )
            closure = inputs.look(Look() if look is None else look)
            digest.add(b"files", closure.digest)
            if has_lines:  # NVRTC 12.0 to 13.2 put the times and the sizes of files beside the lines
                digest.add(b"times", closure.times)
        else:
            _add_modules(digest, options)
    except UncacheableError as error:
        if extra_digest is None:
            raise UncacheableError(
                f"the files that the program is compiled from cannot be determined, so it has no key: {error}"
            ) from None
        inputs = None
    return Key(digest.digest(), inputs)


def compiler_identity(code_type: SourceCodeType, code: bytes, notes: Notes | None) -> bytes:
    """Return an identification of the build of the compiler for a program."""
    backend = BACKENDS[code_type]
    if backend is not CompilerBackendType.NVRTC:
        return _identity(backend, code)
    if notes is None or nvrtc_identity.cache_info().currsize:
        return nvrtc_identity()
    return chosen_build(notes, _load_nvrtc)


class Digest:
    """A hash of parts, each preceded by its length."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, label: bytes, data: bytes) -> None:
        self._hash.update(struct.pack("<QQ", len(label), len(data)))
        self._hash.update(label)
        self._hash.update(data)

    def add_all(self, label: bytes, items: Sequence[bytes]) -> None:
        self._hash.update(struct.pack("<QQ", len(label), len(items)))
        self._hash.update(label)
        for item in items:
            self.add(b"", item)

    def digest(self) -> bytes:
        return self._hash.digest()


def _add_modules(digest: Digest, options: ProgramOptions) -> None:
    """Add the libraries that an NVVM program is linked with."""
    from cudacore_compile._compilers import nvvm as _nvvm

    for name, module in options.extra_sources or ():
        digest.add(
            name.encode("utf-8", "surrogateescape"), module.encode() if isinstance(module, str) else bytes(module)
        )
    if options.use_libdevice:
        digest.add(b"libdevice", _nvvm._libdevice(_nvvm.load().path))


def _identity(backend: CompilerBackendType, code: bytes) -> bytes:
    """Return an identification of the build of libNVVM or nvJitLink."""
    from cudacore_compile._compilers import nvvm as _nvvm

    path = _nvvm.load().path if backend is CompilerBackendType.NVVM else _linker_of(code)
    return backend.encode() + b"\0" + loaded_identity(path)


def _linker_of(ptx: bytes) -> str:
    """Return the path of nvJitLink. Raise if the driver links, because the build of its linker cannot be determined."""
    from cudacore_compile._compilers import nvjitlink as _nvjitlink
    from cudacore_compile._compilers.choose_linker import choose_linker, ptx_version

    try:
        linker = _nvjitlink.load()
    except NVJitLinkError as error:
        raise UncacheableError(f"there is no nvJitLink: {error.meaning}") from None
    choice = choose_linker(linker.version, None, inputs=["ptx"], ptx=ptx_version(ptx))
    if choice.backend is not CompilerBackendType.NVJITLINK:
        raise UncacheableError(f"the driver would link it: {choice.reason}")
    return linker.path


@functools.cache
def nvrtc_identity() -> bytes:
    """Return an identification of the build of NVRTC and its built-in functions."""
    from cudacore_compile._compilers import nvrtc as _nvrtc  # not needed for most cache hits

    compiler = _nvrtc.load()
    parts = [compiler.version_text.encode()]
    if compiler.path:
        parts += [loaded_identity(compiler.path), *_builtins(compiler.path).values()]
    return b"\0".join(parts)


def _load_nvrtc() -> tuple[bytes, list[str]]:
    """Return the identification of NVRTC and its built-in functions, and their files."""
    from cudacore_compile._compilers import nvrtc as _nvrtc

    path = _nvrtc.load().path
    return nvrtc_identity(), [path, os.path.realpath(path), *_builtins(path)] if path else []


def has_other_builtins() -> bool:
    """Return whether NVRTC has loaded built-in functions other than those of :func:`nvrtc_identity`.

    NVRTC loads them for the first compilation. Before that, the file can be replaced, or another library can load a
    file with the same name.
    """
    from cudacore_compile._compilers import nvrtc as _nvrtc  # not needed for most cache hits

    compiler = _nvrtc.load()
    if not compiler.path:
        return False
    try:
        found = _find_builtins(compiler.path)
        mappings = Path("/proc/self/maps").read_bytes()
    except OSError:
        return True
    loaded = {os.fsdecode(path) for path in _BUILTINS.findall(mappings)}
    return found != _builtins(compiler.path) or not loaded <= found.keys()


_BUILTINS = re.compile(rb"/[^\n]*/libnvrtc-builtins\.so[^\n]*")


def _find_builtins(nvrtc: str) -> dict[str, bytes]:
    """Return the build of each library of built-in functions that NVRTC may load, by path."""
    # The loader searches LD_LIBRARY_PATH before the directory of NVRTC 12.
    places = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), os.path.dirname(os.path.realpath(nvrtc))]
    files = [file.resolve() for place in places if place for file in sorted(Path(place).glob("libnvrtc-builtins.so*"))]
    return {str(file): build_identity(file) for file in files}


_builtins = functools.cache(_find_builtins)


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
    """Return the build ID of a shared library, a hash that its linker has stored.

    If there is none, return the size and time of the file.
    """
    with open(library, "rb") as file:
        header = file.read(64)
        if header[:6] == b"\x7fELF\x02\x01":
            (offset,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            file.seek(offset)
            table = file.read(size * count)
            for at in range(0, len(table) - 55, size):
                kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", table, at)
                if kind == _PT_NOTE:
                    file.seek(start)
                    found = _gnu_build_id(file.read(length))
                    if found:
                        return found
    status = library.stat()
    return f"{library} {status.st_size} {status.st_mtime_ns}".encode("utf-8", "surrogateescape")


_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3


def _gnu_build_id(notes: bytes) -> bytes:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name_at = at + 12
        data_at = name_at + (name_size + 3) // 4 * 4
        if kind == _NT_GNU_BUILD_ID and notes[name_at : name_at + 4] == b"GNU\0":
            return notes[data_at : data_at + size]
        at = data_at + (size + 3) // 4 * 4
    return b""
