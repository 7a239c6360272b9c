# SPDX-License-Identifier: Apache-2.0
"""Executable graphs."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast

from cudacore_graph._columns import update_many
from cudacore_graph._definition import GraphDefinition
from cudacore_graph._errors import hold_there
from cudacore_graph._nodes.graphs import ChildGraphNode, ConditionalNode
from cudacore_graph._nodes.node import ExecutableGraphNode, GraphNode
from cudacore_graph._options import GraphCompleteOptions
from cudacore_handles import ClosedError, Context, CUDAError, Stream
from cudacore_handles._sdk import (
    Closing,
    Made,
    adopt,
    as_options,
    bindings,
    closed,
    last_error,
    lib,
    not_pickled,
    out_box,
    results,
    type_text,
)
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk.graph import Builder, current_context

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_graph._builder import GraphBuilder
    from cudacore_graph._nodes.work import KernelNode
    from cudacore_graph._option_dicts import GraphCompleteOptionsDict
    from cudacore_handles import LaunchConfig

# The meanings of CUgraphExecUpdateResult, by number.
_REASONS = {
    1: "it failed for a reason that the driver does not report",
    2: "the topology changed",
    3: "a node has another type",
    4: "a kernel node has another function, in a way that cannot be updated",
    5: "a node's parameters changed in a way that cannot be updated",
    6: "a node has an operation that cannot be updated",
    7: "a kernel's function changed in a way that cannot be updated",
    8: "a kernel node's attributes changed in a way that cannot be updated",
}
_MAX_NAMED = 8  # the maximum number of nodes that the error for a cycle names


_V = TypeVar("_V", bound=ExecutableGraphNode)
_V_co = TypeVar("_V_co", bound=ExecutableGraphNode, covariant=True)


class NodeWithView(Protocol[_V_co]):
    """A node that has a view in executable graphs. Its class states the class of the view."""

    @property
    def _EXECUTABLE(self) -> type[_V_co]: ...  # noqa: N802


class Graph(_native.ExecHandle, Closing, Made):
    """A graph that can be launched repeatedly.

    It is made by :meth:`GraphDefinition.instantiate` or :meth:`GraphBuilder.complete`, and keeps alive what its nodes
    use, independently of the definition. ``graph[node]`` is a view of one node, through which its parameters can be
    changed and it can be disabled.

    Examples
    --------
    >>> from cudacore.graph import GraphDefinition
    >>> buffer = device.allocate(64, stream=stream)
    >>> definition = GraphDefinition()
    >>> node = definition.memset(buffer, 0, 64)
    >>> graph = definition.instantiate()
    >>> graph.launch(stream)
    >>> graph[node].update(dst=buffer, value=1, width=64)
    >>> graph.launch(stream)  # with the new value
    """

    __slots__ = ("__weakref__", "_source")
    _made_by = "GraphDefinition.instantiate() or GraphBuilder.complete()"
    # The definition that the graph was made from, as long as it exists. Error messages describe its nodes.
    _source: weakref.ref[GraphDefinition]

    if TYPE_CHECKING:

        def __getitem__(self, node: NodeWithView[_V]) -> _V: ...

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "a graph is of one process")

    def __repr__(self) -> str:
        return "<Graph closed>" if self.is_closed else f"<Graph handle={self._raw:#x}>"

    def update(self, source: GraphBuilder | GraphDefinition) -> None:
        """Replace the parameters of all nodes by those of another graph of the same shape (cuGraphExecUpdate).

        Parameters
        ----------
        source : GraphBuilder or GraphDefinition
            The other graph. A builder must have ended building.

        Raises
        ------
        CUDAError
            If the graphs do not match. The error gives the reason and the node.
        """
        definition = _definition_of(source)
        status, result, node, before = _native.update_exec(self, definition)
        if status:
            make = "source.instantiate()" if source is definition else "source.complete()"
            raise _not_updated(status, self, definition, result, node, before, make)

    def update_many(
        self,
        nodes: Iterable[KernelNode],
        *columns: Any,
        config: LaunchConfig | Sequence[LaunchConfig] | None = None,
    ) -> None:
        """Change the arguments of many nodes of one kernel in one call (cuGraphExecKernelNodeSetParams).

        This does the same as ``graph[node].update`` for each node, but no Python object is created for a node. The
        change affects this graph alone, from its next launch on.

        Parameters
        ----------
        nodes : KernelNodes or iterable of KernelNode
            Nodes of the definition, or of graphs in it, that launch the same kernel: the result of
            :meth:`GraphDefinition.launch_many`, a slice of it, or any others.
        *columns
            All arguments of the kernel, as in :meth:`GraphDefinition.launch_many`.
        config : LaunchConfig or sequence of LaunchConfig, optional
            The configuration of all nodes, or one for each. Default None: those of the nodes in the definition,
            whatever was set here before.

        Raises
        ------
        TypeError, ValueError, ClosedError
            If the arguments are wrong. The message names the index of the node, and no node has been changed.
        CUDAError
            If the driver refuses a node. The nodes before it have been changed.
        """
        update_many(None, self, nodes, columns, config)

    @property
    def handle(self) -> driver.CUgraphExec:
        """cuda.bindings.driver.CUgraphExec: The graph for ``cuda.bindings``.

        The library cannot track launches through this handle: keep the graph open until they are done.
        """
        if self.is_closed:
            raise closed(self)
        return bindings().CUgraphExec(self._raw)


def instantiate(
    definition: GraphDefinition,
    options: GraphCompleteOptions | GraphCompleteOptionsDict | None,
    stream: Stream | None = None,
) -> Graph:
    """Make an executable graph in a stream's context, or the current one; see :meth:`GraphDefinition.instantiate`."""
    chosen = None if options is None else as_options(GraphCompleteOptions, options)
    flags, upload = (0, None) if chosen is None else (chosen._flags(), chosen.upload_stream)
    made = _native.instantiate(Graph, definition, flags, upload, stream)
    if not isinstance(made, Graph):
        raise _not_instantiated(made, definition)
    made._source = weakref.ref(definition)
    return made


# In this block, graphs are described for an error, which must not be replaced by that of a failed query.
_QUERIES = suppress(CUDAError, ClosedError)


def _not_instantiated(status: int, definition: GraphDefinition) -> CUDAError:
    error = last_error(status)
    node = getattr(status, "node", 0)
    with _QUERIES:
        if status == results.INVALID_VALUE:
            error.hint = _name_cycle(definition)
        if node:
            error.hint = error.hint or f"The node is {_describe(definition, node)}"
    if not node and status == results.NOT_SUPPORTED:
        error.hint = (
            "Bodies and child graphs run only in their graph. A graph with memory or conditional nodes can have only "
            "one executable graph at a time, and no clone or child graph that was made of it before: close the "
            "other, or drop the copy"
        )
    return error


def _definition_of(source: Any) -> GraphDefinition:
    if isinstance(source, GraphDefinition):
        return source
    if isinstance(source, Builder):  # the base class of GraphBuilder, whose module imports this one
        return cast("GraphBuilder", source)._finished("update a graph from it")
    raise TypeError(f"source must be a GraphDefinition or a GraphBuilder, not {type_text(source)}")


def _describe(definition: GraphDefinition, handle: int) -> str:
    """Return a description of a node that the driver reports: its type and its place."""
    from cudacore_graph._render import title

    for index, node in enumerate(_native.graph_nodes(definition, [])):
        if node._raw == handle:
            return f"{node!r}, node {index} of {definition!r}: {title(node)}"
    return f"the node with the handle {handle:#x}, in a graph in {definition!r}"


def _not_updated(
    status: int, graph: Graph, definition: GraphDefinition, result: int, node: int, before: int, make: str
) -> CUDAError:
    error = last_error(status)
    if status == results.GRAPH_EXEC_UPDATE_FAILURE or result > 1:
        with _QUERIES:
            error.hint = _name_cycle(definition) or (
                f"{_why_not(graph, definition, result, node, before)}. "
                f"Make a new executable graph of it instead: {make}"
            )
    return error


def _name_cycle(definition: GraphDefinition) -> str:
    """Describe the nodes of a cycle in a graph or a graph within it; return an empty string if there is no cycle."""
    # The driver does not always report a node of the cycle, so the definition and all graphs in it are searched.
    nodes = next(filter(None, map(_find_cycle, _graphs_of(definition))), [])
    if not nodes:
        return ""
    names = [repr(node) for node in nodes[:_MAX_NAMED]]
    if len(nodes) > _MAX_NAMED:
        names.append(f"... ({len(nodes)} nodes)")
    return (
        f"Each of these nodes waits for the one before it, and the first for the last: {', '.join(names)}. "
        "Remove one of these edges, for instance by node.pred.discard(other)"
    )


def _graphs_of(graph: GraphDefinition) -> Iterator[GraphDefinition]:
    """Yield a graph, and the child graphs and bodies within it."""
    yield graph
    for node in _native.graph_nodes(graph, []):
        if isinstance(node, ChildGraphNode):
            yield from _graphs_of(node.child_graph)
        elif isinstance(node, ConditionalNode):
            for body in node.branches:
                yield from _graphs_of(body)


def _find_cycle(graph: GraphDefinition) -> list[GraphNode]:
    """Return the nodes of one cycle in a graph, each a dependency of the next; an empty list if there is no cycle."""
    from graphlib import CycleError  # imported late, because few programs need it

    try:
        graph.sorted_nodes()
    except CycleError as error:
        return list(error.args[1][1:])  # the first node is given again as the last
    return []


def _why_not(graph: Graph, definition: GraphDefinition, result: int, node: int, before: int) -> str:
    """Return why a graph could not be updated: the reason, and the node in both graphs."""
    parts = [_REASONS.get(result, f"reason {result}")]
    if before:
        parts.append(f"at the edge from {_describe(definition, before)}")
    if node:
        parts.append(f"{'to' if before else 'at'} {_describe(definition, node)}")
        known = getattr(graph, "_source", None)  # an object for another library's handle has none
        source = None if known is None else known()
        counterpart = _counterpart(source, definition, node)
        parts.append(
            counterpart
            or "the definition that the graph was made from does not exist any more, so it cannot be compared"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}"


def _counterpart(source: GraphDefinition | None, definition: GraphDefinition, handle: int) -> str:
    """Describe the node of `source` that corresponds to the node `handle` of `definition`.

    `source` is the graph that the executable graph was made from.
    """
    if source is None or not source.is_valid:
        return ""
    from cudacore_graph._render import title

    theirs = _native.graph_nodes(definition, [])
    ours = _native.graph_nodes(source, [])
    index = next((i for i, node in enumerate(theirs) if node._raw == handle), None)
    if index is None or index >= len(ours):
        return f"the graph was made from {source!r}, which has {len(ours)} nodes, and this one {len(theirs)}"
    return f"where the graph was made from {ours[index]!r}: {title(ours[index])}{_contexts(theirs[index], ours[index])}"


def _contexts(node: GraphNode, counterpart: GraphNode) -> str:
    """Return that two kernel nodes belong to different contexts; an empty string if they do not."""
    from cudacore_graph._nodes.work import KernelNode

    if not isinstance(node, KernelNode) or not isinstance(counterpart, KernelNode):
        return ""
    new, old = _context_of(node), _context_of(counterpart)
    if new is None or old is None or new == old:
        return ""
    names = " and ".join(f"{'green ' * context.is_green}{context!r}" for context in (new, old))
    return f"; they belong to different contexts, {names}: capture or define both in the same context"


def _context_of(node: KernelNode) -> Context | None:
    """Return the context of a kernel node; None if it has ended."""
    out = out_box("cch_context")
    if lib.cch_graph_node_context(out, hold_there(node)):
        return None
    return adopt(Context, out) if out[0] else current_context()
