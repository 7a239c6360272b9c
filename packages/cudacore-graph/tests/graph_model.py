# SPDX-License-Identifier: Apache-2.0
"""The model that test_state_machine.py compares graphs with: the results of launches, and which objects exist."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import cudacore_graph as cg

MASK = 2**32 - 1

# ---- the expected results ----


class Op(NamedTuple):
    """The work of a node. A cell is the index of a number in memory; negative ones are in memory of graphs."""

    kind: str
    cell: int = 0
    factor: int = 0
    addend: int = 0  # the value of a fill or a condition, or the number of iterations of a loop
    sources: tuple[int, ...] = ()

    @property
    def writes(self) -> int | None:
        return self.cell if self.kind in ("mix", "call", "turn", "fill", "copy") else None

    @property
    def reads(self) -> tuple[int, ...]:
        return (*self.sources, self.cell) if self.kind in ("mix", "call", "turn") else self.sources

    def result(self, cells: dict[int, int | None]) -> int | None:
        known = [cells.get(cell) for cell in self.reads]
        if None in known:
            return None
        values: list[Any] = known
        if self.kind == "fill":
            return self.addend
        if self.kind == "copy":
            return int(values[0])
        *sources, own = values
        if self.kind == "turn":
            return (own + 1) % self.addend
        return (own * self.factor + self.addend + sum(sources)) & MASK


class Step(NamedTuple):
    """A node as it was when its graph was instantiated: place, work, dependencies, contained graphs."""

    node: Node
    op: Op
    before: frozenset[int]
    parts: tuple[list[Step], ...]

    def chosen(self) -> list[list[Step]]:
        """Return the graphs of this node that a launch runs, in order; the body of a loop once per iteration."""
        value, parts = self.op.addend, self.parts
        return {
            "if_then": lambda: [parts[0]] if value else [],
            "if_else": lambda: [parts[0 if value else 1]],
            "while_loop": lambda: [parts[0]] * value,
            "switch": lambda: [parts[value]] if value < len(parts) else [],
            "embed": lambda: [parts[0]],
        }.get(self.op.kind, list)()


Pairs = set[tuple[int, int]]


def flatten(steps: list[Step], disabled: Iterable[Node] = ()) -> tuple[list[Op], Pairs]:
    """Return all steps in a possible order, and the pairs of steps whose order could be reversed."""
    ops: list[Op] = []
    pairs: Pairs = set()
    spans: list[range] = []
    behind: list[set[int]] = []
    for index, step in enumerate(steps):
        behind.append(set(step.before).union(*(behind[i] for i in step.before)))
        start = len(ops)
        for part in step.chosen():
            inner, inner_pairs = flatten(part)
            pairs |= {(a + len(ops), b + len(ops)) for a, b in inner_pairs}
            ops += inner
        if step.op.writes is not None and step.node not in disabled:
            ops.append(step.op)
        spans.append(range(start, len(ops)))
        for other in range(index):
            if other not in behind[index]:
                pairs |= set(itertools.product(spans[other], spans[index]))
    return ops, pairs


def evaluate(steps: list[Step], disabled: Iterable[Node], cells: dict[int, int | None]) -> None:
    """Change the cells as a launch does. A cell becomes None if the order of the work on it is not determined."""
    ops, pairs = flatten(steps, disabled)
    open_ = set()
    for a, b in pairs:
        if ops[a].writes == ops[b].writes:
            open_ |= {a, b}
        if ops[a].writes in ops[b].reads:
            open_.add(b)
        if ops[b].writes in ops[a].reads:
            open_.add(a)
    for index, op in enumerate(ops):
        cells[op.cell] = None if index in open_ else op.result(cells)


def is_for_the_host(steps: list[Step]) -> bool:
    """Return whether the steps contain work that bodies of conditional nodes cannot have."""
    return any(step.op.kind in ("call", "record") or any(map(is_for_the_host, step.parts)) for step in steps)


# ---- the objects that exist ----


class Node:
    def __init__(self, level: Level, face: Any, op: Op, *, pinned: bool = False) -> None:
        self.level, self.face, self.op = level, face, op
        self.pinned = pinned  # whether the node must stay, because a loop would not end without it
        self.function: Callable[[], None] | None = None
        self.bodies: list[Level] = []
        self.part: list[Step] = []  # the steps of a child graph
        level.nodes.append(self)
        level.root.version += 1


class Level:
    """A graph: a definition, or the body of a conditional node."""

    def __init__(self, face: cg.GraphDefinition, owner: Node | None = None) -> None:
        self.face: Any = face
        self.owner = owner
        self.root: Level = owner.level.root if owner is not None else self
        self.nodes: list[Node] = []
        self.edges: set[tuple[Node, Node]] = set()
        # The fields below are used only for root graphs.
        self.version = 0  # counts the changes of nodes and edges
        self.has_memory = False
        self.has_lost_condition = False
        self.was_copied = False
        self.execs: list[Exec] = []
        self.latest: Exec | None = None

    @property
    def is_single(self) -> bool:
        return self.has_memory or self.has_lost_condition or any(node.bodies for node in self.nodes)

    def before(self, node: Node) -> set[Node]:
        return {a for a, b in self.edges if b is node}

    def ancestors(self, nodes: Iterable[Node]) -> list[Node]:
        found: list[Node] = []
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.append(node)
                waiting += self.before(node)
        return sorted(found, key=self.nodes.index)

    def levels(self) -> list[Level]:
        return [self, *(inner for node in self.nodes for body in node.bodies for inner in body.levels())]

    def connect(self, before: Iterable[Node], node: Node) -> None:
        self.edges |= {(a, node) for a in before}
        self.root.version += 1

    def steps(self) -> list[Step]:
        order: list[Node] = []
        while len(order) < len(self.nodes):
            order += [n for n in self.nodes if n not in order and self.before(n) <= set(order)]
        return [
            Step(
                node,
                node.op,
                frozenset(order.index(a) for a in self.before(node)),
                tuple(body.steps() for body in node.bodies) if node.bodies else (node.part,),
            )
            for node in order
        ]


class Exec:
    def __init__(self, face: cg.Graph, root: Level) -> None:
        self.face, self.root = face, root
        self.version = root.version
        self.steps = root.steps()
        self.disabled: set[Node] = set()
        self.has_views = True  # False once the definition was dropped, or an update came from a changed definition

    def step_of(self, node: Node) -> int:
        return next((i for i, step in enumerate(self.steps) if step.node is node), -1)


# ---- the machine ----
