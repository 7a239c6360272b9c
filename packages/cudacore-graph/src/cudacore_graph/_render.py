# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs: a tree in text, the DOT language, SVG, Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_graph import _draw
from cudacore_graph._nodes.conditional import ConditionalNode
from cudacore_graph._nodes.kernel import KernelNode, name_of
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._summary import neighbours, possible_order, summarise
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition

_MAX_LINES = 1000  # the maximum number of nodes of one graph that a tree in text shows
MAX_NODES = 100  # the default maximum number of boxes in a picture; DOT always shows all nodes
_MAX_GRAPHS = 8  # the maximum number of child graphs or bodies that are drawn in one node


class _Layout(NamedTuple):
    """A graph to be shown: its nodes in a possible order of execution, and the indices of their dependencies."""

    nodes: list[GraphNode]
    before: list[list[int]]


def title(node: GraphNode) -> str:
    """Describe a node on one line."""
    part = node._describe()
    return "  ".join((part.title, *part.details))


# ---- what is shown of a graph


def _layout(graph: GraphDefinition) -> _Layout:
    """Sort the nodes into a possible order of execution that is close to the order in which they were added."""
    nodes = _native.graph_nodes(graph, [])
    place = {node: index for index, node in enumerate(nodes)}
    pairs = _native.graph_edges(graph, [])
    # Another thread can have added nodes in the meantime.
    edges = [(place[first], place[second]) for first, second in pairs if first in place and second in place]
    before, behind = neighbours(len(nodes), edges)
    order = possible_order(before, behind)
    new = {old: index for index, old in enumerate(order)}
    return _Layout([nodes[old] for old in order], [sorted(new[i] for i in before[old]) for old in order])


def _count(layout: _Layout) -> str:
    nodes, edges = len(layout.nodes), sum(map(len, layout.before))
    return f"{nodes} node{'s' * (nodes != 1)}, {edges} edge{'s' * (edges != 1)}"


# ---- text


def to_tree(graph: GraphDefinition) -> str:
    """Return the graph as text: a line for each node, with the numbers of its dependencies."""
    layout = _layout(graph)
    return "\n".join((f"GraphDefinition {graph._raw:#x}: {_count(layout)}", *_tree_lines(layout)))


def _tree_lines(layout: _Layout) -> Iterator[str]:
    shown = min(len(layout.nodes), _MAX_LINES)
    width = len(str(max(shown - 1, 0)))
    for index, node in enumerate(layout.nodes[:shown]):
        part = node._describe()
        last = index == len(layout.nodes) - 1
        after = f"  after {', '.join(map(str, layout.before[index]))}" if layout.before[index] else ""
        yield f"{'└' if last else '├'}─ {index:{width}} {'  '.join((part.title, *part.details))}{after}"
        stem = " " if last else "│"
        for number, (name, inner) in enumerate(part.graphs):
            inside = _layout(inner)
            end = number == len(part.graphs) - 1
            yield f"{stem}  {' ' * width} {'└' if end else '├'}─ {name + ': ' if name else ''}{_count(inside)}"
            for line in _tree_lines(inside):
                yield f"{stem}  {' ' * width} {' ' if end else '│'}  {line}"
    if shown < len(layout.nodes):
        yield f"└─ ... and {len(layout.nodes) - shown} more"


# ---- DOT

_STYLE = (
    '\tgraph [fontname="sans-serif" fontsize=10 compound=true]',
    '\tnode [shape=box style="rounded,filled" fillcolor=white fontname="sans-serif" fontsize=10]',
    "\tedge [arrowsize=0.7]",
)


def to_dot(graph: GraphDefinition) -> str:
    """Return the graph in the DOT language. Child graphs and bodies are clusters."""
    return "\n".join((f'digraph "graph_{graph._raw:x}" {{', *_STYLE, *_dot_lines(_layout(graph), "n", 1), "}", ""))


def _dot_lines(layout: _Layout, prefix: str, depth: int) -> Iterator[str]:
    tabs = "\t" * depth
    for index, node in enumerate(layout.nodes):
        part, name = node._describe(), f"{prefix}{index}"
        label = "\\n".join(map(_dot_text, (part.title, *part.details)))
        color = node._COLOUR
        plain = f'{name} [label="{label}" fillcolor="{color}"]'
        if not part.graphs:
            yield f"{tabs}{plain}"
            continue
        yield f"{tabs}subgraph cluster_{name} {{"
        yield f'{tabs}\tlabel="" style=rounded color="#888888"'
        yield f"{tabs}\t{plain}"
        for number, (what, inner) in enumerate(part.graphs):
            inside, inner_prefix = _layout(inner), f"{name}_{number}_"
            yield f"{tabs}\tsubgraph cluster_{inner_prefix} {{"
            yield f'{tabs}\t\tlabel="{_dot_text(what)}" labeljust=l style=dashed color="#888888"'
            if not inside.nodes:
                yield f'{tabs}\t\t{inner_prefix} [label="nothing" style=dotted]'
            yield from _dot_lines(inside, inner_prefix, depth + 2)
            yield f"{tabs}\t}}"
            for first in _first_nodes(inside, inner_prefix):
                yield f"{tabs}\t{name} -> {first} [style=dashed]"
        yield f"{tabs}}}"
    for index, those in enumerate(layout.before):
        for before in those:
            yield f"{tabs}{prefix}{before} -> {prefix}{index}"


def _first_nodes(layout: _Layout, prefix: str) -> list[str]:
    return [f"{prefix}{i}" for i, before in enumerate(layout.before) if not before] or [prefix]


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# ---- pictures of graphs, which can be summaries: SVG, Mermaid


class _Shown(NamedTuple):
    """A box of a picture: its text, the class of its nodes, contained graphs with names, and the number of nodes."""

    lines: tuple[str, ...]
    kind: type[GraphNode] | None
    graphs: tuple[tuple[str, _Pictured], ...]
    size: int


class _Pictured(NamedTuple):
    """A graph as it is drawn."""

    boxes: list[_Shown]
    edges: list[tuple[int, int]]
    total: str  # the numbers of nodes and edges


class _Room:
    """The number of boxes that may still be drawn, including those of contained graphs."""

    def __init__(self, left: int | None) -> None:
        self.left = left

    def take(self, wanted: int) -> None:
        if self.left is not None:
            self.left = max(self.left - wanted, 0)


def _pictured(graph: GraphDefinition, room: _Room) -> _Pictured:
    layout = _layout(graph)
    names: dict[int, str] = {}
    summary = summarise(layout.before, lambda i: _kind(layout.nodes[i], names), room.left)
    room.take(len(summary.groups))
    boxes = []
    for group in summary.groups:
        node = layout.nodes[group.nodes[0]]
        kinds = {type(layout.nodes[i]) for i in group.nodes}
        kind = kinds.pop() if len(kinds) == 1 else None
        if len(group.nodes) > 1:
            boxes.append(_Shown(group.lines(), kind, (), len(group.nodes)))
            continue
        part = node._describe()
        lines, graphs = [part.title, *part.details], []
        for number, (name, inner) in enumerate(part.graphs):
            if room.left == 0 or number == _MAX_GRAPHS:
                lines.append(f"{len(part.graphs) - number} graphs not shown" if number else _count(_layout(inner)))
                break
            graphs.append((name, _pictured(inner, room)))
        boxes.append(_Shown(tuple(lines), kind, tuple(graphs), 1))
    return _Pictured(boxes, sorted(summary.edges), _count(layout))


def _kind(node: GraphNode, names: dict[int, str]) -> str:
    """Return what a node does, without details. `names` caches the names of kernels, which many nodes share."""
    if isinstance(node, KernelNode):
        kernel = node.kernel
        if kernel._raw not in names:
            names[kernel._raw] = name_of(kernel)
        return names[kernel._raw]
    return node._TITLE


def to_svg(graph: GraphDefinition, max_nodes: int | None) -> str:
    """Return the graph as SVG."""
    pictured = _pictured(graph, _room(max_nodes))
    return _draw.to_svg(_drawn(pictured), f"CUDA graph: {pictured.total}")


def _room(max_nodes: object) -> _Room:
    if max_nodes is None:
        return _Room(None)
    if isinstance(max_nodes, bool) or not hasattr(max_nodes, "__index__"):
        raise TypeError(f"max_nodes must be an int or None, not {type(max_nodes).__name__}")
    count: int = max_nodes.__index__()
    if count < 1:
        raise ValueError(f"max_nodes is {count}; it must be at least 1, or None for no limit")
    return _Room(count)


def _drawn(graph: _Pictured) -> _draw.Picture:
    if not graph.boxes:
        return _draw.arrange([_draw.Box(["nothing"], "#f4f4f4")], ())
    boxes = [
        _draw.Box(
            shown.lines,
            (shown.kind or GraphNode)._COLOUR,
            stacked=shown.size > 1,
            inner=[(name, _drawn(inner)) for name, inner in shown.graphs],
        )
        for shown in graph.boxes
    ]
    return _draw.arrange(boxes, graph.edges)


def to_mermaid(graph: GraphDefinition, max_nodes: int | None) -> str:
    """Return the graph in the Mermaid language. Child graphs and bodies are subgraphs."""
    return "\n".join(("flowchart TD", *_mermaid_lines(_pictured(graph, _room(max_nodes)), "n", 1), ""))


def _mermaid_lines(graph: _Pictured, prefix: str, depth: int) -> Iterator[str]:
    space = "    " * depth
    for index, shown in enumerate(graph.boxes):
        name = f"{prefix}{index}"
        label = "<br/>".join(map(_mermaid_text, shown.lines))
        is_conditional = issubclass(shown.kind or GraphNode, ConditionalNode)
        left, right = ("{{", "}}") if is_conditional else ("[[", "]]") if shown.size > 1 else ("[", "]")
        yield f'{space}{name}{left}"{label}"{right}'
        for number, (what, inner) in enumerate(shown.graphs):
            inner_prefix = f"{name}_{number}_"
            yield f'{space}subgraph {inner_prefix}["{_mermaid_text(what) or "graph"}"]'
            if not inner.boxes:
                yield f'{space}    {inner_prefix}0["nothing"]'
            yield from _mermaid_lines(inner, inner_prefix, depth + 1)
            yield f"{space}end"
            yield f"{space}{name} -.-> {inner_prefix}"
    for first, second in graph.edges:
        yield f"{space}{prefix}{first} --> {prefix}{second}"


def _mermaid_text(text: str) -> str:
    # In Mermaid, text after # is an entity, and text between backticks is Markdown.
    for plain, code in (("#", "#35;"), ("`", "#96;"), ("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, code)
    return text


# ---- notebooks


def mimebundle(graph: GraphDefinition, include: Iterable[str] | None, exclude: Iterable[str] | None) -> dict[str, Any]:
    """Return what a notebook shows: text, and SVG."""
    if not graph.is_valid:
        return {"text/plain": repr(graph)}
    makers: dict[str, Callable[[], str]] = {
        "text/plain": lambda: to_tree(graph),
        "image/svg+xml": lambda: to_svg(graph, MAX_NODES),
    }
    wanted = set(makers if include is None else include) - set(exclude or ())
    return {kind: make() for kind, make in makers.items() if kind in wanted}
