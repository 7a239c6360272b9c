# SPDX-License-Identifier: Apache-2.0
"""The parameters of kernels, read from PTX."""

from __future__ import annotations

import re

_PTX_SKIPPED = r"//[^\n]*|/\*.*?\*/"
_PTX_ENTRY = re.compile(r"\.entry\b")
_PTX_TOKEN = re.compile(rf"(?:\s+|{_PTX_SKIPPED})*(?P<token>\.?[\w$%@]+|\S)", re.DOTALL)
_PTX_NAME = re.compile(r"[\w$%]+")
_PTX_PARAMETER = re.compile(
    r"\.param (?:\.align \d+ )?\.(?P<type>[a-z]+)(?P<bits>8|16|32|64)"
    r"(?P<pointer> \.ptr(?: \.(?:global|const|shared|local))?)?(?: \.align \d+)?"
    r" [\w$%]+(?P<extents>(?: \[ \d+ \])*)"
)
_PTX_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def ptx_signatures(ptx: str) -> dict[str, str]:
    """Return the signatures of the kernels in PTX, by their names.

    Kernels whose parameters cannot be parsed are left out.
    """
    signatures: dict[str, str] = {}
    contradicting = set()
    if "/*" in ptx:  # compilers write no comments, and searching megabytes of text takes time
        ptx = re.sub(_PTX_SKIPPED, " ", ptx, flags=re.DOTALL)
    for match in _PTX_ENTRY.finditer(ptx):
        if "//" in ptx[ptx.rfind("\n", 0, match.start()) + 1 : match.start()]:
            continue
        found = _ptx_entry(ptx, match.end())
        if found is not None:
            name, signature = found
            if signatures.setdefault(name, signature) != signature:
                contradicting.add(name)
    for name in contradicting:
        del signatures[name]
    return signatures


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


def _ptx_entry(ptx: str, at: int) -> tuple[str, str] | None:
    """Read a kernel's name and parameters, which follow ``.entry``."""
    tokens = (match["token"] for match in _PTX_TOKEN.finditer(ptx, at))
    name = next(tokens, "")
    if not _PTX_NAME.fullmatch(name):
        return None
    if next(tokens, "") != "(":
        return name, ""
    parameters: list[str] = []
    words: list[str] = []
    for token in tokens:
        if token not in (",", ")"):
            words.append(token)
            continue
        if words or token == "," or parameters:
            parameter = _ptx_parameter(words)
            if parameter is None:
                return None
            parameters.append(parameter)
        if token == ")":
            return name, " ".join(parameters)
        words = []
    return None


def _ptx_parameter(words: list[str]) -> str | None:
    """Read ``.param .align 8 .b8 name[24]`` and similar declarations as the letter of a kind and a size."""
    match = _PTX_PARAMETER.fullmatch(" ".join(words))
    if match is None:
        return None
    size = _PTX_SIZES[match["bits"]]
    if match["extents"]:
        for extent in re.findall(r"\d+", match["extents"]):
            size *= int(extent)
        return f"b{size}"
    kind = match["type"]
    if match["pointer"]:
        return f"p{size}" if size == 8 else f"?{size}"
    if kind == "f":
        return f"f{size}"
    if kind in ("u", "s"):
        return f"a{size}" if size == 8 else f"n{size}"
    return f"?{size}"  # .b32 and similar types are untyped: some compilers use them for all numbers
