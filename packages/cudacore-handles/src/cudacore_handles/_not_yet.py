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
