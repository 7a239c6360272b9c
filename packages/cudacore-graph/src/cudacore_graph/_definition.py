# SPDX-License-Identifier: Apache-2.0
"""Graphs that are built node by node."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cudacore_graph._condition import GraphCondition, create_condition
from cudacore_graph._errors import gone, hold_there
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._options import GraphDebugPrintOptions
from cudacore_handles._sdk import adopt, as_options, check, closed, ffi, hold, lib, results
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_graph._graph import Graph
    from cudacore_graph._options import GraphCompleteOptions


class GraphDefinition(_native.GraphHandle):
    """Define a graph: its nodes, and what they wait for.

    The methods add nodes: those of a definition at the beginning of the graph, those of a node behind that. A
    definition can also be a view: of the graph of a :class:`GraphBuilder`, of a child graph, or of the body of a
    conditional node. Two are equal when they are of the same graph. What its nodes use is kept by the graph as long
    as it exists: as long as anybody has a definition of it, a node of it, or of a graph in it.

    ``print(definition)`` shows it as a tree, :meth:`to_dot`, :meth:`to_svg` and :meth:`to_mermaid` draw it, and a
    notebook shows the picture by itself.
    """

    __slots__ = ("__weakref__",)

    def __new__(cls) -> GraphDefinition:
        out = ffi.new("cch_graph **")
        check(lib.cch_graph_create(out))
        return adopt(cls, out[0])

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a GraphDefinition cannot be pickled: a graph is of one process")

    def __repr__(self) -> str:
        if self.is_closed:
            return "<GraphDefinition closed>"
        return f"<GraphDefinition handle={self._raw:#x}{'' if self.is_valid else ' destroyed'}>"

    def __str__(self) -> str:
        if not self.is_valid:
            return repr(self)
        from cudacore_graph._render import to_tree

        return to_tree(self)

    def _repr_mimebundle_(self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> Any:
        from cudacore_graph._render import mimebundle

        return mimebundle(self, include, exclude)

    def nodes(self) -> set[GraphNode]:
        """Return all nodes (cuGraphGetNodes), without those of graphs in nodes."""
        return _native.graph_nodes(self, set())

    def edges(self) -> set[tuple[GraphNode, GraphNode]]:
        """Return all edges (cuGraphGetEdges): pairs of a node, and one that waits for it."""
        return _native.graph_edges(self, set())

    def add_many(self, nodes: Iterable[tuple[Any, ...]]) -> list[GraphNode]:
        """Add many nodes in one call, all or none.

        Parameters
        ----------
        nodes : iterable of tuple
            Each ``(kind, after, *arguments)``. The kind is the name of the method that adds such a node
            (``"launch"``, ``"memcpy"``, ``"memset"``, ``"callback"``, ``"empty"`` and so on), and the arguments are
            that method's, by position in the order of its signature. What the node waits for is None, a node of this
            graph, the number of an earlier node of the batch, or a tuple of such.

        Returns
        -------
        list of GraphNode
            The new nodes, in the order given.

        Notes
        -----
        The driver takes no node out of a graph that has nodes that allocate or free memory. For such a graph, and for a
        batch with such nodes, the batch is first tried out in another graph, which takes about as long as adding it.
        Two failures that this does not foresee leave the nodes before the failed one in the graph, and the error says
        so: the driver has no resources left, or it refuses to free an address that was allocated and not yet freed, for
        instance because the graph has been instantiated.
        """
        return _native.add_nodes(self, nodes)

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Create a condition, for one conditional node of this graph or of graphs in it.

        Needs a driver for CUDA 12.3 (cuGraphConditionalHandleCreate).

        Parameters
        ----------
        default_value : int, optional
            The value that it has at the beginning of each launch. Default None: the one that it had last.
        """
        return create_condition(self, default_value)

    def instantiate(self, options: GraphCompleteOptions | Mapping[str, Any] | None = None) -> Graph:
        """Make an executable graph (cuGraphInstantiateWithParams).

        Parameters
        ----------
        options : GraphCompleteOptions, optional
            How it is to run.

        Raises
        ------
        CUDAError
            When the driver cannot make it; the error says which node is to blame, where the driver says so.
        """
        from cudacore_graph._graph import instantiate

        return instantiate(self, options)

    def clone(self) -> tuple[GraphDefinition, dict[GraphNode, GraphNode]]:
        """Copy the graph, with child graphs (cuGraphClone).

        Drivers copy no graph with memory or conditional nodes.

        Returns
        -------
        GraphDefinition
            The copy.
        dict of GraphNode to GraphNode
            The copy's node for each node of this graph.
        """
        box, pairs = _native.clone_graph(self)
        return adopt(type(self), ffi.cast("void *", box)), pairs

    def debug_dot_print(
        self, path: str | os.PathLike[str], options: GraphDebugPrintOptions | Mapping[str, Any] | None = None
    ) -> None:
        """Have the driver write its own description to a file, in the DOT language (cuGraphDebugDotPrint).

        Parameters
        ----------
        path : str
            The file.
        options : GraphDebugPrintOptions, optional
            What to write about nodes.
        """
        flags = as_options(GraphDebugPrintOptions, options)._flags()
        where = os.fsencode(path)
        if b"\0" in where:
            raise ValueError(f"path has a NUL character, which would end it: {path!r}")
        status = _native.locked_call(self, None, lib.cch_graph_debug_dot_print, hold_there(self), where, flags)
        cannot_write = status == results.OPERATING_SYSTEM
        check(status, hint=f"{os.fsdecode(where)!r} must be a file that can be written" if cannot_write else "")

    def to_dot(self) -> str:
        """Return a picture of the graph in the DOT language, as Graphviz draws it."""
        from cudacore_graph._render import to_dot

        return to_dot(self)

    def to_svg(self, *, max_nodes: int | None = 100) -> str:
        """Return a picture of the graph as SVG.

        Child graphs and bodies are within their nodes. A red arrow is one of those that close a cycle.

        Parameters
        ----------
        max_nodes : int or None, optional
            How many boxes the picture can have. In larger graphs, a box can stand for several nodes: for a chain, for
            nodes of one kind with the same neighbours, or for layers of the graph. Default 100. None: one box for each
            node, which takes long for thousands of nodes.
        """
        from cudacore_graph._render import to_svg

        return to_svg(self, max_nodes)

    def to_mermaid(self, *, max_nodes: int | None = 100) -> str:
        """Return a picture of the graph in Mermaid's language, which many sites and editors draw.

        Mermaid refuses text of more than 50,000 characters, and more than 500 edges, unless it is configured otherwise.

        Parameters
        ----------
        max_nodes : int or None, optional
            How many boxes the picture can have; see :meth:`to_svg`.
        """
        from cudacore_graph._render import to_mermaid

        return to_mermaid(self, max_nodes)

    @property
    def handle(self) -> driver.CUgraph:
        """cuda.bindings.driver.CUgraph: The graph for ``cuda.bindings`` (cuGraphRetainUserObject).

        What is cloned or instantiated by means of it keeps what the nodes use, too. That costs: a graph whose handle
        was asked for takes longer to add nodes to, and what is instantiated from then on takes longer to launch.
        """
        from cuda.bindings import driver

        if self.is_closed:
            raise closed(self)
        if not self.is_valid:
            raise gone(self)
        check(_native.locked_call(self, None, lib.cch_graph_share, hold(self)))
        return driver.CUgraph(self._raw)
