# SPDX-License-Identifier: Apache-2.0
"""Descriptors that turn numbered attributes of the driver into properties, and the base of the classes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from cudacore_handles._base.address import as_integer
from cudacore_handles._base.made import Made
from cudacore_handles._base.options import as_flag

T = TypeVar("T", bound=int)


class HasAttributes(Made):
    """The base of classes whose properties are attributes that the driver numbers.

    An object of one device has a ``__dict__``, which keeps the attributes that are constant.
    """

    __slots__ = ()
    _device_id: int | None = None

    def __setattr__(self, name: str, value: object) -> None:
        """Set a slot or a setting. Any other value would hide an attribute, or be stored for nothing."""
        found = getattr(type(self), name, None)
        if not hasattr(found, "__set__"):
            unknown = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(unknown if found is None else f"{name} is read-only")
        object.__setattr__(self, name, value)

    def _read(self, attribute: Attribute[Any], /) -> int:
        raise NotImplementedError

    def _write(self, attribute: Setting[Any], value: int, /) -> None:
        raise NotImplementedError

    def _title(self) -> str:
        """Return the title of the table that notebooks show."""
        return repr(self)[1:-1]

    def _repr_html_(self) -> str:
        from cudacore_handles._base.html import attributes_table

        return attributes_table(self._title(), self)


class _ShownAsProperty(type):
    """The class of descriptors that ``inspect`` and ``help()`` show as properties, although a value can hide them."""

    __set__ = None


class Attribute(Generic[T], metaclass=_ShownAsProperty):
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
        Whether the value never changes on a device. An object of one device keeps it after the first use: CPython then
        finds it in the object, and does not call the descriptor. Default False.
    """

    name: str

    def __init__(self, number: int, kind: type[T], doc: str, *, constant: bool = False) -> None:
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
        value = self.kind(instance._read(self))
        if self.constant and instance._device_id is not None:
            vars(instance)[self.name] = value
        return value

    if TYPE_CHECKING:

        def __set__(self, instance: HasAttributes, value: object) -> NoReturn: ...


class Number(Attribute[int]):
    """An attribute that is a number."""

    def __init__(self, number: int, doc: str, *, constant: bool = True) -> None:
        super().__init__(number, int, doc, constant=constant)


class Flag(Attribute[bool]):
    """An attribute that is a bool."""

    def __init__(self, number: int, doc: str, *, constant: bool = True) -> None:
        super().__init__(number, bool, doc, constant=constant)


class Setting(Attribute[T]):
    """A property that can be set.

    Parameters
    ----------
    number, kind, doc
        As for :class:`Attribute`.
    maximum : int, optional
        The largest value. Default 1.
    """

    def __init__(self, number: int, kind: type[T], doc: str, maximum: int = 1) -> None:
        super().__init__(number, kind, doc)
        self._maximum = maximum

    def __set__(self, instance: HasAttributes, value: object) -> None:  # type: ignore[override]
        name = f"attributes.{self.name}"
        if self.kind is bool and value is not None:
            number: int | None = as_flag(name, value)
        else:
            number = as_integer(value)
        if number is None:
            raise TypeError(f"{name} must be {self.kind.__name__}, not {type(value).__name__}")
        if not 0 <= number <= self._maximum:
            allowed = "0, which resets it" if self._maximum == 0 else f"values from 0 to {self._maximum}"
            raise ValueError(f"{name} is {number}; it can be set to {allowed}")
        instance._write(self, number)


class MemoryAttributes(HasAttributes):
    """Attributes of memory, whose repr lists all of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        names = sorted(name for name, value in vars(type(self)).items() if isinstance(value, Attribute))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in names)})"
