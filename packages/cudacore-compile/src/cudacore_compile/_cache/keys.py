# SPDX-License-Identifier: Apache-2.0
"""Keys of program caches, for users who look entries up themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cudacore_compile._cache.digest import program_key
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.sources import check_headers, check_names, check_source
from cudacore_compile._compilers.targets import check_code_type, check_target
from cudacore_compile.typing import CompileTargetName, ObjectCodeFormatType, SourceCodeName, SourceCodeType
from cudacore_handles._sdk import as_options


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
    return program_key(
        check_source("code", code, binary=language is SourceCodeType.NVVM),
        language,
        as_options(ProgramOptions, options),
        check_target(language, target_type),
        check_names(name_expressions),
        headers=check_headers(headers),
        extra_digest=extra_digest,
    ).key
