# SPDX-License-Identifier: Apache-2.0
"""Enumerations of names that graphs accept and return. Each member is a string."""

from __future__ import annotations

from typing import Literal

from cudacore_handles._sdk import _Name
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = ["CaptureModeName", "GraphConditionalType", "GraphMemoryName", "GraphMemoryType"]

_finish_module(globals())


class GraphMemoryType(_Name):
    """The type of memory that a graph allocates."""

    DEVICE = "device"
    HOST = "host"
    MANAGED = "managed"


class GraphConditionalType(_Name):
    """The use of a condition by a conditional node."""

    IF = "if"
    WHILE = "while"
    SWITCH = "switch"


# Type checkers cannot compute these types from the enumerations. A test compares them with the enumerations.
GraphMemoryName = Literal["device", "host", "managed"]
# The modes of a capture have no enumeration.
CaptureModeName = Literal["global", "thread_local", "relaxed"]
