# SPDX-License-Identifier: Apache-2.0
"""Nodes that run a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_graph._nodes.description import Description
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition


class ExecutableChildGraphNode(ExecutableGraphNode):
    """A node of an executable graph that runs a child graph."""

    __slots__ = ()

    def update(self, child: GraphDefinition) -> None:
        """Use the parameters of another child graph of the same shape (cuGraphExecChildGraphNodeSetParams)."""
        _native.set_exec_node(self._graph, self._node, child)


class ChildGraphNode(GraphNode):
    """A node that runs a copy of a graph."""

    __slots__ = ()
    _TITLE = "graph"
    _METHOD = "embed"
    _HINT = (
        "A child graph cannot have memory nodes or conditional nodes on this driver; in a graph with memory nodes it "
        "cannot be replaced"
    )
    _EXEC_HINT = (
        "The graph must have the nodes and edges of the present child graph, in the order in which they were added"
    )
    _EXECUTABLE = ExecutableChildGraphNode

    def update(self, child: GraphDefinition) -> None:
        """Run a copy of another graph from the next instantiation on (cuGraphNodeSetParams).

        Needs a driver for CUDA 12.2.

        Definitions and nodes of the previous child graph become invalid.

        Parameters
        ----------
        child : GraphDefinition
            The graph. It must not be in the same hierarchy as the node.
        """
        _native.set_node(self, child)

    @property
    def child_graph(self) -> GraphDefinition:
        """GraphDefinition: The copy, which can be inspected and changed."""
        return self._graph_in(0)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (), (("", self.child_graph),))
