# SPDX-License-Identifier: Apache-2.0
"""Pictures: text, DOT, Mermaid, SVG, and what a notebook gets."""

from __future__ import annotations

import re
import shutil
import sys
import types
from typing import Any

import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph import _render


@pytest.fixture
def picture(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> cg.GraphDefinition:
    """Give a graph with a branch, a child graph and a loop."""
    child = cg.GraphDefinition()
    child.memset(numbers.buffer, 255, 64)
    first = definition.launch(ch.LaunchConfig(grid=(2, 3), block=32, shmem_size=2048), add, numbers.buffer, 1)
    left = first.memcpy(numbers.at(4), numbers.at(0), 16)
    right = first.callback(some_function)
    joined = left.join(right)
    loop = joined.embed(child).while_loop(definition.create_condition(0))
    loop.body.launch(ONE, add, numbers.buffer, 1)
    loop.switch(definition.create_condition(0), 2)
    return definition


def some_function() -> None: ...


def test_tree(picture: cg.GraphDefinition, numbers: Numbers) -> None:
    """The text would lack nodes, what they do, or what they wait for."""
    lines = str(picture).splitlines()
    assert lines[0] == f"GraphDefinition {picture._raw:#x}: 7 nodes, 7 edges"
    short = [f"..{numbers.at(index) & 0xFFFFFF:06x}" for index in (0, 4)]
    body = [re.sub(r"0x[0-9a-f]+|\.\.[0-9a-f]{6}", "ADDRESS", line) if "condition" in line else line for line in lines]
    assert body[1:] == [
        "├─ 0 add  grid 2x3x1  block 32x1x1  shared 2 KiB",
        f"├─ 1 memcpy 16 B  {short[0]} to {short[1]}  after 0",
        "├─ 2 callback  some_function  after 0",
        "├─ 3 empty  after 1, 2",
        "├─ 4 graph  after 3",
        "│    └─ 1 node, 0 edges",
        f"│       └─ 0 memset 64 B  {short[0]} to 0xff",
        "├─ 5 while  condition ADDRESS  after 4",
        "│    └─ body: 1 node, 0 edges",
        "│       └─ 0 add  grid 1x1x1  block 1x1x1",
        "└─ 6 switch  condition ADDRESS  after 5",
        "     ├─ case 0: 0 nodes, 0 edges",
        "     └─ case 1: 0 nodes, 0 edges",
    ]


def test_every_type_has_a_title(
    definition: cg.GraphDefinition, device: ch.Device, add: ch.Kernel, numbers: Numbers
) -> None:
    """A type of node would have no title, or one that says nothing."""
    event = device.create_event()
    memory = definition.allocate(3 * 2**20)
    nodes = [
        memory,
        memory.deallocate(memory.dptr),
        definition.record(event),
        definition.wait(event),
        definition.if_then(definition.create_condition(0)),
        definition.if_else(definition.create_condition(0)),
        definition.launch(ch.LaunchConfig(grid=2, cluster=2, block=1, is_cooperative=True), add, 0, 0),
        definition.memset(numbers.buffer, b"ab", 2, 3, 16),
        definition.memcpy(numbers.buffer, numbers.at(8), 8, height=2, src_pitch=16),
    ]
    titles = [_render.title(node) for node in nodes]
    for title, start in zip(
        titles,
        ("allocate 3 MiB  ..", "free  ..", "record  event", "wait  event", "if  condition", "if else  condition",
         "add  grid 2x1x1  block 1x1x1  cluster 2x1x1  cooperative", "memset 4 B x 3  ..",
         "memcpy 8 B x 2 x 1  .."),
        strict=True,
    ):  # fmt: skip
        assert title.startswith(start)


def test_long_graphs_are_cut(definition: cg.GraphDefinition) -> None:
    """Printing a graph of a hundred thousand nodes would fill the screen."""
    definition.add_many([("empty", None)] * 1200)
    lines = str(definition).splitlines()
    assert len(lines) == 1002
    assert lines[-1] == "└─ ... and 200 more"


def test_dot(picture: cg.GraphDefinition) -> None:
    """The picture would lack nodes, edges or clusters, or not be DOT."""
    dot = picture.to_dot()
    assert dot.startswith(f'digraph "graph_{picture._raw:x}" {{\n')
    assert dot.endswith("}\n")
    assert 'n0 [label="add\\ngrid 2x3x1\\nblock 32x1x1\\nshared 2 KiB" fillcolor="#d9ead3"]' in dot
    for line in ("n0 -> n1", "n0 -> n2", "n1 -> n3", "n5 -> n5_0_0 [style=dashed]", "n6 -> n6_1_ [style=dashed]"):
        assert f"\t{line}\n" in dot
    assert dot.count("subgraph cluster_") == 7
    assert 'label="body" labeljust=l style=dashed' in dot
    assert dot.count("{") == dot.count("}")


def test_mermaid(picture: cg.GraphDefinition) -> None:
    """The picture would lack nodes, edges or subgraphs, or not be Mermaid."""
    lines = [line.strip() for line in picture.to_mermaid().splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'n0["add<br/>grid 2x3x1<br/>block 32x1x1<br/>shared 2 KiB"]' in lines
    for line in ("n0 --> n1", "n2 --> n3", "n5 -.-> n5_0_", 'subgraph n5_0_["body"]', 'n6_0_0["nothing"]'):
        assert line in lines
    assert sum(line.startswith("subgraph") for line in lines) == lines.count("end") == 4


def test_names_that_break_out(definition: cg.GraphDefinition) -> None:
    """A function's name with quotes would end the label that it is in."""

    def function() -> None: ...

    function.__qualname__ = 'say "<b>&\\'
    definition.callback(function)
    assert '[label="callback\\nsay \\"<b>&\\\\" ' in definition.to_dot()
    assert "say &quot;&lt;b&gt;&amp;\\" in definition.to_mermaid()


class _Source:
    def __init__(self, source: str) -> None:
        self.source = source

    def pipe(self, **how: str) -> str:
        return f"<{how} of {len(self.source)}>"


def test_svg(picture: cg.GraphDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture would not be drawn by Graphviz, or a missing Graphviz not be said."""
    module: Any = types.ModuleType("graphviz")
    module.Source, module.ExecutableNotFound = _Source, OSError
    monkeypatch.setitem(sys.modules, "graphviz", module)
    assert picture.to_svg() == f"<{{'format': 'svg', 'encoding': 'utf-8'}} of {len(picture.to_dot())}>"
    assert "image/svg+xml" in picture._repr_mimebundle_()

    def missing(self: _Source, **how: str) -> str:
        raise OSError("no dot")

    monkeypatch.setattr(_Source, "pipe", missing)
    with pytest.raises(RuntimeError, match="needs Graphviz's program dot"):
        picture.to_svg()
    assert "image/svg+xml" not in picture._repr_mimebundle_()
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        picture.to_svg()


def test_drawn_by_graphviz(picture: cg.GraphDefinition) -> None:
    """What Graphviz itself gets would not be DOT."""
    pytest.importorskip("graphviz", reason="needs the package graphviz")
    if shutil.which("dot") is None:
        pytest.skip("needs Graphviz's program dot")
    svg = picture.to_svg()
    assert svg.count('class="node"') == 11
    assert svg.count('class="cluster"') == 7


def test_notebook(picture: cg.GraphDefinition) -> None:
    """A notebook would show nothing, or more than it asked for."""
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == str(picture)
    assert bundle["text/vnd.mermaid"] == picture.to_mermaid()
    assert set(picture._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
    assert "text/vnd.mermaid" not in picture._repr_mimebundle_(exclude=["text/vnd.mermaid"])


def test_notebook_shows_what_is_gone(definition: cg.GraphDefinition) -> None:
    """Looking at the picture of a graph that was destroyed would be an error."""
    node = definition.embed(cg.GraphDefinition())
    inner = node.child_graph
    node.destroy()
    assert inner._repr_mimebundle_() == {"text/plain": repr(inner)}
