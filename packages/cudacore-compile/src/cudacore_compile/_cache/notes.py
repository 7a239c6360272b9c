# SPDX-License-Identifier: Apache-2.0
"""Results of earlier lookups, stored beside the entries of a cache for other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cudacore_compile._cache.identity import Identity


class Notes(NamedTuple):
    """Stores the notes of a cache: bytes, by hash."""

    load: Callable[[bytes], bytes | None]
    save: Callable[[bytes, bytes], None]


# Notes are JSON. These functions check the types of values that were read from JSON.


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def identity(fields: Any) -> Identity:
    if not all(isinstance(field, int) for field in fields):
        raise TypeError(fields)
    return Identity(*fields)


def identity_or_none(fields: Any) -> Identity | None:
    return None if fields is None else identity(fields)
