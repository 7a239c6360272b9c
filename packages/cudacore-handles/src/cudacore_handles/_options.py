# SPDX-License-Identifier: Apache-2.0
"""Options: objects of a dataclass, or mappings of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def as_options(cls: type[T], value: T | Mapping[str, Any] | None, name: str = "options") -> T:
    """Return options as an object of their class.

    Parameters
    ----------
    cls : type
        The dataclass.
    value : object of it, mapping of str or None
        What a caller gave; None stands for the defaults.
    name : str, optional
        The argument that it was given for. Default ``"options"``.

    Raises
    ------
    TypeError
        When it is neither, or when the mapping has what is no field of the class.
    """
    if value is None:
        return cls()
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            f"The {cls.__name__.removesuffix('Options')} {name} must be provided as an object of type {cls.__name__} "
            f"or as a dict of its fields, not as a {type(value).__name__}"
        )
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            raise TypeError(
                f"{cls.__name__} got an unexpected keyword argument {key!r} in {name}; it has {', '.join(known)}"
            )
    return cls(**value)
