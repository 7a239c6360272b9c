# SPDX-License-Identifier: Apache-2.0
"""Classes that cannot be called, and objects that cannot be copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn


class Made:
    """The base of classes whose objects are made by methods of other classes, which `_made_by` names."""

    __slots__ = ()
    _made_by: ClassVar[str]

    if TYPE_CHECKING:

        def __init__(self, *, use_its_methods: NoReturn) -> None: ...
    else:

        def __init__(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError(f"{type(self).__name__} objects cannot be instantiated directly; use {self._made_by}")


def not_pickled(refused: object, instead: str) -> NoReturn:
    """Raise the TypeError of an object that cannot be pickled or copied; `instead` says what to do."""
    name = type(refused).__name__
    article = "an" if name[0] in "AEIOU" else "a"
    raise TypeError(f"{article} {name} cannot be pickled or copied: {instead}")
