# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import cudacore_compile

FOLDER = Path(cudacore_compile.__file__).parent
# The lower parts of the package, from the lowest to the highest. All other modules are above these.
ROOMS = ("typing", "_version", "_compilers", "_cache")


def imports() -> dict[str, set[str]]:
    """Return the modules of the package, each with those that it imports, also inside functions."""
    modules = {
        ".".join(path.relative_to(FOLDER).with_suffix("").parts): path
        for path in FOLDER.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        own = {name.partition(".")[2] for name in names if name.startswith("cudacore_compile.")}  # "typing" is Python's
        found[module] = own & set(modules)
    assert sum(map(len, found.values())) > 50
    return found


def test_no_circle_of_imports() -> None:
    """A module could not be understood, tested or imported without all the others."""
    TopologicalSorter(imports()).prepare()  # CycleError lists the cycle


def test_no_room_imports_one_above_it() -> None:
    """The compilers would depend on the cache, or the cache on programs."""
    level = {room: index for index, room in enumerate(ROOMS)}
    for module, names in imports().items():
        own = level.get(module.partition(".")[0], len(ROOMS))
        for name in names:
            assert level.get(name.partition(".")[0], len(ROOMS)) <= own, f"{module} imports {name}"
