# SPDX-License-Identifier: Apache-2.0
"""Dependencies and dependents of a node, as sets that change the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cudacore_graph.typing import GraphEdgeType, GraphEdgeTypeName
from cudacore_handles import CUDAError
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk import results
from cudacore_handles._sdk.graph import LiveSet

if TYPE_CHECKING:
    from cudacore_graph._nodes.node import GraphNode


class AdjacencySetProxy(_native.Adjacency, LiveSet["GraphNode"]):
    """The dependencies or dependents of a node, as a set. Changing the set changes the edges of the graph.

    :attr:`GraphNode.pred` and :attr:`GraphNode.succ` return it. Its contents are read from the driver each time. A
    change is made completely or not at all: for a node of another graph, or one that was destroyed, a ``ValueError`` is
    raised before the driver is called. Cycles are detected when the graph is instantiated; the error names the nodes of
    the cycle. If a graph has nodes that allocate or free memory, the driver cannot remove edges from it.
    """

    __slots__ = ()

    def __contains__(self, x: object) -> bool:
        return x in iter(self)

    def _describe(self, members: str) -> str:
        return f"{{{members}}}"

    def add(self, value: GraphNode, edge_type: GraphEdgeType | GraphEdgeTypeName | None = None) -> None:
        """Add an edge (cuGraphAddDependencies), unless it exists already.

        Parameters
        ----------
        value : GraphNode
            The other node.
        edge_type : GraphEdgeType or str, optional
            The type of the edge; an edge that exists gets this type. Default None: an edge that exists is not changed,
            and a new one is of the type ``"default"``. Other types need a driver for CUDA 12.3.

        Raises
        ------
        ValueError
            If the node is of another graph, or the nodes cannot have an edge of this type.
        """
        if edge_type is not None:
            number = _read_type(edge_type)
            self._change(lost=(value,) if value in self else (), gained=(value,), edge_type=number)
            return
        try:
            _native.change_edges(self._node, self._forward, (), (value,), 0)
        except CUDAError as error:
            if error.code != results.INVALID_VALUE or value not in self:
                raise

    def discard(self, value: GraphNode) -> None:
        """Remove an edge (cuGraphRemoveDependencies), if it exists."""
        try:  # the edges are listed only after a failure: there can be thousands
            _native.change_edges(self._node, self._forward, (value,), (), 0)
        except (TypeError, ValueError, CUDAError):
            if value in self:
                raise

    def difference_update(self, *others: Iterable[GraphNode]) -> None:
        """Remove several edges in one call."""
        self._change(lost=set(self).intersection(set().union(*others)))

    def replace(self, nodes: Iterable[GraphNode]) -> None:
        """Replace all edges with edges to the given nodes. Assigning to ``pred`` or ``succ`` calls this."""
        self._replace(nodes)

    def _current(self) -> set[GraphNode]:
        return set(self)

    def _members(self, values: Iterable[Any]) -> set[GraphNode]:
        from cudacore_graph._nodes.node import GraphNode

        if isinstance(values, (GraphNode, str, bytes)) or not isinstance(values, Iterable):
            raise TypeError(f"an iterable of GraphNode is needed, not {type(values).__name__}")
        found = list(values)
        for node in found:
            if not isinstance(node, GraphNode):
                raise TypeError(f"a GraphNode is needed, not {type(node).__name__}")
        return set(found)

    def _change(self, *, gained: Iterable[GraphNode] = (), lost: Iterable[GraphNode] = (), edge_type: int = 0) -> None:
        _native.change_edges(self._node, self._forward, tuple(lost), tuple(gained), edge_type)


# The types of edges, by the numbers of cch_edge_type.
EDGE_TYPES = tuple(GraphEdgeType)


def _read_type(edge_type: GraphEdgeType | GraphEdgeTypeName) -> int:
    if edge_type not in EDGE_TYPES[:-1]:
        names = ", ".join(repr(str(one)) for one in EDGE_TYPES[:-1])
        raise ValueError(f"edge_type is {edge_type!r}; it must be one of {names}")
    return EDGE_TYPES.index(GraphEdgeType(edge_type))
