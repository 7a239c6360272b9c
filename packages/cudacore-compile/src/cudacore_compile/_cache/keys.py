# SPDX-License-Identifier: Apache-2.0
"""Keys of program caches, for those who look things up themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cudacore_compile._cache.digest import program_key
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.sources import check_headers, check_names, check_source
from cudacore_compile._compilers.targets import check_code_type, check_target
from cudacore_compile.typing import ObjectCodeFormatType, SourceCodeType
from cudacore_handles._sdk import as_options


def make_program_cache_key(
    *,
    code: str | bytes,
    code_type: SourceCodeType | str,
    options: ProgramOptions,
    target_type: ObjectCodeFormatType | str,
    name_expressions: Sequence[str | bytes] = (),
    extra_digest: bytes | None = None,
    headers: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """Return the key of a compilation for a program cache.

    :meth:`Program.compile` makes it by itself when it is given a cache. All that decides on the code is in the key: the
    program and all files that it may include, wherever these are found, as they are now; options, with the architecture
    of the current device where none is set; the format, the name expressions, and the compiler's build.

    Parameters
    ----------
    code : str or bytes
        The program.
    code_type : SourceCodeType or str
        Its language.
    options : ProgramOptions
        The options that it is compiled with.
    target_type : ObjectCodeFormatType or str
        The format to compile to.
    name_expressions : sequence of str or bytes, optional
        The names that are asked for, in any order. Default none.
    extra_digest : bytes, optional
        More bytes for the key, for what it cannot know of. With it, programs have keys of which it cannot be found out
        what they include: it must tell then whether that has changed. Default none.
    headers : mapping, optional
        Header files in memory, as :class:`Program` takes them. Default none.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    ValueError
        When the options have the compiler write files (`create_pch`, `time`, `fdevice_time_trace`), which would not
        happen when the code comes from a cache; when it cannot be found out what the program reads, and
        `extra_digest` is not given.
    """
    if extra_digest is not None and not isinstance(extra_digest, (bytes, bytearray)):
        raise TypeError(f"extra_digest must be bytes, not {type(extra_digest).__name__}")
    language = check_code_type(code_type)
    return program_key(
        check_source("code", code, binary=language is SourceCodeType.NVVM),
        language,
        as_options(ProgramOptions, options),
        check_target(language, target_type),
        check_names(name_expressions),
        headers=check_headers(headers),
        extra_digest=extra_digest,
    ).key
