# SPDX-License-Identifier: Apache-2.0
"""Attributes of ``cuda.core`` 1.2 classes that this release does not have yet."""

from __future__ import annotations

from typing import NoReturn


class NotYet:
    """An attribute of a later release. Reading it raises an AttributeError that says so.

    ``hasattr`` is False for the class and its objects, so that programs can test for the attribute.
    """

    __slots__ = ("_name",)
    _name: str

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__} does not have {self._name!r} yet (cuda.core 1.2 has it)", name=self._name, obj=instance
        )


def dir_of_what_is_there(instance: object) -> list[str]:
    """Return the attribute names of an object, for completion, without those of later releases."""
    mine = (item for cls in type(instance).__mro__ for item in vars(cls).items())
    later = {name for name, value in mine if isinstance(value, NotYet)}
    return [name for name in object.__dir__(instance) if name not in later]
