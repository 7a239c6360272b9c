#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the layout of the sources: what each package and each room may use from the others.

usage: check_rooms.py [ROOT]       ROOT: the repository, or a folder that is laid out like it

A layer is a folder whose subfolders are rooms, ordered from lower to upper. A room uses the rooms below it; it does not
include or import an upper one. A Python module that is in no room has a place in this order, too. Exceptions are listed
here, each with its reason; an exception that is no longer needed is an error.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

#: Private modules that another package may import, with the reason. Submodules are included.
DOORS = {
    "cudacore_handles._sdk": "the one door of cudacore-handles",
    "cudacore_graph._nodes": "the classes of nodes, all of which cudacore.graph has, too",
}
#: The rooms of each layer, from the lowest to the highest. In a Python package, a module can be listed like a room; "."
#: stands for all other modules. The files that begin a layer (__init__.py, __main__.py, module.c) are above all rooms.
LAYERS = {
    "cudacore-handles/src/lib": (
        "base",
        "driver",
        "stream",
        "memory",
        "texture",
        "code",
        "launch",
        "compiler",
        "graph",
    ),
    "cudacore-handles/src/native": ("base", "driver", "stream", "memory", "texture", "views", "launch", "graph"),
    "cudacore-handles/src/cudacore_handles": (
        *("_native", "_cffi", "_base", "typing", "_driver", "_stream", "_memory", "_code", "_compiler", "_launch"),
        *("_views", "_texture", "_sdk", "."),
    ),
    "cudacore-compile/src/cudacore_compile": ("_version", "typing", "_compilers", "_cache", ".", "_command"),
    "cudacore-graph/src/cudacore_graph": ("typing", "_arguments", "_errors", "_condition", "_nodes", "."),
    "cudacore/src/cudacore": ("_version", "system", "interop", ".", "_instead_of_cuda_core"),
    "cudacore-sim/src/sim": ("embedded_ptx", "control", "isa", "ptx", "exec", "checks", "driver", "nvml"),
    "cudacore-sim/src/sim/driver": ("base", "device", "memory", "code", "graph", "stream", "entry"),
}
#: Uses of an upper room: the path of the file in its package, and the room that the file uses, with the reason.
UPWARD = {
    ("src/lib/base/destroy.c", "driver"): "a resource that was lost with its context is not given to the driver",
    ("src/lib/base/destroy.c", "graph"): "cch_unref_lightly() frees nodes without calling the driver",
    ("src/lib/base/error.c", "compiler"): "names and meanings of the results of compilers",
    ("src/lib/base/error.c", "driver"): "names and meanings of the results of the driver",
    ("src/lib/base/reclaim.c", "driver"): "boxes are queued where the driver permits no calls",
    ("src/lib/base/registry.c", "driver"): "the handle of a lost resource now belongs to another resource",
    ("src/native/stream/stream.c", "graph"): "Stream.callback() reads its arguments as those of a node's are read",
    ("src/cudacore_handles/_driver/device.py", "_stream"): "Device.create_stream() and create_event()",
    ("src/cudacore_handles/_memory/arrays.py", "_views"): "arrays that only a view can read",
    ("src/cudacore_handles/_memory/buffer.py", "_views"): "Buffer.view()",
    ("src/cudacore_handles/_code/kernel.py", "_launch"): "Kernel.prepare()",
    ("src/cudacore_handles/_code/kernel_attributes.py", "_launch"): "occupancy is queried for launch configurations",
}
#: The maximum number of modules of a package that import each other in a circle, at any time.
MAX_CIRCLE = 24
#: The maximum number of files in a folder, and of lines in a file, for hand-written sources.
MAX_FILES, MAX_LINES = 25, 600
#: Files that may have more than MAX_LINES, with the reason.
LONG_FILES = {
    "packages/cudacore-handles/src/cudacore_handles/_native.pyi": "the stub of one module, with all of its docstrings",
    "packages/cudacore-handles/src/cudacore_handles/_sdk/graph_native.pyi": "likewise",
}
#: Files that tools/generate_entry_points.py writes, and files that tests/sequences/record_stale.py writes.
GENERATED = {"packages/cudacore-sim/src/sim/driver/base/entry_points.inc"}
RECORDED = {"packages/cudacore-sim/src/sim/driver/base/stale_outcomes.def"}
SUFFIXES = {".c", ".cpp", ".cu", ".def", ".h", ".inc", ".py", ".pyi"}
#: For some additions that CONTRIBUTING describes, the maximum number of files to touch: outside of the simulator, and
#: in it. Recorded files, such as the baseline of the ABI, do not count.
MAX_TOUCHED = {"a type of graph node": (6, 2)}
#: Files that each compiled package has a copy of, because its source distribution must be self-contained.
COPIES = ("tools/build_backend.py", "tools/find_cuda_headers.py")


def imports(path: Path, *, at_run_time: bool = False) -> Iterator[tuple[int, str]]:
    """Return the line and the name of each module that a file imports, and of each name imported from a module.

    If `at_run_time` is true, imports in branches that only type checkers read are left out.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in runs(tree) if at_run_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


def is_private(module: str) -> bool:
    """Return whether the name of a module, or of a package that contains it, is private."""
    return any(part.startswith("_") and not part.endswith("__") for part in module.split("."))


def imports_across_packages(root: Path) -> Iterator[str]:
    """Return the imports of private names of another package."""
    folders = sorted(path.parent for path in root.glob("packages/*/src/*/__init__.py"))
    packages = {folder.name for folder in folders}
    for path in (
        path for folder in folders for path in sorted(folder.rglob("*.py*")) if path.suffix in {".py", ".pyi"}
    ):
        for line, module in imports(path):
            package = module.partition(".")[0]
            is_own = package not in packages or f"src/{package}/" in str(path)
            if not is_own and is_private(module) and not any(f"{module}.".startswith(f"{door}.") for door in DOORS):
                yield f"{path.relative_to(root)}:{line}: imports {module}, which is private: import it from a door"


def runs(node: ast.AST) -> Iterator[ast.AST]:
    """Return all syntax nodes below `node`, except those in branches that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from runs(child)


def rooms_used(path: Path, layer: Path) -> Iterator[tuple[int, str]]:
    """Return the line and the room of each include or import from the layer. Stubs (.pyi) are not read."""
    if path.suffix not in {".py", ".c", ".cpp", ".h"}:
        return  # for example, a compiled .pyc file
    if path.suffix == ".py":
        names = imports(path, at_run_time=True)
        yield from ((line, name.split(".")[1]) for line, name in names if name.startswith(f"{layer.name}."))
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := re.match(rf'#include "(?:sim/)?(?:{layer.name}/)?(\w+)/', line):
            yield number, found.group(1)


def files_of_rooms(layer: Path, rooms: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Return the files of a layer, each with its room, without the files that begin the layer."""
    for path in sorted(path for path in layer.rglob("*") if path.is_file()):
        room = path.relative_to(layer).parts[0].partition(".")[0]
        if path.parent != layer or ("." in rooms and not room.startswith("__")):
            yield path, room


def uses_of_upper_rooms(root: Path) -> Iterator[str]:
    """Return an error for each use of an upper room by a lower room that is not in UPWARD."""
    used = set()
    for name, rooms in LAYERS.items():
        layer = root / "packages" / name
        rank = {room: number for number, room in enumerate(rooms)}
        others = rank.get(".", -1)  # the rank of all other modules and folders
        folders = {path.name for path in layer.glob("*") if path.is_dir() and not path.name.startswith("__")}
        modules = {path.stem for path in layer.glob("*.py*")}
        if folders and (folders - set(rooms) or set(rooms) - folders - modules - {"."}):
            yield f"packages/{name}: its rooms are {sorted(folders)}; LAYERS says {sorted(rooms)}"
        for path, room in files_of_rooms(layer, rooms):
            for line, other in sorted(set(rooms_used(path, layer))):
                if rank.get(other, others) <= rank.get(room, others):
                    continue
                key = str(path.relative_to(root / "packages" / name.partition("/")[0])), other
                if key in UPWARD:
                    used.add(key)
                else:
                    yield f"{path.relative_to(root)}:{line}: uses {other}, which is above {room}"
    for key in sorted(UPWARD.keys() - used):
        yield f"{key[0]} does not use {key[1]} any more: take it out of UPWARD"


def circles(root: Path) -> Iterator[str]:
    """Return an error for each package with a circle of too many modules. Imports for type checkers do not count."""
    for folder in sorted(path.parent for path in root.glob("packages/*/src/*/__init__.py")):
        paths = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in folder.rglob("*.py")}
        uses = {
            name: {used for _, used in imports(path, at_run_time=True) if used in paths and used != name}
            for name, path in paths.items()
        }
        reached = {name: set(used) for name, used in uses.items()}
        for between in paths:  # Warshall's algorithm
            for name in paths:
                if between in reached[name]:
                    reached[name] |= reached[between]
        largest = max(sum(other in reached[name] and name in reached[other] for other in paths) for name in paths)
        if largest > MAX_CIRCLE:
            yield f"{folder.relative_to(root)}: {largest} modules import each other; the limit is {MAX_CIRCLE}"


def sources(root: Path) -> list[Path]:
    """Return the hand-written sources that git does not ignore."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, text=True).split("\0")
    hand_written = (name for name in names if name not in GENERATED | RECORDED and (root / name).is_file())
    return sorted(Path(name) for name in hand_written if Path(name).suffix in SUFFIXES)


def sizes(root: Path) -> Iterator[str]:
    """Return the folders with too many files, and the files with too many lines."""
    files = sources(root)
    for folder, count in Counter(str(path.parent) for path in files).items():
        if count > MAX_FILES:
            yield f"{folder} has {count} files; the limit is {MAX_FILES}: divide it"
    for path in files:
        count = len((root / path).read_text(encoding="utf-8").splitlines())
        if (count > MAX_LINES) != (str(path) in LONG_FILES):
            yield f"{path} has {count} lines; the limit is {MAX_LINES}: divide it, or correct LONG_FILES"


def recipes(root: Path) -> Iterator[str]:
    """Return the errors in CONTRIBUTING's table "to add X, touch these files"."""
    tree = {*root.glob("packages/*/src/**/*"), *root.glob("packages/*/include/**/*")}
    baseline = root / "packages/cudacore-handles/tests/c/abi-baseline.txt"
    texts = {
        str(path.relative_to(root / "packages")): path.read_text(encoding="utf-8")
        for path in tree | {baseline}
        if path.suffix in SUFFIXES | {".txt"} and path.is_file() and str(path.relative_to(root)) not in RECORDED
    }
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (an? [^|]+) \| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|$", text, re.MULTILINE)
    if len(rows) < 5:
        yield 'CONTRIBUTING.md: the table "to add, example, files" is not there'
    for what, example, files in rows:
        stated = set(re.findall(r"`([^`]+)`", files))
        spellings = re.findall(r"\w+", example)
        found = {name for name, text in texts.items() if any(spelling in text for spelling in spellings)}
        for name in sorted(stated ^ found):
            verb = "does not name" if name in found else "names"
            yield f"CONTRIBUTING.md: {what}: the row of {spellings[0]} {verb} {name}"
        touched = Counter(name.startswith("cudacore-sim/") for name in stated if not name.endswith(".txt"))
        for limit, in_simulator in zip(MAX_TOUCHED.get(what, ()), (False, True), strict=False):
            if touched[in_simulator] > limit:
                where = "in the simulator" if in_simulator else "outside of the simulator"
                yield f"CONTRIBUTING.md: {what} touches {touched[in_simulator]} files {where}; the limit is {limit}"


def files_in_conventions(root: Path) -> Iterator[str]:
    """Return the files that the documentation for contributors names but that do not exist."""
    there = {path.name for folder in ("packages", "ci", "docs", "tests") for path in (root / folder).rglob("*.*")}
    there |= {path.name for path in root.glob("*.py")}
    for page in [root / "docs" / "conventions.rst", *sorted((root / "docs" / "contributing").glob("*.rst"))]:
        text = page.read_text(encoding="utf-8")
        for name in sorted(set(re.findall(r"``[\w/]*?(\w+\.(?:c|h|cpp|py|pyi))``", text)) - there - {"_x.py", "y.py"}):
            yield f"{page.relative_to(root)}: there is no {name}"


def copies_that_differ(root: Path) -> Iterator[str]:
    """Return the files of COPIES that differ between packages."""
    for name in COPIES:
        found = sorted(root.glob(f"packages/*/{name}"))
        if len({path.read_bytes() for path in found}) != 1:
            yield f"{' and '.join(str(path.relative_to(root)) for path in found) or name}: must be equal copies"


def problems(root: Path) -> list[str]:
    """Return the problems, one per line."""
    return [
        *imports_across_packages(root),
        *uses_of_upper_rooms(root),
        *circles(root),
        *sizes(root),
        *recipes(root),
        *files_in_conventions(root),
        *copies_that_differ(root),
    ]


def main() -> None:
    """Print the problems, and fail if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = problems(root)
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
