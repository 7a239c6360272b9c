# SPDX-License-Identifier: Apache-2.0
"""The statements of ``docs/simulator/extending.rst`` about the sources: the files to touch, and the rooms."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2]
SOURCES = PACKAGE / "src" / "sim"
GUIDE = PACKAGE.parents[1] / "docs" / "simulator" / "extending.rst"

pytestmark = pytest.mark.skipif(not (SOURCES.is_dir() and GUIDE.is_file()), reason="needs the sources")


def files_with(pattern: str) -> dict[str, set[str]]:
    """Find the matches of a pattern in the simulator's sources; return a dictionary from matched texts to files."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*"):
        if path.suffix in {".cpp", ".h"}:
            for match in re.findall(pattern, path.read_text(encoding="utf-8")):
                found[match].add(str(path.relative_to(SOURCES)))
    return found


def test_the_files_of_an_instruction() -> None:
    """Adding an instruction of PTX would need files that the guide does not name."""
    declared = set(re.findall(r"(\w+_handler)\(", (SOURCES / "isa" / "handlers.h").read_text(encoding="utf-8")))
    assert len(declared) > 60
    for handler, files in files_with(r"(\w+_handler)\(").items():
        if handler not in declared:
            continue  # a local function of one file
        ops = [file for file in files if file.startswith("exec/ops/")]  # exec/ops is divided into folders
        assert ops, f"{handler} is defined in none of exec/ops"
        rooms = {"exec/ops"} | {
            file if file.startswith("isa/") else str(Path(file).parent) for file in files.difference(ops)
        }
        assert rooms <= {"isa/handlers.h", "ptx/decode", "ptx", "exec/ops", "exec", "checks"}, (handler, rooms)
        assert "isa/handlers.h" in rooms, (handler, rooms)


def test_every_decoder_is_in_its_group() -> None:
    """An instruction would be decoded in an unexpected file."""
    for table, files in files_with(r"(\w+_decoders)\[\]").items():
        group = table.removesuffix("_decoders")
        assert files == {"ptx/coder.h", f"ptx/decode/{group}.cpp"}, table


# For each type of node, the files other than its own that use the type, with the reasons.
USES = {
    "KERNEL": {
        "driver/graph/capture.cpp": "programmatic edges leave kernels alone",
        "driver/graph/edges.cpp": "likewise",
        "driver/graph/nodes/kernel_attributes.cpp": "the second file of kernel nodes",
    },
    "GRAPH": {
        "driver/graph/nodes/mem_alloc.cpp": "child graphs have no memory of their own",
        "driver/graph/nodes/mem_free.cpp": "likewise",
        "driver/graph/nodes/node.cpp": "a child graph that is replaced is destroyed",
    },
    "CONDITIONAL": {
        "driver/graph/graph.cpp": "graphs with conditions are not copied",
        "driver/graph/exec.cpp": "what is in a body is limited",
    },
    "EMPTY": {"driver/graph/graph.h": "the initial type", "driver/graph/exec.h": "likewise"},
}


def test_the_files_of_a_node_type() -> None:
    """Adding a type of node would need files that the guide does not name."""
    listed = set(re.findall(r"'(\w+\.cpp)'", (SOURCES / "driver/graph/nodes/meson.build").read_text(encoding="utf-8")))
    assert listed == {path.name for path in (SOURCES / "driver" / "graph" / "nodes").glob("*.cpp")}
    for node_type, files in files_with(r"CU_GRAPH_NODE_TYPE_(\w+)").items():
        own = {file for file in files if file.startswith("driver/graph/nodes/")} - set(USES.get(node_type, {}))
        assert len(own) == 1, f"{node_type} is in {sorted(own)}"
        captured = {file for file in files if file.startswith("driver/stream/")}
        others = files - own - captured - set(USES.get(node_type, {}))
        assert not others, f"{node_type} is used in {sorted(others)}"


def test_the_rooms() -> None:
    """The guide would name folders that do not exist, or would not name all folders."""
    named = set(re.findall(r"^   \* - ``([\w/]+)``$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))
    there = {path.name for path in SOURCES.iterdir() if path.is_dir() and path.name != "driver"}
    there |= {f"driver/{path.name}" for path in (SOURCES / "driver").iterdir() if path.is_dir()}
    assert named == there
