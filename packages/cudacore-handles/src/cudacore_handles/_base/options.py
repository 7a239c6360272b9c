# SPDX-License-Identifier: Apache-2.0
"""Options: objects of a dataclass, or mappings of its fields."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, cast

from cudacore_handles import _native
from cudacore_handles._base.address import is_bool
from cudacore_handles._base.names import shorten, type_text
from cudacore_handles._base.suggest import known_names, meant, unexpected_field

T = TypeVar("T")
# The classes whose constructor only stores its arguments and checks flags, with their fields, and whether these are
# flags. The extension module makes objects of these classes.
_plain: dict[type, dict[str | None, Any]] = {}
# Values of these types are immutable, so they need no deep copy. Most options have only such values, and
# copy.deepcopy() takes long to detect that.
_IMMUTABLE = {bool, int, float, str, bytes}


def as_flag(name: str, value: object) -> bool:
    """Return a boolean option. It can be a bool of Python or NumPy, 0 or 1; None means False.

    Parameters
    ----------
    name : str
        The name of the option, for the error: ``"EventOptions.timing_enabled"``.
    value : object
        The argument.
    """
    if value is True or value is False or value is None:
        return bool(value)
    if (is_bool(value) and getattr(value, "ndim", 0) == 0) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name} must be True or False, not {shorten(repr(value))}, of type {type(value).__name__}")


def check_flags(options: object) -> None:
    """Raise an error if a field whose default is a bool has a value that :func:`as_flag` does not accept."""
    cls = type(options)
    for name, value in vars(options).items():
        if not (value is True or value is False or value is None) and isinstance(getattr(cls, name, None), bool):
            as_flag(f"{cls.__name__}.{name}", value)


class Options(metaclass=_native.OptionsClass):
    """The base class of dataclasses of options, whose flags are checked.

    If all fields of a class have defaults and it has no other checks, the extension module makes its objects of named
    arguments. The constructor is only called to convert or refuse arguments, and for the fields in `_by_constructor`.
    """

    # Not None: __post_init__() does not depend on its caller. Annotations are only for fields.
    _by_constructor = cast("tuple[str, ...] | None", None)

    def __post_init__(self) -> None:
        check_flags(self)


def only_fields(cls: type[Any]) -> None:
    """Make a dataclass refuse names that are not its fields, in the constructor and in assignments.

    The errors suggest similar fields.
    """
    known = cls.__dataclass_fields__
    known_names(cls, known)
    checks = cls.__post_init__ if issubclass(cls, Options) else None
    if checks is Options.__post_init__ or (checks is not None and cls._by_constructor is not None):
        plain = {
            name: isinstance(getattr(cls, name), bool) for name in known if name not in (cls._by_constructor or ())
        }
        _plain[cls] = plain if checks is Options.__post_init__ else {**plain, None: checks}
    original_assign: Callable[..., None] = cls.__setattr__

    def assign(self: Any, name: str, value: object) -> None:
        fields = type(self).__dataclass_fields__  # a subclass can have more
        if name not in fields:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}{meant(name, fields)}", name=name)
        original_assign(self, name, value)

    if not cls.__dataclass_params__.frozen:  # no attribute of a frozen dataclass can be assigned
        cls.__setattr__ = assign  # type: ignore[assignment]


def as_options(cls: type[T], value: T | Mapping[str, Any] | None, name: str = "options") -> T:
    """Return options as an object of their class.

    Parameters
    ----------
    cls : type
        The dataclass.
    value : instance of `cls`, mapping of str or None
        The argument; None means the defaults.
    name : str, optional
        The name of the argument, for the error. Default ``"options"``.

    Raises
    ------
    TypeError
        If the value is none of these, or the mapping has a key that is not a field of the class.
    """
    if value is None:
        return cls()
    if isinstance(value, cls):
        check_flags(value)  # check again: the caller may have changed fields after the constructor checked them
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            f"The {cls.__name__.removesuffix('Options')} {name} must be provided as an object of type {cls.__name__} "
            f"or as a dict of its fields, not as a {type_text(value)}"
        )
    from dataclasses import fields  # imported here, because it takes longer to import than most of this package

    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            raise unexpected_field(cls, key, known, f" in {name}")
    return cls(**value)


def copy_options(options: T) -> T:
    """Return a deep copy of options, because the caller can change the original."""
    made = copy.copy(options)
    for name, value in list(vars(made).items()):
        if value is not None and type(value) not in _IMMUTABLE and not isinstance(value, Enum):
            setattr(made, name, copy.deepcopy(value))
    return made


_native.connect("options", plain_options=_plain)
