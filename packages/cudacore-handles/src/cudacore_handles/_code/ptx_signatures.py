# SPDX-License-Identifier: Apache-2.0
"""The parameters of kernels, read from PTX."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

# Text that is not read: comments, and the names of files, which can look like the beginning of a comment.
PTX_SKIPPED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PTX_ENTRY = re.compile(r"\.entry\b")
# At the end, the token is empty: if nothing matched there, all ways to divide the blanks before it would be tried.
_PTX_TOKEN = re.compile(r"(?:\s+|//[^\n]*)*(?P<token>\.?[\w$%@]+|\S|\Z)")
_PTX_NAME = re.compile(r"[\w$%]+")
_PTX_PARAMETER = re.compile(
    r"\.param (?:\.align (?P<align>\d{1,9}) )?\.(?P<type>[a-z]+)(?P<bits>8|16|32|64)"
    r"(?P<pointer> \.ptr(?: \.(?:global|const|shared|local))?)?(?: \.align \d+)?"
    r"(?P<extents>(?: \[ \d{1,9} \])*)"
)
_PTX_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


class PTXParameter(NamedTuple):
    """A parameter of a kernel, as PTX declares it."""

    letter: str  # of its kind, as in signatures
    size: int
    alignment: int


def ptx_signatures(ptx: str) -> dict[str, str]:
    """Return the signatures of the kernels in PTX, by their names."""
    return {name: signature_of(parameters) for name, parameters in ptx_kernels(ptx).items()}


def signature_of(parameters: list[PTXParameter]) -> str:
    """Return the signature of a kernel with these parameters: the letter of the kind and the size of each."""
    return " ".join(f"{parameter.letter}{parameter.size}" for parameter in parameters)


def ptx_kernels(ptx: str) -> dict[str, list[PTXParameter]]:
    """Return the parameters of the kernels in PTX, by the names of the kernels.

    Kernels whose parameters cannot be parsed, or are declared differently in two places, are left out.
    """
    kernels: dict[str, list[PTXParameter]] = {}
    contradicting = set()
    if "/*" in ptx:  # compilers write no comments, and searching megabytes of text takes time
        ptx = PTX_SKIPPED.sub(" ", ptx)
    for match in _PTX_ENTRY.finditer(ptx):
        if "//" in ptx[ptx.rfind("\n", 0, match.start()) + 1 : match.start()]:
            continue
        found = _ptx_entry(ptx, match.end())
        if found is not None:
            name, parameters = found
            if kernels.setdefault(name, parameters) != parameters:
                contradicting.add(name)
    for name in contradicting:
        del kernels[name]
    return kernels


def outside_of_braces(ptx: str) -> list[str]:
    """Return the pieces of PTX that are not in the bodies of functions or the values of variables.

    Each piece but the last is followed by a body or a value. If a body has no end, the piece before it is the last one.
    """
    pieces, depth, start = [], 0, 0
    for match in re.finditer(r"[{}]", ptx):
        if match[0] == "{":
            if depth == 0:
                pieces.append(ptx[start : match.start()])
            depth += 1
        elif depth:
            depth -= 1
            start = match.end()
    return pieces if depth else [*pieces, ptx[start:]]


def _ptx_entry(ptx: str, at: int) -> tuple[str, list[PTXParameter]] | None:
    """Read a kernel's name and parameters, which follow ``.entry``."""
    tokens = (match["token"] for match in _PTX_TOKEN.finditer(ptx, at))
    name = next(tokens, "")
    if not _PTX_NAME.fullmatch(name):
        return None
    if next(tokens, "") != "(":
        return name, []
    parameters: list[PTXParameter] = []
    words: list[str] = []
    for token in tokens:
        if token in ("{", ";", ".entry"):  # the list has no end
            return None
        if token not in (",", ")"):
            words.append(token)
            continue
        if words or token == "," or parameters:
            parameter = _ptx_parameter(words)
            if parameter is None:
                return None
            parameters.append(parameter)
        if token == ")":
            return name, parameters
        words = []
    return None


def _ptx_parameter(words: list[str]) -> PTXParameter | None:
    """Read ``.param .align 8 .b8 name[24]`` and similar declarations."""
    name_at = words.index("[") - 1 if "[" in words else len(words) - 1
    if name_at < 0 or not _PTX_NAME.fullmatch(words.pop(name_at)):
        return None
    return _declared(" ".join(words))


@lru_cache(maxsize=256)
def _declared(text: str) -> PTXParameter | None:
    """Read a declaration without its name. Parameters of the same type are one object."""
    match = _PTX_PARAMETER.fullmatch(text)
    if match is None:
        return None
    size = _PTX_SIZES[match["bits"]]
    alignment = max(1, int(match["align"] or size))  # 0 is not valid, but damaged code can have it
    letter = "?"  # .b32 and similar types are untyped: some compilers use them for all numbers
    if match["extents"]:
        letter = "b"
        for extent in re.findall(r"\d+", match["extents"]):
            size *= int(extent)
    elif match["pointer"]:
        letter = "p" if size == 8 else "?"
    elif match["type"] == "f":
        letter = "f"
    elif match["type"] in ("u", "s"):
        letter = "a" if size == 8 else "n"
    return PTXParameter(letter, size, alignment)
