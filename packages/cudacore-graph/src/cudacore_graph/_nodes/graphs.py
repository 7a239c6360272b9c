# SPDX-License-Identifier: Apache-2.0
"""Nodes that contain graphs: child graphs, and the bodies of conditional nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from cudacore_graph._nodes.node import Description, ExecutableGraphNode, GraphNode, short
from cudacore_graph.typing import GraphConditionalType
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk import lib

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition

__all__: list[str] = [
    "ChildGraphNode",
    "ConditionalNode",
    "ExecutableChildGraphNode",
    "IfElseNode",
    "IfNode",
    "SwitchNode",
    "WhileNode",
]


class ExecutableChildGraphNode(ExecutableGraphNode):
    """A node of an executable graph that runs a child graph."""

    __slots__ = ()

    def update(self, child: GraphDefinition) -> None:
        """Use the parameters of another child graph of the same shape (cuGraphExecChildGraphNodeSetParams)."""
        _native.set_exec_node(self._graph, self._node, child)


class ChildGraphNode(GraphNode):
    """A node that runs a copy of a graph."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_GRAPH
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


_CONDITIONALS = {
    lib.CCH_CONDITIONAL_IF: GraphConditionalType.IF,
    lib.CCH_CONDITIONAL_WHILE: GraphConditionalType.WHILE,
    lib.CCH_CONDITIONAL_SWITCH: GraphConditionalType.SWITCH,
}


class ConditionalNode(_native.ConditionalHandle, GraphNode):
    """A conditional node; the base of the four types.

    A node that another library added has this class itself if the driver is older than CUDA 13.2: such a driver cannot
    report the kind of the node.
    """

    __slots__ = ()
    _TYPE = lib.CCH_NODE_CONDITIONAL
    _TITLE = "conditional"
    _BODIES: ClassVar[Sequence[str]] = ()  # their names

    @property
    def cond_type(self) -> GraphConditionalType | None:
        """GraphConditionalType or None: How the condition is used; None if the driver cannot report it."""
        return _CONDITIONALS.get(self._kind)

    def _names(self, count: int) -> Sequence[str]:
        """Return the names of the bodies."""
        return self._BODIES

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        branches = self.branches
        condition = self.condition
        details = () if condition is None else (f"condition {short(condition.value)}",)
        return Description(self._TITLE, details, tuple(zip(self._names(len(branches)), branches, strict=False)))


class IfNode(ConditionalNode):
    """A conditional node that runs its body if the condition is not 0."""

    __slots__ = ()
    _TITLE = "if"
    _BODIES = ("then",)
    _METHOD = "if_then"

    @property
    def then(self) -> GraphDefinition:
        """GraphDefinition: The body."""
        return self._graph_in(0)


class IfElseNode(ConditionalNode):
    """A conditional node that runs one of two bodies."""

    __slots__ = ()
    _TITLE = "if else"
    _BODIES = ("then", "else")
    _METHOD = "if_else"
    _HINT = "A second body needs a driver for CUDA 12.8"

    @property
    def then(self) -> GraphDefinition:
        """GraphDefinition: The body for a condition that is not 0."""
        return self._graph_in(0)

    @property
    def else_(self) -> GraphDefinition:
        """GraphDefinition: The body for a condition that is 0."""
        return self._graph_in(1)


class WhileNode(ConditionalNode):
    """A conditional node that repeats its body while the condition is not 0."""

    __slots__ = ()
    _TITLE = "while"
    _BODIES = ("body",)
    _METHOD = "while_loop"

    @property
    def body(self) -> GraphDefinition:
        """GraphDefinition: The body."""
        return self._graph_in(0)


class SwitchNode(ConditionalNode):
    """A conditional node that runs the body whose index is the value of the condition."""

    __slots__ = ()
    _TITLE = "switch"
    _METHOD = "switch"
    _HINT = "A switch needs a driver for CUDA 12.8"

    def _names(self, count: int) -> Sequence[str]:
        return [f"case {i}" for i in range(count)]
