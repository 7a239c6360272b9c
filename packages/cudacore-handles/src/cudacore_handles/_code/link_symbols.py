# SPDX-License-Identifier: Apache-2.0
"""The symbols that code defines for other code, and those that it needs from other code, for linking."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from cudacore_handles._code.cubin import STO_CUDA_ENTRY, Cubin
from cudacore_handles._code.elf import SHN_COMMON, STB_GLOBAL, STB_WEAK, STT_FUNC, is_elf, read_sections
from cudacore_handles._code.fat_binary import Entry, entries, parts
from cudacore_handles._code.ptx_signatures import outside_of_braces


class Symbol(NamedTuple):
    """A symbol that is not local to its code."""

    kind: str  # "kernel", "function" or "variable"
    binding: str  # "strong", "weak", "common" or "undefined"
    prototype: str = ""  # the prototype of a function as in cubins: "#if" is int(float); empty if unknown
    space: str = ""  # the state space of a variable: "global", "constant" or "shared"
    is_managed: bool = False
    size: int = 0  # the size of a variable; 0 if unknown


class Part(NamedTuple):
    """A piece of code that is linked as a whole."""

    name: str  # the name of a library's member, or empty
    symbols: dict[str, Symbol]
    is_relocatable: bool = True  # False for a cubin that linkers ignore
    target: str = ""  # the architecture of a cubin, such as "sm_90a"


def parts_of(code: bytes, code_type: str, arch: str) -> list[Part] | None:
    """Read the symbols of code that is to be linked.

    Parameters
    ----------
    code : bytes
        The code.
    code_type : str
        ``"ptx"``, ``"cubin"``, ``"fatbin"``, ``"object"`` or ``"library"``.
    arch : str
        The target architecture, such as ``"90a"``. It determines which image of a fat binary is used.

    Returns
    -------
    list of Part or None
        None if the code, or a part of it, cannot be read: LTO-IR is encrypted, and code can be damaged.
    """
    try:
        if code_type == "ptx":
            return [Part("", ptx_symbols(code.decode("utf-8", "replace")))]
        if code_type == "cubin":
            return [_cubin_part(code)]
        if code_type == "fatbin":
            return _fatbin_parts([code], arch)
        if code_type == "object":
            return _fatbin_parts(_fatbins_of_object(code), arch)
        if code_type == "library":
            found = []
            for name, member in _members(code):
                of_member = _fatbin_parts(_fatbins_of_object(member), arch)
                if of_member is None:
                    return None
                found += [part._replace(name=name) for part in of_member]
            return found
    except (ValueError, IndexError, OverflowError, struct.error):
        pass
    return None


def has_only_ltoir(fatbin: bytes) -> bool:
    """Return whether a fat binary has only LTO-IR, so that it needs link-time optimization."""
    return {entry.code_type for entry in entries(fatbin)} == {"ltoir"}


# ---- PTX

_SKIPPED = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_END = re.compile(r"(;|\{\})")
_DECLARATION = re.compile(
    r"(?:\.(?P<linkage>visible|weak|extern|common)\s+)?\.(?P<what>func|entry|global|const|shared)\b(?P<rest>.*)",
    re.DOTALL,
)
_FUNCTION = re.compile(
    r"\s*(?:\.attribute\s*\([^;]*?\)\s+)?(?:\((?P<results>[^()]*)\))?\s*(?P<name>[\w$%]+)\s*(?:\((?P<parameters>[^()]*)\))?"
)
_VARIABLE = re.compile(
    r"\s*(?P<attribute>\.attribute\s*\([^)]*\)\s*)?(?:\.align\s+\d+\s*)?(?:\.v(?P<vector>[248])\s*)?\.(?P<type>[a-z]+)"
    r"(?P<bits>8|16|32|64|128)(?P<pair>x2)?\s+(?P<name>[\w$%]+)(?P<extents>(?:\s*\[\s*\d*\s*\])*)\s*(?:=.*)?",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"\s*\.param\s*(?:\.align\s+\d+\s*)?\.(?P<type>[a-z]+?)(?P<bits>8|16|32|64|128)\s+[\w$%]+\s*(?:\[\s*(?P<count>\d*)\s*\])?\s*"
)
_CALLED = re.compile(r"\bcall(?:\.uni)?\s*(?:\([^)]*\)\s*,\s*)?([\w$%]+)")
_ALIAS = re.compile(r"\.alias\s+([\w$%]+)\s*,")
_BINDINGS = {"visible": "strong", "weak": "weak", "common": "common", "extern": "undefined"}
_SPACES = {"global": "global", "const": "constant", "shared": "shared"}
_LETTERS = {"8": "b", "16": "h", "32": "i", "64": "l", "128": "x"}


def ptx_symbols(ptx: str) -> dict[str, Symbol]:
    """Read the symbols of PTX. Declarations that cannot be parsed are skipped."""
    text = _SKIPPED.sub(" ", ptx)
    outside = _without_bodies(text)
    found: dict[str, Symbol] = {}
    called: set[str] | None = None
    aliases = set(_ALIAS.findall(outside))
    statements = _END.split(outside)
    for statement, end in zip(statements[::2], statements[1::2], strict=False):
        declaration = _DECLARATION.search(statement)
        if declaration is None:
            continue
        linkage, what = declaration["linkage"], declaration["what"]
        if linkage is None:  # local
            continue
        binding = _BINDINGS[linkage]
        if what not in ("func", "entry"):
            variable = _VARIABLE.fullmatch(declaration["rest"])
            if variable is not None:
                _add(found, variable["name"], _variable(binding, _SPACES[what], variable))
            continue
        function = _FUNCTION.match(declaration["rest"])
        if function is None:
            continue
        name = function["name"]
        if end == ";" and binding != "undefined":
            if name not in aliases:  # a function without a body is only declared here, unless it is an alias
                continue
            binding = "strong"
        if what == "entry":
            _add(found, name, Symbol("kernel", binding))
            continue
        prototype = _prototype(function["results"], function["parameters"])
        if binding == "undefined":
            if called is None:
                called = set(_CALLED.findall(text))
            if name not in called:  # linkers compare prototypes only of functions that are called
                prototype = ""
        _add(found, name, Symbol("function", binding, prototype))
    return found


def _add(found: dict[str, Symbol], name: str, symbol: Symbol) -> None:
    """Add a symbol, unless it is a declaration of a symbol that the same code defines."""
    if name not in found or found[name].binding == "undefined":
        found[name] = symbol


def _without_bodies(text: str) -> str:
    """Return PTX with ``{}`` in place of the bodies of functions, and without the values of variables."""
    *pieces, last = outside_of_braces(text)
    # A semicolon follows each value and ends the statement; the {} ends a function.
    return "".join(piece + ("" if piece.rstrip().endswith("=") else "{}") for piece in pieces) + last


def _variable(binding: str, space: str, match: re.Match[str]) -> Symbol:
    size = int(match["bits"]) // 8 * int(match["vector"] or 1) * (2 if match["pair"] else 1)
    for extent in re.findall(r"\[\s*(\d*)\s*\]", match["extents"]):
        size *= int(extent or 0)
    return Symbol("variable", binding, "", space, "managed" in (match["attribute"] or ""), size)


def _prototype(results: str | None, parameters: str | None) -> str:
    """Return the prototype in the form of cubins; empty if it cannot be parsed."""
    letters = []
    for index, text in enumerate((results, parameters)):
        declared = [] if text is None or text.isspace() or not text else text.split(",")
        if index == 0 and not declared:
            letters.append("v")
        if index == 0 and len(declared) > 1:
            return ""
        for one in declared:
            match = _PARAMETER.fullmatch(one)
            if match is None or match["type"] not in ("b", "u", "s", "f"):
                return ""
            letter = _LETTERS[match["bits"]]
            if match["type"] == "f":
                letter = {"i": "f", "l": "d"}.get(letter, letter)
            letters.append(letter if match["count"] is None else f"{letter}{int(match['count'] or 0)}")
    return "#" + "".join(letters)


# ---- cubins

_STT_CUDA_OBJECT = 13
_STO_CUDA_MANAGED = 0x04
_STO_CUDA_SPACES = {0x20: "global", 0x40: "shared", 0x80: "constant"}


def _cubin_part(image: bytes) -> Part:
    cubin = Cubin(image)
    if not cubin.is_relocatable:
        return Part("", {}, is_relocatable=False, target=cubin.target)
    prototypes = cubin.prototypes()
    found: dict[str, Symbol] = {}
    for index, symbol in enumerate(cubin.symbols):
        if symbol.binding not in (STB_GLOBAL, STB_WEAK) or symbol.kind not in (STT_FUNC, _STT_CUDA_OBJECT):
            continue
        binding = "weak" if symbol.binding == STB_WEAK else "strong"
        if symbol.section in (0, SHN_COMMON):
            binding = "common" if symbol.section else "undefined"
        if symbol.kind == _STT_CUDA_OBJECT:
            space = _STO_CUDA_SPACES.get(symbol.other & 0xE0, "")
            managed = bool(symbol.other & _STO_CUDA_MANAGED)
            found[symbol.name] = Symbol("variable", binding, "", space, managed, symbol.size)
        elif symbol.other & STO_CUDA_ENTRY:
            found[symbol.name] = Symbol("kernel", binding)
        else:
            # CUDA 13 appends, after a bar, how the arguments are passed.
            prototype, _, _ = prototypes.get(index, "").partition("|")
            found[symbol.name] = Symbol("function", binding, prototype)
    return Part("", found, target=cubin.target)


# ---- fat binaries, host objects and libraries


def _fatbin_parts(fatbins: list[bytes], arch: str) -> list[Part] | None:
    found = []
    for fatbin in fatbins:
        entry = _choose(list(entries(fatbin)), arch)
        code = None if entry is None or entry.code_type == "ltoir" else entry.unpack()
        if entry is None or code is None:
            return None
        if entry.code_type == "ptx":
            found.append(Part("", ptx_symbols(code.decode("utf-8", "replace"))))
        else:
            found.append(_cubin_part(code))
    return found


def _choose(found: list[Entry], arch: str) -> Entry | None:
    """Return the image that a linker uses for an architecture; None if no image fits."""
    number = int(arch.rstrip("af"))
    same = [entry for entry in found if f"{entry.arch}{entry.variant}" == arch]
    older = [entry for entry in found if entry.arch <= number and not entry.variant]
    for code_type, among in (("ltoir", found), ("cubin", same), ("ptx", same), ("ptx", older), ("cubin", older)):
        chosen = [entry for entry in among if entry.code_type == code_type]
        if chosen:
            return max(chosen, key=lambda entry: entry.arch)
    return None


def _fatbins_of_object(image: bytes) -> list[bytes]:
    """Return the fat binaries with relocatable code in a host object, which is an ELF file."""
    if not is_elf(image):
        raise ValueError("this is not an ELF file")
    sections = [section for section in read_sections(image, named=False) if section.name == "__nv_relfatbin"]
    return [part for section in sections for part in parts(image[section.offset : section.offset + section.size])]


def _members(library: bytes) -> Iterator[tuple[str, bytes]]:
    """Return name and contents of each host object in a static library. A single host object has no name."""
    if library[:8] != b"!<arch>\n":
        yield "", library
        return
    at, long_names = 8, b""
    while at + 60 <= len(library):
        name, size = library[at : at + 16].rstrip(), int(library[at + 48 : at + 58])
        member = library[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
        if name == b"//":
            long_names = member
        elif name not in (b"/", b"/SYM64/"):
            if name[:1] == b"/":
                name = long_names[int(name[1:]) :].partition(b"\n")[0]
            if member[:4] == b"\x7fELF":
                yield name.rstrip(b"/").decode("utf-8", "replace"), member
