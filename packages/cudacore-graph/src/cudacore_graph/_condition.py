# SPDX-License-Identifier: Apache-2.0
"""Conditions: values that kernels set, and that control conditional nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_handles import Stream
from cudacore_handles._sdk import bindings
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk.graph import HAS_VALUE, UNSIGNED, register

if TYPE_CHECKING:
    from cuda.bindings import driver

_HANDLE_BYTES = 8


class GraphCondition(_native.Condition):
    """A value that controls a conditional node.

    Conditions are made by :meth:`GraphDefinition.create_condition` and :meth:`GraphBuilder.create_condition`. Each can
    be used by one conditional node at a time; after that node is destroyed, another node can use it. A graph with a
    condition that no node uses cannot be instantiated. A kernel that takes the condition as an argument
    (``cudaGraphConditionalHandle``) sets it with ``cudaGraphSetConditional``. Two objects are equal if they represent
    the same CUDA condition.
    """

    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        return f"<GraphCondition handle={self.value:#x}>"

    @property
    def handle(self) -> driver.CUgraphConditionalHandle:
        """cuda.bindings.driver.CUgraphConditionalHandle: The condition for ``cuda.bindings``."""
        return bindings().CUgraphConditionalHandle(self.value)


def create_condition(graph: _native.GraphHandle, default_value: object, stream: Stream | None = None) -> GraphCondition:
    """Make a condition of a graph in the context of a stream, or else in the current one.

    See :meth:`GraphDefinition.create_condition`.
    """
    value = None
    if default_value is not None:
        if not hasattr(default_value, "__index__"):
            raise TypeError(f"default_value must be an int or None, not {type(default_value).__name__}")
        value = default_value.__index__()
        if not 0 <= value < 2**32:
            raise ValueError(f"default_value is {value}; it must be from 0 to 2**32 - 1")
    return _native.create_condition(graph, stream, value)


register(GraphCondition, UNSIGNED | _HANDLE_BYTES << 8 | HAS_VALUE)
