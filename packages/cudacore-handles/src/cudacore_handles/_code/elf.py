# SPDX-License-Identifier: Apache-2.0
"""Reads the sections of ELF files, and defines the constants of their symbol tables."""

from __future__ import annotations

import struct
from typing import NamedTuple

STT_OBJECT, STT_FUNC = 1, 2
_SHT_NOBITS = 8


class Section(NamedTuple):
    """A row of the table of sections."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


def is_elf(image: bytes) -> bool:
    """Return whether bytes begin like an ELF file of 64 bits, little-endian."""
    return image[:6] == b"\x7fELF\x02\x01"


def read_sections(image: bytes, *, named: bool = True) -> list[Section]:
    """Return the sections.

    Parameters
    ----------
    image : bytes
        The file.
    named : bool, optional
        Whether each section must have a name. If not, the name of a section is empty if the file does not contain it,
        as in objects without a table of names. Default True.

    Raises
    ------
    IndexError, OverflowError, struct.error
        If the file is damaged.
    """
    (table,) = struct.unpack_from("<Q", image, 40)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 58)
    raw = [struct.unpack_from("<IIQQQQII", image, table + i * entry_size) for i in range(count)]
    if not raw:
        return []
    names = raw[names_index]
    sections = []
    for name, kind, _, _, offset, size, link, _ in raw:
        try:
            text = read_string(image, names[4], names[5], name)
        except IndexError:
            if named:
                raise
            text = ""
        sections.append(Section(text, kind, offset, size, link))
    return sections


def read_contents(image: bytes, section: Section) -> bytes:
    """Return the contents of a section; raise an IndexError if the file does not contain them."""
    if section.kind == _SHT_NOBITS or section.offset + section.size > len(image):
        raise IndexError(f"section {section.name} reaches beyond the end")
    return image[section.offset : section.offset + section.size]


def read_string(image: bytes, table: int, size: int, at: int) -> str:
    """Return the string at offset `at` of a string table, which begins at offset `table` of the file."""
    end = image.find(b"\0", table + at, table + size)
    if at >= size or end < 0:
        raise IndexError("a name reaches beyond its table")
    return image[table + at : end].decode("utf-8", "replace")
