# SPDX-License-Identifier: Apache-2.0
"""The types of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cudacore_graph import _native
from cudacore_graph._arguments import check_args
from cudacore_graph._condition import GraphCondition
from cudacore_graph._node import GraphNode
from cudacore_graph.typing import GraphConditionalType, GraphMemoryType
from cudacore_handles import Buffer, CUDAError, Event, Kernel, LaunchConfig
from cudacore_handles._sdk import adopt, check, ffi, hold, lib
from cudacore_handles._sdk.graph import set_face

if TYPE_CHECKING:
    from cudacore_graph._definition import GraphDefinition

_MANAGED = 2  # CU_MEM_ALLOCATION_TYPE_MANAGED
_MOST_PEERS = 256
_CONDITIONALS = {
    0: GraphConditionalType.IF,
    1: GraphConditionalType.WHILE,
    2: GraphConditionalType.SWITCH,
}


class EmptyNode(GraphNode):
    """Do nothing: a place where branches come together."""

    __slots__ = ()


class KernelNode(GraphNode):
    """Launch a kernel."""

    __slots__ = ()

    def update(self, *, config: LaunchConfig | None = None, kernel: Kernel | None = None, args: Any = None) -> None:
        """Change what is launched from the next instantiation on (cuGraphKernelNodeSetParams).

        What is not given stays as it is. Graphs that were instantiated before keep what they have.

        Parameters
        ----------
        config : LaunchConfig, optional
            With how many threads, and how.
        kernel : Kernel, optional
            What to launch; with `args`.
        args : tuple, optional
            All its arguments; ``()`` for a kernel that takes none.
        """
        if kernel is not None and args is None:
            raise ValueError("kernel is another one, and its arguments are missing: give args, () where it takes none")
        if config is None and args is None:
            return
        if config is not None and not isinstance(config, LaunchConfig):
            raise TypeError(f"config must be a LaunchConfig, not {type(config).__name__}")
        config = self.config if config is None else config
        if args is None:
            try:
                _native.set_kernel_node(self, config, None, None)
            except CUDAError as error:
                if error.code == lib.CCH_EMISMATCH:
                    error.hint = "The arguments of this node are not known here, because others made it: give args, too"
                raise
            return
        kernel = self.kernel if kernel is None else kernel
        _native.set_kernel_node(self, config, kernel, check_args(kernel, args))

    @property
    def config(self) -> LaunchConfig:
        """LaunchConfig: With how many threads it is launched, and how, clusters and all else included."""
        config = ffi.new("cch_launch_config *", {"size": ffi.sizeof("cch_launch_config")})
        params = self._read("kernel", config=config)
        lib.cch_kernel_unref(params.kernel)
        return LaunchConfig._read(config)

    @property
    def kernel(self) -> Kernel:
        """Kernel: What is launched."""
        return Kernel._init(self._read("kernel").kernel)

    @property
    def grid(self) -> tuple[int, ...]:
        """tuple of int: Blocks, or clusters, in x, y and z."""
        return self.config.grid

    @property
    def block(self) -> tuple[int, ...]:
        """tuple of int: Threads a block in x, y and z."""
        return self.config.block

    @property
    def shmem_size(self) -> int:
        """int: Dynamic shared memory a block, in bytes."""
        return self.config.shmem_size


class AllocNode(GraphNode):
    """Allocate memory, always at the same address."""

    __slots__ = ()

    @property
    def dptr(self) -> int:
        """int: The address."""
        return _native.alloc_address(self)

    @property
    def bytesize(self) -> int:
        """int: Bytes."""
        return int(self._read("alloc").bytes)

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device whose memory it is, or that uses it."""
        params = self._read("alloc")
        if params.location_type == lib.CCH_LOCATION_DEVICE:
            return int(params.location_id)
        return next(iter(self._peers()), -1)

    @property
    def memory_type(self) -> GraphMemoryType:
        """GraphMemoryType: What memory it is."""
        params = self._read("alloc")
        if params.alloc_type == _MANAGED:
            return GraphMemoryType.MANAGED
        on_device = params.location_type == lib.CCH_LOCATION_DEVICE
        return GraphMemoryType.DEVICE if on_device else GraphMemoryType.HOST

    @property
    def peer_access(self) -> tuple[int, ...]:
        """tuple of int: Ordinals of the other devices that can use it."""
        own = self.device_id
        return tuple(peer for peer in self._peers() if peer != own)

    def _peers(self) -> tuple[int, ...]:
        peers = ffi.new("int32_t[]", _MOST_PEERS)
        params = self._read("alloc", peers=peers, peer_count=_MOST_PEERS)
        return tuple(peers[0 : min(params.peer_count, _MOST_PEERS)])


class FreeNode(GraphNode):
    """Free memory that an :class:`AllocNode` has allocated."""

    __slots__ = ()

    @property
    def dptr(self) -> int:
        """int: The address."""
        return int(self._read("free").address)


class MemsetNode(GraphNode):
    """Fill memory with a value."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        value: Any = None,
        width: int | None = None,
        height: int | None = None,
        pitch: int | None = None,
        dst_owner: object = None,
    ) -> None:
        """Change the fill from the next instantiation on (cuGraphMemsetNodeSetParams).

        What is not given stays as it is; see :meth:`GraphDefinition.memset`.
        """
        _check_owner("dst", dst, dst_owner)
        known, (owner, _) = self._read_owned("memset")
        if dst is None:
            dst, dst_owner = int(known.dst), owner
        if value is None:
            value = int(known.value).to_bytes(4, "little")[: known.element_size]
        _native.set_node(
            self,
            "memset",
            dst,
            value,
            int(known.width) if width is None else width,
            int(known.height) if height is None else height,
            int(known.pitch) if pitch is None else pitch,
            dst_owner,
        )

    @property
    def dptr(self) -> int:
        """int: The address."""
        return int(self._read("memset").dst)

    @property
    def value(self) -> int:
        """int: The value, as a number of :attr:`element_size` bytes."""
        return int(self._read("memset").value)

    @property
    def element_size(self) -> int:
        """int: Bytes of the value: 1, 2 or 4."""
        return int(self._read("memset").element_size)

    @property
    def width(self) -> int:
        """int: Values a row."""
        return int(self._read("memset").width)

    @property
    def height(self) -> int:
        """int: Rows."""
        return int(self._read("memset").height)

    @property
    def pitch(self) -> int:
        """int: Bytes from row to row; not used for one row."""
        return int(self._read("memset").pitch)


class MemcpyNode(GraphNode):
    """Copy memory, in up to three dimensions."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        src: Buffer | int | None = None,
        size: int | None = None,
        dst_owner: object = None,
        src_owner: object = None,
    ) -> None:
        """Change the copy from the next instantiation on (cuGraphMemcpyNodeSetParams).

        What is not given stays as it is, rows and slices included; see :meth:`GraphDefinition.memcpy`.
        """
        _check_owner("dst", dst, dst_owner)
        _check_owner("src", src, src_owner)
        known, owners = self._read_owned("memcpy")
        if dst is None:
            dst, dst_owner = int(known.dst), owners[0]
        if src is None:
            src, src_owner = int(known.src), owners[1]
        rows = max(known.height, 1) * max(known.depth, 1) > 1
        _native.set_node(
            self,
            "memcpy",
            dst,
            src,
            int(known.width) if size is None else size,
            max(int(known.height), 1),
            max(int(known.depth), 1),
            # Of one row there is nothing to keep.
            int(known.dst_pitch) if rows else 0,
            int(known.src_pitch) if rows else 0,
            int(known.dst_height) if rows else 0,
            int(known.src_height) if rows else 0,
            dst_owner,
            src_owner,
        )

    @property
    def dst(self) -> int:
        """int: The address that is copied to."""
        return int(self._read("memcpy").dst)

    @property
    def src(self) -> int:
        """int: The address that is copied from."""
        return int(self._read("memcpy").src)

    @property
    def size(self) -> int:
        """int: Bytes a row."""
        return int(self._read("memcpy").width)

    @property
    def height(self) -> int:
        """int: Rows a slice."""
        return max(int(self._read("memcpy").height), 1)

    @property
    def depth(self) -> int:
        """int: Slices."""
        return max(int(self._read("memcpy").depth), 1)


class ChildGraphNode(GraphNode):
    """Run a graph: a copy of the one that was given."""

    __slots__ = ()

    def update(self, child: GraphDefinition) -> None:
        """Run a copy of another graph from the next instantiation on (cuGraphNodeSetParams).

        Needs a driver for CUDA 12.2.

        Definitions of the graph that was there, and nodes of it, are no longer valid.

        Parameters
        ----------
        child : GraphDefinition
            The graph, of another hierarchy than the node's.
        """
        _native.set_node(self, "embed", child)

    @property
    def child_graph(self) -> GraphDefinition:
        """GraphDefinition: The copy, which can be inspected and changed."""
        return _child(self, 0)


class HostCallbackNode(GraphNode):
    """Call a function of the host."""

    __slots__ = ()

    def update(self, fn: Any, *, user_data: Any = None) -> None:
        """Call another function from the next instantiation on (cuGraphHostNodeSetParams).

        See :meth:`GraphDefinition.callback`.
        """
        _native.set_node(self, "callback", fn, user_data)

    @property
    def function(self) -> Callable[[], Any] | None:
        """callable or None: The Python function; None where it is one of ctypes.

        ``cuda.core`` calls it `callback`, which hides the method of that name; here that adds a node.
        """
        return _native.host_function_of(self)


class _EventNode(GraphNode):
    __slots__ = ()

    @property
    def event(self) -> Event:
        """Event: The event."""
        return adopt(Event, self._read("event").event)


class EventRecordNode(_EventNode):
    """Record an event."""

    __slots__ = ()

    def update(self, event: Event) -> None:
        """Record another event from the next instantiation on (cuGraphEventRecordNodeSetEvent)."""
        _native.set_node(self, "record", event)


class EventWaitNode(_EventNode):
    """Wait for an event."""

    __slots__ = ()

    def update(self, event: Event) -> None:
        """Wait for another event from the next instantiation on (cuGraphEventWaitNodeSetEvent)."""
        _native.set_node(self, "wait", event)


class ConditionalNode(GraphNode):
    """Run bodies as a condition says; the base of such nodes.

    Nodes that others made are of this class itself where the driver, before CUDA 13.2, cannot tell of which kind they
    are.
    """

    __slots__ = ()

    def _known(self) -> Any:
        try:
            return self._read("conditional")
        except CUDAError as error:
            if error.code in (lib.CCH_ENOSYMBOL, _NOT_SUPPORTED, _INVALID_VALUE):
                return None
            raise

    @property
    def condition(self) -> GraphCondition | None:
        """GraphCondition or None: The condition; None where the driver cannot tell."""
        known = self._known()
        if known is None:
            return None
        condition = GraphCondition(self.graph, int(known.condition))
        condition._used = True
        return condition

    @property
    def cond_type(self) -> GraphConditionalType | None:
        """GraphConditionalType or None: What is done with it; None where the driver cannot tell."""
        known = self._known()
        return None if known is None else _CONDITIONALS.get(known.type)

    @property
    def branches(self) -> tuple[GraphDefinition, ...]:
        """tuple of GraphDefinition: The bodies; none where the driver cannot tell."""
        known = self._known()
        return () if known is None else tuple(_child(self, index) for index in range(known.count))


class IfNode(ConditionalNode):
    """Run a body when the condition is not 0."""

    __slots__ = ()

    @property
    def then(self) -> GraphDefinition:
        """GraphDefinition: The body."""
        return _child(self, 0)


class IfElseNode(ConditionalNode):
    """Run one of two bodies."""

    __slots__ = ()

    @property
    def then(self) -> GraphDefinition:
        """GraphDefinition: The body for a condition that is not 0."""
        return _child(self, 0)

    @property
    def else_(self) -> GraphDefinition:
        """GraphDefinition: The body for a condition that is 0."""
        return _child(self, 1)


class WhileNode(ConditionalNode):
    """Run a body again and again, while the condition is not 0."""

    __slots__ = ()

    @property
    def body(self) -> GraphDefinition:
        """GraphDefinition: The body."""
        return _child(self, 0)


class SwitchNode(ConditionalNode):
    """Run the body whose number the condition has."""

    __slots__ = ()


_INVALID_VALUE, _NOT_SUPPORTED = 1, 801  # CUDA_ERROR_*


def _child(node: GraphNode, index: int) -> GraphDefinition:
    from cudacore_graph._definition import GraphDefinition
    from cudacore_graph._errors import gone

    if not node.is_valid:
        raise gone(node)
    out = ffi.new("cch_graph **")
    status = _native.locked_call(node, None, lib.cch_graph_node_child, out, hold(node), index)
    check(status)
    return adopt(GraphDefinition, out[0])


def _check_owner(name: str, memory: object, owner: object) -> None:
    if memory is None and owner is not None:
        raise ValueError(f"{name}_owner comes with {name}: it keeps an address alive")


# By the numbers of CUDA's types, then those of CLASS_* in native.h.
set_face(
    "node_classes",
    (
        KernelNode,
        MemcpyNode,
        MemsetNode,
        HostCallbackNode,
        ChildGraphNode,
        EmptyNode,
        EventWaitNode,
        EventRecordNode,
        GraphNode,  # external semaphores
        GraphNode,
        AllocNode,
        FreeNode,
        GraphNode,  # batches of operations on memory
        ConditionalNode,
        IfNode,
        IfElseNode,
        WhileNode,
        SwitchNode,
        GraphNode,
    ),
)
