# SPDX-License-Identifier: Apache-2.0
"""What classes of ``cuda.core`` 1.2 have and this release does not have yet."""

from __future__ import annotations

from typing import NoReturn


class NotYet:
    """Stand for an attribute that will come: asking for it is an AttributeError that says so.

    ``hasattr`` is False, of the class and of its objects, so that programs can ask whether the attribute is there.
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
    """Return the names that an object has, for completion at a prompt, without those that will come."""
    mine = (item for cls in type(instance).__mro__ for item in vars(cls).items())
    later = {name for name, value in mine if isinstance(value, NotYet)}
    return [name for name in object.__dir__(instance) if name not in later]
