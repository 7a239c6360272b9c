# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that the compilers take and return. Each member is the string that it stands for."""

from __future__ import annotations

from enum import Enum

__all__ = ["CompilerBackendType", "ObjectCodeFormatType", "PCHStatusType", "SourceCodeType"]


class _Name(str, Enum):
    """Do what enum.StrEnum does, which Python 3.10 lacks."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


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
    """Compilers and linkers that do the work."""

    NVRTC = "NVRTC"
    NVVM = "NVVM"
    NVJITLINK = "nvJitLink"
    DRIVER = "driver"


class PCHStatusType(_Name):
    """What became of a precompiled header that was asked for."""

    CREATED = "created"
    NOT_ATTEMPTED = "not_attempted"
    FAILED = "failed"
