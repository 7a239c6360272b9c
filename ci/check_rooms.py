#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check how the sources are laid out: what each package and each room may use of the others.

usage: check_rooms.py [ROOT]       ROOT: the repository, or a folder that is laid out like it
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

#: Private modules that another package may import, with the reason. Submodules are included.
DOORS = {
    "cudacore_handles._sdk": "the one door of cudacore-handles",
}
#: Imports past the doors: file and module, with the reason.
PAST_THE_DOORS = {
    ("cudacore_graph/_native.py", "cudacore_handles._native"): "it names the graph part of the extension module",
    ("cudacore_graph/_native.pyi", "cudacore_handles._native"): "its classes stand on Handle",
}
#: Files that the compiled packages have a copy of each, because their source distributions stand alone.
COPIES = ("tools/build_backend.py", "tools/find_cuda_headers.py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Return the line and the name of each module that a file imports, and of each private name of a package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.lineno, node.module
            if "." not in node.module:
                yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


def is_private(module: str) -> bool:
    """Return whether a module, or a package that it is in, has the name of a private one."""
    return any(part.startswith("_") and not part.endswith("__") for part in module.split("."))


def imports_across_packages(root: Path) -> Iterator[str]:
    """Return the imports of what another package keeps private."""
    used = set()
    folders = sorted(folder for folder in root.glob("packages/*/src/*") if (folder / "__init__.py").is_file())
    packages = {folder.name for folder in folders}
    for folder in folders:
        for path in sorted(folder.rglob("*.py*")):
            if path.suffix not in {".py", ".pyi"}:
                continue
            name = str(path.relative_to(folder.parent))
            for line, module in imports(path):
                package = module.partition(".")[0]
                if package == folder.name or package not in packages or not is_private(module):
                    continue
                if any(f"{module}.".startswith(f"{door}.") for door in DOORS):
                    continue
                if (name, module) in PAST_THE_DOORS:
                    used.add((name, module))
                    continue
                yield f"{path.relative_to(root)}:{line}: imports {module}, which is private: import it from a door"
    for name, module in sorted(PAST_THE_DOORS.keys() - used):
        yield f"{name} does not import {module} any more: take it out of PAST_THE_DOORS"


def copies_that_differ(root: Path) -> Iterator[str]:
    """Return the files that are not the same in all packages that have them."""
    for name in COPIES:
        found = sorted(root.glob(f"packages/*/{name}"))
        if len({path.read_bytes() for path in found}) != 1:
            yield f"{' and '.join(str(path.relative_to(root)) for path in found) or name}: must be equal copies"


def problems(root: Path) -> list[str]:
    """Return what is wrong, a line each."""
    return [*imports_across_packages(root), *copies_that_differ(root)]


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = problems(root)
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
