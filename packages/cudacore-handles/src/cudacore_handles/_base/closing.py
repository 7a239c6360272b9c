# SPDX-License-Identifier: Apache-2.0
"""The ``with`` statement for objects that can be closed."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T", bound="Closing")


class Closing:
    """The base of classes with ``close()``: at the end of a ``with`` block, the object is closed."""

    __slots__ = ()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.close()  # type: ignore[attr-defined]
