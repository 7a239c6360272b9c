# SPDX-License-Identifier: Apache-2.0
"""Write the table of functions and their parameters that test_arguments.c goes through.

``arguments.py OUT PROMISED INTERNAL`` reads all headers, so that a new function is tested without being named
anywhere else.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
from read_headers import NOT_IN_TABLE, Interface, read

# This function throws a C++ exception instead of returning an error. memory/test_torch.cpp tests it.
THROWS = {"cch_torch_alloc"}


def boxes(found: Interface) -> dict[str, str]:
    """Return a dict from the C types of boxes to the constants of their kinds."""
    kinds = {name: f"cch_{name.removeprefix('CCH_KIND_').lower()}" for name in found.enums["cch_kind"]}
    return {kind: name for name, kind in kinds.items() if name != "CCH_KIND_COUNT"}


def parameter(declaration: str, found: Interface, nullable: set[str]) -> tuple[str, str]:
    """Return the initializer that describes a parameter, and the expression that passes its value."""
    declared = re.fullmatch(r"(.*?)(\w+)", declaration)
    assert declared, declaration
    written, name = declared[1].strip(), declared[2]
    base = written.replace("const", "").replace("*", "").strip()
    may_be_null = str(name in nullable).lower()
    if base in found.callbacks and "*" not in written:
        return (
            f'{{.name = "{name}", .sort = FUNCTION, .function = (any_function)fn_{base}, .nullable = {may_be_null}}}',
            f"({base})a[%d].function",
        )
    if base.startswith("CU") and "*" not in written and base not in ("CUdeviceptr", "CUgraphConditionalHandle"):
        return f'{{.name = "{name}", .sort = HANDLE, .type = "{base}", .nullable = {may_be_null}}}', "a[%d].pointer"
    if "*" not in written:
        size = "SIZE" if base == "size_t" else "NUMBER"
        return f'{{.name = "{name}", .sort = {size}}}', f"({written})a[%d].number"
    one = written.count("*") == 1
    if one and base in boxes(found):
        described = f"BOX, .kind = {boxes(found)[base]}"
    elif one and base == "void" and name == "box":
        described = "ANY_BOX"
    else:
        makes_box = written.endswith("**") and base in boxes(found)
        described = f"POINTER, .makes_box = {str(makes_box).lower()}"
    return f'{{.name = "{name}", .sort = {described}, .nullable = {may_be_null}}}', "a[%d].pointer"


def answer(prototype: str, name: str, found: Interface) -> str:
    """Return the name of the C constant that says what a function returns if an argument is wrong."""
    if name in {f"{box}_raw" for box in boxes(found)}:
        return "RAW"
    returned = prototype.split(name)[0].strip()
    if returned == "void":
        return "NOTHING"
    return "STATUS" if returned in ("cch_status", "int") else "ZERO"


def main(out: str, promised: str, internal: str) -> None:
    """Write the table of functions and their parameters."""
    found = read(Path(promised), Path(internal))
    calls, rows = [], []
    for name, prototype in found.functions.items():
        declared = re.search(r"\((.*)\)", prototype)
        assert declared
        if name in NOT_IN_TABLE | THROWS or declared[1] == "void":
            continue
        described = [parameter(one.strip(), found, found.nullable[name]) for one in declared[1].split(",")]
        passed = ", ".join(expression % i for i, (_, expression) in enumerate(described))
        returned = prototype.split(name)[0].strip()
        stored = ""
        if returned != "void":
            stored = (
                "r->pointer = (void *)(uintptr_t)"
                if "*" in returned or (returned.startswith("CU") and returned != "CUdeviceptr")
                else "r->number = (long long)"
            )
        calls.append(f"static void call_{name}(value *r, const value *a) {{ (void)r; {stored}{name}({passed}); }}")
        listed = ", ".join(initializer for initializer, _ in described)
        rows.append(f'  {{"{name}", call_{name}, {answer(prototype, name, found)}, {len(described)}, {{{listed}}}}},')
    lines = [*calls, "static const function functions[] = {", *rows, "};", ""]
    Path(out).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
