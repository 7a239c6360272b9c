# SPDX-License-Identifier: Apache-2.0
"""Read-only properties of nodes that are read from the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_graph._nodes.child import child_of
from cudacore_handles._sdk import Property

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition

    class Number(Property[int]):
        """A number among the parameters: ``dptr: Number = Number("free", "address", "int: The address.")``.

        Parameters
        ----------
        kind, field : str
            The library's structure of parameters, and its field.
        doc : str
            The docstring, which begins with the type.
        """

        def __init__(self, kind: str, field: str, doc: str) -> None: ...

    class Inner(Property[GraphDefinition]):
        """A graph in the node: ``then: Inner = Inner(0, "GraphDefinition: The body.")``.

        Parameters
        ----------
        index : int
            The number of the graph in the node.
        doc : str
            The docstring, which begins with the type.
        """

        def __init__(self, index: int, doc: str) -> None: ...

else:

    def Number(kind, field, doc):  # noqa: N802
        return property(lambda self: int(getattr(self._read(kind), field)), doc=doc)

    def Inner(index, doc):  # noqa: N802
        return property(lambda self: child_of(self, index), doc=doc)
