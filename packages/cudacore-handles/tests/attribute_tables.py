# SPDX-License-Identifier: Apache-2.0
"""Functions that list the attributes of a class of properties, and those of cuda.bindings, for comparison."""

from __future__ import annotations

from typing import Any

from cudacore_handles._base.attribute import Attribute


def attributes_of(cls: type) -> dict[str, Attribute[Any]]:
    """Return a dict from the names of a class's properties to the properties' Attribute objects."""
    return {name: value for name, value in vars(cls).items() if isinstance(value, Attribute)}


def cuda_attributes(enum: Any, prefix: str, newest: int) -> dict[str, int]:
    """Return an enumeration of cuda.bindings as a dict from property names to values, without values above `newest`."""
    return {member.name.removeprefix(prefix).lower(): member.value for member in enum if member.value <= newest}
