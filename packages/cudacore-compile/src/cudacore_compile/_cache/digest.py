# SPDX-License-Identifier: Apache-2.0
"""One hash of everything that a compilation depends on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cudacore_compile._cache.closure import inputs_of
from cudacore_compile._cache.libraries import compiler_identity
from cudacore_compile._cache.notes import Known, Notes, hash_of
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


def common_parts(target: ObjectCodeFormatType, flags: Sequence[bytes], *, has_directory: bool) -> list[object]:
    """Return what all keys have. The code contains the current directory if `has_directory` is true."""
    carries_ptx_too = target is ObjectCodeFormatType.CUBIN and carries_ptx()
    directory = (os.getcwd(), os.environ.get("PWD")) if has_directory else ()
    return [environment(), target.value, carries_ptx_too, flags, processors(flags), directory]


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
    expressions = sorted(name.encode() for name in names)
    in_memory = hash_of(*(item for pair in sorted(headers.items()) for item in pair))
    parts: list[object] = [_SCHEMA, code, code_type.value, options.name, expressions, in_memory, extra_digest]
    parts += common_parts(target, flags, has_directory=has_lines or (is_cxx and target in _WITH_DIRECTORY))
    try:
        parts.append(compiler_identity(code_type, code, notes))
        check_options(options)
        if not is_cxx:
            return Key(hash_of(*parts, *_modules(options)))
        # NVRTC 12.0 to 13.2 put the times and the sizes of files beside the lines.
        inputs = inputs_of(code, flags, options, names=expressions, headers=headers, has_times=has_lines)
        files = inputs.known(Look() if look is None else look, notes)
        return Key(hash_of(*parts, files.value), files)
    except UncacheableError as error:
        if extra_digest is not None:
            return Key(hash_of(*parts))
        raise UncacheableError(
            f"the files that the program is compiled from cannot be determined, so it has no key: {error}"
        ) from None


def _modules(options: ProgramOptions) -> list[object]:
    """Return the libraries that an NVVM program is linked with."""
    from cudacore_compile._compilers import nvvm as _nvvm

    modules = [(name, text if isinstance(text, str) else bytes(text)) for name, text in options.extra_sources or ()]
    return [modules, _nvvm._libdevice(_nvvm.load().path) if options.use_libdevice else b""]


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

    Examples
    --------
    >>> options = core.ProgramOptions(arch="sm_90")
    >>> key = core.utils.make_program_cache_key(
    ...     code="__device__ int x;", code_type="c++", options=options, target_type="cubin"
    ... )
    >>> len(key)
    32
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
    return key_of(request, extra_digest=None if extra_digest is None else bytes(extra_digest)).key
