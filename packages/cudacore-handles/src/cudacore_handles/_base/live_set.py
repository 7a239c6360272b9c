# SPDX-License-Identifier: Apache-2.0
"""The base class of sets whose contents are in the driver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, MutableSet, Set
from typing import Any, TypeVar

from cudacore_handles._base.errors import ClosedError

T = TypeVar("T")
S = TypeVar("S", bound="LiveSet[Any]")


class LiveSet(MutableSet[T]):
    """A set that is read from the driver each time. Each method makes one change, of all members or of none.

    The members that the abstract methods take and return can be others than those of the set, such as ordinals.
    """

    __slots__ = ()

    @abstractmethod
    def _current(self) -> set[Any]:
        """Return the members."""

    @abstractmethod
    def _members(self, values: Iterable[Any]) -> set[Any]:
        """Return given values as members; raise an error if one cannot be a member."""

    @abstractmethod
    def _change(self, *, gained: Iterable[Any] = (), lost: Iterable[Any] = ()) -> None:
        """Add and remove members."""

    def __len__(self) -> int:
        return len(self._current())

    def __repr__(self) -> str:
        try:
            return self._describe(", ".join(map(repr, self)))
        except ClosedError as error:  # the object that has the set was closed
            return f"<{type(self).__name__}: {error}>"

    def _describe(self, members: str) -> str:
        return f"{type(self).__name__}({{{members}}})"

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)  # operators such as | return an ordinary set

    def __ior__(self: S, other: Set[Any]) -> S:  # type: ignore[misc]
        self.update(other)
        return self

    def __iand__(self: S, other: Set[Any]) -> S:
        self.intersection_update(other)
        return self

    def __isub__(self: S, other: Set[Any]) -> S:
        self.difference_update(other)
        return self

    def __ixor__(self: S, other: Set[Any]) -> S:  # type: ignore[misc]
        self.symmetric_difference_update(other)
        return self

    def clear(self) -> None:
        """Remove all members."""
        self._change(lost=self._current())

    def update(self, *others: Iterable[Any]) -> None:
        """Add the members of `others`."""
        given = self._union(others)
        self._change(gained=given - self._current() if given else given)

    def difference_update(self, *others: Iterable[Any]) -> None:
        """Remove the members that are in `others`."""
        self._change(lost=self._union(others) & self._current())

    def intersection_update(self, *others: Iterable[Any]) -> None:
        """Remove the members that are not in all of `others`."""
        current = self._current()
        self._change(lost=current - current.intersection(*map(self._members, others)))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        """Remove the members that are in `other`, and add what is only there."""
        given, current = self._members(other), self._current()
        self._change(gained=given - current, lost=given & current)

    def _replace(self, values: Iterable[Any]) -> None:
        """Remove all members but the given ones, and add the others of these."""
        wanted, current = self._members(values), self._current()
        self._change(gained=wanted - current, lost=current - wanted)

    def _union(self, others: tuple[Iterable[Any], ...]) -> set[Any]:
        return set().union(*map(self._members, others))
