# SPDX-License-Identifier: Apache-2.0
"""Names given by callers, and names in messages."""

from __future__ import annotations

import sys
from typing import Any

_PACKAGES = ("cudacore", "cudacore_handles", "cudacore_compile", "cudacore_graph")
_MAX_CHARACTERS = 80


def symbol_name(what: str, name: object) -> str:
    """Return the name of a symbol as a str; raise an error if the argument cannot be a name.

    Parameters
    ----------
    what : str
        What the name is for; the error message contains this text.
    name : str or bytes
        The argument.
    """
    if isinstance(name, bytes):
        try:
            name = name.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{what} is not UTF-8: {error}") from None
    elif not isinstance(name, str):
        raise TypeError(f"{what} must be a str or bytes, not {type(name).__name__}")
    if "\0" in name:
        raise ValueError(f"{what} has a NUL character, which would end it: {shorten(repr(name))}")
    return name


def shorten(text: str) -> str:
    """Shorten long text in the middle."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:60]}...{text[-17:]}"


def type_text(value: object) -> str:
    """Return the name of a value's class, for an error that says which class it must have.

    If the class has the name of one of our classes, the name is given with its module.
    """
    cls = type(value)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    if name.startswith("cuda.core."):
        return (
            f"{name}: objects of cuda.core and cudacore cannot be mixed; import cudacore in place of cuda.core, or let "
            "libraries import it as cuda.core (cudacore.as_cuda_core)"
        )
    ours = (getattr(sys.modules.get(package), "__all__", ()) for package in _PACKAGES)
    is_like_ours = any(cls.__name__ in names for names in ours) and cls.__module__.partition(".")[0] not in _PACKAGES
    return name if is_like_ours else cls.__name__


def check_type(name: str, value: Any, cls: type) -> Any:
    """Return an argument that is an instance of a class; raise an error if it is not."""
    if not isinstance(value, cls):
        wanted, given = cls.__name__, type_text(value)
        if given == wanted:  # cudacore.Device is not cudacore.system.Device
            wanted, given = (f"{one.__module__}.{one.__qualname__}" for one in (cls, type(value)))
        article = "an" if wanted[0] in "AEIO" else "a"
        raise TypeError(f"{name} must be {article} {wanted}, not {given}")
    return value
