# SPDX-License-Identifier: Apache-2.0
"""Pictures: text, DOT, Mermaid, SVG, and the output in notebooks."""

from __future__ import annotations

import importlib.util
import random
import re
import shutil
import subprocess
import xml.etree.ElementTree
from collections import Counter
from typing import Any

import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph import _draw, _render
from cudacore_graph._summary import Group, summarise
from cudacore_handles._sdk import graph_native as _native


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
    """The text would lack nodes, their work, or their dependencies."""
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
    """A type of node would have no title, or a meaningless one."""
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


ODD_NAMES = (
    'a"b<script>', "two\nlines", "x\udc80y", "\x1b[31mred\x00", "#quot;#59;", ']"]; n9[', "日本語 λ", "a|b{c}", "`md`",
    "\u202eback", "<!-- -->", "%%{init: {}}%%", "\\N \\G \\l", "<br/>", "",
)  # fmt: skip


class _MadeUp:
    """An object like a test double: it has every attribute, or reading any attribute raises an error."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __call__(self) -> None: ...

    def __getattr__(self, name: str) -> object:
        if name != "__qualname__":
            raise AttributeError(name)
        if self.answer is KeyError:
            raise KeyError(name)
        return self.answer


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(definition: cg.GraphDefinition, name: str) -> None:
    """A name would add nodes, lines or elements to a picture, or make it unreadable for programs."""

    def function() -> None: ...

    function.__qualname__ = name
    definition.callback(function)
    texts = {kind: make() for kind, make in (("dot", definition.to_dot), ("mermaid", definition.to_mermaid))}
    texts["tree"] = str(definition)
    function.__qualname__ = "plain"
    plain = {"dot": definition.to_dot(), "mermaid": definition.to_mermaid(), "tree": str(definition)}
    for kind, text in texts.items():
        text.encode()
        assert all(character.isprintable() or character in "\n\t" for character in text)
        assert len(text.splitlines()) == len(plain[kind].splitlines())
    assert re.fullmatch(r'    n0\["callback<br/>[^"<>`]*"\]', texts["mermaid"].splitlines()[1])
    assert re.search(r'n0 \[label="([^"\\]|\\.)*" fillcolor="#f4cccc"\]\n', texts["dot"])
    if shutil.which("dot") is not None and importlib.util.find_spec("graphviz") is not None:
        svg = xml.etree.ElementTree.fromstring(definition.to_svg())
        assert not [element for element in svg.iter() if element.tag.endswith("script")]


@pytest.mark.parametrize("answer", [3, None, KeyError, b"x"], ids=repr)
def test_callables_that_make_up_names(definition: cg.GraphDefinition, answer: object) -> None:
    """A graph could not be shown if the function of a callback is a test double."""
    definition.callback(_MadeUp(answer))
    assert "callback  _MadeUp" in str(definition)


def test_looked_at_while_it_grows(definition: cg.GraphDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph could not be shown if another thread adds to it between the queries of its nodes and its edges."""
    ask = _native.graph_edges

    def late(graph: cg.GraphDefinition, place: Any) -> Any:
        definition.empty().join()
        return ask(graph, place)

    monkeypatch.setattr(_native, "graph_edges", late)
    definition.empty().join()
    assert str(definition).splitlines()[0].endswith("2 nodes, 1 edge")


def texts(svg: str) -> list[str]:
    """Return the text in a picture, which must be well-formed."""
    root = xml.etree.ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


def rectangles(svg: str) -> list[tuple[float, float, float, float]]:
    """Return the frames of the boxes of a picture."""
    found = re.findall(r'<rect x="([-.0-9]+)" y="([-.0-9]+)" width="([.0-9]+)" height="([.0-9]+)" rx="5"', svg)
    return [(float(x), float(y), float(x) + float(w), float(y) + float(h)) for x, y, w, h in found]


def test_svg(picture: cg.GraphDefinition) -> None:
    """Drawing SVG would need another program, or the picture would lack nodes or their work, or exceed its frame."""
    svg = picture.to_svg()
    shown = texts(svg)
    for line in ("add", "grid 2x3x1", "shared 2 KiB", "memcpy 16 B", "callback", "some_function", "empty", "graph",
                 "memset 64 B", "while", "body", "switch", "case 0", "case 1", "nothing"):  # fmt: skip
        assert line in shown
    assert shown.count("add") == 2
    assert "<title>CUDA graph: 7 nodes, 7 edges</title>" in svg
    root = xml.etree.ElementTree.fromstring(svg)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for x, y, right, bottom in rectangles(svg):
        assert left <= x < right <= left + width
        assert top <= y < bottom <= top + height
    # Two pictures in one notebook would use each other's styles or shapes.
    assert not re.search(r"<style|<script|<image|<use| id=|url\(|href", svg)
    assert svg.count("http") == 1  # the URL of the SVG name space


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_overlap(definition: cg.GraphDefinition, seed: int) -> None:
    """Boxes would cover each other, or an arrow would not point downwards."""
    random_graph(definition, 60, seed)
    svg = definition.to_svg(max_nodes=None)
    boxes = rectangles(svg)
    assert len(boxes) == 60
    for i, (x, y, right, bottom) in enumerate(boxes):
        for other_x, other_y, other_right, other_bottom in boxes[:i]:
            assert right <= other_x or other_right <= x or bottom <= other_y or other_bottom <= y
    arrows = re.findall(r'<path d="M[-.0-9]+ ([-.0-9]+) [^"]* ([-.0-9]+)" fill="none"', svg)
    assert len(arrows) == len(definition.edges())
    assert all(float(top) < float(bottom) for top, bottom in arrows)


def test_boxes_without_arrows(definition: cg.GraphDefinition) -> None:
    """They would be in one row, which is wider than a screen."""
    definition.add_many([("empty", None)] * 60)
    boxes = rectangles(definition.to_svg(max_nodes=None))
    assert len(boxes) == 60
    assert max(right for _, _, right, _ in boxes) < 1000


def random_graph(definition: cg.GraphDefinition, count: int, seed: int = 0) -> None:
    """Add empty nodes, each of which depends on some of the earlier ones."""
    chance = random.Random(seed)
    items: list[tuple[Any, ...]] = [
        ("empty", tuple({chance.randrange(i) for _ in range(chance.randrange(4))} if i else ())) for i in range(count)
    ]
    definition.add_many(items)


def test_order_without_crossings() -> None:
    """Arrows would cross although they need not."""
    boxes = [_draw.Box([str(i)], "white") for i in range(10)]
    # Two trees, whose leaves are numbered in turn.
    picture = _draw.arrange(boxes, {(0, 2), (1, 3), (0, 4), (1, 5), (0, 6), (1, 7), (0, 8), (1, 9)})
    (x0, _), (x1, _) = picture.places[:2]
    left, right = (0, 1) if x0 < x1 else (1, 0)
    assert max(picture.places[i + 2][0] for i in range(left, 8, 2)) < min(
        picture.places[i + 2][0] for i in range(right, 8, 2)
    )


def test_cycle_is_drawn(definition: cg.GraphDefinition) -> None:
    """Drawing a graph with a cycle, which users do to find the cycle, would never end, or not show the cycle."""
    a = definition.empty()
    b = a.join()
    a.pred.add(b)
    assert "#d04040" in definition.to_svg()
    assert "n1 --> n0" in definition.to_mermaid()
    assert len(texts(definition.to_svg(max_nodes=1))) <= 3


MANY: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {
    "chain": ([("empty", i - 1 if i else None) for i in range(1000)], ["empty x 1,000", "in sequence"]),
    "fan": ([("empty", None)] * 1000, ["empty x 1,000", "in parallel"]),
    "just too wide": ([("empty", None)] * 13, ["empty x 13", "in parallel"]),
    "just too many chains": (
        [("empty", i - 1 if i % 2 else None) for i in range(26)],
        ["empty x 26", "in 13 groups in parallel"],
    ),
    "fork": ([("empty", None), *[("callback", 0, print)] * 40], ["empty", "callback x 40", "in parallel"]),
    "chains": (
        [("empty", None) if i % 2 == 0 else ("callback", i - 1, print) for i in range(400)],
        ["400 nodes", "in 200 groups in parallel", "empty x 200", "callback x 200"],
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_are_one(definition: cg.GraphDefinition, name: str) -> None:
    """A picture of a large graph would be too large to be readable, or not state the number of nodes."""
    items, expected = MANY[name]
    definition.add_many(items)
    assert texts(definition.to_svg()) == expected
    assert "<br/>".join(expected[-2:]) in definition.to_mermaid()


def test_different_chains() -> None:
    """A small graph would not be shown in full only because many chains of different nodes are side by side."""
    edges = {(i, i + 1) for i in range(0, 60, 3)} | {(i + 1, i + 2) for i in range(0, 60, 3)}
    assert summarise(60, edges, str, 100) == ([Group((i,), "", Counter([str(i)])) for i in range(60)], edges)


@pytest.mark.parametrize("count", [1, 10, 100, 1000, 5000])
def test_size_is_bounded(definition: cg.GraphDefinition, count: int) -> None:
    """A notebook would get a picture that it cannot show: Mermaid's limits are 50,000 characters and 500 edges."""
    random_graph(definition, count)
    mermaid = definition.to_mermaid()
    assert len(mermaid) < 50_000
    assert mermaid.count("-->") < 500
    assert len(definition.to_svg()) < 200_000
    shown = [re.match(r"([0-9,]+) nodes|empty x ([0-9,]+)|empty", line) for line in texts(definition.to_svg())]
    total = sum(int((match[1] or match[2] or "1").replace(",", "")) for match in shown if match)
    assert total == count


def test_size_of_nested_graphs_is_bounded(definition: cg.GraphDefinition) -> None:
    """A picture would contain all bodies of all nodes, without a limit."""
    for _ in range(12):
        node = definition.switch(definition.create_condition(0), 20)
        for branch in node.branches:
            random_graph(branch, 20)
    svg = definition.to_svg()
    assert len(rectangles(svg)) < 250
    assert any("graphs not shown" in line for line in texts(svg))
    assert definition.to_mermaid().count("-->") < 500


def test_bad_limits(definition: cg.GraphDefinition) -> None:
    """An invalid limit would be accepted."""
    wrong: Any
    for wrong, error in ((0, ValueError), (-1, ValueError), (True, TypeError), ("1", TypeError), (1.5, TypeError)):
        for draw in (definition.to_svg, definition.to_mermaid):
            with pytest.raises(error, match="max_nodes"):
                draw(max_nodes=wrong)


def test_drawn_by_graphviz(picture: cg.GraphDefinition) -> None:
    """The input of Graphviz would not be valid DOT."""
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("needs Graphviz's program dot")
    svg = subprocess.run([dot, "-Tsvg"], input=picture.to_dot(), text=True, capture_output=True, check=True).stdout
    assert svg.count('class="node"') == 11
    assert svg.count('class="cluster"') == 7


def test_notebook(picture: cg.GraphDefinition) -> None:
    """A notebook would show nothing, or another format than it requested."""
    bundle = picture._repr_mimebundle_()
    assert bundle == {"text/plain": str(picture), "image/svg+xml": picture.to_svg()}
    assert set(picture._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
    assert "image/svg+xml" not in picture._repr_mimebundle_(exclude=["image/svg+xml"])
