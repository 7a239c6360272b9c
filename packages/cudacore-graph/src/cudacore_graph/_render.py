# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs: a tree in text, the DOT language, SVG, Mermaid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_graph._node_types import (
    AllocNode,
    ChildGraphNode,
    ConditionalNode,
    FreeNode,
    HostCallbackNode,
    IfElseNode,
    IfNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    SwitchNode,
    WhileNode,
    _EventNode,
)
from cudacore_handles import CUDAError, _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._names import shorten

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition
    from cudacore_graph._node import GraphNode

_MOST_LINES = 1000  # nodes of one graph in a tree; a picture has them all
_NAME_VERSION = 12030  # of cuKernelGetName


class _Part(NamedTuple):
    """A node, as it is shown: what it is, what more is known, and the graphs in it with their names."""

    title: str
    details: tuple[str, ...]
    graphs: tuple[tuple[str, GraphDefinition], ...]


class _Layout(NamedTuple):
    """A graph, as it is shown: its nodes in an order in which they could run, and their predecessors by index."""

    nodes: list[GraphNode]
    before: list[list[int]]


def title(node: GraphNode) -> str:
    """Describe a node on one line."""
    part = _part(node)
    return "  ".join((part.title, *part.details))


# ---- what is shown of a node


def _part(node: GraphNode) -> _Part:
    if isinstance(node, KernelNode):
        return _kernel(node)
    if isinstance(node, MemcpyNode):
        return _copy(node)
    if isinstance(node, MemsetNode):
        return _fill(node)
    if isinstance(node, AllocNode):
        where = f"{node.memory_type}, device {node.device_id}"
        return _Part(f"allocate {_bytes(node.bytesize)}", (_short(node.dptr), where), ())
    if isinstance(node, FreeNode):
        return _Part("free", (_short(node.dptr),), ())
    if isinstance(node, HostCallbackNode):
        function = node.function
        name = getattr(function, "__qualname__", None) or type(function).__name__
        return _Part("callback", (shorten(name) if function is not None else "a C function",), ())
    if isinstance(node, _EventNode):
        verb = "record" if type(node).__name__ == "EventRecordNode" else "wait"
        return _Part(verb, (f"event {_short(node.event._raw)}",), ())
    if isinstance(node, ChildGraphNode):
        return _Part("graph", (), (("", node.child_graph),))
    if isinstance(node, ConditionalNode):
        return _conditional(node)
    return _Part(type(node).__name__.removesuffix("Node").lower() or "node", (), ())


def _kernel(node: KernelNode) -> _Part:
    config = node.config
    details = [f"grid {_times(config.grid)}", f"block {_times(config.block)}"]
    if config.cluster is not None:
        details.append(f"cluster {_times(config.cluster)}")
    if config.shmem_size:
        details.append(f"shared {_bytes(config.shmem_size)}")
    if config.is_cooperative:
        details.append("cooperative")
    return _Part(_kernel_name(node), tuple(details), ())


def _kernel_name(node: KernelNode) -> str:
    """Return the kernel's name (cuKernelGetName), or its handle where the driver has no name for it."""
    raw = node.kernel._raw
    symbol, name = ffi.new("void **"), ffi.new("const char **")
    if lib.cch_driver_symbol(symbol, b"cuKernelGetName", _NAME_VERSION) == 0:
        ask = ffi.cast("int (*)(const char **, void *)", symbol[0])
        if ask(name, ffi.cast("void *", raw)) == 0 and name[0]:
            return shorten(ffi.string(name[0]).decode("utf-8", "replace"))
    return f"kernel {_short(raw)}"


def _copy(node: MemcpyNode) -> _Part:
    known = node._read("memcpy")
    sizes = [int(n) for n in (known.width, known.height, known.depth)]
    rows = " x ".join(map(str, sizes[1:])) if max(sizes[1:]) > 1 else ""
    amount = f"{_bytes(sizes[0])}{f' x {rows}' if rows else ''}"
    return _Part(f"memcpy {amount}", (f"{_short(known.src)} to {_short(known.dst)}",), ())


def _fill(node: MemsetNode) -> _Part:
    known = node._read("memset")
    digits = 2 * known.element_size
    rows = f" x {known.height}" if known.height > 1 else ""
    amount = f"{_bytes(known.width * known.element_size)}{rows}"
    return _Part(f"memset {amount}", (f"{_short(known.dst)} to 0x{known.value:0{digits}x}",), ())


def _conditional(node: ConditionalNode) -> _Part:
    branches = node.branches
    if isinstance(node, IfNode):
        kind, names = "if", ["then"]
    elif isinstance(node, IfElseNode):
        kind, names = "if else", ["then", "else"]
    elif isinstance(node, WhileNode):
        kind, names = "while", ["body"]
    elif isinstance(node, SwitchNode):
        kind, names = "switch", [f"case {i}" for i in range(len(branches))]
    else:
        kind, names = "conditional", []
    condition = node.condition
    details = () if condition is None else (f"condition {_short(condition.value)}",)
    return _Part(kind, details, tuple(zip(names, branches, strict=False)))


def _bytes(count: int) -> str:
    count = int(count)
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % (size // 16) == 0:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def _short(address: int) -> str:
    """Return the digits of an address that tell it from others nearby."""
    address = int(address)
    return f"0x{address:x}" if address < 2**24 else f"..{address & 0xFFFFFF:06x}"


def _times(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


# ---- what is shown of a graph


def _layout(graph: GraphDefinition) -> _Layout:
    """Put the nodes in an order in which they could run, as near as possible to that in which they were added."""
    nodes = _native.graph_nodes(graph, [])
    place = {node: index for index, node in enumerate(nodes)}
    before: list[list[int]] = [[] for _ in nodes]
    behind: list[list[int]] = [[] for _ in nodes]
    for first, second in _native.graph_edges(graph, []):
        before[place[second]].append(place[first])
        behind[place[first]].append(place[second])
    missing = [len(those) for those in before]
    order: list[int] = []
    ready = [index for index in reversed(range(len(nodes))) if not missing[index]]
    while ready:
        index = ready.pop()
        order.append(index)
        for following in sorted(behind[index], reverse=True):
            missing[following] -= 1
            if not missing[following]:
                ready.append(following)
    order += sorted(set(range(len(nodes))) - set(order))  # a cycle, which somebody else has made
    new = {old: index for index, old in enumerate(order)}
    return _Layout([nodes[old] for old in order], [sorted(new[i] for i in before[old]) for old in order])


def _count(layout: _Layout) -> str:
    nodes, edges = len(layout.nodes), sum(map(len, layout.before))
    return f"{nodes} node{'s' * (nodes != 1)}, {edges} edge{'s' * (edges != 1)}"


# ---- text


def to_tree(graph: GraphDefinition) -> str:
    """Return the graph as text: a line for each node, with the numbers of those that it waits for."""
    layout = _layout(graph)
    return "\n".join((f"GraphDefinition {graph._raw:#x}: {_count(layout)}", *_tree_lines(layout)))


def _tree_lines(layout: _Layout) -> Iterator[str]:
    shown = min(len(layout.nodes), _MOST_LINES)
    width = len(str(max(shown - 1, 0)))
    for index, node in enumerate(layout.nodes[:shown]):
        part = _part(node)
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
_COLORS = {
    "KernelNode": "#d9ead3",
    "MemcpyNode": "#cfe2f3",
    "MemsetNode": "#cfe2f3",
    "AllocNode": "#fff2cc",
    "FreeNode": "#fff2cc",
    "HostCallbackNode": "#f4cccc",
    "EventRecordNode": "#ead1dc",
    "EventWaitNode": "#ead1dc",
}


def to_dot(graph: GraphDefinition) -> str:
    """Return the graph in the DOT language; child graphs and bodies are clusters."""
    return "\n".join((f'digraph "graph_{graph._raw:x}" {{', *_STYLE, *_dot_lines(_layout(graph), "n", 1), "}", ""))


def _dot_lines(layout: _Layout, prefix: str, depth: int) -> Iterator[str]:
    tabs = "\t" * depth
    for index, node in enumerate(layout.nodes):
        part, name = _part(node), f"{prefix}{index}"
        label = "\\n".join(map(_dot_text, (part.title, *part.details)))
        color = _COLORS.get(type(node).__name__, "#eeeeee")
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


def to_svg(graph: GraphDefinition) -> str:
    """Return the graph as SVG, drawn by Graphviz."""
    try:
        import graphviz
    except ModuleNotFoundError:
        raise ImportError(
            "drawing SVG needs the package graphviz: pip install graphviz; to_dot() and to_mermaid() need nothing"
        ) from None
    try:
        svg: str = graphviz.Source(to_dot(graph)).pipe(format="svg", encoding="utf-8")
    except graphviz.ExecutableNotFound as error:
        raise RuntimeError(
            "drawing SVG needs Graphviz's program dot: install Graphviz; to_dot() and to_mermaid() need nothing"
        ) from error
    return svg


# ---- Mermaid


def to_mermaid(graph: GraphDefinition) -> str:
    """Return the graph in Mermaid's language; child graphs and bodies are subgraphs."""
    return "\n".join(("flowchart TD", *_mermaid_lines(_layout(graph), "n", 1), ""))


def _mermaid_lines(layout: _Layout, prefix: str, depth: int) -> Iterator[str]:
    space = "    " * depth
    for index, node in enumerate(layout.nodes):
        part, name = _part(node), f"{prefix}{index}"
        label = "<br/>".join(map(_mermaid_text, (part.title, *part.details)))
        left, right = ("{{", "}}") if isinstance(node, ConditionalNode) else ("[", "]")
        yield f'{space}{name}{left}"{label}"{right}'
        for number, (what, inner) in enumerate(part.graphs):
            inside, inner_prefix = _layout(inner), f"{name}_{number}_"
            yield f'{space}subgraph {inner_prefix}["{_mermaid_text(what) or "graph"}"]'
            if not inside.nodes:
                yield f'{space}    {inner_prefix}0["nothing"]'
            yield from _mermaid_lines(inside, inner_prefix, depth + 1)
            yield f"{space}end"
            yield f"{space}{name} -.-> {inner_prefix}"
    for index, those in enumerate(layout.before):
        for before in those:
            yield f"{space}{prefix}{before} --> {prefix}{index}"


def _mermaid_text(text: str) -> str:
    for plain, code in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, code)
    return text


# ---- notebooks


def mimebundle(graph: GraphDefinition, include: Iterable[str] | None, exclude: Iterable[str] | None) -> dict[str, Any]:
    """Return what a notebook shows: text, Mermaid, and SVG where it can be drawn."""
    if not graph.is_valid:
        return {"text/plain": repr(graph)}
    makers = {"text/plain": to_tree, "text/vnd.mermaid": to_mermaid, "image/svg+xml": to_svg}
    wanted = set(makers if include is None else include) - set(exclude or ())
    bundle: dict[str, Any] = {}
    for kind, make in makers.items():
        if kind in wanted:
            try:
                bundle[kind] = make(graph)
            except (ImportError, RuntimeError) as error:
                if kind != "image/svg+xml" or isinstance(error, CUDAError):
                    raise
    return bundle
