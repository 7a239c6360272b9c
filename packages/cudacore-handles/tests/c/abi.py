# SPDX-License-Identifier: Apache-2.0
"""The library's binary interface, as text: signatures, layouts of structs, values of enums and macros.

``generate OUT_LAYOUT OUT_ENTRIES HEADERS_FOLDER`` reads the public headers and writes two files: a C program that
prints the interface, and the list of the functions in the function table, which test_api_table.c includes.

``compare BASELINE LAYOUT_PROGRAM LIBRARY`` fails if the interface differs from the committed baseline; with
``--update`` it writes the baseline instead. The exported symbols must be those of the functions. Additions are allowed
between releases; all other changes break the interface. All differences are printed for review.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from read_headers import NOT_IN_TABLE, PREFIX, TABLE, read, table_entries


def generate(layout: Path, entries: Path, folder: Path) -> None:
    """Write two files: the program that prints the interface, and the list of the functions in the function table."""
    found = read(folder)
    table = table_entries(found)  # its order is that of the functions here
    functions = [*NOT_IN_TABLE, *(f"{PREFIX}{name}" for name in table)]
    prototypes = (*map(found.functions.__getitem__, functions), *found.callbacks.values())
    lines = [f'  puts("function {prototype}");' for prototype in prototypes]
    for name, fields in found.structs.items():
        lines.append(f'  printf("struct {name} size %zu\\n", sizeof({name}));')
        for field in fields if name != TABLE else ():
            where, size = f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"
            lines.append(f'  printf("  {name}.{field} at %zu size %zu\\n", {where}, {size});')
    for name, constants in found.enums.items():
        lines.append(f'  printf("enum {name} size %zu\\n", sizeof({name}));')
        lines += [f'  printf("  {constant} %lld\\n", (long long){constant});' for constant in constants]
    lines += [
        f'  printf("macro {name} %lld\\n", (long long){name});'
        for name in found.macros
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
    entries.write_text("".join(f"ENTRY({name})\n" for name in table))


def compare(baseline: Path, program: str, library: str, *, update: bool) -> None:
    """Compare the interface with the baseline, or write it as the new baseline."""
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True, text=True
    ).stdout
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    exported = {name for name in re.findall(r" [A-Z] (\S+)$", symbols, re.MULTILINE) if name.endswith("@@CCH_1")}
    promised = {f"{name}@@CCH_1" for name in re.findall(r"^function [^(]*?(\w+)\(", found, re.MULTILINE)}
    if exported - {"CCH_1@@CCH_1"} != promised:
        raise SystemExit(f"exported and promised functions differ: {sorted(exported ^ promised)}")
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
    """Run the command ``generate`` or ``compare``."""
    update = "--update" in arguments
    match [a for a in arguments if a != "--update"]:
        case ["generate", layout, entries, folder]:
            generate(Path(layout), Path(entries), Path(folder))
        case ["compare", baseline, program, library]:
            compare(Path(baseline), program, library, update=update)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
