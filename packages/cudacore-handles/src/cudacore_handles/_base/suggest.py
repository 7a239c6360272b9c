# SPDX-License-Identifier: Apache-2.0
"""Suggestions in errors about names that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
__tracebackhide__ = True  # pytest shows the call of the program, and not the functions around it here


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` with the names most similar to the given one; empty if there are none."""
    from difflib import get_close_matches

    public = [one for one in names if not one.startswith("_")]
    found = get_close_matches(name, public, n=2)
    if not found:  # no similar name: compare without the order of words
        by_words = {_words(one): one for one in public}
        found = [by_words[words] for words in get_close_matches(_words(name), by_words, n=2, cutoff=0.7)]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def _words(name: str) -> str:
    return " ".join(sorted(name.lower().split("_")))


def unexpected_field(cls: type, name: object, fields: Iterable[str], where: str = "") -> TypeError:
    """Return the error for a field that options do not have."""
    return TypeError(f"{cls.__name__} got an unexpected keyword argument {name!r}{where}{meant(name, fields)}")


def meant(name: object, fields: Iterable[str]) -> str:
    fields = list(fields)
    return suggestion(str(name), fields) or f"; it has {', '.join(fields)}"


def options_apart(name: str) -> Callable[[_F], _F]:
    """Decorate a method that takes options, whose class has this name.

    An option that is given as an argument of the method is an error that says where it belongs. The method has another
    frame around it, which the `stacklevel` of its warnings counts.
    """

    def decorate(function: _F) -> _F:
        code = function.__code__
        known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # without self
        options = "config" if "config" in known else "options"

        @wraps(function)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Usually there are no arguments, or only options. Passing all on would take longer than most methods.
            if not args and not kwargs:
                return function(self)
            if not args and len(kwargs) == 1 and "options" in kwargs:
                return function(self, options=kwargs["options"])
            for given in kwargs:
                if given not in known:
                    where = suggestion(given, known) or f"; options are given as {options}={name}({given}=...)"
                    callee = function.__qualname__.removesuffix(".__init__")
                    raise TypeError(f"{callee}() got an unexpected keyword argument {given!r}{where}")
            return function(self, *args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def known_names(cls: type[Any], names: Collection[str]) -> None:
    """Make a constructor refuse other names; the error suggests similar ones."""
    original: Callable[..., None] = cls.__init__

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in names:
                raise unexpected_field(cls, name, names)
        original(self, *args, **kwargs)

    cls.__init__ = init


class _Instead:
    """An attribute that only other libraries have. Reading it raises an error that says what to use instead."""

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __get__(self, obj: object, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: {self._advice}", name=self._name
        )


def instead(cls: type[Any], **names: str) -> None:
    """Make attributes that a class has in other libraries, but not here, raise errors that say what to use instead.

    Unlike ``__getattr__``, this does not slow down the reading of other attributes.

    Parameters
    ----------
    cls : type
        The class.
    names : str
        For the name of each such attribute, what to write instead.
    """
    for name, advice in names.items():
        setattr(cls, name, _Instead(name, advice))

    def listed(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in names]

    cls.__dir__ = listed  # type: ignore[assignment]
