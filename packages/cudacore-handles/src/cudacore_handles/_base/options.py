# SPDX-License-Identifier: Apache-2.0
"""Options: objects of a dataclass, or mappings of its fields."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import wraps
from typing import Any, TypeVar

from cudacore_handles import _native
from cudacore_handles._base.address import is_bool
from cudacore_handles._base.names import shorten, type_text
from cudacore_handles._base.suggest import known_names, meant, unexpected_field

T = TypeVar("T")
# The classes of options, for the extension module.
_classes: dict[type, None] = {}
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


class Options:
    """The base class of dataclasses of options, whose flags are checked.

    All fields have defaults. A field that is not given is not stored, because its default is an attribute of the class.
    """

    def __post_init__(self) -> None:
        check_flags(self)


def only_fields(cls: type[Any]) -> None:
    """Make a dataclass refuse names that are not its fields, in the constructor and in assignments.

    The errors suggest similar fields.
    """
    if issubclass(cls, Options):
        _store_given(cls)
        _classes[cls] = None
    else:
        known_names(cls, cls.__dataclass_fields__)
    original_assign: Callable[..., None] = cls.__setattr__

    def assign(self: Any, name: str, value: object) -> None:
        fields = type(self).__dataclass_fields__  # a subclass can have more
        if name not in fields:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}{meant(name, fields)}", name=name)
        original_assign(self, name, value)

    if not cls.__dataclass_params__.frozen:  # no attribute of a frozen dataclass can be assigned
        cls.__setattr__ = assign  # type: ignore[assignment]


def _store_given(cls: type[Options]) -> None:
    """Make the constructor of a dataclass store its named arguments at once, and refuse other names."""
    original: Callable[..., None] = cls.__init__
    names = cls.__dataclass_fields__  # type: ignore[attr-defined]

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in names:
                raise unexpected_field(cls, name, names)
        if args or type(self) is not cls:  # a subclass can have other fields, and slots
            original(self, *args, **kwargs)
        else:
            object.__setattr__(self, "__dict__", kwargs)  # replaces what an earlier call has stored
            self.__post_init__()

    cls.__init__ = init  # type: ignore[method-assign]


def constructor_level() -> int:
    """Return the `stacklevel` with which ``__post_init__()`` warns where the program gives its options.

    Arguments by position, derived classes and mappings take other frames than arguments by name.
    """
    frame, level = sys._getframe(1), 1  # the frame of __post_init__()
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith(("cudacore_handles.", "cudacore_compile."))
        or (frame.f_code.co_name, frame.f_code.co_filename) == ("__init__", "<string>")  # of a derived dataclass
    ):
        frame, level = frame.f_back, level + 1
    return level


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


_native.connect("options", option_classes=_classes)
