# SPDX-License-Identifier: Apache-2.0
"""The library's binary interface, as text: symbols, signatures, layouts of structs, values of enums and macros.

``generate OUT_LAYOUT OUT_ENTRIES HEADER...`` reads the public headers and writes a C program that prints the interface,
and the lists of functions that test_api_table.c includes.

``compare BASELINE LAYOUT_PROGRAM LIBRARY`` fails where the interface is not the committed baseline's; with
``--update`` it writes the baseline instead. Additions are allowed between releases, and everything else is a break:
both show up here, to be looked at.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def _fields(body: str) -> list[str]:
    """Return the names of a struct's fields, in order."""
    names = []
    for declaration in body.split(";"):
        if not declaration.strip():
            continue
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declaration)
        name = pointer or re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", declaration)
        if name is None:
            raise SystemExit(f"cannot read the field {declaration.strip()!r}")
        names.append(name.group(1))
    return names


def generate(layout: Path, entries: Path, headers: list[Path]) -> None:
    """Write the program that prints the interface, and the lists of functions."""
    text = "\n".join(_without_comments(header.read_text()) for header in headers)
    declarations = re.findall(r"^(?:CCH_EXPORT|typedef) ([^;{]*\([^;{]*\));", text, flags=re.MULTILINE)
    lines = [f'  puts("function {" ".join(declaration.split())}");' for declaration in declarations]
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.DOTALL):
        lines.append(f'  printf("struct {name} size %zu\\n", sizeof({name}));')
        for field in _fields(body):
            where, size = f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"
            lines.append(f'  printf("  {name}.{field} at %zu size %zu\\n", {where}, {size});')
    for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\} \1;", text, flags=re.DOTALL):
        lines.append(f'  printf("enum {name} size %zu\\n", sizeof({name}));')
        lines += [
            f'  printf("  {constant} %lld\\n", (long long){constant});'
            for constant in re.findall(r"^\s*(CCH_\w+)", body, flags=re.MULTILINE)
        ]
    lines += [
        f'  printf("macro {name} %lld\\n", (long long){name});'
        for name in re.findall(r"^#define (CCH_\w+) +[(\d]", text, flags=re.MULTILINE)
        if "VERSION" not in name or name == "CCH_ABI_VERSION"
    ]
    program = [
        "#include <cudacore/cudacore.h>",
        "#include <stdio.h>",
        "int main(void) {",
        *lines,
        "  return 0;",
        "}",
        "",
    ]
    layout.write_text("\n".join(program))
    table = re.search(r"typedef struct cch_api \{(.*?)\} cch_api;", text, flags=re.DOTALL)
    if table is None:
        raise SystemExit("the headers have no cch_api")
    exported = re.findall(r"^CCH_EXPORT [^;(]*?\b(cch_\w+)\(", text, flags=re.MULTILINE)
    entries.write_text(
        "#ifdef ENTRY\n"
        + "".join(f"ENTRY({name})\n" for name in _fields(table.group(1)) if name != "size")
        + "#endif\n#ifdef EXPORT\n"
        + "".join(f"EXPORT({name})\n" for name in exported)
        + "#endif\n"
    )


def compare(baseline: Path, program: str, library: str, *, update: bool) -> None:
    """Compare the interface with the baseline, or write it."""
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True, text=True
    ).stdout
    names = sorted(line.split(maxsplit=2)[2] for line in symbols.splitlines() if line.split()[1] != "A")
    layout = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    found = "".join(f"symbol {name}\n" for name in names) + layout
    if update:
        baseline.write_text(found)
        return
    expected = baseline.read_text()
    if found != expected:
        sys.stdout.writelines(
            difflib.unified_diff(
                expected.splitlines(keepends=True), found.splitlines(keepends=True), str(baseline), "this build"
            )
        )
        raise SystemExit("the binary interface is not the baseline's: undo the change, or run abi.py compare --update")


def main(arguments: list[str]) -> None:
    """Run a command of the module's description."""
    update = "--update" in arguments
    match [a for a in arguments if a != "--update"]:
        case ["generate", layout, entries, *headers]:
            generate(Path(layout), Path(entries), [Path(header) for header in headers])
        case ["compare", baseline, program, library]:
            compare(Path(baseline), program, library, update=update)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
