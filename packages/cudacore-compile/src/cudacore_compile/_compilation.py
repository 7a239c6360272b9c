# SPDX-License-Identifier: Apache-2.0
"""One compilation, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cudacore_compile._options import ProgramOptions
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType


def files_written(options: ProgramOptions) -> list[str]:
    """Return the fields by which options have the compiler write something else than code."""
    fields = ("create_pch", "time", "fdevice_time_trace")
    return [field for field in fields if getattr(options, field) not in (None, False)]


def flags_of(code_type: SourceCodeType, options: ProgramOptions, target: ObjectCodeFormatType) -> list[bytes]:
    """Return what the compiler of a language is told."""
    if code_type is SourceCodeType.PTX:
        return options._for_linker().as_bytes()
    backend = CompilerBackendType.NVRTC if code_type is SourceCodeType.CXX else CompilerBackendType.NVVM
    return options.as_bytes(backend, target)


class Compilation(NamedTuple):
    """All that is compiled, and how."""

    code: bytes
    code_type: SourceCodeType
    options: ProgramOptions
    target: ObjectCodeFormatType
    names: list[str]
    headers: Mapping[bytes, bytes]

    def identity(self) -> tuple[Any, ...]:
        """Return what is the same for the same compilation, at one time."""
        options = self.options
        flags = tuple(flags_of(self.code_type, options, self.target))
        headers = tuple(sorted(self.headers.items()))
        modules = tuple((name, bytes(code, "utf-8") if isinstance(code, str) else bytes(code))
                        for name, code in options.extra_sources or ())  # fmt: skip
        others = options.name, bool(options.use_libdevice), modules
        return self.code, self.code_type, self.target, flags, frozenset(self.names), headers, others
