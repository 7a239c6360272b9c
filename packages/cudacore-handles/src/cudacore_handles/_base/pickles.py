# SPDX-License-Identifier: Apache-2.0
"""Pickles that name classes and functions by their packages, so that private modules can move between versions."""

from __future__ import annotations

import copyreg
import importlib
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, TypeVar

from cudacore_handles._base.suggest import only_fields

__all__ = ["public", "publish", "restore", "restorer"]

_C = TypeVar("_C", bound=type[Any])
_F = TypeVar("_F", bound=Callable[..., Any])

#: The objects that pickles refer to, by name, and the names by object.
_known: dict[str, Any] = {}
_names: dict[Any, str] = {}


def restore(name: str, method: str, *arguments: Any) -> Any:
    """Make the object of a pickle by calling a class, a function, or a method of a class.

    Pickles contain the name of this function as ``cudacore_handles._restore``.
    """
    package, _, attribute = name.partition(".")
    try:
        if name not in _known:
            getattr(importlib.import_module(package), attribute)  # loads the function
        found = _known[name]
        if method == "__new__":
            return found.__new__(found, *arguments)
        call = getattr(found, method) if method else found
    except (KeyError, AttributeError):
        import pickle

        what = ".".join(filter(None, (name, method)))
        raise pickle.UnpicklingError(f"there is no {what}: the pickle is of another version of {package}") from None
    return call(*arguments)


restore.__module__, restore.__qualname__, restore.__name__ = "cudacore_handles", "_restore", "_restore"


def restorer(function: _F) -> _F:
    """Register a function that ``__reduce__`` returns (a decorator). Pickles contain its name, which must not change.

    The function's module must be imported together with its package.
    """
    _register(f"{function.__module__.partition('.')[0]}.{function.__name__}", function)
    return function


def public(cls: _C) -> _C:
    """Decorate a class, so that its objects are pickled by its public name.

    A dataclass accepts no names that are not its fields; the errors suggest similar ones.
    """
    if "__dataclass_fields__" in vars(cls):
        only_fields(cls)
    _register(f"{cls.__module__.partition('.')[0]}.{cls.__name__}", cls)
    _wrap(cls)
    return cls


def publish(package: str, names: Iterable[str], namespace: dict[str, Any]) -> None:
    """Pickle objects of a package's public classes by the public names of the classes.

    Parameters
    ----------
    package : str
        The package.
    names : iterable of str
        The package's public names.
    namespace : dict
        The package's objects by name. Names that are missing here are imported later; classes among them have the
        decorator :func:`public`.
    """
    for name in names:
        cls = namespace.get(name)
        if isinstance(cls, type) and cls.__module__.partition(".")[0] == package:
            public(cls)


def _register(name: str, call: Callable[..., Any]) -> None:
    _known[name] = call
    _names[call] = name


def _wrap(cls: type) -> None:
    """Make ``__reduce_ex__`` of a class refer to classes and functions by their public names."""
    original: Any = cls.__reduce_ex__
    if getattr(original, "__module__", None) == __name__:
        return  # the inherited method is already wrapped

    def reduce(self: Any, protocol: Any) -> Any:
        return _by_public_name(original(self, max(int(protocol), 2)))

    cls.__reduce_ex__ = reduce  # type: ignore[assignment]


def _by_public_name(reduced: Any) -> Any:
    """Return a result of ``__reduce_ex__`` with the callable replaced by its public name, if it has one."""
    if not isinstance(reduced, tuple):
        return reduced
    call, arguments, *others = reduced
    method = ""
    if call is copyreg.__newobj__ and arguments[0] in _names:  # type: ignore[attr-defined]
        call, arguments, method = arguments[0], arguments[1:], "__new__"
    elif isinstance(call, MethodType) and call.__self__ in _names:
        method, call = call.__name__, call.__self__
    elif call not in _names:
        return reduced
    return (restore, (_names[call], method, *arguments), *others)
