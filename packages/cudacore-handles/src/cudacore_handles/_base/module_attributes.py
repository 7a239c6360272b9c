# SPDX-License-Identifier: Apache-2.0
"""The ``__getattr__`` and the ``__dir__`` of modules, and the names of public classes.

``__getattr__`` imports names of a package at first use, so that programs that do not use them start faster.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ForwardRef, TypeVar

from cudacore_handles._base.options import only_fields
from cudacore_handles._base.suggest import suggestion

_T = TypeVar("_T", bound=Callable[..., Any])


def finish_module(
    namespace: dict[str, Any],
    modules: Mapping[str, Iterable[str]] = types.MappingProxyType({}),
    instead: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    """Give a module its ``__getattr__`` and ``__dir__``. Type checkers do not see them: they would accept any name.

    Parameters
    ----------
    namespace : dict
        The module's namespace, with ``__all__``, to which imported names are added.
    modules : mapping of str to iterable of str, optional
        The names that each module defines, and that are imported at first use. The names of the package's own modules
        begin with a dot. ``""`` has the names of modules.
    instead : mapping of str to str, optional
        Names that other libraries have, with what to write instead of them. Default: none.
    """
    package = namespace["__name__"]
    where = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in where:
            # No suggestions for private names: the import system reads names of private modules here, and introspection
            # reads special names that packages lack.
            meant = ""
            if name in instead:
                meant = f": {instead[name]}"
            elif not name.startswith("_"):
                meant = _place(package, modules.get("", ()), name) or suggestion(name, namespace["__all__"])
            raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}", name=name)
        if where[name]:
            value = getattr(importlib.import_module(where[name], package), name)
        else:
            value = importlib.import_module(f".{name}", package)
        namespace[name] = value
        return value

    namespace["__getattr__"] = get
    namespace["__dir__"] = lambda: [*namespace["__all__"], *(name for name in namespace if name.startswith("__"))]


def _place(package: str, modules: Iterable[str], name: str) -> str:
    """Return which of a package's modules has a name, as a part of an error; empty if none has it."""
    for module in modules:
        try:
            found = importlib.import_module(f".{module}", package)
        except ImportError:  # it needs a package that is not installed
            continue
        if name in getattr(found, "__all__", ()):
            return f": it is in {package}.{module}"
    return ""


def public(cls: _T) -> _T:
    """Give a class, or a function that ``__reduce__`` returns, the name of its package (a decorator).

    Pickles contain this name, so that private modules can move between versions. A dataclass accepts no names that are
    not its fields; the errors suggest similar ones.
    """
    if isinstance(cls, type) and "__dataclass_fields__" in vars(cls):
        only_fields(cls)
    if isinstance(cls, type) and "__annotations__" in vars(cls):
        # typing.get_type_hints() looks for the names in the package, unless they have their module.
        for name, kind in cls.__annotations__.items():
            if isinstance(kind, str):
                cls.__annotations__[name] = ForwardRef(kind, module=cls.__module__, is_class=True)
    cls.__module__ = cls.__module__.partition(".")[0]
    return cls


def publish(module: str, names: Iterable[str], namespace: dict[str, Any]) -> None:
    """Make the classes of a public module :func:`public`, with the name of this module.

    Parameters
    ----------
    module : str
        The module.
    names : iterable of str
        The module's public names. Classes that are imported later have the decorator :func:`public`.
    namespace : dict
        The module's objects by name.
    """
    for name in names:
        cls = namespace.get(name)
        if isinstance(cls, type) and cls.__module__.partition(".")[0] == module.partition(".")[0]:
            public(cls).__module__ = module
