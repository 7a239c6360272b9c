# SPDX-License-Identifier: Apache-2.0
"""Nodes that copy, fill, allocate and free memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_graph._arguments import check_owner
from cudacore_graph._errors import NODE_WAS_INSTANTIATED, ONE_ROW_ONLY
from cudacore_graph._nodes.node import Description, GraphNode, SwitchableNode, bytes_text, short
from cudacore_graph.typing import GraphMemoryType
from cudacore_handles import Buffer
from cudacore_handles._sdk import adopt, check, ffi, lib, out_box
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles.typing import FillValueType

if TYPE_CHECKING:
    from cudacore_handles.texture import OpaqueArray

__all__: list[str] = [
    "AllocNode",
    "ExecutableMemcpyNode",
    "ExecutableMemsetNode",
    "FreeNode",
    "MemcpyNode",
    "MemsetNode",
]


class ExecutableMemcpyNode(SwitchableNode):
    """A node of an executable graph that copies memory."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | OpaqueArray | int,
        src: Buffer | OpaqueArray | int,
        size: int | None = None,
        height: int = 1,
        depth: int = 1,
        dst_pitch: int = 0,
        src_pitch: int = 0,
        dst_height: int = 0,
        src_height: int = 0,
        dst_owner: object = None,
        src_owner: object = None,
    ) -> None:
        """Change the copy from the next launch on (cuGraphExecMemcpyNodeSetParams).

        See :meth:`GraphDefinition.memcpy`.
        """
        layout = height, depth, dst_pitch, src_pitch, dst_height, src_height
        _native.set_exec_node(self._graph, self._node, dst, src, size, *layout, dst_owner, src_owner)


def _is_array(operand: object) -> bool:
    return isinstance(operand, _native.Handle) and not isinstance(operand, Buffer)


def _operand(given: Any, given_owner: object, address: Any, array: Any, owner: Any) -> tuple[Any, object]:
    """Return an operand of a copy and its owner: the given ones, or else the node's current ones."""
    if given is not None:
        return given, given_owner
    if not array:
        return int(address), owner
    if owner is None:  # an array of another library, which gets a box here
        out = out_box("cch_array")
        check(lib.cch_array_wrap(out, array, ffi.NULL, ffi.NULL, ffi.NULL))
        owner = adopt(_native.Handle, out)
    return owner, None


class MemcpyNode(GraphNode):
    """A node that copies memory, in up to three dimensions."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_MEMCPY
    _TITLE = "memcpy"
    _COLOUR = "#cfe2f3"
    _METHOD = "memcpy"
    _HINT = "dst and src must be addresses in memory of CUDA or in ordinary host memory that has the copied size"
    _EXEC_HINT = f"A copy {ONE_ROW_ONLY}. {NODE_WAS_INSTANTIATED}"
    _EXECUTABLE = ExecutableMemcpyNode

    def update(
        self,
        *,
        dst: Buffer | OpaqueArray | int | None = None,
        src: Buffer | OpaqueArray | int | None = None,
        size: int | None = None,
        dst_owner: object = None,
        src_owner: object = None,
    ) -> None:
        """Change the copy from the next instantiation on (cuGraphMemcpyNodeSetParams).

        Values that are not given do not change, including rows and slices; see :meth:`GraphDefinition.memcpy`.
        """
        check_owner("dst", dst, dst_owner)
        check_owner("src", src, src_owner)
        known, owners = self._read_owned("memcpy")
        dst, dst_owner = _operand(dst, dst_owner, known.dst, known.dst_array, owners[0])
        src, src_owner = _operand(src, src_owner, known.src, known.src_array, owners[1])
        extents: list[int | None] = [size, 1, 1, 0, 0, 0, 0]
        # The node's extents are kept only for copies from memory to memory. An array has its own extents, and the
        # extents of memory that replaces an array are unknown.
        if not (known.dst_array or known.src_array or _is_array(dst) or _is_array(src)):
            extents[:3] = int(known.width) if size is None else size, known.height or 1, known.depth or 1
            if known.height > 1 or known.depth > 1:  # a copy of one row has no pitch to preserve
                extents[3:] = known.dst_pitch, known.src_pitch, known.dst_height, known.src_height
        _native.set_node(self, dst, src, *extents, dst_owner, src_owner)

    @property
    def dst(self) -> int:
        """int: The destination address; for an array its handle, a CUarray."""
        known = self._read("memcpy")
        return int(ffi.cast("uintptr_t", known.dst_array)) or int(known.dst)

    @property
    def src(self) -> int:
        """int: The source address; for an array its handle, a CUarray."""
        known = self._read("memcpy")
        return int(ffi.cast("uintptr_t", known.src_array)) or int(known.src)

    @property
    def size(self) -> int:
        """int: Number of bytes per row."""
        return int(self._read("memcpy").width)

    @property
    def height(self) -> int:
        """int: Number of rows per slice."""
        return max(int(self._read("memcpy").height), 1)

    @property
    def depth(self) -> int:
        """int: Number of slices."""
        return max(int(self._read("memcpy").depth), 1)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        known = self._read("memcpy")
        sizes = [int(n) for n in (known.width, known.height, known.depth)]
        rows = " x ".join(map(str, sizes[1:])) if max(sizes[1:]) > 1 else ""
        amount = f"{bytes_text(sizes[0])}{f' x {rows}' if rows else ''}"
        return Description(f"memcpy {amount}", (f"{short(self.src)} to {short(self.dst)}",), ())


class ExecutableMemsetNode(SwitchableNode):
    """A node of an executable graph that fills memory."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | int,
        value: FillValueType,
        width: int,
        height: int = 1,
        pitch: int = 0,
        dst_owner: object = None,
    ) -> None:
        """Change the fill from the next launch on (cuGraphExecMemsetNodeSetParams).

        See :meth:`GraphDefinition.memset`.
        """
        _native.set_exec_node(self._graph, self._node, dst, value, width, height, pitch, dst_owner)


class MemsetNode(GraphNode):
    """A node that fills memory with a value."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_MEMSET
    _TITLE = "memset"
    _COLOUR = "#cfe2f3"
    _METHOD = "memset"
    _HINT = "dst must be memory that the device can use; width and height at least 1"
    _EXEC_HINT = f"A fill {ONE_ROW_ONLY}. {NODE_WAS_INSTANTIATED}"
    _EXECUTABLE = ExecutableMemsetNode

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        value: FillValueType | None = None,
        width: int | None = None,
        height: int | None = None,
        pitch: int | None = None,
        dst_owner: object = None,
    ) -> None:
        """Change the fill from the next instantiation on (cuGraphMemsetNodeSetParams).

        Values that are not given do not change; see :meth:`GraphDefinition.memset`.
        """
        check_owner("dst", dst, dst_owner)
        known, (owner, _) = self._read_owned("memset")
        if dst is None:
            dst, dst_owner = int(known.dst), owner
        if value is None:
            value = int(known.value).to_bytes(4, "little")[: known.element_size]
        _native.set_node(
            self,
            dst,
            value,
            int(known.width) if width is None else width,
            int(known.height) if height is None else height,
            int(known.pitch) if pitch is None else pitch,
            dst_owner,
        )

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node fills."""
        return int(self._read("memset").dst)

    @property
    def value(self) -> int:
        """int: The value, as an integer of :attr:`element_size` bytes."""
        return int(self._read("memset").value)

    @property
    def element_size(self) -> int:
        """int: Size of the value in bytes: 1, 2 or 4."""
        return int(self._read("memset").element_size)

    @property
    def width(self) -> int:
        """int: Number of values per row."""
        return int(self._read("memset").width)

    @property
    def height(self) -> int:
        """int: Number of rows."""
        return int(self._read("memset").height)

    @property
    def pitch(self) -> int:
        """int: Number of bytes from one row to the next; unused if there is only one row."""
        return int(self._read("memset").pitch)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        known = self._read("memset")
        digits = 2 * known.element_size
        rows = f" x {known.height}" if known.height > 1 else ""
        amount = f"{bytes_text(known.width * known.element_size)}{rows}"
        return Description(f"memset {amount}", (f"{short(known.dst)} to 0x{known.value:0{digits}x}",), ())


_MAX_PEERS = 256


class AllocNode(GraphNode):
    """A node that allocates memory, always at the same address."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_ALLOC
    _TITLE = "allocate"
    _COLOUR = "#fff2cc"
    _METHOD = "allocate"

    @property
    def dptr(self) -> int:
        """int: The address of the memory."""
        return _native.alloc_address(self)

    @property
    def bytesize(self) -> int:
        """int: Bytes."""
        return int(self._read("alloc").bytes)

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that has the memory or, for memory of the host, uses it."""
        params = self._read("alloc")
        if params.location_type == lib.CCH_LOCATION_DEVICE:
            return int(params.location_id)
        return next(iter(self._peers()), -1)

    @property
    def memory_type(self) -> GraphMemoryType:
        """GraphMemoryType: The type of the memory."""
        params = self._read("alloc")
        if params.alloc_type == lib.CCH_ALLOCATION_MANAGED:
            return GraphMemoryType.MANAGED
        on_device = params.location_type == lib.CCH_LOCATION_DEVICE
        return GraphMemoryType.DEVICE if on_device else GraphMemoryType.HOST

    @property
    def peer_access(self) -> tuple[int, ...]:
        """tuple of int: Ordinals of the other devices that can use it."""
        own = self.device_id
        return tuple(peer for peer in self._peers() if peer != own)

    def _peers(self) -> tuple[int, ...]:
        peers = ffi.new("int32_t[]", _MAX_PEERS)
        params = self._read("alloc", peers=peers, peer_count=_MAX_PEERS)
        return tuple(peers[0 : min(params.peer_count, _MAX_PEERS)])

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        where = f"{self.memory_type}, device {self.device_id}"
        return Description(f"allocate {bytes_text(self.bytesize)}", (short(self.dptr), where), ())


class FreeNode(GraphNode):
    """A node that frees the memory of an :class:`AllocNode`."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_FREE
    _TITLE = "free"
    _COLOUR = "#fff2cc"
    _METHOD = "deallocate"

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node frees."""
        return int(self._read("free").address)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (short(self.dptr),), ())
