# SPDX-License-Identifier: Apache-2.0
"""The ``__getattr__`` and the ``__dir__`` of modules, and the names of public classes.

``__getattr__`` imports names of a package at first use, so that programs that do not use them start faster.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ForwardRef, TypeVar

from cudacore_handles._base.suggest import only_fields, suggestion

_T = TypeVar("_T", bound=Callable[..., Any])


def make_getattr(
    package: str,
    modules: Mapping[str, tuple[str, ...]],
    namespace: dict[str, Any],
    instead: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        The package.
    modules : mapping of str to tuple of str
        The names that each module defines. The names of the package's own modules begin with a dot.
    namespace : dict
        The package's namespace, to which imported names are added.
    instead : mapping of str to str, optional
        Names that other libraries have, with what to write instead of them. Default None: none.
    """
    where = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in where:
            if instead is not None and name in instead:
                meant = f": {instead[name]}"
            else:
                # No suggestions for private names: the import system reads names of private modules here, and
                # introspection reads special names that packages lack.
                meant = "" if name.startswith("_") else suggestion(name, namespace.get("__all__", where))
            raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}", name=name)
        value = getattr(importlib.import_module(where[name], package), name)
        namespace[name] = value
        return value

    return get


def public_names(namespace: dict[str, Any]) -> list[str]:
    """Return the public names of a module, and the special ones, for its ``__dir__``.

    Parameters
    ----------
    namespace : dict
        The module's namespace, with ``__all__``.
    """
    return [*namespace["__all__"], *(name for name in namespace if name.startswith("__"))]


def public(cls: _T) -> _T:
    """Give a class, or a function that ``__reduce__`` returns, the name of its package (a decorator).

    Pickles contain this name, so that private modules can move between versions. A dataclass accepts no names that are
    not its fields; the errors suggest similar ones.
    """
    if isinstance(cls, type) and "__dataclass_fields__" in vars(cls):
        only_fields(cls)
        # typing.get_type_hints() looks for the names in the package, unless they have their module.
        fields = vars(cls).get("__annotations__", {}).items()
        cls.__annotations__ = {name: ForwardRef(kind, module=cls.__module__, is_class=True) for name, kind in fields}
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
