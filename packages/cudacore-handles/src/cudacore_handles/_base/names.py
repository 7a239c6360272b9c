# SPDX-License-Identifier: Apache-2.0
"""Names given by callers, and names in messages."""

from __future__ import annotations

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
