# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that graphs take and return. Each member is the string that it stands for."""

from __future__ import annotations

from enum import Enum

__all__ = ["GraphConditionalType", "GraphMemoryType"]


class _Name(str, Enum):
    """Do what enum.StrEnum does, which Python 3.10 lacks."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


class GraphMemoryType(_Name):
    """What memory a graph allocates."""

    DEVICE = "device"
    HOST = "host"
    MANAGED = "managed"


class GraphConditionalType(_Name):
    """What a conditional node does with its condition."""

    IF = "if"
    WHILE = "while"
    SWITCH = "switch"
