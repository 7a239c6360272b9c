# SPDX-License-Identifier: Apache-2.0
"""The data of a compilation: the program, how to compile it, and what the compiler returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.targets import BACKENDS
from cudacore_compile.typing import ObjectCodeFormatType, PCHStatusType, SourceCodeType


def files_written(options: ProgramOptions) -> list[str]:
    """Return the names of the options that are set and make the compiler write files."""
    fields = ("create_pch", "time", "fdevice_time_trace")
    return [field for field in fields if getattr(options, field) not in (None, False)]


class Request(NamedTuple):
    """A program, and how to compile it."""

    code: bytes
    code_type: SourceCodeType
    options: ProgramOptions
    target: ObjectCodeFormatType
    names: list[str]
    headers: Mapping[bytes, bytes]

    def identity(self) -> tuple[Any, ...]:
        """Return a value that is equal for requests with the same result, as long as no file changes."""
        flags = self.options.as_bytes(BACKENDS[self.code_type], self.target)
        headers = tuple(sorted(self.headers.items()))
        name = self.options.name
        modules = tuple(
            (module, bytes(source, "utf-8") if isinstance(source, str) else bytes(source))
            for module, source in self.options.extra_sources or ()
        )
        nvvm = (modules, bool(self.options.use_libdevice))
        return self.code, self.code_type, self.target, name, tuple(flags), frozenset(self.names), headers, nvvm


class Result(NamedTuple):
    """Compiled code, with information from its compiler."""

    code: bytes
    log: str
    lowered_names: dict[str, str]
    signatures: dict[str, str] | None  # the kernels' parameters; None if in the code itself, or unknown
    pch_status: PCHStatusType | None
