# SPDX-License-Identifier: Apache-2.0
"""Enumerations of names that the compilers accept and return. Each member is a string."""

from __future__ import annotations

from typing import Literal

from cudacore_handles._sdk import _Name
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = [
    "CompileTargetName",
    "CompilerBackendName",
    "CompilerBackendType",
    "LinkTargetName",
    "MacroType",
    "ObjectCodeFormatType",
    "PCHStatusType",
    "SourceCodeName",
    "SourceCodeType",
]

_finish_module(globals())


class SourceCodeType(_Name):
    """Languages that source code is written in."""

    CXX = "c++"
    PTX = "ptx"
    NVVM = "nvvm"


class ObjectCodeFormatType(_Name):
    """Formats of compiled code."""

    PTX = "ptx"
    CUBIN = "cubin"
    LTOIR = "ltoir"
    FATBIN = "fatbin"
    OBJECT = "object"
    LIBRARY = "library"
    OPTIXIR = "optixir"


class CompilerBackendType(_Name):
    """Compilers and linkers."""

    NVRTC = "NVRTC"
    NVVM = "NVVM"
    NVJITLINK = "nvJitLink"
    DRIVER = "driver"


class PCHStatusType(_Name):
    """The status of a requested precompiled header."""

    CREATED = "created"
    NOT_ATTEMPTED = "not_attempted"
    FAILED = "failed"


# Type checkers cannot compute these types from the enumerations and SUPPORTED_TARGETS, so a test compares them.
SourceCodeName = Literal["c++", "ptx", "nvvm"]
CompileTargetName = Literal["ptx", "cubin", "ltoir", "optixir"]
LinkTargetName = Literal["cubin", "ptx", "ltoir"]
CompilerBackendName = Literal["NVRTC", "NVVM", "nvJitLink", "driver", "nvrtc", "nvvm", "nvjitlink"]
#: A macro of :attr:`ProgramOptions.define_macro`: its name or ``"NAME=value"``, or the name and the value.
MacroType = str | tuple[str, str | float | None]
