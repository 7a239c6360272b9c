# SPDX-License-Identifier: Apache-2.0
"""The common part of all nodes, of their views in executable graphs, and of their descriptions for pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar

from cudacore_graph._errors import hold_there, node_failed
from cudacore_handles._sdk import Made, adopt, bindings, check, ffi, hold, lib, not_pickled, out_box
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_graph._definition import GraphDefinition
    from cudacore_graph._graph import Graph

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
        return self._switch(-1)

    def enable(self) -> None:
        """Enable the node (cuGraphNodeSetEnabled)."""
        self._switch(1)

    def disable(self) -> None:
        """Disable the node (cuGraphNodeSetEnabled)."""
        self._switch(0)

    def _switch(self, enabled: int) -> bool:
        """Enable or disable the node, unless the number is negative. Return whether it is enabled."""
        out = ffi.new("int *")
        status = lib.cch_graph_exec_enabled(out, hold(self._graph), hold_there(self._node), enabled)
        if status:
            node_failed(status, "enable", _native.PLACE_IN_EXEC)
        return bool(out[0])


_DESTRUCTORS = {"kernel": lib.unref_in_kernel_node, "event": lib.unref_in_event_node}


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
        return bindings().CUgraphNodeType(lib.cch_graph_node_type(hold(self)))

    @property
    def handle(self) -> driver.CUgraphNode:
        """cuda.bindings.driver.CUgraphNode: The node for ``cuda.bindings``; see :attr:`GraphDefinition.handle`."""
        held = hold_there(self)
        check(lib.cch_graph_share(lib.cch_graph_node_graph(held)))
        return bindings().CUgraphNode(self._raw)

    def _read(self, kind: str, **fields: Any) -> Any:
        """Return the parameters in the library's structure, as the driver reports them.

        The structure owns the references that the library stores in it, as the result of ``out_box`` does.
        """
        params = self._room(kind, **fields)
        check(lib.cch_graph_node_get(params, hold_there(self)))
        return params

    def _read_kept(self, kind: str) -> tuple[Any, Any]:
        """Return the parameters like :meth:`_read`, and an object that keeps what they point to."""
        params, kept, bundle = self._room(kind), out_box("cch_bundle"), out_box("cch_bundle")
        check(lib.cch_graph_node_read(params, kept, bundle, hold_there(self)))
        return params, kept

    def _room(self, kind: str, **fields: Any) -> Any:
        params = ffi.new(f"cch_{kind}_node *", {"size": ffi.sizeof(f"cch_{kind}_node"), **fields})
        return ffi.gc(params, _DESTRUCTORS[kind]) if kind in _DESTRUCTORS else params

    def _read_owned(self, kind: str) -> tuple[Any, tuple[Any, Any]]:
        """Return the parameters of a copy, a fill or a host function, and its owners, both read at the same moment."""
        params = self._room(kind)
        return params, _native.read_node(self, int(ffi.cast("uintptr_t", params)))

    def _graph_in(self, index: int) -> GraphDefinition:
        """Return a graph that the node contains: its child graph, or one of its bodies."""
        from cudacore_graph._definition import GraphDefinition

        out = out_box("cch_graph")
        check(lib.cch_graph_node_child(out, hold_there(self), index))
        return adopt(GraphDefinition, out)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (), ())


class EmptyNode(GraphNode):
    """A node that does nothing. It joins branches of a graph."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_EMPTY
    _TITLE = "empty"
