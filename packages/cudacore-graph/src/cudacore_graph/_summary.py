# SPDX-License-Identifier: Apache-2.0
"""The order of nodes in pictures; summaries of graphs: nodes, or groups of nodes if there are too many to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

_MAX_ALIKE = 12  # if more nodes of one kind, or chains of such nodes, have the same neighbours, they form one group
_MAX_KINDS = 3  # the maximum number of kinds that the text of a group lists
_WORTH = 0.8  # search for chains and repetitions again only if the number of groups fell to this fraction
_MAX_LAYERS = 24  # the maximum number of groups of layers, if other ways did not make a graph small enough
_CHAIN = "in sequence"
_MAX_EDGES = 3  # the maximum mean number of edges per node that can be followed by eye


class Group(NamedTuple):
    """Nodes that are drawn as one."""

    nodes: tuple[int, ...]  # indices of the nodes in the graph
    form: str  # the arrangement of the nodes; empty for a single node
    kinds: Counter[str]

    def lines(self) -> tuple[str, ...]:
        """Return the text of a group of several nodes."""
        if len(self.kinds) == 1:
            return (f"{next(iter(self.kinds))} x {len(self.nodes):,}", self.form)
        common = self.kinds.most_common(_MAX_KINDS)
        named = [f"{kind} x {count:,}" if count > 1 else kind for kind, count in common]
        more = ("...",) if len(self.kinds) > _MAX_KINDS else ()
        return (f"{len(self.nodes):,} nodes", self.form, *named, *more)


class Summary(NamedTuple):
    """The groups of a graph, and the edges between them."""

    groups: list[Group]
    edges: set[tuple[int, int]]


def summarise(count: int, pairs: Iterable[tuple[int, int]], kind: Callable[[int], str], limit: int | None) -> Summary:
    """Group the nodes of a graph until they are few enough.

    Parameters
    ----------
    count : int
        The number of nodes. They are numbered in a possible order of execution.
    pairs : iterable of tuple of int
        The edges.
    kind : callable
        Returns the kind of a node by its number. It is called only if there is a limit.
    limit : int or None
        The maximum number of groups. None: each node is its own group.
    """
    edges = set(pairs)
    if limit is None:
        return Summary([Group((i,), "", Counter()) for i in range(count)], edges)
    groups = [Group((i,), "", Counter((kind(i),))) for i in range(count)]
    found, size = Summary(groups, edges), 2 * count
    if count <= limit:
        parts: list[tuple[list[int], str]] = []
        for group in _merge_alike(*_merge_chains(groups, edges), _MAX_ALIKE).groups:
            is_alone = group.form == _CHAIN
            parts += [([node], "") for node in group.nodes] if is_alone else [(list(group.nodes), group.form)]
        found = _merge(groups, edges, parts)
    while limit < len(found.groups) < _WORTH * size:
        size = len(found.groups)
        found = _merge_chains(*found)
        if len(found.groups) > limit:
            found = _merge_alike(*found, 1)
    if len(found.groups) > limit or len(found.edges) > _MAX_EDGES * max(limit, 8):
        found = _merge_layers(groups, edges)
    return found


def neighbours(count: int, edges: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the dependencies and the dependents of each node or group."""
    before: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for first, second in edges:
        before[second].append(first)
        behind[first].append(second)
    return before, behind


def possible_order(before: list[list[int]], behind: list[list[int]]) -> list[int]:
    """Return a possible order of execution that is close to the given order. A cycle is cut at one of its nodes."""
    missing = [len(those) for those in before]
    done = [False] * len(missing)
    order: list[int] = []
    ready = [index for index in reversed(range(len(missing))) if not missing[index]]
    rest = iter(range(len(missing)))
    while len(order) < len(missing):
        index = ready.pop() if ready else next(index for index in rest if not done[index])
        if done[index]:
            continue
        done[index] = True
        order.append(index)
        for following in sorted(behind[index], reverse=True):
            missing[following] -= 1
            if not missing[following]:
                ready.append(following)
    return order


def _merge(groups: Sequence[Group], edges: Iterable[tuple[int, int]], parts: list[tuple[list[int], str]]) -> Summary:
    """Make one group of each part, and sort the groups by their first nodes."""
    made: list[Group] = []
    place = [0] * len(groups)
    for members, form in sorted(parts, key=lambda part: groups[part[0][0]].nodes[0]):
        for member in members:
            place[member] = len(made)
        if len(members) == 1:
            made.append(groups[members[0]])
            continue
        kinds: Counter[str] = Counter()
        nodes: list[int] = []
        for member in members:
            kinds.update(groups[member].kinds)
            nodes += groups[member].nodes
        made.append(Group(tuple(nodes), form, kinds))
    return Summary(made, {(place[a], place[b]) for a, b in edges if place[a] != place[b]})


def _merge_chains(groups: list[Group], edges: set[tuple[int, int]]) -> Summary:
    """Group nodes that run one after the other, if no other node runs concurrently."""
    before, behind = neighbours(len(groups), edges)
    follows = [len(those) == 1 and len(behind[those[0]]) == 1 for those in before]
    parts: list[tuple[list[int], str]] = []
    seen = [False] * len(groups)
    # A cycle has no first node: the remaining chains begin at the first of their nodes in the list.
    for start in [i for i, after in enumerate(follows) if not after] + list(range(len(groups))):
        if seen[start]:
            continue
        chain, at = [], start
        while not seen[at]:
            seen[at] = True
            chain.append(at)
            if len(behind[at]) == 1 and follows[behind[at][0]]:
                at = behind[at][0]
        parts.append((chain, _CHAIN))
    return _merge(groups, edges, parts)


def _merge_alike(groups: list[Group], edges: set[tuple[int, int]], max_alike: int) -> Summary:
    """Combine groups of the same kinds with the same neighbours, if there are more than `max_alike` of them."""
    before, behind = neighbours(len(groups), edges)
    alike: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        around = frozenset(before[i]), frozenset(behind[i])
        alike.setdefault((group.form, frozenset(group.kinds.items()), *around), []).append(i)
    parts: list[tuple[list[int], str]] = []
    for members in alike.values():
        if len(members) > max_alike:
            single = len(groups[members[0]].nodes) == 1
            parts.append((members, "in parallel" if single else f"in {len(members):,} groups in parallel"))
        else:
            parts += [([member], "") for member in members]
    return _merge(groups, edges, parts)


def _levels(groups: list[Group], edges: set[tuple[int, int]]) -> list[int]:
    """Return the number of groups before each group, along the longest path."""
    before, _ = neighbours(len(groups), edges)
    level: list[int] = []
    for i, those in enumerate(before):  # an edge from a later group is ignored, because it belongs to a cycle
        level.append(max((level[first] + 1 for first in those if first < i), default=0))
    return level


def _merge_layers(groups: list[Group], edges: set[tuple[int, int]]) -> Summary:
    """Group nodes by layers: by the length of the longest path that leads to them."""
    level = _levels(groups, edges)
    count = max(level, default=0) + 1
    shown = min(count, _MAX_LAYERS)
    layers: list[list[int]] = [[] for _ in range(shown)]
    spans: list[set[int]] = [set() for _ in range(shown)]
    for i, at in enumerate(level):
        layers[at * shown // count].append(i)
        spans[at * shown // count].add(at)
    parts = [
        (members, "in one layer" if len(span) == 1 else f"in {len(span):,} layers")
        for members, span in zip(layers, spans, strict=True)
    ]
    made = _merge(groups, (), parts)
    ordered = sorted(range(len(made.groups)), key=lambda i: level[made.groups[i].nodes[0]])
    return Summary([made.groups[i] for i in ordered], {(i, i + 1) for i in range(len(ordered) - 1)})
