# SPDX-License-Identifier: Apache-2.0
"""One hash of everything that a compilation depends on."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cudacore_compile._cache.closure import inputs_of
from cudacore_compile._cache.libraries import compiler_identity
from cudacore_compile._cache.notes import Known, Notes
from cudacore_compile._cache.settings import check_options, environment, processors
from cudacore_compile._cache.states import Look
from cudacore_compile._cache.uncacheable import UncacheableError
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import BACKENDS, Request, files_written
from cudacore_compile._compilers.sources import check_headers, check_names, check_source
from cudacore_compile._compilers.targets import check_code_type, check_target
from cudacore_compile.typing import CompileTargetName, ObjectCodeFormatType, SourceCodeName, SourceCodeType
from cudacore_handles._sdk import as_options
from cudacore_handles._sdk.compile import carries_ptx

# This must be changed whenever the meaning of keys or the contents of entries change, so that old entries are not used.
_SCHEMA = b"cudacore-program-7"
# Code of these formats contains the current directory, whatever the options are.
_WITH_DIRECTORY = (ObjectCodeFormatType.LTOIR, ObjectCodeFormatType.OPTIXIR)


class Key(NamedTuple):
    """The key of a compilation, and the files that it covers."""

    key: bytes
    files: Known = Known(b"", b"", b"")


class Digest:
    """A hash of parts, each preceded by its length. It begins with what all keys have."""

    def __init__(
        self, schema: bytes, target: ObjectCodeFormatType, flags: Sequence[bytes], *, has_directory: bool
    ) -> None:
        self._hash = hashlib.sha256()
        self.add(b"schema", schema)
        self.add(b"environment", repr(environment()).encode("utf-8", "surrogateescape"))
        self.add(b"target", target.value.encode())
        if target is ObjectCodeFormatType.CUBIN and carries_ptx():
            self.add(b"carries", b"PTX")
        self.add_all(b"options", flags)
        self.add(b"processors", processors(flags))
        if has_directory:
            self.add(b"directory", os.fsencode(os.getcwd()))
            self.add(b"directory by its link", os.fsencode(os.environ.get("PWD", "")))

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


def key_of(
    request: Request, *, extra_digest: bytes | None = None, look: Look | None = None, notes: Notes | None = None
) -> Key:
    """Return the key of a compilation.

    Raises
    ------
    UncacheableError
        If the inputs of the compilation cannot be determined.
    ValueError
        If the options make the compiler write files.
    """
    code, code_type, options, target, names, headers = request
    for field in files_written(options):
        raise ValueError(
            f"ProgramOptions.{field} has the compiler write a file, which a program cache would leave out: compile "
            "without cache=, or leave the option out"
        )
    flags = options.as_bytes(BACKENDS[code_type], target)
    is_cxx = code_type is SourceCodeType.CXX
    has_lines = bool(options.debug or options.lineinfo)
    digest = Digest(_SCHEMA, target, flags, has_directory=has_lines or (is_cxx and target in _WITH_DIRECTORY))
    digest.add(b"code type", code_type.value.encode())
    digest.add(b"name", (options.name or "").encode("utf-8", "surrogateescape"))
    expressions = sorted(name.encode() for name in names)
    digest.add_all(b"name expressions", expressions)
    digest.add_all(b"headers", [item for pair in sorted(headers.items()) for item in pair])
    digest.add(b"extra", b"" if extra_digest is None else b"+" + extra_digest)
    digest.add(b"code", code)
    try:
        digest.add(b"compiler", compiler_identity(code_type, code, notes))
        check_options(options)
        if not is_cxx:
            _add_modules(digest, options)
            return Key(digest.digest())
        # NVRTC 12.0 to 13.2 put the times and the sizes of files beside the lines.
        inputs = inputs_of(code, flags, options, names=expressions, headers=headers, has_times=has_lines)
        files = inputs.known(Look() if look is None else look, notes)
        digest.add(b"files", files.value)
        return Key(digest.digest(), files)
    except UncacheableError as error:
        if extra_digest is not None:
            return Key(digest.digest())
        raise UncacheableError(
            f"the files that the program is compiled from cannot be determined, so it has no key: {error}"
        ) from None


def _add_modules(digest: Digest, options: ProgramOptions) -> None:
    """Add the libraries that an NVVM program is linked with."""
    from cudacore_compile._compilers import nvvm as _nvvm

    for name, module in options.extra_sources or ():
        digest.add(
            name.encode("utf-8", "surrogateescape"), module.encode() if isinstance(module, str) else bytes(module)
        )
    if options.use_libdevice:
        digest.add(b"libdevice", _nvvm._libdevice(_nvvm.load().path))


def make_program_cache_key(
    *,
    code: str | bytes,
    code_type: SourceCodeType | SourceCodeName,
    options: ProgramOptions,
    target_type: ObjectCodeFormatType | CompileTargetName,
    name_expressions: Sequence[str | bytes] = (),
    extra_digest: bytes | None = None,
    headers: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """Return the key of a compilation for a program cache.

    :meth:`Program.compile` computes the key itself if a cache is passed to it. The key depends on everything that
    determines the code: the program, the current contents of all files that it may include, the options (with the
    architecture of the current device if none is set), the format, the name expressions, and the compiler's build.

    Parameters
    ----------
    code : str or bytes
        The program.
    code_type : SourceCodeType or str
        Its language.
    options : ProgramOptions
        The options of the compilation.
    target_type : ObjectCodeFormatType or str
        The format to compile to.
    name_expressions : sequence of str or bytes, optional
        The name expressions, in any order. Default none.
    extra_digest : bytes, optional
        Additional bytes for the key, for inputs that are not visible here. With these bytes, there is a key even for a
        program whose included files cannot be determined; then the bytes must change whenever those files do. Default
        none.
    headers : mapping, optional
        Header files in memory, as in :class:`Program`. Default none.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    ValueError
        If the options make the compiler write files (`create_pch`, `time`, `fdevice_time_trace`), which would not
        happen if the code came from a cache; or if the inputs of the program cannot be determined, and `extra_digest`
        is not given.
    """
    if extra_digest is not None and not isinstance(extra_digest, (bytes, bytearray)):
        raise TypeError(f"extra_digest must be bytes, not {type(extra_digest).__name__}")
    language = check_code_type(code_type)
    request = Request(
        check_source("code", code, binary=language is SourceCodeType.NVVM),
        language,
        as_options(ProgramOptions, options),
        check_target(language, target_type),
        check_names(name_expressions),
        check_headers(headers),
    )
    return key_of(request, extra_digest=extra_digest).key
