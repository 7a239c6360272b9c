# SPDX-License-Identifier: Apache-2.0
"""The descriptor that turns numbered attributes of the driver into properties."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, Protocol, TypeVar, overload

T = TypeVar("T", bound=int)


class HasAttributes(Protocol):
    """An object whose attributes are numbered by the driver."""

    def _read(self, attribute: Attribute[Any], /) -> int: ...


class Attribute(Generic[T]):
    """A read-only property whose value is a numbered attribute of the driver.

    Parameters
    ----------
    number : int
        The attribute's number in the CUDA enumeration of the class.
    kind : type
        The type of the property: int or bool.
    doc : str
        What the property means, with its unit.
    constant : bool, optional
        Whether the value never changes. Default True.
    """

    name: str

    def __init__(self, number: int, kind: type[T], doc: str, *, constant: bool = True) -> None:
        self.number = number
        self.kind = kind
        self.constant = constant
        self.__doc__ = f"{kind.__name__}: {doc}"

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Attribute[T]: ...
    @overload
    def __get__(self, instance: HasAttributes, owner: type) -> T: ...
    def __get__(self, instance: HasAttributes | None, owner: type) -> Attribute[T] | T:
        if instance is None:
            return self
        return self.kind(instance._read(self))

    def __set__(self, instance: HasAttributes, value: object) -> NoReturn:
        raise AttributeError(f"{self.name} is read-only")
