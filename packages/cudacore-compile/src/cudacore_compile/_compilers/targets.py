# SPDX-License-Identifier: Apache-2.0
"""The combinations of sources and targets."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

from cudacore_compile.typing import CompilerBackendName, CompilerBackendType, ObjectCodeFormatType, SourceCodeType
from cudacore_handles import UnsupportedCodeError

SUPPORTED_TARGETS: Mapping[SourceCodeType, tuple[ObjectCodeFormatType, ...]] = MappingProxyType(
    {
        SourceCodeType.CXX: (
            ObjectCodeFormatType.PTX,
            ObjectCodeFormatType.CUBIN,
            ObjectCodeFormatType.LTOIR,
            ObjectCodeFormatType.OPTIXIR,
        ),
        SourceCodeType.PTX: (ObjectCodeFormatType.CUBIN,),
        SourceCodeType.NVVM: (ObjectCodeFormatType.PTX, ObjectCodeFormatType.LTOIR),
    }
)
"""The formats that source code of each type compiles to."""

BACKENDS = {
    SourceCodeType.CXX: CompilerBackendType.NVRTC,
    SourceCodeType.NVVM: CompilerBackendType.NVVM,
    SourceCodeType.PTX: CompilerBackendType.NVJITLINK,
}
"""dict: The compilers of source code of each type."""

_E = TypeVar("_E", bound=Enum)


def check_code_type(code_type: SourceCodeType | str) -> SourceCodeType:
    """Return the type of source code for a name; raise an error if no compiler accepts it."""
    found = _member(SourceCodeType, "code_type", code_type)
    if found is None or found not in SUPPORTED_TARGETS:
        raise UnsupportedCodeError(_unsupported(f"code_type={_quote(code_type)}"))
    return found


LINKED_TARGETS = (ObjectCodeFormatType.CUBIN, ObjectCodeFormatType.PTX, ObjectCodeFormatType.LTOIR)
LINKED_INPUTS = ("cubin", "ptx", "ltoir", "fatbin", "object", "library")


def check_linked_target(target_type: ObjectCodeFormatType | str) -> ObjectCodeFormatType:
    """Return the format for a name; raise an error if nothing can be linked to it."""
    found = _member(ObjectCodeFormatType, "target_type", target_type)
    if found is None or found not in LINKED_TARGETS:
        raise UnsupportedCodeError(
            f'Unsupported target_type="{target_type}" for a Linker: this release links '
            f"{', '.join(map(_quote, LINKED_INPUTS))} to {', '.join(map(_quote, LINKED_TARGETS))}"
        )
    return found


def check_target(code_type: SourceCodeType, target_type: ObjectCodeFormatType | str) -> ObjectCodeFormatType:
    """Return the format for a name; raise an error if source code of that type cannot be compiled to it."""
    found = _member(ObjectCodeFormatType, "target_type", target_type)
    if found is None or found not in SUPPORTED_TARGETS[code_type]:
        raise UnsupportedCodeError(_unsupported(f'target_type="{target_type}" for code_type={_quote(code_type)}'))
    return found


def check_backend(backend: CompilerBackendType | CompilerBackendName) -> CompilerBackendType:
    """Return the compiler for a name that a user gave."""
    found = _member(CompilerBackendType, "backend", backend)
    if found is None:
        raise ValueError(f"unknown backend {str(backend)!r}: there are {', '.join(CompilerBackendType)}")
    return found


def _member(kind: type[_E], argument: str, value: _E | str) -> _E | None:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a str or {kind.__name__}, not {type(value).__name__}")
    return _by_name(kind).get(value.lower())


@functools.cache
def _by_name(kind: type[_E]) -> dict[str, _E]:
    return {str(member.value).lower(): member for member in kind}


def _quote(name: str) -> str:
    return repr(str(name))


def _unsupported(what: str) -> str:
    """Make the message for a combination that is not in the table."""
    table = "; ".join(
        f"{_quote(code_type)} to {', '.join(map(_quote, targets))}" for code_type, targets in SUPPORTED_TARGETS.items()
    )
    return f"Unsupported {what}: this release compiles {table}"
