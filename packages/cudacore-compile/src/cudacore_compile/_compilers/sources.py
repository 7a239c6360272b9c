# SPDX-License-Identifier: Apache-2.0
"""Checks of a program's inputs: source code, header files and name expressions."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from os import PathLike

from cudacore_handles._sdk import shorten


def check_source(argument: str, source: object, *, binary: bool = False) -> bytes:
    """Return source code as bytes, without a byte order mark, which no compiler accepts."""
    if isinstance(source, str):
        try:
            source = source.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{argument} is not Unicode text: {error}") from None
    elif isinstance(source, bytearray):
        source = bytes(source)
    elif not isinstance(source, bytes):
        read = "; a path is read by path.read_text()" if isinstance(source, PathLike) else ""
        raise TypeError(f"{argument} must be a str, bytes or bytearray, not {type(source).__name__}{read}")
    if binary:
        return source
    source = source.removeprefix(codecs.BOM_UTF8)
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{argument} is UTF-16: save it as UTF-8")
    if b"\0" in source:
        raise ValueError(f"{argument} has a NUL character at byte {source.index(0)}: the compiler would stop there")
    return source


_PATH = re.compile(rb"[^\s;{}()\"'#][^\n;{}()\"'#]*\.(?:cu|cuh|c|cc|cpp|cxx|h|hpp|ptx|ll|bc)\s*")


def check_no_path(source: bytes) -> None:
    """Raise an error if source code is only the path of a source file, because no program has that form."""
    if len(source) < 4096 and _PATH.fullmatch(source):
        path = source.decode(errors="replace").strip()
        raise ValueError(
            f"code must be source code, but {shorten(repr(path))} is a path: read the file with "
            f"pathlib.Path({shorten(repr(path))}).read_text()"
        )


def check_headers(headers: Mapping[str, str | bytes] | None) -> dict[bytes, bytes]:
    """Return header files by name, as bytes."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping of names to contents, not {type(headers).__name__}")
    files: dict[bytes, bytes] = {}
    for name, content in headers.items():
        if not isinstance(name, str):
            raise TypeError(f"names in headers must be str, not {type(name).__name__}")
        if not name:
            raise ValueError("a name in headers is empty")
        files[check_source("a name in headers", name)] = check_source(f"headers[{name!r}]", content)
    return files


def check_logs(logs: object) -> None:
    """Raise an error if an object for logs cannot be written to."""
    if logs is not None and not callable(getattr(logs, "write", None)):
        raise TypeError(f"logs must have a write method, which {type(logs).__name__} lacks")


def check_names(expressions: object) -> list[str]:
    """Return name expressions as str, without duplicates."""
    if expressions is None:
        return []
    if isinstance(expressions, (str, bytes, bytearray)):
        raise TypeError(
            f"name_expressions must be a list or tuple, not {type(expressions).__name__}; write [{expressions!r}]"
        )
    if not isinstance(expressions, Iterable):
        raise TypeError(f"name_expressions must be a list or tuple, not {type(expressions).__name__}")
    names: dict[str, None] = {}
    for expression in expressions:
        if not isinstance(expression, (str, bytes, bytearray)):
            raise TypeError(f"items of name_expressions must be str or bytes, not {type(expression).__name__}")
        try:
            text = check_source("a name expression", expression).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"a name expression is not UTF-8: {error}") from None
        if not text or text.isspace():
            raise ValueError("a name expression is empty")
        names[text] = None
    return list(names)
