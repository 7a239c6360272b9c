# SPDX-License-Identifier: Apache-2.0
"""Read-only properties that return an attribute of their object."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Generic, TypeVar, overload

    T_co = TypeVar("T_co", covariant=True)

    class Property(Generic[T_co]):
        """The base class of read-only properties, for type checkers. At run time, they are ordinary properties."""

        @overload
        def __get__(self, instance: None, owner: type) -> Property[T_co]: ...
        @overload
        def __get__(self, instance: object, owner: type) -> T_co: ...
        def __get__(self, instance: Any, owner: type) -> Any: ...

    class Stored(Property[T_co]):
        """A read-only property: ``size: Stored[int] = Stored("_size", "int: Its size.")``.

        Parameters
        ----------
        path : str
            The attribute that it returns, or the path to that attribute: ``"_pool.is_closed"``.
        doc : str
            Its docstring, which begins with the type.
        """

        def __init__(self, path: str, doc: str) -> None: ...

else:
    Property = property

    class Stored:
        """Makes a property. A C function gets the attribute, without a frame of Python."""

        def __new__(cls, path, doc):
            return property(attrgetter(path), doc=doc)

        def __class_getitem__(cls, kind):
            return cls
