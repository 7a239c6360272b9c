# SPDX-License-Identifier: Apache-2.0
"""Input files of the command: the type is determined from the suffix and the content."""

from __future__ import annotations

import codecs
import re
import sys
from pathlib import Path
from typing import NamedTuple

from cudacore_compile._command.errors import UsageError

SOURCES = ("c++", "ptx", "nvvm")
LANGUAGES = (*SOURCES, "cubin", "ltoir", "fatbin", "object", "library")
"""The possible contents of a file: types of source code, and of input for a Linker."""

_SUFFIXES = {
    ".cu": "c++",
    ".cuh": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".cc": "c++",
    ".c": "c++",
    ".ptx": "ptx",
    ".ll": "nvvm",
    ".bc": "nvvm",
    ".nvvm": "nvvm",
    ".cubin": "cubin",
    ".ltoir": "ltoir",
    ".fatbin": "fatbin",
    ".o": "object",
    ".obj": "object",
    ".a": "library",
}
_TITLES = {
    "c++": "CUDA C++",
    "ptx": "PTX",
    "nvvm": "NVVM IR",
    "cubin": "a cubin",
    "ltoir": "LTO-IR",
    "fatbin": "a fat binary",
    "object": "an object of the host",
    "library": "a library of the host",
}
_MAGIC = {
    b"\xedCN\x7f": "ltoir",
    b"\x50\xed\x55\xba": "fatbin",
    b"!<arch>\n": "library",
    b"!<thin>\n": "library",
    b"BC\xc0\xde": "nvvm",
}
_ELF, _ELF_CUDA = b"\x7fELF", (190).to_bytes(2, "little")  # the magic number; EM_CUDA, the value of e_machine
# Nothing before .version can be read in two ways: otherwise, the number of ways would double with each comment.
_PTX = re.compile(rb"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*\.version\s+\d")
_NVVM = re.compile(rb"^\s*(?:target\s+(?:triple|datalayout)\s*=|source_filename\s*=|; ModuleID\b)", re.MULTILINE)


class Input(NamedTuple):
    """An input file that was read: its name, type and content."""

    file: str
    kind: str
    content: bytes

    @property
    def is_source(self) -> bool:
        """bool: Whether the file is input for a compiler."""
        return self.kind in SOURCES

    @property
    def stem(self) -> str:
        """str: The base name of the file's outputs."""
        return "stdin" if self.file == "-" else Path(self.file).stem

    @property
    def program_name(self) -> str:
        """str: The name in diagnostics."""
        return "stdin.cu" if self.file == "-" else self.file


def read(file: str, language: str | None) -> Input:
    """Read a file and determine its type.

    Raises
    ------
    UsageError
        If its suffix contradicts its content.
    OSError
        If it cannot be read.
    """
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    content = content.removeprefix(codecs.BOM_UTF8)  # the mark is not part of what the type is determined from
    if language is not None:
        return Input(file, language, content)
    by_suffix, by_content = _SUFFIXES.get(Path(file).suffix.lower()), _kind_of(content)
    if by_content is None:  # text of another type, or a damaged file; the program that reads it reports the error
        return Input(file, by_suffix or "c++", content)
    if by_suffix not in (None, by_content):
        raise UsageError(
            f"{file} contains {_TITLES[by_content]}, but has the suffix of {_TITLES[str(by_suffix)]}: use -x "
            f"{by_content}"
        )
    return Input(file, by_content, content)


def _kind_of(content: bytes) -> str | None:
    """Return the type of a file's content; None if that is not certain, as for C++."""
    if content.startswith(_ELF):
        return "cubin" if content[18:20] == _ELF_CUDA else "object"
    for magic, kind in _MAGIC.items():
        if content.startswith(magic):
            return kind
    if _PTX.match(content):
        return "ptx"
    if _NVVM.search(content[:4096]) and b"#include" not in content[:4096]:
        return "nvvm"
    return None
