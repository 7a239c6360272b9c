# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import cudacore_compile


def test_no_circle_of_imports() -> None:
    """A module could not be read, tested or imported without all the others."""
    folder = Path(cudacore_compile.__file__).parent
    names = {f"cudacore_compile.{path.stem}" for path in folder.glob("*.py")}
    imports: dict[str, set[str]] = {}
    for path in folder.glob("[!_]*.py"), folder.glob("_[!_]*.py"):
        for module in path:
            found = imports[f"cudacore_compile.{module.stem}"] = set()
            for node in ast.walk(ast.parse(module.read_text())):  # those in functions too
                if isinstance(node, ast.ImportFrom) and node.module:
                    found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)} & names
    assert sum(map(len, imports.values())) > 5
    TopologicalSorter(imports).prepare()  # CycleError names the circle
