# SPDX-License-Identifier: Apache-2.0
"""The nodes before a node, and those behind it, as sets that change the graph."""

from __future__ import annotations

from collections.abc import Iterable, MutableSet
from typing import TYPE_CHECKING, Any

from cudacore_graph._errors import gone
from cudacore_handles import _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import CUDAError, check
from cudacore_handles._handle import hold

if TYPE_CHECKING:
    from cudacore_graph._node import GraphNode


class AdjacencySetProxy(_native.Adjacency, MutableSet["GraphNode"]):
    """Show the nodes that a node waits for, or that wait for it, as a set; changing it changes the graph's edges.

    :attr:`GraphNode.pred` and :attr:`GraphNode.succ` give it. Every question goes to the driver. A change is made as a
    whole or not at all: a node of another graph, one that was destroyed, or an edge that would close a cycle is a
    ``ValueError`` before the driver sees it.
    """

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)  # of what set operations make

    def __contains__(self, x: object) -> bool:
        return x in _native.neighbours(self._node, self._forward)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}"

    def __isub__(self, it: Iterable[Any]) -> AdjacencySetProxy:
        """Remove edges, in one call."""
        self._change(lost=set(self) if it is self else set(it) & set(self))
        return self

    def __ior__(self, it: Iterable[Any]) -> AdjacencySetProxy:  # type: ignore[misc]
        """Add edges, in one call."""
        self.update(it)
        return self

    def __iand__(self, it: Iterable[Any]) -> AdjacencySetProxy:
        """Remove all other edges, in one call."""
        self._change(lost=set(self) - set(it))
        return self

    def __ixor__(self, it: Iterable[Any]) -> AdjacencySetProxy:  # type: ignore[misc]
        """Remove the edges that are there, and add the others."""
        given = _nodes(it)
        current = set(self)
        self._change(gained=given - current, lost=given & current)
        return self

    def add(self, value: GraphNode) -> None:
        """Add an edge (cuGraphAddDependencies); one that is there stays."""
        self.update((value,))

    def discard(self, value: GraphNode) -> None:
        """Remove an edge (cuGraphRemoveDependencies), if it is there."""
        self._change(lost={value} & set(self))

    def clear(self) -> None:
        """Remove all edges."""
        self._change(lost=set(self))

    def update(self, *others: Iterable[GraphNode]) -> None:
        """Add edges, in one call."""
        given: set[GraphNode] = set().union(*map(_nodes, others))
        self._change(gained=given - set(self) if given else given)

    def difference_update(self, *others: Iterable[GraphNode]) -> None:
        """Remove edges, in one call."""
        self._change(lost=set(self).intersection(set().union(*others)))

    def replace(self, nodes: Iterable[GraphNode]) -> None:
        """Have these edges and no others: what an assignment does."""
        wanted, current = _nodes(nodes), set(self)
        self._change(gained=wanted - current, lost=current - wanted)

    def _change(self, *, gained: Iterable[GraphNode] = (), lost: Iterable[GraphNode] = ()) -> None:
        gained, lost = tuple(gained), tuple(lost)
        if not self._node.is_valid:
            raise gone(self._node)
        for other in gained:
            self._check(other)
        if gained:
            self._check_cycles(set(gained), set(lost))
        check(self._call(lib.cch_graph_disconnect, lost))
        try:
            check(self._call(lib.cch_graph_connect, gained))
        except CUDAError:
            self._call(lib.cch_graph_connect, lost)
            raise

    def _call(self, function: Any, others: tuple[GraphNode, ...]) -> int:
        if not others:
            return 0
        own, far = [hold(self._node)] * len(others), [hold(other) for other in others]
        ends = (own, far) if self._forward else (far, own)
        arrays = [ffi.new("cch_graph_node *[]", side) for side in ends]
        return int(_native.locked_call(self._node, None, function, *arrays, len(others)))

    def _check(self, other: GraphNode) -> None:
        """Say what is wrong with an edge to or from another node."""
        if not other.is_valid:
            raise gone(other)
        if other.graph != self._node.graph:
            raise ValueError(f"{other!r} is a node of another graph; edges are between nodes of one graph")
        if other is self._node:
            raise ValueError(f"{other!r} cannot wait for itself")

    def _check_cycles(self, gained: set[GraphNode], lost: set[GraphNode]) -> None:
        """Say whether some new edges would close a cycle: whether their far ends lead back to the node."""
        seen: set[GraphNode] = set()
        waiting = list(gained)
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            # Onwards in the direction of the edge: away from the far end, and not by edges that go.
            for following in _native.neighbours(node, self._forward):
                if following is self._node:
                    first = next(iter(gained)) if len(gained) == 1 else node
                    raise ValueError(
                        f"an edge between {self._node!r} and {first!r} would close a cycle: there is a path between "
                        "them in the other direction"
                    )
                waiting.append(following)


def _nodes(nodes: Iterable[Any]) -> set[GraphNode]:
    from cudacore_graph._node import GraphNode

    if isinstance(nodes, (GraphNode, str, bytes)) or not isinstance(nodes, Iterable):
        raise TypeError(f"an iterable of GraphNode is needed, not {type(nodes).__name__}")
    found = set(nodes)
    for node in found:
        if not isinstance(node, GraphNode):
            raise TypeError(f"a GraphNode is needed, not {type(node).__name__}")
    return found


_native.set_face("adjacency", AdjacencySetProxy)
