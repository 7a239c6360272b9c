# SPDX-License-Identifier: Apache-2.0
"""The common part of nodes of executable graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from cudacore_handles._sdk import Made
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cudacore_graph._graph import Graph
    from cudacore_graph._nodes.node import GraphNode

_View = TypeVar("_View", bound="ExecutableGraphNode")


class ExecutableGraphNode(Made):
    """A node of an executable graph; ``graph[node]`` returns it.

    Changes affect only the executable graph, from its next launch on.
    """

    __slots__ = ("_graph", "_node")
    _made_by = "graph[node]"
    _graph: Graph
    _node: Any

    @classmethod
    def _init(cls: type[_View], graph: Graph, node: GraphNode) -> _View:
        self = cls.__new__(cls)
        self._graph = graph
        self._node = node
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._node!r} in {self._graph!r}>"


class SwitchableNode(ExecutableGraphNode):
    """A view of a node whose type allows it to be disabled."""

    __slots__ = ()

    @property
    def is_enabled(self) -> bool:
        """bool: Whether launches run the node (cuGraphNodeGetEnabled)."""
        return _native.exec_enabled(self._graph, self._node, None)

    def enable(self) -> None:
        """Enable the node (cuGraphNodeSetEnabled)."""
        _native.exec_enabled(self._graph, self._node, True)

    def disable(self) -> None:
        """Disable the node (cuGraphNodeSetEnabled)."""
        _native.exec_enabled(self._graph, self._node, False)
