# SPDX-License-Identifier: Apache-2.0
"""The attributes of a class of properties, for comparison with the driver's enumeration."""

from __future__ import annotations

from typing import Any

from cudacore_handles._base.attribute import Attribute


def attributes_of(cls: type) -> dict[str, Attribute[Any]]:
    """Return the Attribute objects of a class, by the names of their properties."""
    return {name: value for name, value in vars(cls).items() if isinstance(value, Attribute)}


def cuda_attributes(enum: Any, prefix: str, newest: int) -> dict[str, int]:
    """Return the values of an enumeration of cuda.bindings, up to `newest`, by the names that their properties have."""
    return {member.name.removeprefix(prefix).lower(): member.value for member in enum if member.value <= newest}
