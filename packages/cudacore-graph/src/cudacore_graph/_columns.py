# SPDX-License-Identifier: Apache-2.0
"""Kernel nodes that are added or changed at once, with columns of arguments, and the sequence of these nodes."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from cudacore_graph._arguments import check_node_kernel
from cudacore_handles import ClosedError, LaunchConfig, ParamKind
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk import type_text
from cudacore_handles._sdk.graph import check_values

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition
    from cudacore_graph._graph import Graph
    from cudacore_graph._nodes.node import GraphNode
    from cudacore_graph._nodes.work import KernelNode
    from cudacore_handles import Kernel, ParamInfo

_MAX_NODES = 2**32 - 1
_N = TypeVar("_N")

# The kinds of elements (NumPy's dtype.kind) that a column can have, by the kind of parameter. For a kind of parameter
# that is not listed, only the size of the elements must match.
_ELEMENTS = {
    ParamKind.INT: "i",
    ParamKind.UINT: "u",
    ParamKind.BITS: "iub",
    ParamKind.ADDRESS: "iu",
    ParamKind.POINTER: "iu",
    ParamKind.BOOL: "b",
    ParamKind.FLOAT: "f",
}
_TYPES = {"i": "int", "u": "uint", "f": "float"}


class KernelNodes(Sequence["KernelNode"]):
    """The nodes that :meth:`GraphDefinition.launch_many` added, in order.

    The object of a node is made when it is first read: the sequence itself takes 8 bytes for each node. Getting a node
    that was destroyed raises a ``ClosedError``. Slices are sequences, too.
    """

    __slots__ = ("_graph", "_handles", "_number", "_range")

    def __init__(self, graph: GraphDefinition, handles: array[int], number: int, places: range) -> None:
        self._graph = graph
        self._handles = handles
        self._number = number
        self._range = places

    def __repr__(self) -> str:
        return f"<KernelNodes: {len(self)} of {self._graph!r}>"

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> KernelNode: ...
    @overload
    def __getitem__(self, index: slice) -> KernelNodes: ...
    def __getitem__(self, index: int | slice) -> KernelNode | KernelNodes:
        if isinstance(index, slice):
            return KernelNodes(self._graph, self._handles, self._number, self._range[index])
        try:
            node = self._read(index)
        except IndexError:
            raise IndexError(f"there is no node {index}: there are {len(self)}") from None
        if node is None:
            raise ClosedError(f"node {index} was destroyed: it is in no graph any more")
        return node

    def __contains__(self, value: object) -> bool:
        return self._find(value) is not None

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the index of a node, which is searched for by its handle.

        Raises
        ------
        ValueError
            If the value is not one of the nodes.
        """
        found = self._find(value)
        if found is None or found not in range(len(self))[start:stop]:
            raise ValueError(f"{value!r} is not one of the nodes")
        return found

    def count(self, value: object) -> int:
        """Return 1 if the value is one of the nodes, otherwise 0."""
        return int(value in self)

    def _read(self, index: int) -> KernelNode | None:
        place = self._range[index]
        return _native.numbered_node(self._graph, self._handles[place], self._number + place)

    def _find(self, value: object) -> int | None:
        if not isinstance(value, _native.NodeHandle):
            return None
        try:
            place = self._handles.index(value._raw)
        except ValueError:
            return None
        same = _native.numbered_node(self._graph, value._raw, self._number + place) is value
        return self._range.index(place) if same and place in self._range else None


def launch_many(
    graph: GraphDefinition,
    config: LaunchConfig | Sequence[LaunchConfig],
    kernel: Kernel,
    columns: tuple[Any, ...],
    count: int | None,
    edges: Any,
    after: GraphNode | Iterable[GraphNode] | None,
) -> KernelNodes:
    """Add the nodes; see :meth:`GraphDefinition.launch_many`."""
    given = [_take(index, column) for index, column in enumerate(columns)]
    configs = _take_configs(config)
    known = {} if count is None else {"count": _read_count(count)}
    length = _length(given, configs if not isinstance(config, LaunchConfig) else None, known)
    if not length:
        return KernelNodes(graph, array("Q"), 0, range(0))
    ready = _prepare(configs, kernel, given)
    native = _check_columns(ready, given)
    pairs = _read_edges(edges, length)
    nodes: tuple[Any, ...] = () if after is None else tuple(after) if isinstance(after, Iterable) else (after,)
    place = (pairs.buffer_info()[0] if pairs else 0, len(pairs) // 2)
    handles, number = _native.add_kernels(graph, configs, ready, native, length, place, nodes)
    return KernelNodes(graph, array("Q", handles), number, range(length))


def update_many(
    graph: GraphDefinition | None,
    executable: Graph | None,
    nodes: Iterable[KernelNode],
    columns: tuple[Any, ...],
    config: LaunchConfig | Sequence[LaunchConfig] | None,
) -> None:
    """Change nodes of a graph, or of an executable graph; see :meth:`GraphDefinition.update_many`."""
    those = tuple(_check_iterable(nodes))
    given = [_take(index, column) for index, column in enumerate(columns)]
    configs = () if config is None else _take_configs(config)
    several = config is not None and not isinstance(config, LaunchConfig)
    if not _length(given, configs if several else None, {"nodes": len(those)}):
        return
    first = those[0]

    def prepare() -> tuple[Any, ...]:
        """Return what the nodes launch. Their context is current."""
        from cudacore_graph._nodes.work import KernelNode  # imported late, because that module imports this one

        if not isinstance(first, KernelNode):
            raise TypeError(f"node 0: nodes must be of type KernelNode, not {type_text(first)}")
        ready = _prepare(configs or (first.config,), first.kernel, given)
        return configs, ready, _check_columns(ready, given)

    _native.set_kernels(executable, graph, those, prepare)


def destroy_many(graph: GraphDefinition, nodes: Iterable[GraphNode]) -> None:
    """Destroy nodes; see :meth:`GraphDefinition.destroy_many`."""
    if isinstance(nodes, KernelNodes):
        nodes = [node for node in map(nodes._read, range(len(nodes))) if node is not None]
    _native.destroy_nodes(graph, tuple(_check_iterable(nodes)))


def _check_iterable(nodes: Iterable[_N]) -> Iterable[_N]:
    if isinstance(nodes, _native.NodeHandle) or not isinstance(nodes, Iterable):
        raise TypeError(f"nodes must be an iterable of GraphNode, not {type_text(nodes)}")
    return nodes


# ---- columns ----


class _Array(NamedTuple):
    """A column that is read in place, and the object that keeps the memory alive."""

    keep: object
    length: int
    place: tuple[int, int]
    kind: str
    itemsize: int
    name: str
    first: object

    def check(self, index: int, parameter: ParamInfo) -> None:
        """Raise an error if the elements do not fit the parameter."""
        kinds = _ELEMENTS.get(parameter.kind)
        fits = self.itemsize == parameter.size and (
            self.name == "bfloat16" if parameter.kind is ParamKind.BFLOAT else kinds is None or self.kind in kinds
        )
        if fits:
            return
        wanted = f"{_TYPES[kinds[0]]}{8 * parameter.size}" if kinds and kinds[0] in _TYPES else ""
        raise TypeError(
            f"argument {index}: the column has elements of {self.itemsize} bytes, of the type {self.name}, but the "
            f"parameter has {parameter.size} bytes, of the kind '{parameter.kind}'"
            + (f"; pass column.astype({wanted!r})" if wanted else "")
        )


def _take(index: int, column: Any) -> Any:
    """Convert a column to an _Array, to a list with a value for each node, or to one value for all nodes."""
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    if ndarray is not None and isinstance(column, ndarray):
        return _take_numpy(index, column) if column.ndim else column
    if isinstance(column, (array, memoryview)):
        return column.tolist()
    return list(column) if isinstance(column, (list, tuple, range)) else column


def _check_columns(kernel: Kernel, given: list[Any]) -> tuple[Any, ...]:
    """Check the columns, and return them in the form that the extension module reads."""
    parameters = kernel.arguments_info
    if len(parameters) != len(given):
        raise TypeError(f"the kernel takes {len(parameters)} arguments, each a column or one value, not {len(given)}")
    for index, (column, parameter) in enumerate(zip(given, parameters, strict=True)):
        if isinstance(column, _Array):
            column.check(index, parameter)
    return tuple(column.place if isinstance(column, _Array) else column for column in given)


def _take_configs(config: Any) -> tuple[LaunchConfig, ...]:
    given = (config,) if isinstance(config, LaunchConfig) or not isinstance(config, Iterable) else tuple(config)
    for each in given:
        if not isinstance(each, LaunchConfig):
            raise TypeError(f"config must be a LaunchConfig or a sequence of them, not of {type_text(each)}")
    return given


def _take_numpy(index: int, column: Any) -> _Array:
    check_values(column, f"argument {index}")
    dtype = column.dtype
    if dtype.hasobject:
        raise TypeError(f"argument {index}: the column has Python objects in it; pass a list of the values")
    if not dtype.isnative:
        raise TypeError(f"argument {index}: the column is big-endian; convert it to native byte order first")
    address = column.__array_interface__["data"][0]
    if column.ndim == 1:
        place = (address, column.strides[0])
        return _Array(column, len(column), place, dtype.kind, dtype.itemsize, dtype.name, column[:1])
    row = column[:1]
    if not row[0].flags.c_contiguous:
        raise TypeError(f"argument {index}: the rows of the column are not contiguous; pass a contiguous copy of it")
    size = dtype.itemsize * (column.size // len(column)) if len(column) else 0
    return _Array(column, len(column), (address, column.strides[0]), "V", size, f"rows of {dtype.name}", row.tobytes())


def _read_count(count: Any) -> int:
    if isinstance(count, bool) or not hasattr(count, "__index__") or count.__index__() < 0:
        raise TypeError(f"count must be an int of at least 0, not {count!r}")
    return int(count.__index__())


def _length(columns: list[Any], configs: tuple[Any, ...] | None, known: dict[str, int]) -> int:
    """Return the number of nodes; raise an error if the columns differ."""
    lengths = known | {
        f"argument {index}": column.length if isinstance(column, _Array) else len(column)
        for index, column in enumerate(columns)
        if isinstance(column, (_Array, list))
    }
    if configs is not None:
        lengths["config"] = len(configs)
    if not lengths:
        raise TypeError("launch_many() needs a column, a sequence of configurations or a count: how many nodes?")
    (first, length), *rest = lengths.items()
    for name, other in rest:
        if other != length:
            raise ValueError(f"{first} is for {length} nodes, and {name} for {other}; all must be of one length")
    if length > _MAX_NODES:
        raise ValueError(f"{length} nodes are too many for one call; there can be {_MAX_NODES}")
    return length


def _prepare(configs: tuple[Any, ...], kernel: Kernel, columns: list[Any]) -> Kernel:
    """Allow the shared memory that the configurations need, and return the kernel with its layout."""
    largest = max(configs, key=lambda config: config.shmem_size)
    values = [
        each.first if isinstance(each, _Array) else each[0] if isinstance(each, list) else each for each in columns
    ]
    return check_node_kernel(largest, kernel, tuple(values))


# ---- edges ----


def _read_edges(edges: Any, count: int) -> array[int]:
    """Return a copy of the pairs, which other code cannot change while it is read."""
    if edges is None:
        return array("I")
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    if ndarray is not None and isinstance(edges, ndarray):
        check_values(edges, "edges")
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise TypeError(
                f"edges must be an array of integers of the shape (n, 2), not of {edges.dtype} and {edges.shape}"
            )
        if ((edges >= 0) & (edges < count)).all() and (edges[:, 0] < edges[:, 1]).all():
            return array("I", edges.astype("uint32").tobytes())
        edges = edges.tolist()
    if not isinstance(edges, Iterable):
        raise TypeError(f"edges must be pairs of indices, or an array of them, not {type(edges).__name__}")
    pairs = array("I")
    for place, pair in enumerate(edges):
        try:
            first, second = (int(end.__index__()) for end in pair)
        except (TypeError, ValueError, AttributeError):
            raise TypeError(f"edge {place} must be a pair of indices, not {pair!r}") from None
        if not 0 <= first < second < count:
            raise ValueError(
                f"edge {place} leads from node {first} to node {second}; edges lead from a node to a later one of the "
                f"{count} nodes"
            )
        pairs.extend((first, second))
    return pairs
