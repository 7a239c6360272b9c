# SPDX-License-Identifier: Apache-2.0
"""The common part of all nodes, of their views in executable graphs, and of their descriptions for pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from cudacore_graph._errors import hold_there
from cudacore_handles._sdk import Made, bindings, check, ffi, lib, not_pickled, out_box
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_graph._definition import GraphDefinition

__all__: list[str] = ["EmptyNode", "ExecutableGraphNode", "GraphNode"]


class Description(NamedTuple):
    """The description of a node: its type, details, and the graphs that it contains, with their names."""

    title: str
    details: tuple[str, ...]
    graphs: tuple[tuple[str, GraphDefinition], ...]


def bytes_text(count: int) -> str:
    """Format a number of bytes in the largest unit of which it is a multiple of 1/16."""
    count = int(count)
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % (size // 16) == 0:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def short(address: int) -> str:
    """Return the last digits of an address, which distinguish it from nearby addresses."""
    address = int(address)
    return f"0x{address:x}" if address < 2**24 else f"..{address & 0xFFFFFF:06x}"


def times(sizes: tuple[int, ...]) -> str:
    """Format extents as text such as ``"4x2"``."""
    return "x".join(map(str, sizes))


def printable(name: str) -> str:
    """Return a name as one line that every format can contain: control characters and surrogates are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


class ExecutableGraphNode(_native.ExecutableNode, Made):
    """A node of an executable graph; ``graph[node]`` returns it.

    Changes affect only the executable graph, from its next launch on.
    """

    __slots__ = ()
    _made_by = "graph[node]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._node!r} in {self._graph!r}>"


class SwitchableNode(ExecutableGraphNode):
    """A view of a node whose type allows it to be disabled."""

    __slots__ = ()

    @property
    def is_enabled(self) -> bool:
        """bool: Whether launches run the node (cuGraphNodeGetEnabled)."""
        return self._switch(-1)

    def enable(self) -> None:
        """Enable the node (cuGraphNodeSetEnabled)."""
        self._switch(1)

    def disable(self) -> None:
        """Disable the node (cuGraphNodeSetEnabled)."""
        self._switch(0)


class GraphNode(_native.NodeHandle, Made):
    """A node of a graph. Its methods add nodes that depend on it.

    Nodes are made by the methods of :class:`GraphDefinition` and of nodes, and returned by
    :meth:`GraphDefinition.nodes`, :attr:`pred` and others. While it is referenced, a node keeps its identity. The
    graph, and everything that was made from it (clones, executable graphs and their launches), keep alive what a node
    uses. If :attr:`is_valid` is False, the node was destroyed, and using it raises
    :class:`~cudacore_handles.ClosedError`.
    """

    __slots__ = ()
    _made_by = "the methods of GraphDefinition"
    _TYPE: ClassVar[int]  # CUDA's number of the type
    _TITLE: ClassVar[str] = "node"  # what the node does
    _COLOUR: ClassVar[str] = "#eeeeee"  # in pictures
    _METHOD: ClassVar[str] = ""  # the method that adds such a node
    _HINT: ClassVar[str] = ""  # the usual reason for a refusal to add or change such a node
    _EXEC_HINT: ClassVar[str] = ""  # the usual reason for a refusal to change such a node in an executable graph
    # the class of the node's views in executable graphs
    _EXECUTABLE: ClassVar[type[ExecutableGraphNode]] = ExecutableGraphNode

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "a graph is of one process")

    def __repr__(self) -> str:
        state = "" if self.is_valid else " destroyed"
        return f"<{type(self).__name__} handle={self._raw:#x}{state}>"

    @property
    def type(self) -> driver.CUgraphNodeType:
        """cuda.bindings.driver.CUgraphNodeType: The CUDA type of the node."""
        return bindings().CUgraphNodeType(self._type)

    @property
    def handle(self) -> driver.CUgraphNode:
        """cuda.bindings.driver.CUgraphNode: The node for ``cuda.bindings``; see :attr:`GraphDefinition.handle`."""
        return bindings().CUgraphNode(_native.share_graph(self))

    def _read_kept(self, kind: str) -> tuple[Any, Any]:
        """Return the parameters in the library's structure, and an object that keeps what they point to.

        The structure owns the references that the library stores in it, as the result of ``out_box`` does.
        """
        params, kept, bundle = self._room(kind), out_box("cch_bundle"), out_box("cch_bundle")
        check(lib.cch_graph_node_read(params, kept, bundle, hold_there(self)))
        return params, kept

    def _room(self, kind: str) -> Any:
        params = ffi.new(f"cch_{kind}_node *", {"size": ffi.sizeof(f"cch_{kind}_node")})
        return ffi.gc(params, lib.unref_in_kernel_node) if kind == "kernel" else params

    def _read_owned(self, kind: str) -> tuple[Any, tuple[Any, Any]]:
        """Return the parameters of a copy, a fill or a host function, and its owners, both read at the same moment."""
        params = self._room(kind)
        return params, _native.read_node(self, int(ffi.cast("uintptr_t", params)))

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (), ())


class EmptyNode(GraphNode):
    """A node that does nothing. It joins branches of a graph."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_EMPTY
    _TITLE = "empty"
