# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that cudacore's functions take and return, and the protocols that they accept."""

from __future__ import annotations

from cudacore import _later
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, PCHStatusType, SourceCodeType
from cudacore_handles import IsStreamType

__all__ = ["CompilerBackendType", "IsStreamType", "ObjectCodeFormatType", "PCHStatusType", "SourceCodeType"]


def __getattr__(name: str) -> object:
    raise AttributeError(_later.message(__name__, name), name=name)
