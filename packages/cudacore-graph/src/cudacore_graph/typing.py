# SPDX-License-Identifier: Apache-2.0
"""Enumerations of names that graphs accept and return. Each member is a string."""

from __future__ import annotations

from typing import Literal

from cudacore_handles._sdk import _Name
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = [
    "CaptureModeName",
    "GraphConditionalType",
    "GraphEdgeType",
    "GraphEdgeTypeName",
    "GraphMemoryName",
    "GraphMemoryType",
]

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


class GraphEdgeType(_Name):
    """What a node waits for, because of an edge. All but the default are for edges from a kernel node to a kernel node.

    They are CUDA's programmatic dependencies, and need a driver for CUDA 12.3. A kernel that begins early calls
    ``cudaGridDependencySynchronize()`` before it reads what the other one has written.
    """

    DEFAULT = "default"
    """The end of the other node."""
    PROGRAMMATIC = "programmatic"
    """That each block of the other kernel has called ``cudaTriggerProgrammaticLaunchCompletion()``, or has ended."""
    LAUNCH_ORDER = "launch_order"
    """That all blocks of the other kernel have begun."""
    OTHER = "other"
    """Any other type, which other code has made. It can be read, but not given to an edge."""


# Type checkers cannot compute these types from the enumerations. A test compares them with the enumerations.
GraphMemoryName = Literal["device", "host", "managed"]
GraphEdgeTypeName = Literal["default", "programmatic", "launch_order", "other"]
# The modes of a capture have no enumeration.
CaptureModeName = Literal["global", "thread_local", "relaxed"]
