# SPDX-License-Identifier: Apache-2.0
"""Read the headers, and generate files that would otherwise repeat their contents.

``read_headers.py PROMISED INTERNAL OUT_DEPFILE OUT_CDEF OUT_VERSION_MAP OUT_TABLE OUT_NODES`` reads the folders of the
promised and of the internal headers. It writes which files it has read, the declarations that cffi takes, the linker's
version map, the initializer of the function table, and lists of the types of graph nodes and of the structures of their
parameters. It fails if the table in api.h differs from the promised functions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pycparser import c_ast
from pycparser.c_generator import CGenerator
from pycparser.c_parser import CParser

PREFIX = "cch_"
TABLE = "cch_api"
STATUS = "cch_status"
# This function returns the table, so the table does not contain it.
NOT_IN_TABLE = {"cch_get_api"}
INTERNAL_VERSION = "CCH_INTERNAL"
# The types of the C standard library that the headers use.
STANDARD = "typedef int bool, size_t, int32_t, uint32_t, int64_t, uint64_t, uintptr_t, uint8_t;\n"


@dataclass
class Interface:
    """The declarations of the headers, in their order, each with the name of its header."""

    #: The headers without comments and preprocessor lines, by name, in the order of their inclusion.
    sources: dict[str, str] = field(default_factory=dict)
    #: Names of the macros that are numbers.
    macros: list[str] = field(default_factory=list)
    #: Exported functions: name, prototype.
    functions: dict[str, str] = field(default_factory=dict)
    #: Names of the functions that the promised headers declare.
    promised: set[str] = field(default_factory=set)
    #: Parameters that may be NULL: name of the function, names of its parameters.
    nullable: dict[str, set[str]] = field(default_factory=dict)
    #: Types of functions: name, prototype of a pointer.
    callbacks: dict[str, str] = field(default_factory=dict)
    #: Structures that are not opaque: name, names of the fields.
    structs: dict[str, list[str]] = field(default_factory=dict)
    #: Enumerations: name, names of the constants.
    enums: dict[str, list[str]] = field(default_factory=dict)


def read(promised: Path, internal: Path | None = None) -> Interface:
    """Read the promised headers, and the internal ones if their folder is given."""
    found = Interface()
    found.promised = set(_read_texts(promised / "cudacore.h", found))
    exported = found.promised | set(_read_texts(internal / "all.h", found) if internal is not None else ())
    for folder in filter(None, (promised, internal)):
        forgotten = {f"{folder.name}/{path.name}" for path in folder.glob("*.h")} - set(found.sources)
        if forgotten:
            raise SystemExit(f"{', '.join(sorted(forgotten))}: no header includes them")
    text = STANDARD + "".join(found.sources.values())
    generator = CGenerator()
    for node in CParser().parse(text).ext:
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            found.functions[node.name] = generator.visit(node)
        elif isinstance(node, c_ast.Typedef) and isinstance(node.type, c_ast.PtrDecl):
            if isinstance(node.type.type, c_ast.FuncDecl):
                found.callbacks[node.name] = generator.visit(node).removeprefix("typedef ")
        elif isinstance(node, c_ast.Typedef) and isinstance(node.type, c_ast.TypeDecl):
            shape = node.type.type
            if isinstance(shape, c_ast.Struct) and shape.decls:
                found.structs[node.name] = [declaration.name for declaration in shape.decls]
            elif isinstance(shape, c_ast.Enum):
                found.enums[node.name] = [enumerator.name for enumerator in shape.values.enumerators]
    for what, names in (
        ("declared without CCH_EXPORT", set(found.functions) - exported),
        ("exported and no function that can be read", exported - set(found.functions)),
    ):
        if names:
            raise SystemExit(f"the headers' functions are {what}: {', '.join(sorted(names))}")
    return found


def _read_texts(path: Path, found: Interface) -> Iterator[str]:
    """Read the headers that a header includes from its folder, then itself; yield the functions that they export."""
    name = f"{path.parent.name}/{path.name}"
    if name in found.sources:
        return
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for included in re.findall(rf"^#include <{path.parent.name}/(\w+\.h)>", text, flags=re.MULTILINE):
        yield from _read_texts(path.with_name(included), found)
    found.macros += re.findall(r"^#define (CCH_\w+) +[(\d]", text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$|^CCH_REFERENCES\(.*$", "", text, flags=re.MULTILINE)
    for function, parameters in re.findall(r"\bCCH_EXPORT\b[^;(]*?(\w+)\s*\(([^;]*)\);", text):
        found.nullable[function] = set(re.findall(r"\bCCH_NULLABLE\s+(\w+)", parameters))
        yield function
    found.sources[name] = re.sub(r"\bCCH_(?:EXPORT|NULLABLE|BEGIN_DECLS|END_DECLS)\b", "", text)


def table_entries(found: Interface) -> list[str]:
    """Return the functions of the table in its order, without their prefix; fail if some are missing."""
    entries = found.structs[TABLE][1:]  # the first field is the size of the table
    functions = {name.removeprefix(PREFIX) for name in found.promised - NOT_IN_TABLE}
    for problem, names in (
        (f"promised and not in {TABLE} (append them to it, in api.h)", functions - set(entries)),
        (f"in {TABLE} and not promised", set(entries) - functions),
        (f"in {TABLE} more than once", {name for name in entries if entries.count(name) > 1}),
    ):
        if names:
            raise SystemExit(f"{problem}: {', '.join(PREFIX + name for name in sorted(names))}")
    return entries


def cdef(found: Interface) -> str:
    """Return the declarations for cffi: all but the table, whose functions Python calls by name.

    ``int...`` keeps the name of the type in the code that cffi generates; see generate_cffi.py.
    """
    sources = (source for name, source in found.sources.items() if name != "cudacore/api.h")
    lines = [f"#define {name} ..." for name in found.macros]
    lines += [line for source in sources for line in source.splitlines() if line.strip()]
    return "\n".join(lines).replace(f"typedef int {STATUS};", f"typedef int... {STATUS};") + "\n"


def node_lists(found: Interface) -> str:
    """Return ``CCH_NODE_TYPES(X)``, as in ``X(KERNEL, kernel)``, and ``CCH_NODE_STRUCTS(X)``, as in ``X(kernel)``."""
    types = [name.removeprefix("CCH_NODE_") for name in found.enums["cch_node_type"]]
    structs = [match[1] for match in (re.fullmatch(r"cch_(\w+)_node", name) for name in found.structs) if match]
    lines = [
        "#define CCH_NODE_TYPES(X) " + " ".join(f"X({name}, {name.lower()})" for name in types),
        "#define CCH_NODE_STRUCTS(X) " + " ".join(f"X({name})" for name in structs),
    ]
    return "\n".join([*lines, ""])


def version_map(found: Interface) -> str:
    """Return the linker's version map. The version of the internal functions changes with every release."""
    promised, internal = (
        "".join(f"    {name};\n" for name in found.functions if (name in found.promised) == is_promised)
        for is_promised in (True, False)
    )
    return f"CCH_1 {{\n  global:\n{promised}  local:\n    *;\n}};\n{INTERNAL_VERSION} {{\n  global:\n{internal}}};\n"


def main(
    promised: str, internal: str, depfile: str, out_cdef: str, out_map: str, out_table: str, out_nodes: str
) -> None:
    """Write the files."""
    found = read(Path(promised), Path(internal))
    entries = table_entries(found)
    read_files = (path for folder in (promised, internal) for path in sorted(Path(folder).glob("*.h")))
    Path(depfile).write_text(f"{out_cdef}: {' '.join(map(str, read_files))}\n", encoding="utf-8")
    Path(out_cdef).write_text(cdef(found), encoding="utf-8")
    Path(out_map).write_text(version_map(found), encoding="utf-8")
    rows = "".join(f".{name} = {PREFIX}{name},\n" for name in entries)
    Path(out_table).write_text(rows, encoding="utf-8")
    Path(out_nodes).write_text(node_lists(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
