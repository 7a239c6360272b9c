# SPDX-License-Identifier: Apache-2.0
# The graph part of cudacore_handles._native. It returns objects of cudacore-graph, a package above this one. Only type
# checkers read this file, so nothing is imported from there when a program runs.
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from cudacore_graph import (
    AdjacencySetProxy,
    AllocNode,
    ChildGraphNode,
    EmptyNode,
    EventRecordNode,
    EventWaitNode,
    FreeNode,
    GraphCondition,
    GraphDefinition,
    GraphNode,
    HostCallbackNode,
    IfElseNode,
    IfNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    SwitchNode,
    WhileNode,
)
from cudacore_graph.typing import GraphMemoryName, GraphMemoryType
from cudacore_handles import Buffer, Device, Event, IsStreamType, Kernel, LaunchConfig, Stream
from cudacore_handles._native import Handle as Handle
from cudacore_handles.texture import OpaqueArray
from cudacore_handles.typing import FillValueType, KernelArgumentType

PLACE_IN_EXEC: int  # the argument `place` of node_failed() for a node of an executable graph

_G = TypeVar("_G", bound=GraphHandle)
_A = TypeVar("_A", bound=Adjacency)
_X = TypeVar("_X", bound=ExecHandle)
_C = TypeVar("_C", list[Any], set[Any])
_E = TypeVar("_E", list[Any], set[Any], dict[Any, int])

class NodeMethods:
    def launch(self, config: LaunchConfig, kernel: Kernel, *args: KernelArgumentType) -> KernelNode:
        """Add a kernel node (cuGraphAddKernelNode).

        If it is called on a node, the new node depends on that node. The arguments are packed as in :func:`launch`. The
        graph, and graphs that are made from it, keep alive the memory that the arguments point into. The node keeps the
        whole configuration, including clusters, cooperative launches and the priority.

        Parameters
        ----------
        config : LaunchConfig
            The grid, the blocks and other properties of the launch.
        kernel : Kernel
            The kernel to launch.
        *args
            The kernel's arguments.

        Returns
        -------
        KernelNode
            The new node.
        """
    def memcpy(
        self,
        dst: Buffer | OpaqueArray | int,
        src: Buffer | OpaqueArray | int,
        size: int | None = None,
        *,
        height: int = 1,
        depth: int = 1,
        dst_pitch: int = 0,
        src_pitch: int = 0,
        dst_height: int = 0,
        src_height: int = 0,
        dst_owner: object = None,
        src_owner: object = None,
    ) -> MemcpyNode:
        """Add a copy (cuGraphAddMemcpyNode).

        If it is called on a node, the new node depends on that node.

        The current device does the copy if it can access both operands, otherwise the device of one operand. The driver
        determines where the operands are: on a device, on the host, or allocated by the graph itself.

        The graph and whatever is made from it keep a Buffer or an OpaqueArray alive. Nothing keeps the memory at an int
        address alive, unless an owner is given.

        Parameters
        ----------
        dst, src : Buffer, OpaqueArray or int
            The destination and the source. All texels of an array are copied, row after row.
        size : int
            Number of bytes; in a copy of several rows, bytes per row. If `dst` or `src` is an OpaqueArray, `size`,
            `height` and `depth` are left out.
        height, depth : int, optional
            Number of rows per slice, and of slices. Default 1.
        dst_pitch, src_pitch : int, optional
            Bytes from the start of one row to the next. Default 0: `size`.
        dst_height, src_height : int, optional
            Rows from the start of one slice to the next. Default 0: `height`.
        dst_owner, src_owner : object, optional
            An object that keeps the memory at an int address alive.

        Returns
        -------
        MemcpyNode
            The new node.

        Raises
        ------
        ValueError
            If the copy is empty, or goes beyond a buffer.
        """
    def memset(
        self,
        dst: Buffer | int,
        value: FillValueType,
        width: int,
        height: int = 1,
        pitch: int = 0,
        *,
        dst_owner: object = None,
    ) -> MemsetNode:
        """Add a fill (cuGraphAddMemsetNode).

        If it is called on a node, the new node depends on that node.

        The graph and whatever is made from it keep a Buffer alive. Nothing keeps the memory at an int address alive,
        unless an owner is given.

        Parameters
        ----------
        dst : Buffer or int
            The memory to fill.
        value : int, scalar or bytes-like
            An int from 0 to 255 fills bytes. Otherwise the value has 1, 2 or 4 bytes, such as ``np.float32(1.5)``.
        width : int
            Number of values per row.
        height : int, optional
            Number of rows. Default 1.
        pitch : int, optional
            Bytes from the start of one row to the next. Needed for several rows.
        dst_owner : object, optional
            An object that keeps the memory at an int address alive.

        Returns
        -------
        MemsetNode
            The new node.

        Raises
        ------
        ValueError
            If the fill is empty, or goes beyond the buffer.
        """
    def callback(self, fn: Callable[..., Any], *, user_data: Any = None) -> HostCallbackNode:
        """Add a node that calls a host function (cuGraphAddHostNode).

        If it is called on a node, the new node depends on that node.

        The function must not call CUDA. An exception that it raises goes to ``sys.unraisablehook``. Avoid
        functions that refer to their own graph: that cycle is never collected. A weak reference is fine.

        Parameters
        ----------
        fn : callable
            A Python function without arguments, or a ctypes function of the type ``CFUNCTYPE(None, c_void_p)``, which
            is called without the GIL.
        user_data : int or bytes-like, optional
            The argument of a ctypes function: an address, or bytes, which the node copies.

        Returns
        -------
        HostCallbackNode
            The new node.
        """
    def embed(self, child: GraphDefinition) -> ChildGraphNode:
        """Add a copy of a graph as one node (cuGraphAddChildGraphNode).

        If it is called on a node, the new node depends on that node.

        Parameters
        ----------
        child : GraphDefinition
            The graph. Drivers refuse child graphs that contain memory nodes or conditional nodes.

        Returns
        -------
        ChildGraphNode
            The new node.

        Raises
        ------
        ValueError
            If the graph would contain itself.
        """
    def record(self, event: Event) -> EventRecordNode:
        """Add a node that records an event (cuGraphAddEventRecordNode).

        If it is called on a node, the new node depends on that node.

        Returns
        -------
        EventRecordNode
            The new node.
        """
    def wait(self, event: Event) -> EventWaitNode:
        """Add a node that waits for an event (cuGraphAddEventWaitNode).

        If it is called on a node, the new node depends on that node.

        Returns
        -------
        EventWaitNode
            The new node.
        """
    def allocate(
        self,
        size: int,
        *,
        device: Device | int | None = None,
        memory_type: GraphMemoryType | GraphMemoryName = GraphMemoryType.DEVICE,
        peer_access: Iterable[Device | int] | None = None,
    ) -> AllocNode:
        """Add an allocation (cuGraphAddMemAllocNode).

        If it is called on a node, the new node depends on that node.

        Each launch allocates the memory, always at the same address: :attr:`AllocNode.dptr`.

        Parameters
        ----------
        size : int
            Number of bytes.
        device : cudacore_handles.Device or int, optional
            The device whose memory is allocated. Default: the current device.
        memory_type : GraphMemoryType or str, optional
            The type of memory: ``"device"``, ``"host"`` or ``"managed"``. Default ``"device"``.
        peer_access : list of cudacore_handles.Device or int, optional
            Other devices that can access the memory.

        Returns
        -------
        AllocNode
            The new node.
        """
    def deallocate(self, dptr: int) -> FreeNode:
        """Add a node that frees the memory of an allocation node (cuGraphAddMemFreeNode).

        If it is called on a node, the new node depends on that node.

        Parameters
        ----------
        dptr : int
            The address: :attr:`AllocNode.dptr`.

        Returns
        -------
        FreeNode
            The new node.

        Raises
        ------
        ValueError
            If no node of this graph allocates the memory, or one frees it already.
        """
    def if_then(self, condition: GraphCondition) -> IfNode:
        """Add a conditional node that runs its body if the condition is not 0.

        If it is called on a node, the new node depends on that node.

        Needs a driver for CUDA 12.3.

        Parameters
        ----------
        condition : GraphCondition
            A condition of this graph, or of a graph that contains it. Each condition serves one node.

        Returns
        -------
        IfNode
            The new node; its body is :attr:`IfNode.then`.

        Raises
        ------
        ValueError
            If the condition is of another graph, or another node uses it.
        """
    def if_else(self, condition: GraphCondition) -> IfElseNode:
        """Add a conditional node with two bodies: one for a nonzero condition, the other for zero.

        If it is called on a node, the new node depends on that node.

        Needs a driver for CUDA 12.8.

        Returns
        -------
        IfElseNode
            The new node; its bodies are :attr:`IfElseNode.then` and :attr:`IfElseNode.else_`.

        Raises
        ------
        ValueError
            If the condition is of another graph, or another node uses it.
        """
    def while_loop(self, condition: GraphCondition) -> WhileNode:
        """Add a conditional node that repeats its body while the condition is not 0.

        If it is called on a node, the new node depends on that node.

        Needs a driver for CUDA 12.3.

        Returns
        -------
        WhileNode
            The new node; its body is :attr:`WhileNode.body`.

        Raises
        ------
        ValueError
            If the condition is of another graph, or another node uses it.
        """
    def switch(self, condition: GraphCondition, count: int) -> SwitchNode:
        """Add a conditional node that runs the body whose index is the value of the condition.

        If it is called on a node, the new node depends on that node.

        If the value is `count` or more, no body runs. Needs a driver for CUDA 12.8.

        Returns
        -------
        SwitchNode
            The new node; its bodies are :attr:`ConditionalNode.branches`.

        Raises
        ------
        ValueError
            If the condition is of another graph, or another node uses it.
        """

class GraphHandle(Handle, NodeMethods):
    """The base of GraphDefinition."""

    def empty(self) -> EmptyNode:
        """Add a node that does nothing, without dependencies (cuGraphAddEmptyNode).

        Returns
        -------
        EmptyNode
            The new node.
        """
    def join(self, *nodes: GraphNode) -> EmptyNode:
        """Add a node that does nothing and depends on some nodes.

        Returns
        -------
        EmptyNode
            The new node.
        """
    @property
    def is_valid(self) -> bool:
        """bool: Whether the graph still exists. CUDA destroys child graphs and bodies together with their node."""

class NodeHandle(Handle, NodeMethods):
    """The base of GraphNode."""

    def join(self, *nodes: GraphNode) -> EmptyNode:
        """Add a node that does nothing and depends on this node and others.

        Returns
        -------
        EmptyNode
            The new node.
        """
    def destroy(self) -> None:
        """Remove the node and its edges from its graph (cuGraphDestroyNode).

        Whatever was made from the graph before still keeps the objects of the node alive. Destroying a node again does
        nothing.
        """
    @property
    def graph(self) -> GraphDefinition:
        """GraphDefinition: The graph that the node is in."""
    @property
    def is_valid(self) -> bool:
        """bool: Whether the graph still exists, with the node in it."""
    @property
    def pred(self) -> AdjacencySetProxy:
        """AdjacencySetProxy: The nodes that this node depends on. The set can be changed or assigned."""
    @pred.setter
    def pred(self, nodes: Iterable[GraphNode]) -> None: ...
    @property
    def succ(self) -> AdjacencySetProxy:
        """AdjacencySetProxy: The nodes that depend on this node. The set can be changed or assigned."""
    @succ.setter
    def succ(self, nodes: Iterable[GraphNode]) -> None: ...
    @property
    def _type(self) -> int:
        """int: The number of the node's type."""
    def _graph_in(self, index: int, /) -> GraphDefinition:
        """Return a graph that the node contains: its child graph, or one of its bodies."""

class AllocHandle(NodeHandle):
    """The base of AllocNode."""

    @property
    def dptr(self) -> int:
        """int: The address of the memory."""
    @property
    def bytesize(self) -> int:
        """int: Bytes."""
    @property
    def _place(self) -> tuple[int, int, int, tuple[int, ...]]:
        """tuple: The type of the allocation, the type and the number of its location, and the devices with access."""

class ConditionalHandle(NodeHandle):
    """The base of ConditionalNode."""

    @property
    def condition(self) -> GraphCondition | None:
        """GraphCondition or None: The condition; None if the driver cannot report it."""
    @property
    def branches(self) -> tuple[GraphDefinition, ...]:
        """tuple of GraphDefinition: The bodies; empty if the driver cannot report them."""
    @property
    def _kind(self) -> int:
        """int: How the condition is used (``cch_conditional_type``); -1 if the driver cannot report it."""

class EventNodeHandle(NodeHandle):
    """The base of EventRecordNode and EventWaitNode."""

    @property
    def event(self) -> Event:
        """Event: The event."""

class FreeHandle(NodeHandle):
    """The base of FreeNode."""

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node frees."""

class MemcpyHandle(NodeHandle):
    """The base of MemcpyNode."""

    @property
    def dst(self) -> int:
        """int: The destination address; for an array its handle, a CUarray."""
    @property
    def src(self) -> int:
        """int: The source address; for an array its handle, a CUarray."""
    @property
    def size(self) -> int:
        """int: Number of bytes per row."""
    @property
    def height(self) -> int:
        """int: Number of rows per slice."""
    @property
    def depth(self) -> int:
        """int: Number of slices."""

class MemsetHandle(NodeHandle):
    """The base of MemsetNode."""

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node fills."""
    @property
    def value(self) -> int:
        """int: The value, as an integer of :attr:`element_size` bytes."""
    @property
    def element_size(self) -> int:
        """int: Size of the value in bytes: 1, 2 or 4."""
    @property
    def width(self) -> int:
        """int: Number of values per row."""
    @property
    def height(self) -> int:
        """int: Number of rows."""
    @property
    def pitch(self) -> int:
        """int: Number of bytes from one row to the next; unused if there is only one row."""

class Adjacency:
    """The base of AdjacencySetProxy."""

    def __new__(cls: type[_A], node: NodeHandle, is_fwd: bool) -> _A: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    @property
    def _node(self) -> Any: ...
    @property
    def _forward(self) -> bool: ...

class Condition:
    """The base of GraphCondition."""

    @property
    def _graph(self) -> Any: ...
    @property
    def value(self) -> int:
        """int: The handle, as kernels take it (``cudaGraphConditionalHandle``)."""

class ExecutableNode:
    """The base of ExecutableGraphNode."""

    @property
    def _graph(self) -> Any: ...
    @property
    def _node(self) -> Any: ...
    def _switch(self, enabled: int, /) -> bool:
        """Enable or disable the node, unless the number is negative. Return whether it is enabled."""

class ExecHandle(Handle):
    """The base of Graph."""

    def __getitem__(self, node: Any) -> Any:
        """Return a view of a node of this executable graph.

        Parameters
        ----------
        node : GraphNode
            The node of the definition, or of a graph in it.

        Raises
        ------
        ValueError
            If the node is of another graph.
        """
    def launch(self, stream: Stream | IsStreamType) -> None:
        """Launch the graph (cuGraphLaunch).

        Parameters
        ----------
        stream : Stream
            The stream that the work is ordered on. Launches of one graph run one after the other, on any streams.
        """
    def upload(self, stream: Stream | IsStreamType) -> None:
        """Upload the graph to the device before its first launch (cuGraphUpload).

        Parameters
        ----------
        stream : Stream
            The stream that the upload is ordered on.
        """

def graph_nodes(graph: GraphHandle, place: _C, /) -> _C:
    """Add the nodes of a graph to a list or a set, and return that list or set (cuGraphGetNodes)."""

def graph_edges(graph: GraphHandle, place: _E, /) -> _E:
    """Add the edges of a graph, as pairs of nodes, to a list, a set or a dict, and return it (cuGraphGetEdges).

    The values in the dict are numbers of the types of the edges (``cch_edge_type``).
    """

def change_edges(
    node: NodeHandle, forward: bool, lost: tuple[Any, ...], gained: tuple[Any, ...], edge_type: int, /
) -> None:
    """Make all given changes to the edges of a node, or none (cuGraphRemoveDependencies, cuGraphAddDependencies).

    The edges to remove must exist, and the edges to add must not exist. These get a type (``cch_edge_type``).
    """

def add_nodes(graph: GraphHandle, items: Iterable[tuple[Any, ...]], /) -> list[Any]:
    """Add many nodes, each a tuple (method, after, *arguments); see GraphDefinition.add_many."""

def add_kernels(
    graph: GraphHandle,
    configs: tuple[LaunchConfig, ...],
    kernel: Kernel,
    columns: tuple[Any, ...],
    count: int,
    edges: tuple[int, int],
    after: tuple[GraphNode, ...],
    /,
) -> tuple[bytes, int]:
    """Add kernel nodes whose arguments are columns; see GraphDefinition.launch_many.

    A column is a tuple of an address and a stride, a list with a value for each node, or a value for all nodes. `edges`
    is a tuple: the address of an array of pairs of 32-bit indices, and the count of pairs. Return the handles of the
    nodes, and the number by which the first node is identified.
    """

def set_kernels(
    executable: ExecHandle | None,
    graph: GraphHandle | None,
    nodes: tuple[GraphNode, ...],
    prepare: Callable[[], tuple[tuple[LaunchConfig, ...], Kernel, tuple[Any, ...]]],
    /,
) -> None:
    """Change kernel nodes in an executable graph, or in their graph; see GraphDefinition.update_many.

    `prepare` is called in the context of the first node. It returns the configurations, none if they do not change, the
    kernel, and columns as for add_kernels().
    """

def destroy_nodes(graph: GraphHandle, nodes: tuple[GraphNode | None, ...], /) -> None:
    """Destroy nodes of a graph. None stands for a node that was destroyed before."""

def numbered_node(graph: GraphHandle, handle: int, number: int, /) -> KernelNode | None:
    """Return a node that add_kernels() added; None if it was destroyed."""

def capture_add(stream: Stream, graph: GraphHandle, method: str, /, *arguments: Any) -> Any:
    """Add a node at the end of a stream's capture into a graph, and return it. Later captured work depends on it."""

def set_node(node: NodeHandle, /, *arguments: Any) -> None:
    """Set the parameters of a node (cuGraphKernelNodeSetParams and similar functions).

    The arguments are those of the method that adds such nodes.
    """

def set_config(node: NodeHandle, config: LaunchConfig, /) -> None:
    """Set the configuration of a kernel node. Its kernel and arguments do not change."""

def set_exec_node(graph: ExecHandle, node: NodeHandle, /, *arguments: Any) -> None:
    """Set the parameters of a node in an executable graph (cuGraphExecKernelNodeSetParams and similar functions)."""

def clone_graph(graph: _G, /) -> tuple[_G, dict[Any, Any]]:
    """Copy a graph (cuGraphClone).

    Return the copy, of the same class, and a dict that maps each node of the graph to the node of the copy.
    """

def create_graph(cls: type[_G], /) -> _G:
    """Make an empty graph (cuGraphCreate)."""

def create_condition(graph: GraphHandle, stream: Stream | None, default_value: int | None, /) -> GraphCondition:
    """Make a condition of a graph, in the context of a stream or the current one (cuGraphConditionalHandleCreate)."""

def share_graph(face: GraphHandle | NodeHandle, /) -> int:
    """Prepare a graph, or the graph of a node, for code outside the library, and return the raw handle."""

def instantiate(cls: type[_X], definition: GraphHandle, flags: int, upload: object, stream: object, /) -> _X | int:
    """Make an executable graph (cuGraphInstantiateWithParams).

    It is made in the context of `stream`, or the current one, and uploaded on `upload`; either can be None. Return the
    object or, after a failure, the status of the library.
    """

def update_exec(graph: ExecHandle, definition: GraphHandle, /) -> tuple[int, int, int, int]:
    """Give an executable graph the parameters of another graph (cuGraphExecUpdate).

    Return the status of the library, the driver's result, and the handles of the nodes that the driver reports as the
    cause, 0 for none.
    """

def read_config(node: NodeHandle, /) -> LaunchConfig:
    """Return the configuration of a kernel node, as the driver reports it."""

def read_kernel(node: NodeHandle, /) -> Kernel:
    """Return the kernel of a kernel node."""

def read_node(node: NodeHandle, address: int, /) -> tuple[Any, Any]:
    """Read the parameters of a copy, a fill or a host function into the library's structure at an address.

    Return the present owners of the two operands, each an object, a handle or None. The first owner of a host function
    is the Python function, or None for another function.
    """
