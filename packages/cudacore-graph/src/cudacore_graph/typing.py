# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that graphs take and return. Each member is the string that it stands for."""

from __future__ import annotations

from cudacore_handles._sdk import _Name

__all__ = ["GraphConditionalType", "GraphMemoryType"]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


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
