# SPDX-License-Identifier: Apache-2.0
"""The sequences, a module for each part of the driver; importing them registers them."""

from __future__ import annotations

from . import (
    context_stacks,
    contexts,
    copies,
    devices,
    events,
    faults,
    functions,
    launches,
    libraries,
    lookup,
    memory,
    pointers,
    pools,
    streams,
    virtual,
)

__all__ = [
    "context_stacks",
    "contexts",
    "copies",
    "devices",
    "events",
    "faults",
    "functions",
    "launches",
    "libraries",
    "lookup",
    "memory",
    "pointers",
    "pools",
    "streams",
    "virtual",
]
