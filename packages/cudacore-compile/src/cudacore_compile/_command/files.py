# SPDX-License-Identifier: Apache-2.0
"""Writes outputs: files, and text to the standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def write(file: str, content: bytes) -> None:
    """Write a file atomically. For a symbolic link, replace the link's target. Write devices and pipes in place."""
    path = Path(os.path.realpath(file) if os.path.islink(file) else file)
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def say(text: str) -> None:
    """Write to the standard output and flush it, because an error of a flush at Python's exit could not be handled.

    Names of files that are not UTF-8 are written as they are.
    """
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
