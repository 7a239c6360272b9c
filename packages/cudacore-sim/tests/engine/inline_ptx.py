# SPDX-License-Identifier: Apache-2.0
"""The inline PTX of CUDA's headers, those of libcu++ included, as kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import include_directories

TYPES = {"r": "b32", "l": "b64", "h": "b16", "f": "f32", "d": "f64", "q": "b128"}


@dataclass(frozen=True, order=True)
class Statement:
    """A statement ``asm``: its PTX, and the types of its operands. An operand of type "n" is a constant."""

    text: str
    types: tuple[str, ...]

    def body(self) -> str:
        """Return the statement with registers for its operands, whose declarations come first."""
        declared = "".join(f".reg .{TYPES[one]} %x{i}; " for i, one in enumerate(self.types) if one in TYPES)
        names = [f"%x{i}" if one in TYPES else "0" for i, one in enumerate(self.types)]
        lines = re.sub(r"%(\d+)", lambda found: names[int(found[1])], self.text.replace("%%", "%"))
        return f"{{ {declared}{lines} }}"


def _end(text: str, begin: int, stop: str) -> int:
    """Return the index of the first of some characters that is outside of strings and parentheses."""
    depth, i = 0, begin
    while i < len(text):
        if text[i] == '"':
            i += 1
            while text[i] != '"':
                i += 2 if text[i] == "\\" else 1
        elif depth == 0 and text[i] in stop:
            return i
        elif text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        i += 1
    return len(text)


def _statements(text: str) -> Iterator[Statement]:
    for found in re.finditer(r"\b(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(", text):
        at, parts = found.end(), []
        while len(parts) < 4:
            end = _end(text, at, ":)")
            parts.append(text[at:end])
            if end >= len(text) or text[end] == ")":
                break
            at = end + 1
        template = re.sub(r'"((?:[^"\\]|\\.)*)"', "", parts[0])
        if template.strip():  # made by macros
            continue
        ptx = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', parts[0])).replace("\\n", "\n").replace("\\t", " ")
        operands = [one for part in parts[1:3] for one in re.findall(r'"[=+]?(\w)"\s*\(', part)]
        numbers = [int(one) for one in re.findall(r"%(\d+)", ptx.replace("%%", ""))]
        closed = ptx.count("{") == ptx.count("}")
        if closed and all(one in TYPES or one == "n" for one in operands) and max(numbers, default=-1) < len(operands):
            yield Statement(" ".join(re.sub(r"//[^\n]*", "", ptx).split()), tuple(operands))


def statements(*, everywhere: bool) -> list[Statement]:
    """Return the different statements of CUDA's own headers and of cuda::ptx, or of all headers in the wheels."""
    found: set[Statement] = set()
    for directory in map(Path, include_directories()):
        places = ["**/*"] if everywhere else ["*", "crt/*", "cuda/__ptx/**/*"]
        for path in sorted(path for place in places for path in directory.glob(place)):
            if path.suffix in {".h", ".hpp", ".cuh", ".inl"} and path.is_file():
                text = path.read_text(errors="replace")
                if "asm" in text:
                    found.update(_statements(text))
    return sorted(one for one in found if one.text)
