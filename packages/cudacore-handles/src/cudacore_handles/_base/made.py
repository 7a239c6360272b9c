# SPDX-License-Identifier: Apache-2.0
"""Base classes of objects that only methods of others make, and of objects that can be closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from cudacore_handles import _native

C = TypeVar("C", bound="Closing")
M = TypeVar("M", bound="Made")


class Closing:
    """The base of classes with ``close()``: at the end of a ``with`` block, the object is closed."""

    __slots__ = ()

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.close()  # type: ignore[attr-defined]


class Made:
    """The base of classes whose objects are made by methods of other classes, which `_made_by` names."""

    __slots__ = ()
    _made_by: ClassVar[str]

    if TYPE_CHECKING:

        @classmethod
        def _with(cls: type[M], **attributes: Any) -> M:
            """Make an object with the given attributes."""

        def __init__(self, *, use_its_methods: NoReturn) -> None: ...
    else:
        _with = classmethod(_native.make)

        def __init__(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError(f"{type(self).__name__} objects cannot be instantiated directly; use {self._made_by}")


def not_pickled(refused: object, instead: str) -> NoReturn:
    """Raise the TypeError of an object that cannot be pickled or copied; `instead` says what to do."""
    name = type(refused).__name__
    article = "an" if name[0] in "AEIOU" else "a"
    raise TypeError(f"{article} {name} cannot be pickled or copied: {instead}")
