# SPDX-License-Identifier: Apache-2.0
"""Descriptions of nodes for pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition


class Description(NamedTuple):
    """The description of a node: its type, details, and the graphs that it contains, with their names."""

    title: str
    details: tuple[str, ...]
    graphs: tuple[tuple[str, GraphDefinition], ...]


def bytes_text(count: int) -> str:
    """Format a number of bytes in the largest unit of which it is a multiple of 1/16."""
    count = int(count)
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % (size // 16) == 0:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def short(address: int) -> str:
    """Return the last digits of an address, which distinguish it from nearby addresses."""
    address = int(address)
    return f"0x{address:x}" if address < 2**24 else f"..{address & 0xFFFFFF:06x}"


def times(sizes: tuple[int, ...]) -> str:
    """Format extents as text such as ``"4x2"``."""
    return "x".join(map(str, sizes))


def printable(name: str) -> str:
    """Return a name as one line that every format can contain: control characters and surrogates are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
