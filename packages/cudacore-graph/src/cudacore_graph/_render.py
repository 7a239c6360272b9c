# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs: a tree in text, the DOT language, SVG, Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_graph import _draw
from cudacore_graph._nodes.graphs import ConditionalNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._nodes.work import KernelNode, name_of
from cudacore_graph._summary import neighbours, possible_order, summarise
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition

_MAX_LINES = 1000  # the maximum number of nodes of one graph that a tree in text shows
MAX_NODES = 100  # the default maximum number of boxes in a picture; DOT always shows all nodes
_MAX_GRAPHS = 8  # the maximum number of child graphs or bodies that are drawn in one node


class _Shown(NamedTuple):
    """A box of a picture: its text, the class of its nodes, contained graphs with names, and the number of nodes."""

    lines: tuple[str, ...]
    kind: type[GraphNode]
    graphs: tuple[tuple[str, _Pictured], ...] = ()
    size: int = 1


class _Pictured(NamedTuple):
    """A graph as it is shown: boxes in a possible order of execution, and edges between them."""

    boxes: list[_Shown]
    edges: list[tuple[int, int]]
    size: int  # the number of nodes
    total: str  # the numbers of nodes and edges


class _Room:
    """The number of boxes that may still be shown, including those of contained graphs."""

    def __init__(self, left: int | None) -> None:
        self.left = left

    def take(self, wanted: int) -> None:
        if self.left is not None:
            self.left = max(self.left - wanted, 0)


def title(node: GraphNode) -> str:
    """Describe a node on one line."""
    part = node._describe()
    return "  ".join((part.title, *part.details))


# ---- what is shown of a graph


def _sorted(graph: GraphDefinition) -> tuple[list[GraphNode], list[tuple[int, int]]]:
    """Sort the nodes into a possible order of execution that is close to the order in which they were added.

    Return them, and the pairs of the indices of nodes that an edge connects.
    """
    nodes = _native.graph_nodes(graph, [])
    place = {node: index for index, node in enumerate(nodes)}
    pairs = _native.graph_edges(graph, [])
    # Another thread can have added nodes in the meantime.
    edges = [(place[first], place[second]) for first, second in pairs if first in place and second in place]
    order = possible_order(*neighbours(len(nodes), edges))
    new = {old: index for index, old in enumerate(order)}
    return [nodes[old] for old in order], sorted((new[first], new[second]) for first, second in edges)


def _count(nodes: Sequence[GraphNode], edges: Sequence[tuple[int, int]]) -> str:
    return f"{len(nodes)} node{'s' * (len(nodes) != 1)}, {len(edges)} edge{'s' * (len(edges) != 1)}"


def _pictured(graph: GraphDefinition, room: _Room, max_boxes: int | None = None) -> _Pictured:
    """Describe a graph. With a limited room, many nodes are one box; `max_boxes` leaves out the last ones."""
    nodes, edges = _sorted(graph)
    names: dict[int, str] = {}
    groups, shown_edges = summarise(len(nodes), edges, lambda i: _kind(nodes[i], names), room.left)
    room.take(len(groups))
    boxes = []
    for group in groups[:max_boxes]:
        kinds = {type(nodes[i]) for i in group.nodes}
        kind = kinds.pop() if len(kinds) == 1 else GraphNode
        if len(group.nodes) == 1:
            boxes.append(_single(nodes[group.nodes[0]], kind, room, max_boxes))
        else:
            boxes.append(_Shown(group.lines(), kind, size=len(group.nodes)))
    return _Pictured(boxes, sorted(shown_edges), len(nodes), _count(nodes, edges))


def _single(node: GraphNode, kind: type[GraphNode], room: _Room, max_boxes: int | None) -> _Shown:
    part = node._describe()
    lines, graphs = [part.title, *part.details], []
    for number, (name, inner) in enumerate(part.graphs):
        if room.left == 0 or (room.left is not None and number == _MAX_GRAPHS):
            lines.append(f"{len(part.graphs) - number} graphs not shown" if number else _count(*_sorted(inner)))
            break
        graphs.append((name, _pictured(inner, room, max_boxes)))
    return _Shown(tuple(lines), kind, tuple(graphs))


def _kind(node: GraphNode, names: dict[int, str]) -> str:
    """Return what a node does, without details. `names` caches the names of kernels, which many nodes share."""
    if isinstance(node, KernelNode):
        kernel = node.kernel
        if kernel._raw not in names:
            names[kernel._raw] = name_of(kernel)
        return names[kernel._raw]
    return node._TITLE


def _room(max_nodes: object) -> _Room:
    if max_nodes is None:
        return _Room(None)
    if isinstance(max_nodes, bool) or not hasattr(max_nodes, "__index__"):
        raise TypeError(f"max_nodes must be an int or None, not {type(max_nodes).__name__}")
    count: int = max_nodes.__index__()
    if count < 1:
        raise ValueError(f"max_nodes is {count}; it must be at least 1, or None for no limit")
    return _Room(count)


# ---- text


def to_tree(graph: GraphDefinition) -> str:
    """Return the graph as text: a line for each node, with the numbers of its dependencies."""
    pictured = _pictured(graph, _Room(None), _MAX_LINES)
    return "\n".join((f"GraphDefinition {graph._raw:#x}: {pictured.total}", *_tree_lines(pictured)))


def _tree_lines(graph: _Pictured) -> Iterator[str]:
    width = len(str(max(len(graph.boxes) - 1, 0)))
    before, _ = neighbours(graph.size, graph.edges)
    for index, shown in enumerate(graph.boxes):
        last = index == graph.size - 1
        after = f"  after {', '.join(map(str, before[index]))}" if before[index] else ""
        yield f"{'└' if last else '├'}─ {index:{width}} {'  '.join(shown.lines)}{after}"
        stem = f"{' ' if last else '│'}  {' ' * width} "
        for number, (name, inner) in enumerate(shown.graphs):
            end = number == len(shown.graphs) - 1
            yield f"{stem}{'└' if end else '├'}─ {name + ': ' if name else ''}{inner.total}"
            for line in _tree_lines(inner):
                yield f"{stem}{' ' if end else '│'}  {line}"
    if len(graph.boxes) < graph.size:
        yield f"└─ ... and {graph.size - len(graph.boxes)} more"


# ---- DOT

_STYLE = (
    '\tgraph [fontname="sans-serif" fontsize=10 compound=true]',
    '\tnode [shape=box style="rounded,filled" fillcolor=white fontname="sans-serif" fontsize=10]',
    "\tedge [arrowsize=0.7]",
)


def to_dot(graph: GraphDefinition) -> str:
    """Return the graph in the DOT language. Child graphs and bodies are clusters."""
    lines = _dot_lines(_pictured(graph, _Room(None)), "n", "\t")
    return "\n".join((f'digraph "graph_{graph._raw:x}" {{', *_STYLE, *lines, "}", ""))


def _dot_lines(graph: _Pictured, prefix: str, tabs: str) -> Iterator[str]:
    for index, shown in enumerate(graph.boxes):
        name, label = f"{prefix}{index}", "\\n".join(map(_dot_text, shown.lines))
        plain = f'{name} [label="{label}" fillcolor="{shown.kind._COLOUR}"]'
        if not shown.graphs:
            yield f"{tabs}{plain}"
            continue
        yield f"{tabs}subgraph cluster_{name} {{"
        yield f'{tabs}\tlabel="" style=rounded color="#888888"'
        yield f"{tabs}\t{plain}"
        for number, (what, inner) in enumerate(shown.graphs):
            inside = f"{name}_{number}_"
            yield f"{tabs}\tsubgraph cluster_{inside} {{"
            yield f'{tabs}\t\tlabel="{_dot_text(what)}" labeljust=l style=dashed color="#888888"'
            if not inner.boxes:
                yield f'{tabs}\t\t{inside} [label="nothing" style=dotted]'
            yield from _dot_lines(inner, inside, f"{tabs}\t\t")
            yield f"{tabs}\t}}"
            later = {second for _, second in inner.edges}
            for begin in [f"{inside}{i}" for i in range(inner.size) if i not in later] or [inside]:
                yield f"{tabs}\t{name} -> {begin} [style=dashed]"
        yield f"{tabs}}}"
    for first, second in graph.edges:
        yield f"{tabs}{prefix}{first} -> {prefix}{second}"


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# ---- SVG


def to_svg(graph: GraphDefinition, max_nodes: int | None) -> str:
    """Return the graph as SVG."""
    pictured = _pictured(graph, _room(max_nodes))
    return _draw.to_svg(_drawn(pictured), f"CUDA graph: {pictured.total}")


def _drawn(graph: _Pictured) -> _draw.Picture:
    if not graph.boxes:
        return _draw.arrange([_draw.Box(["nothing"], "#f4f4f4")], ())
    boxes = [
        _draw.Box(
            shown.lines,
            shown.kind._COLOUR,
            stacked=shown.size > 1,
            inner=[(name, _drawn(inner)) for name, inner in shown.graphs],
        )
        for shown in graph.boxes
    ]
    return _draw.arrange(boxes, graph.edges)


# ---- Mermaid


def to_mermaid(graph: GraphDefinition, max_nodes: int | None) -> str:
    """Return the graph in the Mermaid language. Child graphs and bodies are subgraphs."""
    return "\n".join(("flowchart TD", *_mermaid_lines(_pictured(graph, _room(max_nodes)), "n", "    "), ""))


def _mermaid_lines(graph: _Pictured, prefix: str, space: str) -> Iterator[str]:
    for index, shown in enumerate(graph.boxes):
        name = f"{prefix}{index}"
        label = "<br/>".join(map(_mermaid_text, shown.lines))
        is_conditional = issubclass(shown.kind, ConditionalNode)
        left, right = ("{{", "}}") if is_conditional else ("[[", "]]") if shown.size > 1 else ("[", "]")
        yield f'{space}{name}{left}"{label}"{right}'
        for number, (what, inner) in enumerate(shown.graphs):
            inner_prefix = f"{name}_{number}_"
            yield f'{space}subgraph {inner_prefix}["{_mermaid_text(what) or "graph"}"]'
            if not inner.boxes:
                yield f'{space}    {inner_prefix}0["nothing"]'
            yield from _mermaid_lines(inner, inner_prefix, f"{space}    ")
            yield f"{space}end"
            yield f"{space}{name} -.-> {inner_prefix}"
    for first, second in graph.edges:
        yield f"{space}{prefix}{first} --> {prefix}{second}"


def _mermaid_text(text: str) -> str:
    # In Mermaid, text after # is an entity, and text between backticks is Markdown.
    return text.translate({ord("#"): "#35;", ord("`"): "#96;"} | {ord(c): escape(c) for c in '&"<>'})


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
