# SPDX-License-Identifier: Apache-2.0
"""Graphs that are built node by node."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_graph._adjacency import EDGE_TYPES
from cudacore_graph._columns import KernelNodes, destroy_many, launch_many, update_many
from cudacore_graph._condition import GraphCondition, create_condition
from cudacore_graph._errors import hold_there, node_failed
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._options import GraphDebugPrintOptions
from cudacore_handles._sdk import (
    Closing,
    adopt,
    as_options,
    bindings,
    check,
    ffi,
    lib,
    not_pickled,
    options_apart,
    out_box,
    results,
)
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_graph._graph import Graph
    from cudacore_graph._nodes.work import KernelNode
    from cudacore_graph._option_dicts import GraphCompleteOptionsDict, GraphDebugPrintOptionsDict
    from cudacore_graph._options import GraphCompleteOptions
    from cudacore_graph.typing import GraphEdgeType
    from cudacore_handles import Kernel, LaunchConfig


class GraphDefinition(_native.GraphHandle, Closing):
    """A graph: its nodes and their dependencies.

    Methods of a definition add nodes without dependencies; methods of a node add nodes that depend on it. A definition
    can also be a view of the graph of a :class:`GraphBuilder`, of a child graph, or of the body of a conditional node.
    Two definitions are equal if they are of the same graph. The graph keeps alive what its nodes use. It exists as long
    as a definition or a node of this graph, or of a graph inside it, is referenced.

    ``print(definition)`` shows it as a tree, :meth:`to_dot`, :meth:`to_svg` and :meth:`to_mermaid` draw it, and a
    notebook displays the picture.

    Examples
    --------
    >>> from cudacore.graph import GraphDefinition
    >>> buffer = device.allocate(64, stream=stream)
    >>> definition = GraphDefinition()
    >>> zeros = definition.memset(buffer, 0, 64)
    >>> ones = zeros.memset(buffer, 1, 32)  # after the first one
    >>> len(definition.nodes()), ones.pred == {zeros}
    (2, True)
    >>> definition.instantiate().launch(stream)
    """

    __slots__ = ("__weakref__",)

    def __new__(cls) -> GraphDefinition:
        return _native.create_graph(cls)

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "a graph is of one process")

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
        """Return all nodes (cuGraphGetNodes), without the nodes of child graphs and bodies."""
        return _native.graph_nodes(self, set())

    def edges(self) -> set[tuple[GraphNode, GraphNode]]:
        """Return all edges (cuGraphGetEdges): pairs of a node and its dependent."""
        return _native.graph_edges(self, set())

    def edge_types(self) -> dict[tuple[GraphNode, GraphNode], GraphEdgeType]:
        """Return all edges with their types (cuGraphGetEdges): as pairs of a node and its dependent.

        :meth:`AdjacencySetProxy.add` gives an edge another type.

        Examples
        --------
        >>> code = 'extern "C" __global__ void nothing() {}'
        >>> nothing = core.Program(code, "c++").compile("cubin").get_kernel("nothing")
        >>> one = core.LaunchConfig(grid=1, block=1)
        >>> graph = core.graph.GraphDefinition()
        >>> first = graph.launch(one, nothing)
        >>> second = first.launch(one, nothing)
        >>> second.pred.add(first, "programmatic")  # the second kernel may begin before the first one has ended
        >>> graph.edge_types()[first, second]
        <GraphEdgeType.PROGRAMMATIC: 'programmatic'>
        """
        return {pair: EDGE_TYPES[number] for pair, number in _native.graph_edges(self, {}).items()}

    def sorted_nodes(self) -> list[GraphNode]:
        """Return all nodes in topological order: each one after the nodes that it depends on.

        Raises
        ------
        ValueError
            If nodes depend on each other in a cycle: a ``graphlib.CycleError``, whose second argument has the nodes.
        """
        from graphlib import TopologicalSorter  # imported late, because few programs need it

        dependencies: dict[GraphNode, set[GraphNode]] = {node: set() for node in self.nodes()}
        for node, dependent in self.edges():
            dependencies.setdefault(dependent, set()).add(node)  # another thread can have added it since
        return list(TopologicalSorter(dependencies).static_order())

    def add_many(self, nodes: Iterable[tuple[Any, ...]]) -> list[GraphNode]:
        """Add many nodes in one call: all or none.

        Parameters
        ----------
        nodes : iterable of tuple
            Each ``(method, after, *arguments)``. ``method`` is the name of the method that adds such a node
            (``"launch"``, ``"memcpy"``, ``"memset"``, ``"callback"``, ``"empty"`` and so on), and the arguments are
            that method's, by position in the order of its signature. ``after`` gives the dependencies: None, a node of
            this graph, the index of an earlier node of the batch, or a tuple of nodes and indices.

        Returns
        -------
        list of GraphNode
            The new nodes, in the order given.

        Notes
        -----
        The driver cannot remove nodes from a graph that has nodes that allocate or free memory. For such a graph, and
        for a batch with such nodes, the batch is first added to a temporary graph, which roughly doubles the time. The
        temporary graph does not detect three failures: the driver has no resources left; a node fills or copies memory
        that an earlier node of the batch frees; or the driver refuses to free memory because no graph has allocated it,
        or because a graph that has not allocated it frees it already. Then the nodes before the failed one remain in
        the graph, and the error says so.
        """
        return _native.add_nodes(self, nodes)

    def launch_many(
        self,
        config: LaunchConfig | Sequence[LaunchConfig],
        kernel: Kernel,
        *columns: Any,
        count: int | None = None,
        edges: Any = None,
        after: GraphNode | Iterable[GraphNode] | None = None,
    ) -> KernelNodes:
        """Add many nodes of one kernel in one call: all or none.

        This is the fastest way to build large graphs, because no Python object is created for a node. Each argument of
        the kernel is a column, or one value for all nodes.

        Parameters
        ----------
        config : LaunchConfig or sequence of LaunchConfig
            The configuration of all nodes, or one for each.
        kernel : Kernel
            The kernel to launch.
        *columns
            The kernel's arguments. A one-dimensional NumPy array has an element for each node, of exactly the
            parameter's type, and is read in place. A list, tuple, range, ``array.array`` or memoryview has a value for
            each node, such as a Buffer. For a struct, a NumPy array can have a row for each node. Anything else is one
            value for all nodes. If the parameter is a pointer, integers are addresses.
        count : int, optional
            The number of nodes, if no argument has one for each.
        edges : array_like of int, optional
            The dependencies as pairs of indices, an array of the shape (n, 2): the second node depends on the first,
            which must come earlier. Default None: the nodes do not depend on each other.
        after : GraphNode or iterable of GraphNode, optional
            Nodes of this graph. The new nodes to which no edge leads depend on them. Default None.

        Returns
        -------
        KernelNodes
            The new nodes, in order. The object for a node is created when it is first read.

        Notes
        -----
        The nodes share what they keep alive: the kernel and what the arguments point into are kept until the last node
        no longer needs them. For a graph with nodes that allocate or free memory, the nodes are first added to a
        temporary graph, as by :meth:`add_many`.
        """
        return launch_many(self, config, kernel, columns, count, edges, after)

    def update_many(
        self,
        nodes: Iterable[KernelNode],
        *columns: Any,
        config: LaunchConfig | Sequence[LaunchConfig] | None = None,
    ) -> None:
        """Change the arguments of many nodes of one kernel in one call, from the next instantiation on.

        Graphs that were instantiated before are not affected; :meth:`Graph.update_many` changes the nodes there.

        Parameters
        ----------
        nodes : KernelNodes or iterable of KernelNode
            Nodes of this graph that launch the same kernel: the result of :meth:`launch_many`, a slice of it, or any
            others.
        *columns
            All arguments of the kernel, as in :meth:`launch_many`.
        config : LaunchConfig or sequence of LaunchConfig, optional
            The configuration of all nodes, or one for each. Default None: the configurations do not change.

        Raises
        ------
        TypeError, ValueError, ClosedError
            If the arguments are wrong. The message names the index of the node, and no node has been changed.
        CUDAError
            If the driver refuses a node. The nodes before it have been changed.
        """
        update_many(self, None, nodes, columns, config)

    def destroy_many(self, nodes: Iterable[GraphNode]) -> None:
        """Remove many nodes and their edges from the graph in one call (cuGraphDestroyNode).

        Parameters
        ----------
        nodes : iterable of GraphNode
            Nodes of this graph; also the result of :meth:`launch_many`, or a slice of it. Nodes that were destroyed
            before are left out. What the nodes use is released, unless a graph that was made from this one uses it, or
            the nodes were in a child graph when it was embedded: then the node that contains it keeps it.

        Raises
        ------
        TypeError, ValueError
            If an object is not a node of this graph. No node has been removed.
        CUDAError
            If the driver refuses a node: it removes none from a graph that allocates or frees memory, or into which a
            stream is being captured. Otherwise, the nodes before it have been removed.
        """
        destroy_many(self, nodes)

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Create a condition for one conditional node of this graph or of a graph in it.

        Needs a driver for CUDA 12.3 (cuGraphConditionalHandleCreate).

        Parameters
        ----------
        default_value : int, optional
            The value at the beginning of each launch. Default None: the condition keeps its last value.
        """
        return create_condition(self, default_value)

    @options_apart("GraphCompleteOptions")
    def instantiate(self, options: GraphCompleteOptions | GraphCompleteOptionsDict | None = None) -> Graph:
        """Make an executable graph (cuGraphInstantiateWithParams).

        Parameters
        ----------
        options : GraphCompleteOptions, optional
            Options of the instantiation.

        Raises
        ------
        CUDAError
            If the driver cannot instantiate the graph. The error names the node that caused it, if the driver reports
            one.
        """
        from cudacore_graph._graph import instantiate

        return instantiate(self, options)

    def clone(self) -> tuple[GraphDefinition, dict[GraphNode, GraphNode]]:
        """Copy the graph, with child graphs (cuGraphClone).

        The driver cannot copy graphs with memory nodes or conditional nodes.

        Returns
        -------
        GraphDefinition
            The copy.
        dict of GraphNode to GraphNode
            Maps each node of this graph to its copy.
        """
        return _native.clone_graph(self)

    def copy(self) -> GraphDefinition:
        """Copy the graph, with child graphs (cuGraphClone), like :meth:`clone`, but without listing its nodes.

        Raises
        ------
        CUDAError
            If the graph has memory nodes or conditional nodes, or is a body.
        """
        out = out_box("cch_graph")
        status = lib.cch_graph_clone(out, ffi.NULL, ffi.NULL, hold_there(self))
        if status:
            node_failed(status, "clone", -1)
        return adopt(type(self), out)

    def debug_dot_print(
        self, path: str | os.PathLike[str], options: GraphDebugPrintOptions | GraphDebugPrintOptionsDict | None = None
    ) -> None:
        """Have the driver write its own description of the graph to a file, in the DOT language (cuGraphDebugDotPrint).

        Parameters
        ----------
        path : str
            The file.
        options : GraphDebugPrintOptions, optional
            What to include.

        Raises
        ------
        ValueError
            If `path` has a NUL character.
        """
        flags = as_options(GraphDebugPrintOptions, options)._flags()
        where = os.fsencode(path)
        if b"\0" in where:
            raise ValueError(f"path has a NUL character, which would end it: {path!r}")
        status = lib.cch_graph_debug_dot_print(hold_there(self), where, flags)
        cannot_write = status == results.OPERATING_SYSTEM
        check(status, hint=f"{os.fsdecode(where)!r} must be a file that can be written" if cannot_write else "")

    def to_dot(self) -> str:
        """Return a picture of the graph in the DOT language of Graphviz."""
        from cudacore_graph._render import to_dot

        return to_dot(self)

    def to_svg(self, *, max_nodes: int | None = 100) -> str:
        """Return a picture of the graph as SVG.

        Child graphs and bodies are drawn inside their nodes. A red arrow closes a cycle.

        Parameters
        ----------
        max_nodes : int or None, optional
            The maximum number of boxes. In larger graphs, a box can represent several nodes: a chain, nodes of one
            kind with the same neighbours, or layers of the graph. Default 100. None: one box for each node,
            which is slow for thousands of nodes.
        """
        from cudacore_graph._render import to_svg

        return to_svg(self, max_nodes)

    def to_mermaid(self, *, max_nodes: int | None = 100) -> str:
        """Return a picture of the graph in the Mermaid language, which many sites and editors can draw.

        Mermaid refuses text of more than 50,000 characters, and more than 500 edges, unless it is configured otherwise.

        Parameters
        ----------
        max_nodes : int or None, optional
            The maximum number of boxes; see :meth:`to_svg`.
        """
        from cudacore_graph._render import to_mermaid

        return to_mermaid(self, max_nodes)

    @property
    def handle(self) -> driver.CUgraph:
        """cuda.bindings.driver.CUgraph: The graph for ``cuda.bindings`` (cuGraphRetainUserObject).

        Graphs that are cloned or instantiated through this handle also keep alive what the nodes use. This has a cost:
        once the handle has been read, adding nodes takes longer, and so do launches of executable graphs that are made
        from then on.
        """
        return bindings().CUgraph(_native.share_graph(self))
