# SPDX-License-Identifier: Apache-2.0
"""The base class of sequences of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Items(Generic[T_co]):
    """A sequence of values that were read at the same time."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[T_co]) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, idx: int) -> T_co:
        return self._items[idx]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._items!r}>"
