# SPDX-License-Identifier: Apache-2.0
"""Nodes that call host functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudacore_graph._errors import NODE_WAS_INSTANTIATED
from cudacore_graph._nodes.description import Description, printable
from cudacore_graph._nodes.executable import ExecutableGraphNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk import shorten


class ExecutableHostCallbackNode(ExecutableGraphNode):
    """A node of an executable graph that calls a host function."""

    __slots__ = ()

    def update(self, fn: Callable[..., Any], *, user_data: Any = None) -> None:
        """Call another function from the next launch on (cuGraphExecHostNodeSetParams).

        See :meth:`GraphDefinition.callback`.
        """
        _native.set_exec_node(self._graph, self._node, fn, user_data)


class HostCallbackNode(GraphNode):
    """A node that calls a host function."""

    __slots__ = ()
    _TITLE = "callback"
    _COLOUR = "#f4cccc"
    _METHOD = "callback"
    _EXEC_HINT = NODE_WAS_INSTANTIATED
    _EXECUTABLE = ExecutableHostCallbackNode

    def update(self, fn: Callable[..., Any], *, user_data: Any = None) -> None:
        """Call another function from the next instantiation on (cuGraphHostNodeSetParams).

        See :meth:`GraphDefinition.callback`.
        """
        _native.set_node(self, fn, user_data)

    @property
    def function(self) -> Callable[[], Any] | None:
        """callable or None: The Python function; None for a ctypes function.

        ``cuda.core`` calls this attribute `callback`. Here, `callback` is the method of nodes that adds such a node.
        """
        _, (function, _) = self._read_owned("host")
        return function

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        function = self.function
        return Description(self._TITLE, (_function_name(function) if function is not None else "a C function",), ())


def _function_name(function: object) -> str:
    """Return the name of a callable. The callable may generate its attributes dynamically."""
    try:
        name = getattr(function, "__qualname__", None)
    except Exception:
        name = None
    return shorten(printable(name if isinstance(name, str) and name else type(function).__name__))
